//! Envelopes: what arrives on the shim's standard input.
//!
//! Decoding is in two steps so that a caller can keep the order of checks: `parse` reads the
//! version and the phase word, `request` decodes the rest.

use crate::{Reason, Refusal};

pub mod v1;
pub mod v2;

/// All of the input.
pub const MAX_INPUT: usize = 2 * 1024 * 1024;
/// A decoded script.
pub const MAX_SCRIPT: usize = 1024 * 1024;
/// A decoded signature field.
pub const MAX_SIGNATURE: usize = 64 * 1024;
/// A decoded parameter block.
pub const MAX_PARAMS: usize = 256 * 1024;
/// A decoded intent.
pub const MAX_INTENT: usize = 64 * 1024;
/// Signatures in one envelope 2.
pub const MAX_SIGNATURES: usize = 8;

/// Which envelope this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `kpssh-envelope: 1`
    One,
    /// `muster-envelope: 2`
    Two,
}

/// Tells the version. Input over its bound, without a version, or with both version words is
/// refused. The version's value is checked by the `parse` of the envelope.
pub fn sniff(input: &[u8]) -> Result<Version, Refusal> {
    if input.len() > MAX_INPUT {
        return Err(Refusal::new(Reason::TooLarge, format!("more than {MAX_INPUT} bytes on standard input")));
    }
    let has = |word: &[u8]| input.split(|&b| b == b'\n').any(|line| line.starts_with(word));
    match (has(b"kpssh-envelope:"), has(b"muster-envelope:")) {
        (true, false) => Ok(Version::One),
        (false, true) => Ok(Version::Two),
        (false, false) => Err(Refusal::new(Reason::Version, "no version line")),
        (true, true) => Err(Refusal::new(Reason::Version, "both version words")),
    }
}
