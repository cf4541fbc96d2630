//! The script's life: started with nothing left to chance, watched, and ended with all it started.

use crate::execute::{MARK, Stage};
use crate::paths;
use crate::record::{RunId, Verdict};
use crate::steps::Step;
use crate::verified::VerifiedScript;
use muster_core::{Phase, ProfileName, Reason};
use muster_signing::Refusal;
use muster_signing::intent::OnDisconnect;
use muster_signing::params::Param;
use muster_sys::cgroup::Cgroup;
use muster_sys::child::{self, Child, Exit, Spec, Stream};
use muster_sys::clock::since_boot;
use muster_sys::signals::{self, EndingSignals};
use muster_sys::tcp::Connection;
use muster_sys::tree::{Tree, become_subreaper};
use muster_sys::watch::{Deadline, Event, Gone, Guard, Watch, standard_streams};
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::time::Duration;

/// The number that the script's file has in bash: high, so that a script that opens 3 to 9 or 200
/// for itself does not close it, and below 255, which bash takes.
const SCRIPT_FD: i32 = 254;
/// From TERM to KILL.
const GRACE: Duration = Duration::from_secs(1);
/// How long what does not die is fought.
const LIMIT: Duration = Duration::from_secs(30);
/// How often the connection's retransmissions are looked at.
const TICK: Duration = Duration::from_secs(1);
/// How often the output of a run whose peer is gone is emptied.
const DRAIN: Duration = Duration::from_millis(20);
/// How long the kernel may repeat itself to the peer without an answer.
const SILENCE: Duration = Duration::from_secs(15);

/// What is run.
pub struct Run<'a> {
    /// Its name.
    pub id: &'a RunId,
    /// The phase.
    pub phase: Phase,
    /// The intent's profile; none on envelope 1.
    pub profile: Option<&'a ProfileName>,
    /// What was verified.
    pub script: &'a VerifiedScript,
    /// Signed constants and parameters.
    pub params: &'a [Param],
    /// `[environment]` of the policy.
    pub extra: Option<&'a BTreeMap<String, String>>,
    /// From the start on.
    pub deadline: Duration,
    /// What happens when the peer goes away.
    pub on_disconnect: OnDisconnect,
    /// Whether what outlives the script is left alone (envelope 1) or ended.
    pub keep_stragglers: bool,
    /// The run's control group.
    pub group: Option<&'a Cgroup>,
}

/// How it went.
#[derive(Debug)]
pub struct Summary {
    /// In one word.
    pub verdict: Verdict,
    /// How bash ended.
    pub exit: Option<Exit>,
    /// How long it took.
    pub took: Duration,
    /// Living processes that outlived the script.
    pub stragglers: usize,
    /// Whether those were left alone.
    pub kept: bool,
    /// Processes that could not be ended.
    pub survivors: usize,
    /// More, for the record.
    pub note: String,
    /// Why it did not start.
    pub refusal: Option<Refusal>,
}

impl Summary {
    /// Nothing had to run.
    pub fn ok() -> Self {
        Self {
            verdict: Verdict::Ok,
            exit: None,
            took: Duration::ZERO,
            stragglers: 0,
            kept: false,
            survivors: 0,
            note: String::new(),
            refusal: None,
        }
    }

    /// It was announced and did not start.
    pub fn not_started(refusal: Refusal) -> Self {
        Self {
            verdict: Verdict::NotStarted,
            note: refusal.detail.clone(),
            refusal: Some(refusal),
            ..Self::ok()
        }
    }

    /// The stable reason; none when it went well.
    pub fn reason(&self) -> Option<Reason> {
        match self.verdict {
            Verdict::Ok => None,
            Verdict::Failed => Some(Reason::ScriptFailed),
            Verdict::Deadline => Some(Reason::DeadlinePassed),
            Verdict::PeerGone => Some(Reason::PeerGone),
            Verdict::NotStarted | Verdict::Interrupted | Verdict::Fault => {
                Some(self.refusal.as_ref().map_or(Reason::InternalFault, |r| r.reason))
            }
        }
    }

    /// What the caller is told of an end that is not good. `script exited N` is the bash shim's.
    pub fn line(&self) -> String {
        let script = match self.exit {
            Some(Exit::Code(n)) => format!("script exited {n}"),
            Some(Exit::Signal(n)) => format!("script ended by signal {}", signals::name(n)),
            None => "script did not end".to_owned(),
        };
        let note = if self.note.is_empty() { String::new() } else { format!(": {}", self.note) };
        match self.reason() {
            Some(Reason::ScriptFailed) | None => format!("{script}{note}"),
            Some(r) => format!("{}{note}", r.what()),
        }
    }
}

