//! What a host knows of a run whose end we did not see (S13).
//!
//! A run is told by its identity: by the id that the host said before the script started, else by the digest of the intent that
//! was sent. The same intent may have been run before, or be run by somebody else; so by the digest alone only a run that began
//! since we sent is taken for ours.

use super::probe::{LastRun, Running, Two};
use std::time::Duration;

/// What we know of our run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mine {
    /// The id that the host said, where it came through.
    pub run: Option<String>,
    /// SHA-256 of the intent, in hex.
    pub intent: String,
}

/// By what a run was taken for ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The id that the host had said.
    Id,
    /// The intent, and that it began after we sent it.
    Intent,
}

impl By {
    /// One word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Id => "run",
            Self::Intent => "intent",
        }
    }
}

/// What a host knows of a run whose end we did not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// It cannot be asked: envelope 1, raw hosts and shims of before keep no record that a probe tells.
    CannotTell,
    /// It did not answer in time.
    NoAnswer(String),
    /// It goes on.
    StillRunning(Running, By),
    /// It ended, or its end is on no record: then the verdict is `interrupted`.
    Ended(LastRun, By),
    /// It had begun, since it said its id, and the host tells it no more.
    Forgotten(String),
    /// The host has no record of it: it did not start. With the last that it has.
    NoRecord(Option<LastRun>),
}

/// What a probe says of a run that we sent `ago`.
pub fn known(two: &Two, mine: &Mine, ago: Duration) -> Known {
    let Some(runs) = &two.runs else { return Known::CannotTell };
    // Seconds of the host's own clock, so that its setting does not matter; two for rounding.
    let since = |at: muster_core::UtcTime| two.now.unix().saturating_sub(at.unix()) <= ago.as_secs() + 2;
    let running = two.running.as_ref().filter(|r| r.alive);
    let (running, ended, by) = match &mine.run {
        Some(id) => (running.filter(|r| r.run == *id), runs.iter().find(|r| r.run == *id), By::Id),
        None => {
            let ours = |intent: &Option<String>| intent.as_deref() == Some(mine.intent.as_str());
            let running = running.filter(|r| ours(&r.intent) && since(r.since));
            (running, runs.iter().find(|r| ours(&r.intent) && since(r.started.unwrap_or(r.time))), By::Intent)
        }
    };
    match (running, ended, &mine.run) {
        (Some(r), _, _) => Known::StillRunning(r.clone(), by),
        // Its record has a beginning and no end: what is left of it is ended by the next run.
        (None, Some(l), _) if l.verdict == "started" => {
            Known::Ended(LastRun { verdict: "interrupted".into(), ..l.clone() }, by)
        }
        (None, Some(l), _) => Known::Ended(l.clone(), by),
        (None, None, Some(id)) => Known::Forgotten(id.clone()),
        (None, None, None) => Known::NoRecord(two.last.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_core::UtcTime;

    const NOW: u64 = 1_800_000_000;

    fn at(ago: u64) -> UtcTime {
        UtcTime::from_unix(NOW - ago)
    }

    fn past(run: &str, intent: &str, verdict: &str, (started, time): (u64, u64)) -> LastRun {
        LastRun {
            run: run.into(),
            phase: "join".into(),
            intent: Some(intent.into()),
            started: Some(at(started)),
            verdict: verdict.into(),
            time: at(time),
        }
    }

    fn two(running: Option<(&str, &str, u64)>, runs: Vec<LastRun>) -> Two {
        Two {
            document: serde_json::Map::new(),
            now: at(0),
            policy: Err(String::new()),
            running: running.map(|(run, intent, ago)| Running {
                run: run.into(),
                phase: "join".into(),
                intent: Some(intent.into()),
                since: at(ago),
                alive: true,
            }),
            last: runs.first().cloned(),
            runs: Some(runs),
        }
    }

    fn ask(two: &Two, run: Option<&str>) -> Known {
        let mine = Mine { run: run.map(str::to_owned), intent: "ours".into() };
        known(two, &mine, Duration::from_secs(30))
    }

    #[test]
    fn s13_a_lost_run_is_known_by_its_id_whatever_ran_after_it() {
        let after = past("later", "ours", "ok", (3, 2));
        let mine = past("mine", "ours", "peer-gone", (29, 20));
        let t = two(None, vec![after.clone(), mine.clone()]);
        assert_eq!(ask(&t, Some("mine")), Known::Ended(mine, By::Id));
        // It said its id, so it began; by no sign is another's run taken for it.
        assert_eq!(ask(&two(None, vec![after.clone()]), Some("mine")), Known::Forgotten("mine".into()));
        let other = two(Some(("later", "ours", 3)), vec![past("mine", "ours", "failed", (29, 20))]);
        assert!(matches!(ask(&other, Some("mine")), Known::Ended(l, By::Id) if l.verdict == "failed"));
        let still = two(Some(("mine", "ours", 29)), vec![past("mine", "ours", "started", (29, 29))]);
        assert!(matches!(ask(&still, Some("mine")), Known::StillRunning(r, By::Id) if r.run == "mine"));
    }

    #[test]
    fn s13_without_an_id_the_intent_and_the_time_tell_it() {
        let t =
            two(None, vec![past("other", "theirs", "ok", (5, 4)), past("mine", "ours", "started", (29, 29))]);
        assert!(
            matches!(ask(&t, None), Known::Ended(l, By::Intent) if l.run == "mine" && l.verdict == "interrupted")
        );
        // The same phase of another intent, or the same intent from before: ours left no trace.
        for runs in
            [vec![past("other", "theirs", "ok", (5, 4))], vec![past("before", "ours", "ok", (60, 5))], vec![]]
        {
            assert_eq!(ask(&two(None, runs.clone()), None), Known::NoRecord(runs.first().cloned()));
        }
        assert!(matches!(ask(&two(Some(("x", "theirs", 5)), vec![]), None), Known::NoRecord(None)));
        assert!(matches!(
            ask(&two(Some(("x", "ours", 5)), vec![]), None),
            Known::StillRunning(_, By::Intent)
        ));
        // A shim that tells no runs: no guess is made.
        assert_eq!(ask(&Two { runs: None, ..two(None, vec![]) }, None), Known::CannotTell);
    }
}
