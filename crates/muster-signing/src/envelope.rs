//! Envelopes: what arrives on the shim's standard input.
//!
//! Decoding is in two steps so that a caller can keep the order of checks: `parse` reads the
//! version and the phase word, `request` decodes the rest.

use crate::{Reason, Refusal, base64, wire::shown};
use muster_core::Phase;

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

/// Tells the version by its word at the start of a line. Input over its bound, without a version
/// word, or with both is refused (4): a host that took either would let the sender choose which
/// rules apply. The version's value is checked by the `parse` of the envelope.
pub fn sniff(input: &[u8]) -> Result<Version, Refusal> {
    bounded(input)?;
    let has = |word: &[u8]| input.split(|b| *b == b'\n').any(|line| line.starts_with(word));
    match (has(b"kpssh-envelope:"), has(b"muster-envelope:")) {
        (true, false) => Ok(Version::One),
        (false, true) => Ok(Version::Two),
        (false, false) => Err(Refusal::new(Reason::Version, "there is no version line")),
        (true, true) => Err(Refusal::new(Reason::Version, "both version words are there")),
    }
}

fn bounded(input: &[u8]) -> Result<(), Refusal> {
    if input.len() > MAX_INPUT {
        return Err(Refusal::new(Reason::TooLarge, format!("the envelope is over {MAX_INPUT} bytes")));
    }
    Ok(())
}

fn phase(word: &[u8]) -> Result<Phase, Refusal> {
    let known = core::str::from_utf8(word).ok().and_then(Phase::from_word);
    known.ok_or_else(|| Refusal::new(Reason::PhaseUnknown, format!("{:?}", shown(word))))
}

/// Decodes a field: the bound on what it would decode to comes first.
fn decoded(name: &str, encoded: &[u8], max: usize) -> Result<Vec<u8>, Refusal> {
    let too_large = || Refusal::new(Reason::TooLarge, format!("{name} decodes to more than {max} bytes"));
    if encoded.len() / 4 > max.div_ceil(3) {
        return Err(too_large());
    }
    let bytes = base64::decode(encoded).ok_or_else(|| Refusal::new(Reason::Base64, name))?;
    if bytes.len() > max { Err(too_large()) } else { Ok(bytes) }
}

/// For the builders: there, not empty, not too large.
fn fits(name: &str, bytes: &[u8], max: usize) -> Result<(), Refusal> {
    if bytes.is_empty() {
        return Err(Refusal::new(Reason::FieldMissing, name));
    }
    if bytes.len() > max {
        return Err(Refusal::new(Reason::TooLarge, format!("{name} is over {max} bytes")));
    }
    Ok(())
}

fn push(out: &mut String, name: &str, value: &str) {
    out.push_str(name);
    out.push_str(": ");
    out.push_str(value);
    out.push('\n');
}

#[cfg(test)]
mod tests;
