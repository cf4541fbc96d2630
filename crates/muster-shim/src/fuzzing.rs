//! Doors for the fuzz targets to readers that have no public one.

use crate::history::{self, PastRun};
use crate::policy::{self, PolicyFault};
use crate::probe;
use std::collections::BTreeMap;

/// A value of our part of TOML.
#[derive(Debug, PartialEq, Eq)]
pub enum Value {
    /// A string.
    Text(String),
    /// An integer.
    Number(u64),
    /// A boolean.
    Bool(bool),
    /// Strings.
    List(Vec<String>),
    /// A table.
    Table(BTreeMap<String, Value>),
}

/// What our reader of TOML makes of a text.
pub fn toml(text: &str) -> Result<BTreeMap<String, Value>, PolicyFault> {
    policy::tree(text)
}

/// Runs out of the lines of a log, oldest first, as they are taken in one after the other.
pub fn runs<'l>(lines: impl Iterator<Item = &'l str>, boot: &str) -> Vec<PastRun> {
    history::of_lines(lines, boot)
}

/// A field of an os-release(5) text.
pub fn os_field(release: &str, name: &str) -> Option<String> {
    probe::os_field(release, name)
}
