//! What is written down about each run, to the journal and to `/var/lib/muster/shim/runs.log`.
//!
//! Two records a run: `start`, accepted before anything runs, and `end`. A refusal is one record,
//! to the journal alone. Names of parameters are written, their values never.

use crate::json::Value;
use crate::report::one_line;
use crate::{called::CalledAs, evidence::Peer, hex, paths};
use muster_core::{Phase, Reason, UtcTime};
use muster_signing::Refusal;
use muster_sys::child::Exit;
use muster_sys::journal::Entry;
use muster_sys::state::{Durability, StateDir};
use std::time::Duration;

/// syslog(3) priorities that are used.
const NOTICE: &str = "5";
const WARNING: &str = "4";
const INFO: &str = "6";

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The script returned 0, or the floor was raised.
    Ok,
    /// The script failed.
    Failed,
    /// It was ended at its deadline.
    Deadline,
    /// It was ended because the peer went away.
    PeerGone,
    /// It never started, though it was announced.
    NotStarted,
    /// Its supervisor was killed; what was left of it was ended by the next.
    Interrupted,
    /// It had started, and was ended because the shim could not watch it any more.
    Fault,
}

impl Verdict {
    /// The word in records and in what probe reports.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed => "failed",
            Self::Deadline => "deadline",
            Self::PeerGone => "peer-gone",
            Self::NotStarted => "not-started",
            Self::Interrupted => "interrupted",
            Self::Fault => "fault",
        }
    }
}

/// 128 random bits that name a run, as 32 hexadecimal characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunId(String);

impl RunId {
    /// A new one.
    pub fn new() -> Result<Self, Refusal> {
        let bits =
            muster_sys::system::random_128().map_err(|e| Refusal::new(Reason::InternalFault, e.line()))?;
        Ok(Self(hex(&bits)))
    }

    /// Reads one.
    pub fn parse(text: &str) -> Option<Self> {
        crate::identity::is_hex(text, 32).then(|| Self(text.to_owned()))
    }

    /// A name of the run that everybody may see, as in the control groups: the id itself is the
    /// mark of its processes, and whoever knows it could put it on others.
    pub fn public(&self) -> String {
        let digest = crate::sha256(format!("muster-run-group\n{}", self.0).as_bytes());
        hex(digest.first_chunk::<16>().unwrap_or(&[0; 16]))
    }

    /// The 32 characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is known of a run or of a refused request: filled in as it becomes known.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The run.
    pub run: Option<RunId>,
    /// 1 or 2.
    pub envelope: Option<u8>,
    /// Fingerprints of the signers that were verified.
    pub signers: Vec<String>,
    /// SHA-256 of the intent.
    pub intent: Option<[u8; 32]>,
    /// SHA-256 of the script.
    pub script: Option<[u8; 32]>,
    /// The intent's profile.
    pub profile: Option<String>,
    /// The intent's epoch.
    pub epoch: Option<u32>,
    /// The profile's floor before.
    pub floor_before: Option<u32>,
    /// The profile's floor after.
    pub floor_after: Option<u32>,
    /// The phase.
    pub phase: Option<Phase>,
    /// The target line that matched.
    pub target: Option<String>,
    /// Names of the parameters, as [`Facts::name_params`] takes them.
    pub params: Vec<String>,
}

/// Bytes of parameter names in a record, at most: the names of most intents, while a record is small
/// beside the durable log, which nobody shall be able to wash clean with a few runs.
const MAX_NAMES: usize = 2048;
/// Longest such name, in bytes. On envelope 1 names have no bound of their own, and a record that
/// is too long for the journal would be a way not to be recorded.
const MAX_NAME: usize = 128;

impl Facts {
    /// Takes the names: the first 2 KiB of them, long ones cut; when that is not all, how many more
    /// there were, and the SHA-256 of all names, each ended by a line feed.
    pub fn name_params<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let (mut room, mut more, mut cut) = (MAX_NAMES, 0usize, false);
        let mut whole = String::new();
        self.params.clear();
        for n in names {
            whole.push_str(n);
            whole.push('\n');
            let shown = match n.get(..MAX_NAME) {
                Some(head) if n.len() > MAX_NAME => format!("{head}..."),
                _ => n.to_owned(),
            };
            cut |= shown.len() != n.len();
            match room.checked_sub(shown.len() + 1).filter(|_| more == 0) {
                Some(left) => {
                    room = left;
                    self.params.push(shown);
                }
                None => more += 1,
            }
        }
        if more > 0 {
            self.params.push(format!("+{more}"));
        }
        if more > 0 || cut {
            self.params.push(format!("sha256:{}", hex(&crate::sha256(whole.as_bytes()))));
        }
    }
}

