//! What Muster signs and verifies: SSHSIG, `allowed_signers`, revocation lists, intents,
//! envelopes and parameters.
//!
//! Pure: no I/O, no clock, no environment, no async. Every parser takes bytes, bounds them first
//! and never panics; every decision is a value with a typed [`Reason`]. Checked values (an
//! [`intent::Intent`], a [`verify::Verified`]) have no public constructor but their parser or
//! verifier, so that whoever holds one knows that the check was done.
//!
//! Formats and their sources: OpenSSH `PROTOCOL.sshsig`, `PROTOCOL.certkeys`, `PROTOCOL.krl`,
//! `PROTOCOL.u2f`, `ssh-keygen(1)` section ALLOWED SIGNERS, RFC 4251, 5656, 8332, 8709. The
//! intent and both envelopes are described in `docs/formats.md`.
#![forbid(unsafe_code)]

use core::fmt;
pub use muster_core::{Reason, UtcTime};

pub mod allowed_signers;
mod base64;
pub mod certificate;
pub mod envelope;
pub mod intent;
pub mod key;
pub mod keygen;
pub mod params;
mod pattern;
pub mod revoked;
pub mod sign;
pub mod sshsig;
pub mod verify;
mod wire;

/// Why nothing will run: a stable reason and the particulars of this case.
///
/// The detail is one line, holds no secret and no parameter value, and quotes bytes from outside
/// only escaped and cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The stable reason; it decides the exit code.
    pub reason: Reason,
    /// The particulars: which field, key, time or digest.
    pub detail: String,
}

impl Refusal {
    /// A refusal for `reason` with these particulars.
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.detail.is_empty() {
            f.write_str(self.reason.what())
        } else {
            write!(f, "{}: {}", self.reason.what(), self.detail)
        }
    }
}

impl std::error::Error for Refusal {}

/// A line that makes a whole file refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// 1-based; 0 when the fault is of the file as a whole.
    pub line: usize,
    /// What is wrong with it, in one clause.
    pub why: String,
}

impl FileFault {
    pub(crate) fn at(line: usize, why: impl Into<String>) -> Self {
        Self { line, why: why.into() }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.why),
            n => write!(f, "line {n}: {}", self.why),
        }
    }
}

impl std::error::Error for FileFault {}
