//! A connection of HTTP/1.1 whose heads are read along: see [`super::heads`].

use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::heads::{Heads, Taken};

/// Of heads that came and were not shown yet, the most that is kept: more than hyper's buffer has room for. It holds where a client manages
/// to make a body look like heads, too.
const MOST: usize = 4096;

/// What was told of heads that hyper has not shown yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<VecDeque<Taken>>>);

impl Told {
    /// Of the next request. There is a word for each head that was read, or none is known any more.
    pub(crate) fn next(&self) -> Taken {
        // Both ends do one whole step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Taken::Lost)
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    heads: Heads,
    told: Told,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S) -> (Self, Told) {
        let told = Told::default();
        (Self { stream, heads: Heads::default(), told: told.clone() }, told)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let polled = Pin::new(&mut this.stream).poll_read(cx, buf);
        let new = buf.filled().get(before..).unwrap_or_default();
        let (told, mut over) = (&this.told, false);
        this.heads.see(new, |taken| {
            let mut told = told.0.lock().unwrap_or_else(PoisonError::into_inner);
            over |= told.len() >= MOST;
            if !over {
                told.push_back(taken);
            }
        });
        if over {
            // Later words would be taken for those of other requests.
            this.heads = Heads::lost();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}
