//! `/run/muster/shim/run`: the run that is going on, for the shim that finds it left behind and for
//! probe.
//!
//! ```text
//! muster-run: 1
//! run: 0123456789abcdef0123456789abcdef
//! boot: 6f1d...
//! shim: PID STARTTIME
//! group: /sys/fs/cgroup/... or -
//! phase: join
//! since: 2026-11-29T00:00:00Z
//! envelope: 2
//! profile: tls-bootstrap or -
//! epoch: 7 or -
//! intent: SHA-256 or -
//! script: SHA-256 or -
//! ```

use crate::identity::{self, Identity};
use crate::paths;
use crate::record::{Facts, RunId};
use muster_core::{Phase, ProfileName, UtcTime};
use muster_sys::procfs::Stat;
use muster_sys::state::{Durability, StateDir};
use muster_sys::{SysError, system};
use std::path::PathBuf;

/// A run that began and whose end is not written yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// The run.
    pub run: RunId,
    /// The boot it began in.
    pub boot: String,
    /// The shim: process id and start time.
    pub shim: (i32, u64),
    /// Its control group, if it has one.
    pub group: Option<PathBuf>,
    /// What it was asked to do.
    pub what: Identity,
    /// Since when.
    pub since: UtcTime,
}

impl RunRecord {
    /// A record of a run of this process.
    pub fn of_this_process(run: RunId, boot: &str, what: Identity, since: UtcTime) -> Self {
        let pid = system::pid();
        let start = Stat::of(pid).map_or(0, |s| s.start);
        Self { run, boot: boot.to_owned(), shim: (pid, start), group: None, what, since }
    }

    /// What a record of this run says that is written by another.
    pub fn facts(&self) -> Facts {
        Facts {
            run: Some(self.run.clone()),
            envelope: Some(self.what.envelope),
            phase: Some(self.what.phase),
            profile: self.what.profile.as_ref().map(ToString::to_string),
            epoch: self.what.epoch,
            intent: self.what.intent,
            script: self.what.script,
            ..Facts::default()
        }
    }

    /// Whether its shim is still there.
    pub fn shim_lives(&self) -> bool {
        Stat::of(self.shim.0).is_some_and(|s| s.start == self.shim.1 && s.state != 'Z')
    }

    /// The text, which [`RunRecord::parse`] reads back to the same.
    pub fn render(&self) -> String {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let w = &self.what;
        format!(
            "muster-run: 1\nrun: {}\nboot: {}\nshim: {} {}\ngroup: {}\nphase: {}\nsince: {}\n\
             envelope: {}\nprofile: {}\nepoch: {}\nintent: {}\nscript: {}\n",
            self.run.as_str(),
            self.boot,
            self.shim.0,
            self.shim.1,
            or_dash(self.group.as_ref().map(|g| g.display().to_string())),
            w.phase,
            self.since,
            w.envelope,
            or_dash(w.profile.as_ref().map(ToString::to_string)),
            or_dash(w.epoch.map(|n| n.to_string())),
            or_dash(w.intent.map(|d| crate::hex(&d))),
            or_dash(w.script.map(|d| crate::hex(&d))),
        )
    }

    /// Reads the text; `None` when it is of another form.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(text).ok()?.strip_suffix('\n')?.split('\n');
        let mut next = |prefix: &str| lines.next()?.strip_prefix(prefix);
        if next("muster-run: ")? != "1" {
            return None;
        }
        let run = RunId::parse(next("run: ")?)?;
        let boot = next("boot: ")?.to_owned();
        let (pid, start) = next("shim: ")?.split_once(' ')?;
        let group = next("group: ")?;
        let phase = Phase::from_word(next("phase: ")?)?;
        let since = UtcTime::parse(next("since: ")?).ok()?;
        let mut dash = |prefix: &str| next(prefix).map(|t| Some(t).filter(|t| *t != "-"));
        let envelope = dash("envelope: ")??.parse().ok()?;
        let profile = dash("profile: ")?.map(|p| ProfileName::new(p).ok());
        let epoch = dash("epoch: ")?.map(|n| n.parse().ok());
        let intent = dash("intent: ")?.map(identity::digest);
        let script = dash("script: ")?.map(identity::digest);
        let what = Identity {
            envelope,
            phase,
            profile: all_or_none(profile)?,
            epoch: all_or_none(epoch)?,
            intent: all_or_none(intent)?,
            script: all_or_none(script)?,
        };
        lines.next().is_none().then_some(Self {
            run,
            boot,
            shim: (pid.parse().ok()?, start.parse().ok()?),
            group: (group != "-").then(|| PathBuf::from(group)),
            what,
            since,
        })
    }

    /// Writes it, whole or not at all.
    pub fn write(&self, dir: &StateDir) -> Result<(), SysError> {
        dir.replace(paths::RUN_RECORD, self.render().as_bytes(), Durability::Volatile)
    }
}

/// What is there has to be of its form.
fn all_or_none<T>(value: Option<Option<T>>) -> Option<Option<T>> {
    match value {
        Some(None) => None,
        Some(some) => Some(some),
        None => Some(None),
    }
}

/// What stands in the place of the run record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No run.
    Nothing,
    /// A run.
    Run(RunRecord),
    /// Something that is no record, and why.
    Unreadable(String),
}

/// Looks at the run record.
pub fn look(dir: &StateDir) -> Found {
    match dir.read(paths::RUN_RECORD, paths::STATE_MAX) {
        Ok(text) => RunRecord::parse(&text)
            .map_or_else(|| Found::Unreadable("it has another form".to_owned()), Found::Run),
        Err(e) if e.is_missing() => Found::Nothing,
        Err(e) => Found::Unreadable(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m9_reads_what_it_writes() {
        let run = RunId::parse("0123456789abcdef0123456789abcdef").unwrap();
        let bare = Identity {
            envelope: 1,
            phase: Phase::Join,
            profile: None,
            epoch: None,
            intent: None,
            script: Some([0xab; 32]),
        };
        let mut r = RunRecord::of_this_process(run, "boot-1", bare, UtcTime::from_unix(1_800_000_000));
        assert!(r.shim_lives());
        assert_eq!(RunRecord::parse(r.render().as_bytes()), Some(r.clone()));
        r.group = Some(PathBuf::from("/sys/fs/cgroup/x y/muster-run-0"));
        assert_eq!(RunRecord::parse(r.render().as_bytes()), Some(r.clone()));
        r.what.envelope = 2;
        (r.what.profile, r.what.epoch) = (ProfileName::new("p").ok(), Some(u32::MAX));
        r.what.intent = Some([1; 32]);
        assert_eq!(RunRecord::parse(r.render().as_bytes()), Some(r.clone()));
        for (good, bad) in [
            ("profile: p", "profile: P"),
            ("epoch: 4", "epoch: x4"),
            ("intent: 01", "intent: 0"),
            ("envelope: 2", "envelope: -"),
        ] {
            assert_eq!(RunRecord::parse(r.render().replace(good, bad).as_bytes()), None, "{bad}");
        }
        r.shim.1 += 1;
        assert!(!r.shim_lives(), "same pid, another process");
        let text = r.render();
        for cut in 1..text.len() {
            assert_eq!(RunRecord::parse(&text.as_bytes()[..cut]), None);
        }
        assert_eq!(RunRecord::parse((text + "x\n").as_bytes()), None);
    }
}