/// What happened.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A run begins.
    Start,
    /// A run ended.
    End {
        /// How.
        verdict: Verdict,
        /// The stable reason, when it did not go well.
        reason: Option<Reason>,
        /// How the script's bash ended.
        exit: Option<Exit>,
        /// How long it took.
        took: Duration,
        /// Processes that outlived the script.
        stragglers: usize,
        /// Processes that could not be ended.
        survivors: usize,
        /// More, for a person.
        note: &'a str,
    },
    /// Nothing ran.
    Refused(&'a Refusal),
}

impl Event<'_> {
    fn word(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::End { .. } => "end",
            Self::Refused(_) => "refused",
        }
    }
}

/// Writes records.
#[derive(Debug)]
pub struct Recorder {
    called: CalledAs,
    peer: Peer,
    boot: String,
    log: Option<StateDir>,
}

/// Which of the two places took a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Why the journal did not take it.
    pub journal: Result<(), String>,
    /// Why the durable log did not take it.
    pub log: Result<(), String>,
}

impl Written {
    /// Whether at least one place took it.
    pub fn anywhere(&self) -> bool {
        self.journal.is_ok() || self.log.is_ok()
    }

    /// Both reasons in one line.
    pub fn why_not(&self) -> String {
        [&self.journal, &self.log]
            .iter()
            .filter_map(|r| r.as_ref().err())
            .cloned()
            .collect::<Vec<_>>()
            .join("; ")
    }
}

impl Recorder {
    /// A recorder for this call.
    pub fn new(called: CalledAs, peer: Peer) -> Self {
        // Without a boot id a record is poorer and still true.
        let boot = muster_sys::clock::boot_id().unwrap_or_default();
        Self { called, peer, boot, log: None }
    }

    /// The boot that this call belongs to.
    pub fn boot(&self) -> &str {
        &self.boot
    }

    /// From here on runs are written to the durable log as well. The caller holds the lock.
    pub fn open_log(&mut self, dir: Option<StateDir>) {
        self.log = dir;
    }

    /// The folder of durable state, when there is one.
    pub fn state(&self) -> Option<&StateDir> {
        self.log.as_ref()
    }

    /// Writes a record of a run to both places.
    pub fn run(&self, facts: &Facts, event: Event<'_>) -> Written {
        // Nothing waits for the start record of an envelope 1, which runs without one too; the end
        // record makes both durable.
        let durability = match (event, facts.envelope) {
            (Event::Start, Some(1)) => Durability::Volatile,
            _ => Durability::Durable,
        };
        let fields = self.fields(facts, event);
        let log = match &self.log {
            Some(dir) => dir
                .append_line(paths::RUN_LOG, &line(&fields), paths::RUN_LOG_MAX, durability)
                .map_err(|e| e.line()),
            None => Err(format!("{} is not there", paths::STATE)),
        };
        Written { journal: self.journal(facts, event, &fields), log }
    }

    /// Keeps a record that the durable log did not take where a probe finds it. It does not count as
    /// recorded, because it goes with the boot: so nothing is made of an error.
    pub fn keep(&self, dir: &StateDir, facts: &Facts, event: Event<'_>) {
        let _ = dir.append_line(
            paths::UNLOGGED,
            &line(&self.fields(facts, event)),
            paths::UNLOGGED_MAX,
            Durability::Volatile,
        );
    }

    /// Writes a refusal to the journal. That nobody takes it changes nothing: nothing ran.
    pub fn refused(&self, facts: &Facts, refusal: &Refusal) {
        let event = Event::Refused(refusal);
        let _ = self.journal(facts, event, &self.fields(facts, event));
    }

    /// Writes a remark about a run to the journal.
    pub fn remark(&self, facts: &Facts, text: &str) {
        let mut e = Entry::new();
        e.field("MESSAGE", &one_line(text))
            .field("PRIORITY", NOTICE)
            .field("SYSLOG_IDENTIFIER", "muster-shim");
        if let Some(run) = &facts.run {
            e.field("MUSTER_RUN", run.as_str());
        }
        let _ = e.send();
    }

