//! What came of a phase on one host, for people and for programs.

use crate::codes::Own;
use crate::exit::Exit;
use crate::printer::clean;
use crate::remote::lost::{By, Known};
use crate::remote::output;
use crate::remote::phase::{self, Ended, Report, Seen, Task};
use muster_ssh::Captured;
use serde::Serialize;

/// One host's line.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// The host.
    pub host: String,
    /// The phase.
    pub phase: &'static str,
    /// The profile, where it is signed.
    pub profile: Option<String>,
    /// The epoch, where it is signed.
    pub epoch: Option<u32>,
    /// `ok`, `refused`, `busy`, `failed`, `deadline`, `unknown`, `unreachable`, `no-shim`, `not-started`.
    pub result: &'static str,
    /// The exit code that this host alone would give.
    pub exit: u8,
    /// The stable code, where there is one.
    pub reason: Option<&'static str>,
    /// One line.
    pub detail: String,
    /// From connecting to the end.
    pub seconds: f64,
    /// How often it was sent.
    pub sent: u32,
    /// What the host called the run.
    pub run: Option<String>,
    /// What a host said of a run whose end was not seen.
    pub known: Option<KnownRow>,
    /// Who answered on the way, the host last.
    pub hops: Vec<Hop>,
    /// Standard output, redacted; with json and yaml only.
    pub stdout: Option<String>,
    /// Standard error, redacted; with json and yaml only.
    pub stderr: Option<String>,
    /// The same as `exit`.
    #[serde(skip)]
    pub outcome: Exit,
}

/// A hop as it proved itself.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Hop {
    name: String,
    address: String,
    host_key: String,
}

/// What a host knows of a run.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct KnownRow {
    /// `cannot-tell`, `no-answer`, `running`, `ended`, `forgotten`, `no-record`.
    state: &'static str,
    /// By what it was found: `run` (its id), `intent` (and that it began since it was sent).
    by: Option<&'static str>,
    run: Option<String>,
    verdict: Option<String>,
    time: Option<String>,
}

impl Row {
    /// Of a report.
    pub fn of(task: &Task, report: Report) -> Self {
        let (result, outcome, detail) = words(&report.ended);
        let reason = match &report.ended {
            Ended::Unreachable(fault) => Some(fault.code.word()),
            Ended::NotTheShim(_) => Some(Own::HostAnswer.code()),
            Ended::Unknown { .. } => Some(Own::OutcomeUnknown.code()),
            other => phase::reason(other).map(|r| r.code()),
        };
        let text = |c: &Option<Captured>| {
            c.as_ref().filter(|_| task.keep).map(|c| output::block(&c.bytes, c.is_cut(), &task.secrets))
        };
        Self {
            result,
            outcome,
            exit: outcome.code(),
            reason,
            detail: task.secrets.redact_text(&clean(&detail)),
            seconds: (report.took.as_secs_f64() * 1000.0).round() / 1000.0,
            sent: report.sent,
            run: report.run,
            known: known(&report.ended),
            hops: report.hops.iter().map(hop).collect(),
            stdout: text(&report.stdout),
            stderr: text(&report.stderr),
            ..Self::bare(task)
        }
    }

    /// The fingerprint that the host itself presented.
    pub fn host_key(&self) -> Option<&str> {
        self.hops.last().map(|h| h.host_key.as_str())
    }

    fn bare(task: &Task) -> Self {
        let epoch = task.load.epoch();
        Self {
            host: task.host.clone(),
            phase: task.load.phase.as_str(),
            profile: epoch.map(|(p, _)| p.to_owned()),
            epoch: epoch.map(|(_, e)| e),
            ..Self::broken()
        }
    }

    /// The operator said stop before its turn.
    pub fn not_started(task: &Task) -> Self {
        Self {
            result: "not-started",
            outcome: Exit::Interrupted,
            exit: Exit::Interrupted.code(),
            reason: Some(Own::Interrupted.code()),
            detail: "stopped before its turn; nothing ran".into(),
            ..Self::bare(task)
        }
    }

    /// The operator closed its connection.
    pub fn cut(task: &Task) -> Self {
        Self {
            result: "unknown",
            outcome: Exit::OutcomeUnknown,
            exit: Exit::OutcomeUnknown.code(),
            reason: Some(Own::OutcomeUnknown.code()),
            detail: "its connection was closed here; the host ends what runs there, unless it was signed to finish".into(),
            ..Self::bare(task)
        }
    }

    /// A fault of this program on a host.
    pub fn broken_on(task: &Task) -> Self {
        Self::bare(task)
    }

    /// A fault of this program.
    pub fn broken() -> Self {
        Self {
            host: String::new(),
            phase: "",
            profile: None,
            epoch: None,
            result: "broken",
            outcome: Exit::Internal,
            exit: Exit::Internal.code(),
            reason: Some(Own::Fault.code()),
            detail: "muster itself failed; what became of it is not known".into(),
            seconds: 0.0,
            sent: 0,
            run: None,
            known: None,
            hops: Vec::new(),
            stdout: None,
            stderr: None,
        }
    }
}

