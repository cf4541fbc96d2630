//! Where things are on a host. Constants: no environment variable, argument or file moves them.

/// The host's policy.
pub const POLICY: &str = "/etc/muster/shim.toml";
/// Revoked signers, for both names.
pub const REVOKED: &str = "/etc/muster/revoked_signers";
/// Durable state: floors and the run log. Made by provisioning, never by the shim.
pub const STATE: &str = "/var/lib/muster/shim";
/// The floors file in [`STATE`].
pub const FLOORS: &str = "floors";
/// The durable run log in [`STATE`]; `runs.log.1` is the one before.
pub const RUN_LOG: &str = "runs.log";
/// Volatile state: lock and run record. Made by the shim when missing.
pub const RUN: &str = "/run/muster/shim";
/// The lock in [`RUN`].
pub const LOCK: &str = "lock";
/// The run record in [`RUN`].
pub const RUN_RECORD: &str = "run";
/// The records in [`RUN`] that the durable log did not take, so that a probe can still tell what
/// became of a run. Gone with the boot.
pub const UNLOGGED: &str = "unlogged";
/// The file that a log is renamed to when it is full.
pub fn older(log: &str) -> String {
    format!("{log}.1")
}
/// What runs the script, whatever its first line says.
pub const BASH: &str = "/bin/bash";
/// What makes the pool account root, for this one program.
pub const SUDO: &str = "/usr/bin/sudo";
/// `PATH` of the script.
pub const SCRIPT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Longest trust file or policy that is read.
pub const TRUST_MAX: u64 = muster_signing::allowed_signers::MAX_BYTES as u64;
/// Longest revocation list that is read; a KRL may list many.
pub const REVOKED_MAX: u64 = muster_signing::revoked::MAX_BYTES as u64;
/// Longest state file that is read.
pub const STATE_MAX: u64 = 1 << 20;
/// Size at which the run log is rotated.
pub const RUN_LOG_MAX: u64 = 1 << 20;
/// Size at which the records of this boot that the log did not take are rotated.
pub const UNLOGGED_MAX: u64 = 64 << 10;