    fn fields(&self, f: &Facts, event: Event<'_>) -> Vec<(&'static str, Value)> {
        let now = UtcTime::from_unix(muster_sys::clock::unix_seconds());
        let number = |n: Option<u32>| Value::or_null(n, |n| Value::Number(n.into()));
        let digest = |d: Option<[u8; 32]>| Value::or_null(d, |d| Value::text(hex(&d)));
        let text = |t: Option<&str>| Value::or_null(t, Value::text);
        let mut out = vec![
            ("event", Value::text(event.word())),
            ("run", text(f.run.as_ref().map(RunId::as_str))),
            ("time", Value::text(now.to_string())),
            ("boot", Value::text(&*self.boot)),
            ("called_as", Value::text(self.called.name())),
            ("envelope", Value::or_null(f.envelope, |v| Value::Number(v.into()))),
            ("peer_claimed_keys", Value::texts(self.peer.keys.iter().map(String::as_str))),
            ("peer_claimed_address", text(self.peer.address().as_deref())),
            ("signers", Value::texts(f.signers.iter().map(String::as_str))),
            ("intent_sha256", digest(f.intent)),
            ("script_sha256", digest(f.script)),
            ("profile", text(f.profile.as_deref())),
            ("epoch", number(f.epoch)),
            ("floor_before", number(f.floor_before)),
            ("floor_after", number(f.floor_after)),
            ("phase", text(f.phase.map(Phase::as_str))),
            ("target", text(f.target.as_deref())),
            ("params", Value::texts(f.params.iter().map(String::as_str))),
        ];
        match event {
            Event::Start => {}
            Event::End { verdict, reason, exit, took, stragglers, survivors, note } => {
                let count = |n: usize| Value::Number(n as u64);
                out.push(("verdict", Value::text(verdict.word())));
                out.push(("reason", text(reason.map(Reason::code))));
                let code = |e| matches!(e, Exit::Code(_)).then_some(e);
                out.push(("exit_code", Value::or_null(exit.and_then(code), exit_number)));
                let signal = |e| matches!(e, Exit::Signal(_)).then_some(e);
                out.push(("signal", Value::or_null(exit.and_then(signal), exit_number)));
                out.push(("duration_ms", Value::Number(u64::try_from(took.as_millis()).unwrap_or(u64::MAX))));
                out.push(("stragglers", count(stragglers)));
                out.push(("survivors", count(survivors)));
                out.push(("note", text(Some(note).filter(|n| !n.is_empty()))));
            }
            Event::Refused(r) => {
                out.push(("verdict", Value::text("refused")));
                out.push(("reason", Value::text(r.reason.code())));
                out.push(("note", Value::text(one_line(&r.detail))));
            }
        }
        out
    }

    fn journal(&self, f: &Facts, event: Event<'_>, fields: &[(&'static str, Value)]) -> Result<(), String> {
        let mut e = Entry::new();
        let priority = match event {
            Event::Start | Event::End { verdict: Verdict::Ok, .. } => INFO,
            Event::End { .. } => NOTICE,
            Event::Refused(_) => WARNING,
        };
        e.field("MESSAGE", &message(f, event))
            .field("PRIORITY", priority)
            .field("SYSLOG_IDENTIFIER", "muster-shim");
        for (name, value) in fields {
            let text = match value {
                Value::Null => continue,
                Value::Text(s) => s.clone(),
                Value::List(list) if list.is_empty() => continue,
                Value::List(list) => {
                    let words =
                        list.iter().map(|v| if let Value::Text(s) = v { s.clone() } else { v.to_string() });
                    words.collect::<Vec<_>>().join(" ")
                }
                v => v.to_string(),
            };
            e.field(&format!("MUSTER_{}", name.to_ascii_uppercase()), &text);
        }
        e.send().map_err(|e| e.line())
    }
}

fn line(fields: &[(&'static str, Value)]) -> String {
    Value::object(fields.iter().map(|(k, v)| (*k, v.clone()))).to_string()
}

fn exit_number(e: Exit) -> Value {
    match e {
        Exit::Code(n) | Exit::Signal(n) => Value::Number(u64::from(n.unsigned_abs())),
    }
}

/// One line for a person who reads the journal.
fn message(f: &Facts, event: Event<'_>) -> String {
    let phase = f.phase.map_or("request", Phase::as_str);
    let what = match &f.profile {
        Some(p) => format!("{phase} of {p}"),
        None => phase.to_owned(),
    };
    let run = f.run.as_ref().map_or("-", RunId::as_str);
    one_line(&match event {
        Event::Start => format!("{what}: start, run {run}"),
        Event::End { verdict, exit, stragglers, .. } => {
            let exit = exit.map(|e| format!(", {e}")).unwrap_or_default();
            let left = if stragglers > 0 { format!(", {stragglers} stragglers") } else { String::new() };
            format!("{what}: {}{exit}{left}, run {run}", verdict.word())
        }
        Event::Refused(r) => format!("{what}: refused [{}]: {r}", r.reason.code()),
    })
}
