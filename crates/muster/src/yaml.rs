//! The tree of a YAML file (see [`muster_document::yaml`]), with faults as this program tells them.

pub mod walk;

use crate::codes::Own;
use crate::fault::Fault;
use muster_document::yaml::{self, Reason};
pub use muster_document::yaml::{Entry, Kind, MAX_BYTES, Node, nearest};
use std::path::Path;

/// Reads the one document of `text`; `file` is for messages only.
pub fn parse(text: &str, file: &Path) -> Result<Node, Fault> {
    yaml::parse(text).map_err(|f| told(f, file))
}

pub(crate) fn told<R: Into<Own>>(found: yaml::Fault<R>, file: &Path) -> Fault {
    let mut fault = Fault::new(found.reason.into(), found.what).at(file, found.line);
    if let Some(fix) = found.fix {
        fault = fault.fix(fix);
    }
    match found.unshown {
        0 => fault,
        more => fault.hint(format!("{more} more faults are not shown")),
    }
}

impl From<Reason> for Own {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::Syntax => Self::YamlSyntax,
            Reason::Unsupported => Self::YamlUnsupported,
            Reason::Limits => Self::YamlLimits,
            Reason::Duplicate => Self::ConfigDuplicate,
            Reason::Key => Self::ConfigKey,
            Reason::Type => Self::ConfigType,
            Reason::Value => Self::ConfigValue,
            Reason::Missing => Self::ConfigMissing,
        }
    }
}
