//! One command on a host: input, bounded output, and how it ended.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf};
use tokio::time::{Instant, sleep_until, timeout};

use crate::certificate::printable;
use crate::error::{Fault, HopRef, Retry, Stage};
use crate::link::Link;
use crate::tunnel::open_abandonable;

/// Which of a command's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How much of each output is kept. The rest is read and dropped, so that the command goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of standard output.
    pub stdout: usize,
    /// Bytes of standard error.
    pub stderr: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { stdout: 1 << 20, stderr: 256 << 10 }
    }
}

/// Of an output that was cut, this much of its end is kept beside its beginning.
const TAIL: usize = 4096;

/// What was kept of an output.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The beginning, up to the limit.
    pub bytes: Vec<u8>,
    /// The last bytes (4 KiB at most) of what came after that.
    pub tail: Vec<u8>,
    /// How much there was in all.
    pub total: u64,
    limit: usize,
}

impl fmt::Debug for Captured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Output may hold secrets: sizes only.
        write!(f, "Captured({} of {} bytes)", self.bytes.len(), self.total)
    }
}

impl Captured {
    fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub(crate) fn of(data: &[u8], limit: usize) -> Self {
        let mut captured = Self::new(limit);
        captured.push(data);
        captured
    }

    fn push(&mut self, data: &[u8]) {
        self.total = self.total.saturating_add(data.len() as u64);
        let room = self.limit.saturating_sub(self.bytes.len()).min(data.len());
        let (kept, rest) = data.split_at(room);
        self.bytes.extend_from_slice(kept);
        if rest.is_empty() {
            return;
        }
        let last = rest.len().saturating_sub(TAIL);
        self.tail.extend_from_slice(rest.get(last..).unwrap_or_default());
        let over = self.tail.len().saturating_sub(TAIL);
        self.tail.drain(..over);
    }

    /// Whether something is missing.
    pub fn is_cut(&self) -> bool {
        self.total > self.bytes.len() as u64
    }

    /// The beginning as text, with what is not UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The last `n` bytes that are known, for an error message.
    pub fn last(&self, n: usize) -> String {
        let whole = if self.tail.is_empty() { &self.bytes } else { &self.tail };
        let from = whole.len().saturating_sub(n);
        String::from_utf8_lossy(whole.get(from..).unwrap_or_default()).into_owned()
    }
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// With this code.
    Exited(u32),
    /// By this signal (without `SIG`).
    Signaled {
        /// `TERM`, `KILL`, …
        name: String,
        /// Whether it left a core.
        core_dumped: bool,
    },
    /// Nobody knows: the connection or the channel went away first. The command may have done all,
    /// some or none of its work, and may still be running.
    ConnectionLost {
        /// How.
        why: String,
        /// The hop that went away.
        hop: HopRef,
    },
}

/// What came of a command that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecOutcome {
    /// How it ended.
    pub status: Status,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// Whether both outputs were read to their end. Not so when a child of the command kept them
    /// open after it, or the connection was lost.
    pub output_complete: bool,
    /// From the request to the end.
    pub took: Duration,
}

/// Why there is no outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecFault {
    /// The host opens no further channel.
    ChannelRefused {
        /// Its words.
        why: String,
    },
    /// The host runs no command for this login.
    RequestRefused,
    /// A step took longer than it may. In [`Stage::Exec`] the command had been started: its outcome
    /// is unknown, its channel is closed, and what it had said is in the error.
    Deadline {
        /// Which.
        stage: Stage,
        /// How long it was given.
        after: Duration,
    },
    /// The connection was gone before the host said that the command was started.
    ConnectionLost {
        /// How.
        why: String,
    },
}

/// A command without an outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecError {
    inner: Box<ExecInner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ExecInner {
    hop: HopRef,
    fault: ExecFault,
    /// The command had been sent to the host.
    sent: bool,
    partial: Option<(Captured, Captured)>,
}

impl ExecError {
    fn new(hop: HopRef, fault: ExecFault) -> Self {
        Self { inner: Box::new(ExecInner { hop, fault, sent: false, partial: None }) }
    }

