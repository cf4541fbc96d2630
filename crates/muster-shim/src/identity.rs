//! What tells one run from another, to whoever lost sight of it.
//!
//! The run id is the shim's own and reaches its caller as the first line on standard error. A
//! caller who was cut off before that line knows what it sent: the intent's digest, which is of
//! this text alone and of nobody else's.

use crate::json::Value;
use crate::record::Facts;
use muster_core::{Phase, ProfileName};

/// What a run was asked to do, as far as its envelope says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// 1 or 2.
    pub envelope: u8,
    /// The phase.
    pub phase: Phase,
    /// The intent's profile.
    pub profile: Option<ProfileName>,
    /// The intent's epoch.
    pub epoch: Option<u32>,
    /// SHA-256 of the intent.
    pub intent: Option<[u8; 32]>,
    /// SHA-256 of the script; none for `floor`.
    pub script: Option<[u8; 32]>,
}

impl Identity {
    /// Of a request whose envelope and phase are known.
    pub fn of(facts: &Facts) -> Option<Self> {
        Some(Self {
            envelope: facts.envelope?,
            phase: facts.phase?,
            profile: facts.profile.as_deref().and_then(|p| ProfileName::new(p).ok()),
            epoch: facts.epoch,
            intent: facts.intent,
            script: facts.script,
        })
    }

    /// The members of a probe's objects.
    pub fn members(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("envelope", Value::Number(self.envelope.into())),
            ("phase", Value::text(self.phase.as_str())),
            ("profile", Value::optional(self.profile.as_ref().map(ToString::to_string))),
            ("epoch", Value::or_null(self.epoch, |n| Value::Number(n.into()))),
            ("intent-sha256", Value::optional(self.intent.map(|d| crate::hex(&d)))),
            ("script-sha256", Value::optional(self.script.map(|d| crate::hex(&d)))),
        ]
    }
}

/// Reads a SHA-256 of 64 lower hexadecimal characters.
pub fn digest(text: &str) -> Option<[u8; 32]> {
    if !is_hex(text, 64) {
        return None;
    }
    let mut out = [0u8; 32];
    for (byte, pair) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(out)
}

/// Whether it is this many lower hexadecimal characters.
pub fn is_hex(text: &str, len: usize) -> bool {
    text.len() == len && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}
