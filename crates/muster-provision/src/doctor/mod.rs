//! The doctor: is the pool login really pinned, and is what it runs really trusted?
//!
//! Three parts. *Evidence* is one read-only script and its parsed answer ([`evidence`]). *Checks* are
//! pure functions of evidence (`check`). *Attacks* are what a thief of the login key would try
//! ([`attack`]); the caller carries them out with its own SSH client, and the verdict over what came
//! of them is pure again.
//!
//! A check that could not be made is `unknown`, never `pass`.

pub mod attack;
pub mod evidence;
mod host;
mod policy;
pub mod siege;
mod sshd;
mod sudo;

pub use evidence::{Evidence, Login, Subject};

use crate::facts::BadAnswer;
use crate::shell::{HostShell, ShellError};
use muster_core::UtcTime;
use serde::Serialize;

/// What a check came to, from good to bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Pass,
    /// Works, but weaker than it should be.
    Warn,
    /// Could not be found out.
    Unknown,
    /// Not as it should be.
    Fail,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Stable: appears in output, in the documentation and in what programs match on.
    pub id: &'static str,
    /// What it came to.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// Why it matters.
    pub why: &'static str,
    /// What to do; empty on a pass.
    pub fix: String,
}

/// All checks of one host, in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// In order.
    pub checks: Vec<Check>,
}

impl Report {
    /// The worst verdict; `Pass` of an empty report.
    pub fn worst(&self) -> Verdict {
        self.checks.iter().map(|c| c.verdict).max().unwrap_or(Verdict::Pass)
    }

    /// How many checks came to this.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.checks.iter().filter(|c| c.verdict == verdict).count()
    }
}

/// What the caller knows and the host cannot be asked.
#[derive(Clone, Debug)]
pub struct Known {
    /// The caller's clock.
    pub now: UtcTime,
    /// SHA-256 of the shim that should be there; `None` when the caller has none to compare.
    pub shim_sha256: Option<String>,
}

/// A check being written: the fix is only kept where the verdict wants one.
pub(crate) fn check(id: &'static str, why: &'static str, (verdict, found, fix): Finding) -> Check {
    let fix = if verdict == Verdict::Pass { String::new() } else { fix };
    Check { id, verdict, found, why, fix }
}

/// Verdict, what was found, what to do.
pub(crate) type Finding = (Verdict, String, String);

pub(crate) fn pass(found: impl Into<String>) -> Finding {
    (Verdict::Pass, found.into(), String::new())
}

pub(crate) fn warn(found: impl Into<String>, fix: impl Into<String>) -> Finding {
    (Verdict::Warn, found.into(), fix.into())
}

pub(crate) fn fail(found: impl Into<String>, fix: impl Into<String>) -> Finding {
    (Verdict::Fail, found.into(), fix.into())
}

pub(crate) fn unknown(found: impl Into<String>, fix: impl Into<String>) -> Finding {
    (Verdict::Unknown, found.into(), fix.into())
}

/// The usual fix.
pub(crate) const PROVISION: &str = "run `muster host provision`";

/// Every check that evidence alone decides.
pub fn judge(subject: &Subject, e: &Evidence, known: &Known) -> Report {
    let mut checks = sshd::checks(subject, e);
    checks.extend(host::account(subject, e));
    checks.extend(sudo::checks(subject, e));
    checks.extend(host::files(subject, e, known));
    checks.extend(policy::checks(subject, e));
    checks.extend(host::rest(subject, e, known));
    Report { checks }
}

/// Why no report could be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DoctorError {
    /// The admin login did not work.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The answer made no sense.
    #[error(transparent)]
    Answer(#[from] BadAnswer),
    /// The script failed.
    #[error("the doctor's script failed on the host: {0}")]
    Script(String),
}

/// Asks the host. Reads only.
pub async fn gather<S: HostShell + Sync>(shell: &S, subject: &Subject) -> Result<Evidence, DoctorError> {
    let out = shell.run_root(&evidence::script(subject), b"").await?;
    if out.status != 0 {
        return Err(DoctorError::Script(format!("exit {}: {}", out.status, out.stderr_tail(300))));
    }
    Ok(Evidence::parse(&out.text())?)
}

/// Hosts that were cloned from one image: one name on several machines, or one host key or machine id
/// under several names (S11). `hosts` is the inventory's name and what the host said.
pub fn clones(hosts: &[(String, Evidence)]) -> Vec<Check> {
    use std::collections::BTreeMap;
    const WHY: &str = "an intent's `target: host=` and a pinned host key must mean one machine";
    let mut marks: BTreeMap<(&str, String), Vec<&str>> = BTreeMap::new();
    for (label, e) in hosts {
        let mut put = |kind, value: &str| {
            if !value.is_empty() {
                marks.entry((kind, value.to_owned())).or_default().push(label);
            }
        };
        put("name in shim.toml", &policy::host_of(e).unwrap_or_default());
        put("machine-id", &e.machine_id);
        e.host_keys.iter().for_each(|k| put("host key", k));
    }
    marks
        .into_iter()
        .filter(|(_, labels)| labels.len() > 1)
        .map(|((kind, value), labels)| {
            let found = format!("{} share the {kind} {value}", labels.join(" and "));
            let fix = "give each its own: `ssh-keygen -A` after removing the old host keys, `systemd-machine-id-setup`, and a name of its own in the inventory, then provision again";
            check("clone", WHY, fail(found, fix))
        })
        .collect()
}