    /// Which hop.
    pub fn hop(&self) -> &HopRef {
        &self.inner.hop
    }

    /// Why.
    pub fn why(&self) -> &ExecFault {
        &self.inner.fault
    }

    /// What a command that ran into its deadline had said: standard output and error.
    pub fn partial(&self) -> Option<(&Captured, &Captured)> {
        self.inner.partial.as_ref().map(|(o, e)| (o, e))
    }

    /// Whether the command may have run: it had been sent, and the host did not refuse it.
    pub fn may_have_run(&self) -> bool {
        self.inner.sent
    }

    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self.inner.fault {
            ExecFault::ChannelRefused { .. } => "channel-refused",
            ExecFault::RequestRefused => "request-refused",
            ExecFault::Deadline { .. } => "deadline",
            ExecFault::ConnectionLost { .. } => "connection-lost",
        }
    }

    /// Whose move it is.
    pub fn fault(&self) -> Fault {
        match self.inner.fault {
            ExecFault::ChannelRefused { .. } | ExecFault::RequestRefused => Fault::Host,
            ExecFault::Deadline { stage: Stage::Exec, .. } => Fault::Host,
            ExecFault::Deadline { .. } | ExecFault::ConnectionLost { .. } => Fault::Network,
        }
    }

    /// Whether the same thing, done again, may end otherwise. A command that may have run is for somebody
    /// to look at first.
    pub fn retry(&self) -> Retry {
        match self.inner.fault {
            ExecFault::RequestRefused => Retry::Useless,
            _ if self.inner.sent => Retry::Useless,
            _ => Retry::Helps,
        }
    }
}

impl fmt::Display for ExecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.inner.hop)?;
        match &self.inner.fault {
            ExecFault::ChannelRefused { why } => {
                write!(f, "opens no channel: {why}; look at sshd's MaxSessions")
            }
            ExecFault::RequestRefused => f.write_str("does not run a command for this login"),
            ExecFault::Deadline { stage: Stage::Exec, after } => write!(
                f,
                "deadline: the command did not end within {} s and its channel was closed; its outcome is unknown",
                after.as_secs_f32()
            ),
            ExecFault::Deadline { stage, after } => {
                write!(f, "deadline: {stage} took longer than {} s", after.as_secs_f32())
            }
            ExecFault::ConnectionLost { why } => {
                let when = if self.inner.sent { "while" } else { "before" };
                write!(f, "connection lost {when} the command was started: {why}")
            }
        }?;
        let unknown = self.inner.sent && self.inner.partial.is_none();
        if unknown { f.write_str("; whether it ran is unknown") } else { Ok(()) }
    }
}

impl core::error::Error for ExecError {}

/// Sees output as it comes.
pub type Watch<'a> = &'a mut (dyn FnMut(Output, &[u8]) + Send);

/// A command and how to run it.
pub struct Exec<'a> {
    pub(crate) command: &'a str,
    stdin: &'a [u8],
    limits: Limits,
    deadline: Duration,
    linger: Duration,
    watch: Option<Watch<'a>>,
}

impl fmt::Debug for Exec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exec({:?}, {} bytes of input)", self.command, self.stdin.len())
    }
}

impl<'a> Exec<'a> {
    /// `command` is one string for the login shell of the host, or for a ForceCommand to ignore.
    pub fn new(command: &'a str) -> Self {
        Self {
            command,
            stdin: &[],
            limits: Limits::default(),
            deadline: Duration::from_secs(120),
            linger: Duration::from_secs(5),
            watch: None,
        }
    }

    /// Sent whole, then closed. Not kept by this crate after it was sent.
    #[must_use]
    pub fn stdin(mut self, stdin: &'a [u8]) -> Self {
        self.stdin = stdin;
        self
    }

    /// How much output is kept.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// From the start of the command to its end. 120 s unless set.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// How long to wait for more output, or its end, after the command itself has ended: something it
    /// left behind may hold it open for ever. 5 s unless set; the deadline stands above it.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.linger = linger;
        self
    }

    /// Sees output as it comes, before any limit. Called on the task that runs the command: it must
    /// not block.
    #[must_use]
    pub fn watch(mut self, watch: Watch<'a>) -> Self {
        self.watch = Some(watch);
        self
    }
}