fn hop(seen: &Seen) -> Hop {
    Hop { name: seen.name.clone(), address: seen.place.clone(), host_key: seen.fingerprint.clone() }
}

/// The word of a result, its exit code, and one line.
fn words(ended: &Ended) -> (&'static str, Exit, String) {
    let line =
        |v: &crate::remote::answer::Verdict| v.line.clone().unwrap_or_else(|| "it gave no reason".into());
    match ended {
        Ended::Ok => ("ok", Exit::Ok, String::new()),
        Ended::Refused(v) => ("refused", Exit::HostRefused, line(v)),
        Ended::Busy(Some(r)) => {
            ("busy", Exit::Busy, format!("{} runs there since {}; nothing of this was run", r.phase, r.since))
        }
        Ended::Busy(None) => {
            ("busy", Exit::Busy, "another run held the host until the time was over; nothing ran".into())
        }
        Ended::ScriptFailed(line) => ("failed", Exit::ScriptFailed, line.clone()),
        Ended::Deadline(v) => ("deadline", Exit::Deadline, line(v)),
        Ended::Unknown { why, known } => ("unknown", Exit::OutcomeUnknown, format!("{why}; {}", says(known))),
        Ended::Unreachable(fault) => ("unreachable", fault.exit(), fault.to_string()),
        Ended::NotTheShim(why) => ("no-shim", Exit::HostRefused, why.clone()),
    }
}

fn says(known: &Known) -> String {
    match known {
        Known::CannotTell => {
            "this host keeps no record that can be asked for: look at it before you run it again".into()
        }
        Known::NoAnswer(why) => format!("asked what became of it, the host did not answer ({why})"),
        Known::StillRunning(r, by) => {
            format!("the host says that {} still goes on, since {}", which(&r.run, *by), r.since)
        }
        Known::Ended(l, by) => {
            format!("the host says that {} ended `{}` at {}", which(&l.run, *by), l.verdict, l.time)
        }
        Known::Forgotten(run) => {
            format!("it began as run {}, of which the host has no record any more", short(run))
        }
        Known::NoRecord(None) => "the host has no record of any run: it did not start".into(),
        Known::NoRecord(Some(l)) => format!(
            "the host has no record of it (its last run is a {} of {}, `{}`): it did not start",
            l.phase, l.time, l.verdict
        ),
    }
}

fn which(run: &str, by: By) -> String {
    match by {
        By::Id => format!("run {}", short(run)),
        By::Intent => format!("run {} of this intent", short(run)),
    }
}

fn short(run: &str) -> String {
    run.chars().take(8).collect()
}

fn known(ended: &Ended) -> Option<KnownRow> {
    let Ended::Unknown { known, .. } = ended else { return None };
    let bare = |state| KnownRow { state, by: None, run: None, verdict: None, time: None };
    Some(match known {
        Known::CannotTell => bare("cannot-tell"),
        Known::NoAnswer(_) => bare("no-answer"),
        Known::NoRecord(_) => bare("no-record"),
        Known::Forgotten(run) => KnownRow { run: Some(run.clone()), ..bare("forgotten") },
        Known::StillRunning(r, by) => KnownRow {
            by: Some(by.word()),
            run: Some(r.run.clone()),
            time: Some(r.since.to_string()),
            ..bare("running")
        },
        Known::Ended(l, by) => KnownRow {
            by: Some(by.word()),
            run: Some(l.run.clone()),
            verdict: Some(l.verdict.clone()),
            time: Some(l.time.to_string()),
            ..bare("ended")
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Fault;
    use crate::remote::answer::Verdict;
    use muster_core::{Reason, ShimExit};

    #[test]
    fn cl1_every_end_but_ok_has_a_code_of_its_own_kind() {
        let verdict = |exit, reason| Verdict { exit, reason: Some(reason), line: Some("x".into()) };
        let ends = [
            (Ended::Refused(verdict(ShimExit::IntentRefused, Reason::Target)), Exit::HostRefused),
            (Ended::Busy(None), Exit::Busy),
            (Ended::ScriptFailed("x".into()), Exit::ScriptFailed),
            (Ended::Deadline(verdict(ShimExit::Deadline, Reason::DeadlinePassed)), Exit::Deadline),
            (Ended::Unknown { why: "x".into(), known: Known::NoRecord(None) }, Exit::OutcomeUnknown),
            (Ended::Unreachable(Fault::new(Own::ConnectUnreachable, "x")), Exit::Unreachable),
            (Ended::Unreachable(Fault::new(Own::HostKeyChanged, "x")), Exit::Unreachable),
            (Ended::NotTheShim("x".into()), Exit::HostRefused),
        ];
        for (ended, want) in ends {
            assert_eq!(words(&ended).1, want, "{ended:?}");
        }
        assert_eq!(words(&Ended::Ok).1, Exit::Ok);
    }
}
