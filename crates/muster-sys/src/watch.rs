//! Waiting for the first of: the child ends, the peer goes away, the deadline passes, a signal.

use crate::SysError;
use crate::signals::EndingSignals;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::time::Duration;

/// How the peer was seen to be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Nobody reads our standard output or error any more.
    Stream,
    /// The sshd process of the connection ended.
    Sshd,
    /// The kernel has repeated itself to the peer for too long without an answer.
    Silence,
    /// We were asked to end by this signal.
    Signal(i32),
}

/// What happened first. When several happened at once, the first in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The child ended; `gone` says whether the peer was gone by then as well.
    ChildEnded {
        /// The peer, when it was gone already.
        gone: Option<Gone>,
    },
    /// The peer went away.
    PeerGone(Gone),
    /// The deadline passed.
    Deadline,
    /// Nothing happened for as long as was asked.
    Tick,
}

/// A deadline that counts time asleep too (timerfd_create(2), `CLOCK_BOOTTIME`).
#[derive(Debug)]
pub struct Deadline {
    fd: OwnedFd,
}

impl Deadline {
    /// Starts now and passes after `after` (at least one nanosecond).
    pub fn after(after: Duration) -> Result<Self, SysError> {
        let err = |e: Errno| SysError::new("set a deadline", e);
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let fd = rustix::time::timerfd_create(TimerfdClockId::Boottime, flags).map_err(err)?;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let spec = Itimerspec { it_interval: zero, it_value: timespec(after.max(Duration::from_nanos(1))) };
        rustix::time::timerfd_settime(&fd, TimerfdTimerFlags::empty(), &spec).map_err(err)?;
        Ok(Self { fd })
    }
}

impl AsFd for Deadline {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn timespec(d: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(d.as_secs()).unwrap_or(i64::MAX), tv_nsec: d.subsec_nanos().into() }
}

/// What is watched beside the child.
#[derive(Debug)]
pub struct Watch<'a> {
    /// Readable when the child has ended.
    pub child: BorrowedFd<'a>,
    /// Streams whose other end tells whether the peer is there.
    pub streams: &'a [BorrowedFd<'a>],
    /// The pidfd of the connection's sshd.
    pub sshd: Option<BorrowedFd<'a>>,
    /// Signals that ask for the end.
    pub signals: &'a EndingSignals,
    /// When it has to be over.
    pub deadline: &'a Deadline,
}

impl Watch<'_> {
    /// Waits for the first event, at most `tick` where one is given. With `heed_peer` off, the
    /// peer's going is not looked at.
    pub fn next(&self, heed_peer: bool, tick: Option<Duration>) -> Result<Event, SysError> {
        let tick = tick.map(timespec);
        loop {
            if let Some(e) = self.look(heed_peer, tick.as_ref())? {
                return Ok(e);
            }
        }
    }

    fn look(&self, heed_peer: bool, timeout: Option<&Timespec>) -> Result<Option<Event>, SysError> {
        let mut fds = vec![
            PollFd::from_borrowed_fd(self.child, PollFlags::IN),
            PollFd::from_borrowed_fd(self.deadline.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        if heed_peer {
            // No events are asked for: only ERR and HUP, which come unasked (poll(2)).
            fds.extend(self.streams.iter().map(|s| PollFd::from_borrowed_fd(*s, PollFlags::empty())));
            fds.extend(self.sshd.iter().map(|s| PollFd::from_borrowed_fd(*s, PollFlags::IN)));
        }
        match poll(&mut fds, timeout) {
            Err(Errno::INTR) => return Ok(None),
            Err(e) => return Err(SysError::new("wait for the run", e)),
            Ok(0) => return Ok(Some(Event::Tick)),
            Ok(_) => {}
        }
        let hit = |i: usize, what: PollFlags| fds.get(i).is_some_and(|f| f.revents().intersects(what));
        let streams = self.streams.len();
        let gone = if hit(2, PollFlags::IN) {
            self.signals.take().map(Gone::Signal)
        } else if (3..3 + streams).any(|i| hit(i, PollFlags::ERR | PollFlags::HUP)) {
            Some(Gone::Stream)
        } else if hit(3 + streams, PollFlags::IN) {
            Some(Gone::Sshd)
        } else {
            None
        };
        Ok(if hit(0, PollFlags::IN) {
            Some(Event::ChildEnded { gone })
        } else if let Some(g) = gone {
            Some(Event::PeerGone(g))
        } else if hit(1, PollFlags::IN) {
            Some(Event::Deadline)
        } else {
            None
        })
    }
}

/// Why reading to the end did not work.
#[derive(Debug)]
pub enum ReadFault {
    /// More than the bound.
    TooLong,
    /// Not at its end in time.
    TooSlow,
    /// The system said no.
    Io(SysError),
}

/// Reads a descriptor to its end: at most `max` bytes, the first within `first`, and the end within
/// `whole` of the first.
#[derive(Debug)]
pub struct Reading<'a> {
    fd: BorrowedFd<'a>,
    max: usize,
    whole: Duration,
    /// By the time since boot.
    until: Duration,
    got: Vec<u8>,
    over: Option<Result<(), ReadFault>>,
}

