//! The `allowed_signers` file (`ssh-keygen(1)`, section ALLOWED SIGNERS).
//!
//! Stricter than OpenSSH in one way that matters: OpenSSH skips a line that it does not
//! understand; here such a line refuses the whole file and is named, because a skipped line may
//! be a restriction.

use crate::{FileFault, UtcTime, verify::SignerId};

/// How civil time without `Z` becomes UTC. Whoever calls decides; this crate knows no time zone.
pub trait LocalTime {
    /// Seconds since 1970 of a local civil time; `None` when the time does not exist, is
    /// ambiguous beyond resolution, or when local times are not taken here.
    fn to_utc(&self, y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<UtcTime>;
}

/// Takes no local time: a `valid-after` or `valid-before` without `Z` refuses the file.
#[derive(Clone, Copy, Debug)]
pub struct ZuluOnly;

impl LocalTime for ZuluOnly {
    fn to_utc(&self, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> Option<UtcTime> {
        None
    }
}

/// A whole file, every line of which was understood.
#[derive(Clone, Debug, Default)]
pub struct AllowedSigners {}

impl AllowedSigners {
    /// Reads a file.
    pub fn parse(_file: &[u8], _local: &dyn LocalTime) -> Result<Self, FileFault> {
        Err(FileFault::at(0, "allowed_signers is not read yet"))
    }

    /// The distinct signers that could ever sign as `principal` in `namespace`, whatever the time.
    pub fn identities(&self, _principal: &str, _namespace: &str) -> Vec<SignerId> {
        Vec::new()
    }
}
