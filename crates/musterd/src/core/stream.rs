//! A connection of the edge's, with a time by which it must have said or taken what it has to.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Reads and writes that end by a moment.
pub(crate) struct Timed<'s> {
    stream: &'s UnixStream,
    /// `None`: as long as it takes.
    until: Option<Instant>,
}

/// What the other end sends, in as few reads as it comes in: a short call is one.
pub(crate) type Incoming<'s> = BufReader<Timed<'s>>;

/// More than a short call.
const BUFFER: usize = 4096;

impl<'s> Timed<'s> {
    /// So long from now.
    pub(crate) fn new(stream: &'s UnixStream, longest: Duration) -> Self {
        Self { stream, until: Some(Instant::now() + longest) }
    }

    /// The same, to be read with a buffer.
    pub(crate) fn incoming(stream: &'s UnixStream, longest: Duration) -> Incoming<'s> {
        BufReader::with_capacity(BUFFER, Self::new(stream, longest))
    }

    /// Another time, from now; `None`: as long as it takes.
    pub(crate) fn reset(&mut self, longest: Option<Duration>) {
        self.until = longest.map(|longest| Instant::now() + longest);
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let Some(until) = self.until else { return Ok(None) };
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        (&mut &*self.stream).read(buf)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        (&mut &*self.stream).write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Waits until the other end has closed, so long at most. What it still sends is thrown away, so that it is not told of a reset
/// instead of the answer.
pub(crate) fn wait_for_close(stream: &UnixStream, longest: Duration) {
    let mut from = Timed::new(stream, longest);
    let mut waste = [0; 4096];
    while matches!(from.read(&mut waste), Ok(n) if n > 0) {}
}