/// Closes a command's channel however its owner goes away.
pub(crate) struct Closer(Option<Arc<ChannelWriteHalf<Msg>>>);

impl Closer {
    pub(crate) fn new(half: &Arc<ChannelWriteHalf<Msg>>) -> Self {
        Self(Some(Arc::clone(half)))
    }

    /// The host closed it already.
    pub(crate) fn disarm(&mut self) {
        self.0 = None;
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        let Some(half) = self.0.take() else { return };
        // Outside a runtime there is no session left that could send it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let _ = half.close().await;
            });
        }
    }
}

/// A session channel, within the deadline.
pub(crate) async fn open_session(
    link: &Arc<Link>,
) -> Result<(ChannelReadHalf, ChannelWriteHalf<Msg>), ExecError> {
    let hop = || link.report.hop.clone();
    let held = Arc::clone(link);
    let open = open_abandonable(link, async move { held.handle.channel_open_session().await });
    match timeout(link.channel_deadline, open).await {
        Ok(Ok(channel)) => Ok(channel.split()),
        Ok(Err(russh::Error::ChannelOpenFailure(reason))) => {
            let said = link.shared.notes().refused.take();
            let why = said.unwrap_or_else(|| reason.description().to_owned());
            Err(ExecError::new(hop(), ExecFault::ChannelRefused { why: printable(&why) }))
        }
        Ok(Err(_)) => {
            let (hop, why) = link.blame();
            Err(ExecError::new(hop, ExecFault::ConnectionLost { why }))
        }
        Err(_) => {
            let after = link.channel_deadline;
            Err(ExecError::new(hop(), ExecFault::Deadline { stage: Stage::Channel, after }))
        }
    }
}

/// Waits for the host's answer to a request on a channel: `Some(true)` = yes, `None` = gone.
pub(crate) async fn answer(reader: &mut ChannelReadHalf) -> Option<bool> {
    loop {
        match reader.wait().await? {
            ChannelMsg::Success => return Some(true),
            ChannelMsg::Failure => return Some(false),
            ChannelMsg::Close => return None,
            _ => {}
        }
    }
}

pub(crate) async fn run(link: &Arc<Link>, exec: Exec<'_>) -> Result<ExecOutcome, ExecError> {
    let (mut reader, writer) = open_session(link).await?;
    let writer = Arc::new(writer);
    let mut closer = Closer::new(&writer);
    let started = Instant::now();
    let asked = async {
        writer.exec(true, exec.command).await.ok()?;
        answer(&mut reader).await
    };
    match timeout(link.channel_deadline, asked).await {
        Ok(Some(true)) => {}
        Ok(Some(false)) => return Err(ExecError::new(link.report.hop.clone(), ExecFault::RequestRefused)),
        Ok(None) => {
            let (hop, why) = link.blame();
            let mut error = ExecError::new(hop, ExecFault::ConnectionLost { why });
            error.inner.sent = true;
            return Err(error);
        }
        Err(_) => {
            let fault = ExecFault::Deadline { stage: Stage::Channel, after: link.channel_deadline };
            let mut error = ExecError::new(link.report.hop.clone(), fault);
            error.inner.sent = true;
            return Err(error);
        }
    }
    let mut pass = Pass::new(exec.limits, exec.watch);
    let ended = pass.drive(&mut reader, &writer, exec.stdin, started + exec.deadline, exec.linger).await;
    let took = started.elapsed();
    match ended {
        Ended::Closed => closer.disarm(),
        Ended::Lost | Ended::Lingered => {}
        Ended::Deadline => {
            let mut error = ExecError::new(
                link.report.hop.clone(),
                ExecFault::Deadline { stage: Stage::Exec, after: exec.deadline },
            );
            error.inner.sent = true;
            error.inner.partial = Some((pass.stdout, pass.stderr));
            return Err(error);
        }
    }
    let output_complete = matches!(ended, Ended::Closed) || pass.eof;
    let status = pass.status.unwrap_or_else(|| {
        let (hop, why) = if matches!(ended, Ended::Closed) && link.is_alive() {
            (
                link.report.hop.clone(),
                "the host closed the channel without saying how the command ended".to_owned(),
            )
        } else {
            link.blame()
        };
        Status::ConnectionLost { why, hop }
    });
    Ok(ExecOutcome { status, stdout: pass.stdout, stderr: pass.stderr, output_complete, took })
}

