//! What comes of a command: its output, how it ended, or why it has no outcome.

use core::fmt;
use core::time::Duration;

use crate::error::{Fault, HopRef, Retry, Stage};

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
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    pub(crate) fn of(data: &[u8], limit: usize) -> Self {
        let mut captured = Self::new(limit);
        captured.push(data);
        captured
    }

    pub(crate) fn push(&mut self, data: &[u8]) {
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

const MAX_SESSIONS: &str = "look at sshd's MaxSessions";

impl ExecFault {
    /// What to do, where there is something to say. Ours alone: a peer's words never stand in it.
    pub fn advice(&self) -> Option<&'static str> {
        matches!(self, Self::ChannelRefused { .. }).then_some(MAX_SESSIONS)
    }
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
    pub(crate) fn new(hop: HopRef, fault: ExecFault) -> Self {
        Self { inner: Box::new(ExecInner { hop, fault, sent: false, partial: None }) }
    }

    /// The command had been sent: it may have run.
    pub(crate) fn after_sending(hop: HopRef, fault: ExecFault) -> Self {
        let mut error = Self::new(hop, fault);
        error.inner.sent = true;
        error
    }

    /// With what a command had said that was given up.
    pub(crate) fn with_partial(mut self, stdout: Captured, stderr: Captured) -> Self {
        self.inner.partial = Some((stdout, stderr));
        self
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
                write!(f, "opens no channel: {why}; {MAX_SESSIONS}")
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
