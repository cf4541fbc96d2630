//! The byte stream under one hop's session: a TCP connection, or a channel of the hop before.
//!
//! It does what the SSH library does not: it can be cut from outside at any time, it gives up on a
//! peer that has been silent too long even while a write is stuck, and it lets the [`Observer`] read
//! along before the library does.

use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use crate::observe::{Observer, Seen};

/// Locks, also where a thread panicked with it: the state is plain data and valid at every step.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A handshake, a banner and the answers to a hundred identities are a tenth of this. The library
/// keeps answers that nobody waits for without a bound of its own.
const BEFORE_LOGIN: usize = 1 << 20;

/// What a cut by too much talk is called.
const TALKS: &str = "the host sent more than 1 MiB before it let us in";

struct State {
    /// Why it was cut.
    cut: Option<&'static str>,
    last_heard: Instant,
    silence: Option<Duration>,
    /// What may still arrive before the login.
    budget: Option<usize>,
    readers: Option<Waker>,
    writers: Option<Waker>,
}

/// The handle by which a stream is watched and cut.
pub(crate) struct Control {
    state: Mutex<State>,
    seen: Mutex<Seen>,
}

impl Control {
    pub(crate) fn new() -> Arc<Self> {
        let state = State {
            cut: None,
            last_heard: Instant::now(),
            silence: None,
            budget: Some(BEFORE_LOGIN),
            readers: None,
            writers: None,
        };
        Arc::new(Self { state: Mutex::new(state), seen: Mutex::new(Seen::default()) })
    }

    /// Ends the stream for both sides, now.
    pub(crate) fn cut(&self, why: &'static str) {
        let (reader, writer) = {
            let mut state = lock(&self.state);
            state.cut.get_or_insert(why);
            (state.readers.take(), state.writers.take())
        };
        reader.into_iter().chain(writer).for_each(Waker::wake);
    }

    /// Logged in: from now on a peer may say as much as it likes, and is given up when it says
    /// nothing for this long.
    pub(crate) fn logged_in(&self, limit: Duration) {
        let mut state = lock(&self.state);
        state.budget = None;
        state.silence = Some(limit);
        state.last_heard = Instant::now();
        // The reader is asleep without a timer.
        if let Some(waker) = state.readers.take() {
            waker.wake();
        }
    }

    pub(crate) fn why_cut(&self) -> Option<&'static str> {
        lock(&self.state).cut
    }

    /// How long the peer has been silent.
    pub(crate) fn silent_for(&self) -> Duration {
        lock(&self.state).last_heard.elapsed()
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

/// What a cut by silence is called.
pub(crate) const SILENT: &str = "the host fell silent and did not answer keepalives";

/// A stream under control.
pub(crate) struct Guarded<T> {
    io: T,
    control: Arc<Control>,
    observer: Option<Observer>,
    timer: Option<Pin<Box<Sleep>>>,
    /// Since when each side has been waited for.
    reading: Option<Instant>,
    writing: Option<Instant>,
}

#[derive(Clone, Copy)]
enum Side {
    Read,
    Write,
}

impl<T> Guarded<T> {
    pub(crate) fn new(io: T, control: Arc<Control>) -> Self {
        Self { io, control, observer: Some(Observer::new()), timer: None, reading: None, writing: None }
    }

    fn aborted(why: &'static str) -> io::Error {
        io::Error::new(io::ErrorKind::ConnectionAborted, why)
    }

    /// Registers for a cut.
    fn open(&mut self, cx: &mut Context<'_>, side: Side) -> io::Result<()> {
        let mut state = lock(&self.control.state);
        if let Some(why) = state.cut {
            return Err(Self::aborted(why));
        }
        let slot = match side {
            Side::Read => &mut state.readers,
            Side::Write => &mut state.writers,
        };
        *slot = Some(cx.waker().clone());
        Ok(())
    }

    /// Nothing moves: gives the peer up when it has been silent *and waited for* long enough. A
    /// session that was itself busy elsewhere must not take its own absence for the peer's.
    fn patience(&mut self, cx: &mut Context<'_>, side: Side) -> io::Result<()> {
        let waiting = match side {
            Side::Read => &mut self.reading,
            Side::Write => &mut self.writing,
        };
        let since = *waiting.get_or_insert_with(Instant::now);
        let due = {
            let state = lock(&self.control.state);
            state.silence.map(|limit| state.last_heard.max(since) + limit)
        };
        let Some(due) = due else { return Ok(()) };
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
        if timer.deadline() != due {
            timer.as_mut().reset(due);
        }
        if timer.as_mut().poll(cx).is_ready() {
            self.control.cut(SILENT);
            return Err(Self::aborted(SILENT));
        }
        Ok(())
    }

    fn heard(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            self.control.seen().eof = true;
            return Ok(());
        }
        let spent = {
            let mut state = lock(&self.control.state);
            state.last_heard = Instant::now();
            match &mut state.budget {
                None => false,
                Some(left) => {
                    *left = left.saturating_sub(bytes.len());
                    *left == 0
                }
            }
        };
        if spent {
            self.control.cut(TALKS);
            return Err(Self::aborted(TALKS));
        }
        let Some(observer) = &mut self.observer else { return Ok(()) };
        let mut seen = self.control.seen();
        if let Err(cause) = observer.feed(bytes, &mut seen) {
            seen.violation = Some(cause);
            return Err(io::Error::new(io::ErrorKind::InvalidData, "refused in the handshake"));
        }
        drop(seen);
        if observer.is_over() {
            self.observer = None;
        }
        Ok(())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Guarded<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Err(e) = this.open(cx, Side::Read) {
            return Poll::Ready(Err(e));
        }
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        match Pin::new(&mut this.io).poll_read(cx, buf) {
            Poll::Ready(Ok(())) => {
                this.reading = None;
                let judged = this.heard(buf.filled().get(before..).unwrap_or_default());
                if judged.is_err() {
                    // What is refused is not handed on.
                    buf.set_filled(before);
                }
                Poll::Ready(judged)
            }
            Poll::Ready(Err(e)) => {
                this.control.seen().eof = true;
                Poll::Ready(Err(e))
            }
            Poll::Pending => match this.patience(cx, Side::Read) {
                Ok(()) => Poll::Pending,
                Err(e) => Poll::Ready(Err(e)),
            },
        }
    }
}

