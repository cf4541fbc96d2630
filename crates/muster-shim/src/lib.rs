//! The shim: what sshd's ForceCommand runs on a pool host.
//!
//! It reads one envelope from standard input and runs the script in it as root, if and only if a
//! key that the host trusts vouched for it; else it runs nothing and says why. It takes no
//! argument, listens nowhere, opens no connection and keeps no process of its own. What it
//! promises, in which order it checks, and where it differs from the bash shim whose envelope 1
//! it takes: `docs/shim.md`.
//!
//! The road of an envelope, top down: [`process`] (two stages) -> [`policy`], [`trust`] ->
//! [`input`] -> [`decide`] (every check that needs no lock) -> [`execute`] (lock, floors, records)
//! -> [`supervise`] (the script's life).
#![forbid(unsafe_code)]

pub mod answer;
pub mod called;
pub mod clock;
pub mod decide;
pub mod evidence;
pub mod execute;
pub mod floors;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod history;
pub mod identity;
pub mod input;
pub mod json;
pub mod paths;
pub mod policy;
pub mod probe;
pub mod process;
pub mod record;
pub mod report;
pub mod runfile;
pub mod steps;
pub mod supervise;
pub mod trust;
pub mod verified;

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        let _ = write!(out, "{b:02x}");
    }
    out
}
