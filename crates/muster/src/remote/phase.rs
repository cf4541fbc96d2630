//! One phase on one host, from connecting to what is known of its end.
//!
//! ```text
//! connect ─▶ send ─▶ exit code of the shim ─▶ done, refused, failed, deadline
//!              ▲            │ busy                │ gone on the way, or cut here
//!              └── wait, probe until it is free   └▶ ask the host by probe what became of it
//! ```
//! Only what certainly did not run is ever sent again: a busy host says that nothing ran. A run whose end was not seen is
//! asked for, never repeated.

use super::answer::{self, Verdict};
use super::load::{Load, Shared};
use super::lost::{self, Known, Mine};
use super::output::{self, Lines};
use super::probe::{Probe, Running, Two};
use super::session::Session;
use super::{fault, probe, raw};
use crate::codes::Own;
use crate::fault::Fault;
use crate::secret::Secrets;
use muster_core::{Reason, ShimExit};
use muster_signing::envelope::{v1, v2};
use muster_ssh::{Captured, Connection, Exec, ExecError, ExecOutcome, Limits, Output, Status};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Where the shim is; what is asked of a login that speaks envelope 2.
pub const SHIM: &str = "/usr/bin/muster-shim";
/// The same on envelope 1, in the published place.
pub const SHIM_ONE: &str = "/opt/kpssh/kpssh-shim";

/// A probe takes no lock, but runs tools with a clock of eight seconds in all.
const PROBE_PATIENCE: Duration = Duration::from_secs(30);
/// A host notices a silent loss of its peer within 15 seconds, ends the tree, and may be slow at it.
const AFTER_LOSS: Duration = Duration::from_secs(60);
/// With less left of the operator's time a run is not begun: it would be cut off at once, and nobody would know its end.
const LEAST: Duration = Duration::from_secs(1);
/// Between two looks at a host that is busy or that ends a run.
const LOOKS: [u64; 5] = [1, 1, 2, 3, 5];

/// A host that answers without a trace of a run is asked this often before it is believed.
const LOOKS_FOR_NOTHING: u32 = 3;

/// Hears what happens.
pub trait Tell: Clone + Send + Sync + 'static {
    /// What the host is at.
    fn stage(&self, text: String);
    /// A line of its output, fit to be shown.
    fn line(&self, text: String);
    /// Something worth a line of its own.
    fn say(&self, text: String);
}

/// A phase for one host, and how to go about it.
#[derive(Debug)]
pub struct Task {
    /// The host's name.
    pub host: String,
    /// What is sent.
    pub load: Load,
    /// The login, which decides the command of raw mode.
    pub user: String,
    /// What must not be shown of this host's output.
    pub secrets: Arc<Secrets>,
    /// All of it, waiting included; what the load needs where none.
    pub timeout: Option<Duration>,
    /// Keep the output for a report.
    pub keep: bool,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ended {
    /// The script exited 0.
    Ok,
    /// The host said no; nothing ran.
    Refused(Verdict),
    /// Another run held the host all the time.
    Busy(Option<Running>),
    /// The script failed.
    ScriptFailed(String),
    /// The host ended it at its deadline.
    Deadline(Verdict),
    /// Nobody saw the end.
    Unknown {
        /// Why not.
        why: String,
        /// What the host said when it was asked.
        known: Known,
    },
    /// Nothing ran, because the host was not reached.
    Unreachable(Fault),
    /// What answered is no shim; what ran there is unknown to us, and is not what was sent.
    NotTheShim(String),
}

/// One hop as it proved itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its name.
    pub name: String,
    /// Its address and port.
    pub place: String,
    /// The fingerprint of what it presented.
    pub fingerprint: String,
}

/// All of it.
#[derive(Debug)]
pub struct Report {
    /// How it ended.
    pub ended: Ended,
    /// From the first connecting to the end.
    pub took: Duration,
    /// How often it was sent: more than once only after the host was busy.
    pub sent: u32,
    /// What the host called the run, where it said so.
    pub run: Option<String>,
    /// The hops, the host last.
    pub hops: Vec<Seen>,
    /// Standard output of the last run, as far as it was kept.
    pub stdout: Option<Captured>,
    /// Standard error of the last run, as far as it was kept.
    pub stderr: Option<Captured>,
}