/// Bytes that one read asks for. A pipe holds no more by default.
const PIECE: usize = 64 * 1024;

impl<'a> Reading<'a> {
    /// Begins; the clock runs from now on.
    pub fn new(fd: BorrowedFd<'a>, max: usize, first: Duration, whole: Duration) -> Self {
        Self { fd, max, whole, until: crate::clock::since_boot() + first, got: Vec::new(), over: None }
    }

    /// Takes what is there and waits for nothing. Whether that was all of it; what is wrong with it
    /// is told by [`Reading::finish`].
    pub fn is_whole(&mut self) -> bool {
        while self.over.is_none() {
            match self.step(Duration::ZERO) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(fault) => self.over = Some(Err(fault)),
            }
        }
        true
    }

    /// Waits for the rest of it.
    pub fn finish(mut self) -> Result<Vec<u8>, ReadFault> {
        while self.over.is_none() {
            let left = self.until.saturating_sub(crate::clock::since_boot());
            if left.is_zero() {
                return Err(ReadFault::TooSlow);
            }
            self.step(left)?;
        }
        match self.over {
            Some(Err(fault)) => Err(fault),
            _ => Ok(self.got),
        }
    }

    /// One piece; `false` when nothing came in time.
    fn step(&mut self, patience: Duration) -> Result<bool, ReadFault> {
        let io = |e: Errno| ReadFault::Io(SysError::new("read standard input", e));
        let mut fds = [PollFd::from_borrowed_fd(self.fd, PollFlags::IN)];
        match poll(&mut fds, Some(&timespec(patience))) {
            Err(Errno::INTR) => return Ok(true),
            Err(e) => return Err(io(e)),
            Ok(0) => return Ok(false),
            Ok(_) => {}
        }
        if self.got.capacity() - self.got.len() < PIECE / 2 {
            self.got.reserve(PIECE);
        }
        match rustix::io::read(self.fd, rustix::buffer::spare_capacity(&mut self.got)) {
            Ok(0) => self.over = Some(Ok(())),
            Ok(n) if self.got.len() == n => self.until = crate::clock::since_boot() + self.whole,
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(e) => return Err(io(e)),
        }
        if self.got.len() > self.max { Err(ReadFault::TooLong) } else { Ok(true) }
    }
}

/// A reading end of our own on a pipe that somebody else reads: while it is open, whoever writes
/// to the pipe gets neither SIGPIPE nor EPIPE when the other reader goes (pipe(7)).
#[derive(Debug)]
pub struct Guard {
    fd: OwnedFd,
}

impl Guard {
    /// Opens one on the pipe that `fd` writes to; `None` when it is no pipe.
    pub fn on(fd: BorrowedFd<'_>) -> Option<Self> {
        let st = rustix::fs::fstat(fd).ok()?;
        if rustix::fs::FileType::from_raw_mode(st.st_mode) != rustix::fs::FileType::Fifo {
            return None;
        }
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        Some(Self { fd: rustix::fs::open(path, flags, rustix::fs::Mode::empty()).ok()? })
    }

    /// Bytes that are in the pipe now.
    pub fn queued(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.fd).unwrap_or(0)
    }

    /// Reads what is there and throws it away.
    pub fn drain(&self) {
        let mut buf = [0u8; 4096];
        while matches!(rustix::io::read(&self.fd, &mut buf), Ok(n) if n > 0) {}
    }
}

/// Writes one line, of less than a pipe takes whole (`PIPE_BUF`, 4096 bytes, pipe(7)), once there
/// is room for it; an error when there is none within `patience`. A stream that nobody empties
/// would else hold up whoever writes.
pub fn write_soon(fd: BorrowedFd<'_>, line: &[u8], patience: Duration) -> Result<(), SysError> {
    let err = |e: Errno| SysError::new("write a line", e);
    let until = crate::clock::since_boot() + patience;
    loop {
        let left = timespec(until.saturating_sub(crate::clock::since_boot()));
        let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
        match poll(&mut fds, Some(&left)) {
            Err(Errno::INTR) => {}
            Err(e) => return Err(err(e)),
            Ok(0) => return Err(err(Errno::TIMEDOUT)),
            Ok(_) => break,
        }
    }
    rustix::io::retry_on_intr(|| rustix::io::write(fd, line)).map(|_| ()).map_err(err)
}

/// Standard input, output and error of this process, as things to poll or read.
pub fn standard_streams() -> [BorrowedFd<'static>; 3] {
    // The standard library opens /dev/null on those of the three that were closed at start.
    [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()]
}