/// Runs it to its end. `remark` writes to the journal.
pub fn run(stage: &mut Stage<'_>, run: &Run<'_>, remark: impl Fn(&str)) -> Summary {
    let prepared = (|| {
        become_subreaper()?;
        let signals = EndingSignals::catch()?;
        let deadline = Deadline::after(run.deadline)?;
        Ok::<_, muster_sys::SysError>((signals, deadline))
    })();
    let internal =
        |e: muster_sys::SysError| Summary::not_started(Refusal::new(Reason::InternalFault, e.line()));
    let (signals, deadline) = match prepared {
        Ok(p) => p,
        Err(e) => return internal(e),
    };
    let spec = match spec(run) {
        Ok(s) => s,
        Err(r) => return Summary::not_started(r),
    };
    let child = match child::spawn(&spec, run.group) {
        Ok(c) => c,
        Err(e) => return internal(e),
    };
    drop(spec);
    stage.steps.reached(Step::Started);
    if let (Some(_), Err(e)) = (run.group, child.group()) {
        remark(&format!("the run goes on without a control group of its own: {}", e.line()));
    }
    if stage.sshd.is_none() {
        remark(
            "no sshd process was found above this run: a connection that ends is seen on the streams alone",
        );
    }
    let mut tree = Tree::new(child.pid());
    let first = watch(stage, run, &child, &signals, &deadline, &remark);
    finish(run, &mut tree, first)
}

/// Why the watch was over.
enum Over {
    Ended { gone: Option<Gone> },
    Gone(Gone),
    Deadline,
    Fault(String),
}

fn watch(
    stage: &Stage<'_>,
    run: &Run<'_>,
    child: &Child,
    signals: &EndingSignals,
    deadline: &Deadline,
    remark: &impl Fn(&str),
) -> Over {
    let [_, out, err] = standard_streams();
    let streams = [out, err];
    let sshd = stage.sshd.as_ref().map(AsFd::as_fd);
    let watch = Watch { child: child.pidfd(), streams: &streams, sshd, signals, deadline };
    let mut silence = Silence::of(stage.peer.connection);
    let mut output = Output::of(run.on_disconnect, &streams);
    let mut heed = true;
    loop {
        let quiet = silence.connection.is_none() && output.guards.is_empty();
        let tick = match (heed, quiet) {
            (true, false) => Some(silence.pause),
            (false, _) if !output.guards.is_empty() => Some(DRAIN),
            _ => None,
        };
        let gone = match watch.next(heed, tick) {
            Err(e) => return Over::Fault(e.line()),
            Ok(Event::ChildEnded { gone }) => return Over::Ended { gone },
            Ok(Event::Deadline) => return Over::Deadline,
            Ok(Event::PeerGone(g)) => g,
            Ok(Event::Tick) if !heed => {
                output.drain();
                continue;
            }
            Ok(Event::Tick) if silence.too_long(since_boot()) => Gone::Silence,
            Ok(Event::Tick) if output.stalled(since_boot()) => Gone::Stream,
            Ok(Event::Tick) => continue,
        };
        match (gone, run.on_disconnect) {
            (Gone::Signal(_), _) | (_, OnDisconnect::End) => return Over::Gone(gone),
            (_, OnDisconnect::Finish) => {
                remark(&format!("the peer went away ({}); the run goes on to its end", seen(gone)));
                heed = false;
            }
        }
    }
}

fn seen(gone: Gone) -> String {
    match gone {
        Gone::Stream => "nobody reads its output".to_owned(),
        Gone::Sshd => "the sshd process of the connection ended".to_owned(),
        Gone::Silence => format!("no answer on the connection for {} s", SILENCE.as_secs()),
        Gone::Signal(n) => format!("signal {}", signals::name(n)),
    }
}

/// Ends what has to be ended, and sums up.
fn finish(run: &Run<'_>, tree: &mut Tree, over: Over) -> Summary {
    let mark = (MARK, run.id.as_str());
    let mut s = Summary::ok();
    let ended_by_us = match over {
        Over::Ended { gone } => {
            s.stragglers = tree.stragglers(run.group);
            let heeded =
                gone.filter(|g| matches!(g, Gone::Signal(_)) || run.on_disconnect == OnDisconnect::End);
            s.verdict = match (tree.leader_exit(), heeded) {
                (Some(Exit::Code(0)), _) => Verdict::Ok,
                (_, Some(g)) => {
                    s.note = seen(g);
                    Verdict::PeerGone
                }
                _ => Verdict::Failed,
            };
            // A run that is ended for its peer is ended whole, also when its bash was dead first.
            s.kept = s.stragglers > 0 && run.keep_stragglers && s.verdict != Verdict::PeerGone;
            if s.stragglers > 0 && !s.kept {
                s.survivors = tree.end(run.group, mark, GRACE, LIMIT).survivors;
            }
            s.exit = tree.leader_exit();
            return s;
        }
        Over::Gone(g) => {
            s.note = seen(g);
            Verdict::PeerGone
        }
        Over::Deadline => {
            s.note = format!("{} s", run.deadline.as_secs());
            Verdict::Deadline
        }
        Over::Fault(why) => {
            s.note = why;
            Verdict::Fault
        }
    };
    let ended = tree.end(run.group, mark, GRACE, LIMIT);
    s.verdict = ended_by_us;
    s.survivors = ended.survivors;
    s.exit = tree.leader_exit();
    s
}