/// Runs it.
pub async fn run<T: Tell>(session: &Session, task: &Task, tell: &T) -> Report {
    let mut flow = Flow { session, task, tell, begun: Instant::now(), sent: 0, hops: Vec::new(), out: None };
    let ended = flow.go().await;
    let run = flow.run_id();
    let (stdout, stderr) = flow.out.unzip();
    Report { ended, took: flow.begun.elapsed(), sent: flow.sent, run, hops: flow.hops, stdout, stderr }
}

struct Flow<'f, T> {
    session: &'f Session,
    task: &'f Task,
    tell: &'f T,
    begun: Instant,
    sent: u32,
    hops: Vec<Seen>,
    out: Option<(Captured, Captured)>,
}

/// How one sending ended.
enum Sent {
    Ended(Ended),
    Busy,
    Lost { why: String, since: Instant },
}

impl<T: Tell> Flow<'_, T> {
    /// What is left of the time that the operator gave.
    fn left(&self) -> Option<Duration> {
        self.task.timeout.map(|t| t.saturating_sub(self.begun.elapsed()))
    }

    /// The time that the operator gave is over, and nothing ran.
    fn over(&self, fault: Fault) -> Ended {
        // What was sent before was sent to a busy host: there is no other reason to come here again.
        if self.sent > 0 { Ended::Busy(None) } else { Ended::Unreachable(fault) }
    }

    async fn go(&mut self) -> Ended {
        loop {
            match self.send().await {
                Sent::Ended(ended) => return ended,
                Sent::Busy => {
                    if let Some(ended) = self.wait().await {
                        return ended;
                    }
                }
                Sent::Lost { why, since } => {
                    self.tell.stage("asking the host what became of it".into());
                    let known = self.ask(since).await;
                    return Ended::Unknown { why, known };
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<Arc<Connection>, Ended> {
        self.tell.stage("connecting".into());
        let open = self.session.connection();
        let connection = match self.left() {
            Some(left) => match tokio::time::timeout(left, open).await {
                Ok(done) => done,
                Err(_) => return Err(self.over(fault::late(self.session.progress()))),
            },
            None => open.await,
        };
        let connection = connection.map_err(|e| Ended::Unreachable(fault::connect(&e)))?;
        self.hops = seen(&connection);
        Ok(connection)
    }

    async fn send(&mut self) -> Sent {
        let connection = match self.connect().await {
            Ok(connection) => connection,
            Err(ended) => return Sent::Ended(ended),
        };
        let input = match self.task.load.build() {
            Ok(input) => input,
            // It was built once before anything was connected to.
            Err(refusal) => return Sent::Ended(Ended::Unreachable(refused_here(&refusal))),
        };
        if self.left().is_some_and(|left| left < LEAST) {
            return Sent::Ended(self.over(timed_out()));
        }
        self.tell.stage(format!("{} runs", self.task.load.phase));
        let since = Instant::now();
        let patience = self.left().map_or(self.task.load.patience(), |l| l.min(self.task.load.patience()));
        let result = self.exec(&connection, &input, patience).await;
        drop(input);
        match result {
            Ok(outcome) => self.judge(outcome, since),
            Err(e) => {
                self.session.drop_connection().await;
                if !e.may_have_run() {
                    return Sent::Ended(Ended::Unreachable(fault::not_started(&e)));
                }
                self.out = e.partial().map(|(o, e)| (o.clone(), e.clone()));
                Sent::Lost { why: fault::unended(&e), since }
            }
        }
    }

    async fn exec(
        &mut self,
        connection: &Connection,
        input: &[u8],
        patience: Duration,
    ) -> Result<ExecOutcome, ExecError> {
        self.sent += 1;
        let limits = if self.task.keep {
            Limits { stdout: 1 << 20, stderr: 1 << 20 }
        } else {
            Limits { stdout: 4096, stderr: 64 << 10 }
        };
        let (tell, secrets) = (self.tell, &*self.task.secrets);
        let (mut out, mut err) = (Lines::default(), Lines::default());
        let mut watch = |which: Output, bytes: &[u8]| {
            let lines = if which == Output::Stdout { &mut out } else { &mut err };
            lines.push(bytes, secrets, &mut |line| tell.line(line));
        };
        let exec = Exec::new(self.task.load.command(&self.task.user)).stdin(input).limits(limits);
        let result = connection.run(exec.deadline(patience).watch(&mut watch)).await;
        out.finish(secrets, &mut |line| tell.line(line));
        err.finish(secrets, &mut |line| tell.line(line));
        result
    }

    fn judge(&mut self, outcome: ExecOutcome, since: Instant) -> Sent {
        let raw = matches!(&*self.task.load.shared, Shared::Raw { .. });
        let words = output::last_words(end_of(&outcome.stderr), 300, &self.task.secrets);
        let lost = |why: String| Sent::Lost { why, since };
        let sent = match &outcome.status {
            Status::Exited(0) if raw => Sent::Ended(Ended::Ok),
            Status::Exited(code) if raw => Sent::Ended(Ended::ScriptFailed(format!("exit {code}: {words}"))),
            Status::Exited(code) => match verdict(*code, &outcome.stderr, &self.task.secrets) {
                Err(why) => Sent::Ended(Ended::NotTheShim(why)),
                Ok(v) => match v.exit {
                    ShimExit::Ok => Sent::Ended(Ended::Ok),
                    ShimExit::Busy => Sent::Busy,
                    ShimExit::ScriptFailed => Sent::Ended(Ended::ScriptFailed(v.line.unwrap_or_default())),
                    ShimExit::Deadline => Sent::Ended(Ended::Deadline(v)),
                    // We went away, it says, and yet its words arrived: as unknown as the other way.
                    ShimExit::PeerGone => {
                        lost(v.line.unwrap_or_else(|| "the host says that we went away".into()))
                    }
                    _ => Sent::Ended(Ended::Refused(v)),
                },
            },
            Status::Signaled { name, .. } if raw => {
                Sent::Ended(Ended::ScriptFailed(format!("ended by SIG{name}: {words}")))
            }
            Status::Signaled { name, .. } => lost(format!("its shim was ended by SIG{name}")),
            status @ Status::ConnectionLost { .. } => lost(fault::end(status)),
            _ => lost("nobody knows how it ended".into()),
        };
        self.out = Some((outcome.stdout, outcome.stderr));
        sent
    }

    /// What the host called the last run, where it said so.
    fn run_id(&self) -> Option<String> {
        let (_, stderr) = self.out.as_ref()?;
        matches!(&*self.task.load.shared, Shared::Two { .. }).then(|| answer::run_id(&stderr.text()))?
    }

    /// Waits until the host is free, or gives what it ended with when the time is over.
    async fn wait(&mut self) -> Option<Ended> {
        let limit = self.task.timeout.unwrap_or(self.task.load.patience());
        let mut looks = LOOKS.iter();
        let mut running = None;
        loop {
            let pause = Duration::from_secs(looks.next().copied().unwrap_or(5));
            if self.begun.elapsed() + pause >= limit {
                return Some(Ended::Busy(running));
            }
            let whose = running
                .as_ref()
                .map_or(String::new(), |r: &Running| format!(": {} since {}", r.phase, r.since));
            self.tell.stage(format!("busy{whose}; waiting"));
            sleep(pause).await;
            if !matches!(&*self.task.load.shared, Shared::Two { .. }) {
                return None;
            }
            match self.look().await {
                // One that has no shim any more is cleaned up after by the next run.
                Ok(two) => match two.running.filter(|r| r.alive) {
                    Some(r) => running = Some(r),
                    None => return None,
                },
                Err(_) => self.session.drop_connection().await,
            }
        }
    }

    async fn look(&self) -> Result<Two, String> {
        let connection = self.session.connection().await.map_err(|e| fault::unreached(&e))?;
        match ask_probe(&connection, 2).await? {
            Probe::Two(two) => Ok(*two),
            Probe::One(_) => Err("it answered on envelope 1".into()),
        }
    }

    /// Asks the host what became of a run that began at `since` or never. Ends by itself.
    async fn ask(&mut self, since: Instant) -> Known {
        let Some(intent) = self.task.load.intent_sha256() else { return Known::CannotTell };
        let mine = Mine { run: self.run_id(), intent };
        let longest = if self.task.load.finishes() { self.task.load.patience() } else { AFTER_LOSS };
        let until = Instant::now() + longest;
        let mut looks = LOOKS.iter();
        let mut answered = 0;
        loop {
            self.session.drop_connection().await;
            let last = match self.look().await {
                Err(why) => Known::NoAnswer(why),
                Ok(two) => {
                    answered += 1;
                    match lost::known(&two, &mine, since.elapsed()) {
                        going @ Known::StillRunning(..) => going,
                        // What we sent may still be on its way to the lock.
                        none @ Known::NoRecord(_) if answered < LOOKS_FOR_NOTHING => none,
                        settled => return settled,
                    }
                }
            };
            let pause = Duration::from_secs(looks.next().copied().unwrap_or(5));
            if Instant::now() + pause >= until {
                return last;
            }
            sleep(pause).await;
        }
    }
}

/// The shim's exit code and its own line, or why they are not a shim's.
fn verdict(code: u32, stderr: &Captured, secrets: &Secrets) -> Result<Verdict, String> {
    let mut text = stderr.text();
    if stderr.is_cut() {
        text.push('\n');
        text.push_str(&String::from_utf8_lossy(&stderr.tail));
    }
    Verdict::read(code, &secrets.redact_text(&text)).map_err(|not| not.why)
}

fn end_of(captured: &Captured) -> &[u8] {
    if captured.tail.is_empty() { &captured.bytes } else { &captured.tail }
}

/// The hops of a connection.
pub fn seen(connection: &Connection) -> Vec<Seen> {
    let hops = connection.hops().into_iter();
    hops.map(|h| Seen {
        name: h.hop.name.clone(),
        place: h.hop.endpoint.clone(),
        fingerprint: h.fingerprint.to_string(),
    })
    .collect()
}

fn timed_out() -> Fault {
    Fault::new(Own::ConnectDeadline, "the time given with --timeout is over; nothing ran")
        .fix("Raise --timeout.")
}

fn refused_here(refusal: &muster_signing::Refusal) -> Fault {
    Fault::new(refusal.reason, refusal.to_string())
}

/// Asks a connection for a probe of an envelope; 0 is a host without a shim.
pub async fn ask_probe(connection: &Connection, envelope: u8) -> Result<Probe, String> {
    let (command, input) = match envelope {
        2 => (SHIM, v2::build_probe()),
        1 => (SHIM_ONE, v1::build_probe()),
        _ => (raw::PROBE, Vec::new()),
    };
    let limits = Limits { stdout: probe::MAX_ANSWER, stderr: 16 << 10 };
    let exec = Exec::new(command).stdin(&input).limits(limits).deadline(PROBE_PATIENCE);
    let outcome = connection.run(exec).await.map_err(|e| fault::unended(&e))?;
    let code = match &outcome.status {
        Status::Exited(code) => *code,
        other => return Err(format!("its probe did not end well: {}", fault::end(other))),
    };
    if envelope == 0 {
        return probe::One::parse(&outcome.stdout.bytes).map(Probe::One).map_err(|n| n.why);
    }
    let verdict = Verdict::read(code, &outcome.stderr.text()).map_err(|n| n.why)?;
    if verdict.exit != ShimExit::Ok {
        return Err(verdict.line.unwrap_or_else(|| format!("its probe exited {code}")));
    }
    let parsed = match envelope {
        2 => Two::parse(&outcome.stdout.bytes).map(|t| Probe::Two(Box::new(t))),
        _ => probe::One::parse(&outcome.stdout.bytes).map(Probe::One),
    };
    parsed.map_err(|n| n.why)
}

/// The reason that an end names, where it names one.
pub fn reason(ended: &Ended) -> Option<Reason> {
    match ended {
        Ended::Refused(v) | Ended::Deadline(v) => v.reason,
        Ended::Busy(_) => Some(Reason::BusyRun),
        Ended::ScriptFailed(_) => Some(Reason::ScriptFailed),
        _ => None,
    }
}