/// How the exchange with a started command ended.
pub(crate) enum Ended {
    /// The host closed the channel.
    Closed,
    /// The connection is gone.
    Lost,
    /// The command ended, its output did not.
    Lingered,
    /// Too long.
    Deadline,
}

/// Input and output of one command.
pub(crate) struct Pass<'a> {
    pub(crate) stdout: Captured,
    pub(crate) stderr: Captured,
    pub(crate) status: Option<Status>,
    pub(crate) eof: bool,
    watch: Option<Watch<'a>>,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(limits: Limits, watch: Option<Watch<'a>>) -> Self {
        Self {
            stdout: Captured::new(limits.stdout),
            stderr: Captured::new(limits.stderr),
            status: None,
            eof: false,
            watch,
        }
    }

    /// Feeds and reads at the same time: a command may fill its output before it reads its input.
    pub(crate) async fn drive(
        &mut self,
        reader: &mut ChannelReadHalf,
        writer: &ChannelWriteHalf<Msg>,
        stdin: &[u8],
        deadline: Instant,
        linger: Duration,
    ) -> Ended {
        let feed = async {
            for chunk in stdin.chunks(32 * 1024) {
                if writer.data_bytes(chunk.to_vec()).await.is_err() {
                    return;
                }
            }
            let _ = writer.eof().await;
        };
        tokio::pin!(feed);
        let mut fed = false;
        let mut patience = deadline;
        loop {
            tokio::select! {
                biased;
                message = reader.wait() => match message {
                    None => return Ended::Lost,
                    Some(ChannelMsg::Close) => return Ended::Closed,
                    Some(message) => {
                        self.take(message);
                        if self.status.is_some() {
                            patience = deadline.min(Instant::now() + linger);
                        }
                    }
                },
                () = &mut feed, if !fed => fed = true,
                () = sleep_until(patience) => {
                    return if self.status.is_some() { Ended::Lingered } else { Ended::Deadline };
                }
            }
        }
    }

    fn take(&mut self, message: ChannelMsg) {
        match message {
            ChannelMsg::Data { data } => {
                self.stdout.push(&data);
                if let Some(watch) = &mut self.watch {
                    watch(Output::Stdout, &data);
                }
            }
            ChannelMsg::ExtendedData { data, ext: 1 } => {
                self.stderr.push(&data);
                if let Some(watch) = &mut self.watch {
                    watch(Output::Stderr, &data);
                }
            }
            ChannelMsg::Eof => self.eof = true,
            ChannelMsg::ExitStatus { exit_status } => self.status = Some(Status::Exited(exit_status)),
            ChannelMsg::ExitSignal { signal_name, core_dumped, .. } => {
                let name = match signal_name {
                    russh::Sig::Custom(name) => printable(&name),
                    known => format!("{known:?}"),
                };
                self.status = Some(Status::Signaled { name, core_dumped });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_keeps_the_beginning_the_end_and_the_count() {
        let mut c = Captured::new(10);
        c.push(b"01234567");
        assert!(!c.is_cut());
        c.push(b"89abc");
        assert!(c.is_cut());
        assert_eq!(c.bytes, b"0123456789");
        assert_eq!(c.tail, b"abc");
        for _ in 0..100 {
            c.push(&[b'x'; 1000]);
        }
        c.push(b"end");
        assert_eq!(c.total, 13 + 100_000 + 3);
        assert_eq!(c.tail.len(), TAIL);
        assert_eq!(c.last(4), "xend");
    }
}