/// The output of a run that may outlive its peer. Without a reading end of ours, a script that
/// prints after the peer went would die of SIGPIPE; with one, somebody has to empty the pipe.
struct Output {
    guards: Vec<Guard>,
    queued: u64,
    since: Option<Duration>,
}

impl Output {
    fn of(on_disconnect: OnDisconnect, streams: &[BorrowedFd<'_>]) -> Self {
        let guards = match on_disconnect {
            OnDisconnect::Finish => streams.iter().filter_map(|s| Guard::on(*s)).collect(),
            OnDisconnect::End => Vec::new(),
        };
        Self { guards, queued: 0, since: None }
    }

    /// Whether nobody has taken anything of what is there for too long. Our own reading end hides
    /// from poll that the other one is closed, so this is how it shows on a connection that lives.
    fn stalled(&mut self, now: Duration) -> bool {
        let queued = self.guards.iter().map(Guard::queued).sum();
        if queued == 0 || queued != self.queued {
            (self.queued, self.since) = (queued, None);
            return false;
        }
        now.saturating_sub(*self.since.get_or_insert(now)) >= SILENCE
    }

    fn drain(&self) {
        self.guards.iter().for_each(Guard::drain);
    }
}

/// How long the connection has gone without an answer.
struct Silence {
    connection: Option<Connection>,
    since: Option<Duration>,
    /// Until the next look. The table of a host with very many connections takes long to read.
    pause: Duration,
}

impl Silence {
    fn of(connection: Option<Connection>) -> Self {
        // A connection that the kernel does not show says nothing, now or later.
        Self { connection: connection.filter(|c| c.unanswered().is_some()), since: None, pause: TICK }
    }

    fn too_long(&mut self, now: Duration) -> bool {
        let unanswered = self.connection.and_then(|c| c.unanswered());
        self.pause = ((since_boot().saturating_sub(now)) * 50).clamp(TICK, 5 * TICK);
        self.count(unanswered.map(u64::from), now)
    }

    fn count(&mut self, unanswered: Option<u64>, now: Duration) -> bool {
        match unanswered {
            Some(n) if n > 0 => now.saturating_sub(*self.since.get_or_insert(now)) >= SILENCE,
            _ => {
                self.since = None;
                false
            }
        }
    }
}

/// The process to start: bash on the sealed file, with an environment built from nothing. Its limits
/// are the shim's own, which took root's when it began.
fn spec(run: &Run<'_>) -> Result<Spec, Refusal> {
    let c = |text: &[u8]| {
        CString::new(text)
            .map_err(|_| Refusal::new(Reason::InternalFault, "a NUL byte where there can be none"))
    };
    let file = run.script.file().as_fd().try_clone_to_owned().map_err(|e| {
        Refusal::new(Reason::InternalFault, format!("duplicate the script's descriptor: {e}"))
    })?;
    let mut env = vec![
        c(format!("PATH={}", paths::SCRIPT_PATH).as_bytes())?,
        c(b"HOME=/root")?,
        c(b"LANG=C.UTF-8")?,
        c(format!("{MARK}={}", run.id.as_str()).as_bytes())?,
        c(format!("MUSTER_PHASE={}", run.phase).as_bytes())?,
    ];
    if let Some(p) = run.profile {
        env.push(c(format!("MUSTER_PROFILE={p}").as_bytes())?);
    }
    for (name, value) in run.extra.into_iter().flatten() {
        env.push(c(format!("{name}={value}").as_bytes())?);
    }
    for (name, value) in run.params {
        env.push(c(&[name.as_bytes(), b"=", value].concat())?);
    }
    Ok(Spec {
        program: c(paths::BASH.as_bytes())?,
        argv: vec![c(b"bash")?, c(format!("/proc/self/fd/{SCRIPT_FD}").as_bytes())?],
        env,
        cwd: c(b"/")?,
        umask: 0o077,
        stdin: Stream::Null,
        stdout: Stream::Inherit,
        stderr: Stream::Inherit,
        new_session: true,
        die_with_parent: true,
        pass: Some((file, SCRIPT_FD)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_counted_without_a_break() {
        let mut s = Silence::of(None);
        assert!(!s.too_long(since_boot()));
        assert_eq!((s.since, s.pause), (None, TICK));
        let mut at = |second: u64, unanswered| s.count(unanswered, Duration::from_secs(second));
        assert!(!at(100, Some(1)) && !at(107, Some(3)) && !at(114, Some(4)));
        assert!(at(115, Some(4)));
        // One answer, or a connection that the kernel does not show any more, begins anew.
        assert!(!at(116, Some(0)) && !at(117, Some(1)) && !at(131, Some(2)));
        assert!(!at(132, None) && !at(133, Some(1)) && !at(147, Some(1)));
        assert!(at(148, Some(1)));
    }
}