impl<T: AsyncWrite + Unpin> Guarded<T> {
    fn written<R>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if result.is_ready() {
            self.writing = None;
            return result;
        }
        match self.patience(cx, Side::Write) {
            Ok(()) => Poll::Pending,
            Err(e) => Poll::Ready(Err(e)),
        }
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Guarded<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if let Err(e) = this.open(cx, Side::Write) {
            return Poll::Ready(Err(e));
        }
        let result = Pin::new(&mut this.io).poll_write(cx, buf);
        this.written(cx, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Err(e) = this.open(cx, Side::Write) {
            return Poll::Ready(Err(e));
        }
        let result = Pin::new(&mut this.io).poll_flush(cx);
        this.written(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A cut stream has nothing to finish: dropping it closes it.
        if self.control.why_cut().is_some() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A server's side of a handshake that is over, for the observer.
    const OVER: &[u8] = b"SSH-2.0-x\r\n\x00\x00\x00\x0c\x0a\x15aaaaaaaaaa";

    #[tokio::test]
    async fn st20_talk_without_a_login_is_bounded() {
        for logged_in in [false, true] {
            let (near, mut far) = tokio::io::duplex(1 << 16);
            let control = Control::new();
            let mut guarded = Guarded::new(near, Arc::clone(&control));
            let talk = tokio::spawn(async move {
                far.write_all(OVER).await?;
                for _ in 0..(4 << 20) / 4096 {
                    far.write_all(&[0; 4096]).await?;
                }
                Ok::<_, io::Error>(())
            });
            if logged_in {
                control.logged_in(Duration::from_secs(5));
            }
            let mut sink = Vec::new();
            let result = guarded.read_to_end(&mut sink).await;
            assert_eq!(result.is_ok(), logged_in, "{result:?}");
            if !logged_in {
                assert_eq!(control.why_cut(), Some(TALKS));
                assert!(sink.len() <= BEFORE_LOGIN);
            }
            drop(guarded);
            let _ = talk.await;
        }
    }

    #[tokio::test]
    async fn a_cut_ends_a_read_and_a_write_that_wait() {
        let (near, _far) = tokio::io::duplex(16);
        let control = Control::new();
        let guarded = Guarded::new(near, Arc::clone(&control));
        let (mut read, mut write) = tokio::io::split(guarded);
        let reader = tokio::spawn(async move { read.read_u8().await });
        let writer = tokio::spawn(async move { write.write_all(&[0; 64]).await });
        tokio::time::sleep(Duration::from_millis(50)).await;
        control.cut("enough");
        for error in [reader.await.unwrap().map(|_| ()).unwrap_err(), writer.await.unwrap().unwrap_err()] {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
        }
    }

    #[tokio::test]
    async fn silence_is_given_up_in_a_read_and_in_a_write() {
        for writing in [false, true] {
            let (near, _far) = tokio::io::duplex(16);
            let control = Control::new();
            let mut guarded = Guarded::new(near, Arc::clone(&control));
            control.logged_in(Duration::from_millis(200));
            let begin = std::time::Instant::now();
            let result =
                if writing { guarded.write_all(&[0; 64]).await } else { guarded.read_u8().await.map(|_| ()) };
            assert!(result.is_err());
            assert_eq!(control.why_cut(), Some(SILENT));
            assert!(begin.elapsed() >= Duration::from_millis(190), "{:?}", begin.elapsed());
        }
    }
}
