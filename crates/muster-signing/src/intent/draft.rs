//! An intent being written.

use super::{OnDisconnect, ParamLine, Target, ValueLine};
use crate::{FileFault, UtcTime};
use muster_core::{Phase, ProfileName};

/// The fields of an intent. [`Draft::render`] sorts what the grammar wants sorted, and refuses
/// what [`super::Intent::parse`] would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// The profile.
    pub profile: ProfileName,
    /// The phase; never `Probe`.
    pub phase: Phase,
    /// SHA-256 of the script; `None` for `floor` alone.
    pub script_sha256: Option<[u8; 32]>,
    /// For whom it is.
    pub targets: Vec<Target>,
    /// Signed constants.
    pub values: Vec<ValueLine>,
    /// Declared parameters.
    pub params: Vec<ParamLine>,
    /// 1 and up.
    pub epoch: u32,
    /// Valid from this second on.
    pub not_before: UtcTime,
    /// Valid until before this second.
    pub not_after: UtcTime,
    /// Seconds from fork to the end of the run.
    pub deadline: u32,
    /// What becomes of the run when its peer goes away.
    pub on_disconnect: OnDisconnect,
}

impl Draft {
    /// The text to sign.
    pub fn render(&self) -> Result<String, FileFault> {
        Err(FileFault::at(0, "intents are not written yet"))
    }
}
