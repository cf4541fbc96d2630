//! What `probe` says of the shim itself: policy, floors, the run that is going on, the last one.
//!
//! Takes no lock and writes nothing. Every state file is replaced whole by whoever writes it, so
//! that reading without the lock sees one version or the other.

use crate::floors::Floors;
use crate::policy::{Loaded, Policy};
use crate::probe::{self, Inside, LastRun, PolicySummary, Running};
use crate::runfile::{self, Found};
use crate::{called::CalledAs, clock, floors, hex, paths};
use muster_core::{Phase, Reason, ShimExit, UtcTime};
use muster_signing::Refusal;
use muster_signing::envelope::Version;
use muster_sys::file::Root;
use muster_sys::state::StateDir;
use std::io::Write;
use std::path::Path;

/// Bytes of the run log that the last run is looked for in.
const TAIL: u64 = 64 * 1024;

/// Answers a probe on standard output.
pub fn probe(version: Version, called: CalledAs, loaded: &Loaded, now: UtcTime) -> Result<ShimExit, Refusal> {
    let text = match version {
        Version::One => probe::one(),
        Version::Two => probe::two(&inside(called, loaded, now)),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Ok(ShimExit::Ok),
        Err(e) => Err(Refusal::new(Reason::InternalFault, format!("write the answer: {e}"))),
    }
}

fn inside(called: CalledAs, loaded: &Loaded, now: UtcTime) -> Inside {
    let state = floors::state_dir();
    let policy = match &loaded.policy {
        Some(p) => summary(called, loaded, p, state.as_ref()).map_err(|r| r.to_string()),
        None => Err(format!("{} is not there", paths::POLICY)),
    };
    Inside {
        now,
        build_date: clock::build_date(),
        policy,
        running: running(),
        last_run: state.ok().and_then(|dir| last_run(&dir)),
    }
}

/// Where intents are taken, floors that cannot be read are the fault that every one of them would
/// meet: never shown as no floors.
fn summary(
    called: CalledAs,
    loaded: &Loaded,
    p: &Policy,
    state: Result<&StateDir, &Refusal>,
) -> Result<PolicySummary, Refusal> {
    let floors = match state.map_err(Clone::clone).and_then(floors::read) {
        Ok(floors) => floors,
        Err(_) if p.profiles.is_none() => Floors::default(),
        Err(r) => return Err(r),
    };
    let profiles = p.profiles.iter().flatten().map(|(name, least)| {
        let floor = floors.get(name).max(*least);
        (name.to_string(), floor.unwrap_or(1))
    });
    Ok(PolicySummary {
        digest: loaded.digest.map(|d| hex(&d)).unwrap_or_default(),
        host: p.host.as_ref().map(ToString::to_string),
        pools: p.pools.iter().map(ToString::to_string).collect(),
        envelope_one: loaded.takes_envelope_one(called),
        signers_needed: p.signers_needed as usize,
        max_deadline: p.max_deadline,
        profiles: profiles.collect(),
    })
}

fn running() -> Option<Running> {
    let dir = StateDir::open(Root::system().ok()?, Path::new(paths::RUN)).ok()?;
    let Found::Run(r) = runfile::look(&dir) else { return None };
    let alive = r.shim_lives();
    Some(Running { run: r.run.as_str().to_owned(), phase: r.phase.to_string(), since: r.since, alive })
}

/// The newest record of the log: its end, or its start when it has no end.
fn last_run(dir: &StateDir) -> Option<LastRun> {
    let text = dir.read_tail(paths::RUN_LOG, TAIL).ok()?;
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().rev().find_map(|line| {
        let word = |name| field(line, name);
        let verdict = match word("event")? {
            "start" => "started".to_owned(),
            "end" => word("verdict")?.to_owned(),
            _ => return None,
        };
        let phase = Phase::from_word(word("phase")?)?;
        let time = UtcTime::parse(word("time")?).ok()?;
        Some(LastRun { run: word("run")?.to_owned(), phase: phase.to_string(), verdict, time })
    })
}

/// The text of a member of a line that we wrote. The members looked for hold plain words, so that
/// no escape is in them, and no quoted text before them can hold an unescaped `"`.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("\"{name}\":\""))?;
    rest.split_once('"').map(|(word, _)| word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn s13_the_last_run_is_the_newest_whole_line() {
        let t = tempfile::tempdir().unwrap();
        let uid = muster_sys::system::user_ids().1;
        let dir =
            StateDir::open_or_make(Root::at(t.path(), uid).unwrap(), Path::new("/muster/shim")).unwrap();
        assert!(last_run(&dir).is_none());
        let log = t.path().join("muster/shim/runs.log");
        let line = |event: &str, verdict: &str| {
            format!(
                "{{\"event\":\"{event}\",\"run\":\"aa\",\"time\":\"2026-11-29T00:00:00Z\",\"phase\":\"join\"{verdict}}}\n"
            )
        };
        fs::write(&log, line("start", "")).unwrap();
        assert_eq!(last_run(&dir).unwrap().verdict, "started");
        fs::write(&log, line("start", "") + &line("end", ",\"verdict\":\"failed\"") + "{\"event\":\"sta")
            .unwrap();
        let last = last_run(&dir).unwrap();
        assert_eq!((last.verdict.as_str(), last.phase.as_str(), last.run.as_str()), ("failed", "join", "aa"));
    }
}
