//! The body of an answer: whole, or as it comes.

use core::any::Any;
use core::convert::Infallible;
use core::fmt;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};
use std::sync::{Arc, Mutex, PoisonError};

use hyper::body::{Buf, Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

use super::conn::Busy;
use super::owed::{Owed, Waits};

/// The stream ended before its end: the client must see that, so its connection is cut.
#[derive(Debug)]
pub(crate) struct Cut;

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer was cut off")
    }
}

impl std::error::Error for Cut {}

impl From<Infallible> for Cut {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// Of a stream.
pub(crate) type Piece = Result<Data, Cut>;

/// What is held until an answer has been taken.
pub(crate) type Held = Box<dyn Any + Send>;

/// An answer on its way, until its last byte is taken or thrown away. Its connection is busy as long as it lives.
pub(crate) struct Given {
    owed: Arc<Owed>,
    /// Bytes of it that wait.
    left: AtomicUsize,
    held: Mutex<Option<Held>>,
    _busy: Busy,
}

impl Given {
    pub(crate) fn new(owed: &Arc<Owed>, busy: Busy) -> Arc<Self> {
        Arc::new(Self {
            owed: Arc::clone(owed),
            left: AtomicUsize::new(0),
            held: Mutex::default(),
            _busy: busy,
        })
    }

    /// Holds this until then.
    pub(crate) fn hold(&self, held: Held) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(held);
    }

    /// Bytes that were given, and not taken.
    pub(crate) fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Some more of the answer.
    pub(crate) fn data(self: &Arc<Self>, bytes: impl Into<Bytes>) -> Data {
        let bytes = bytes.into();
        self.left.fetch_add(bytes.len(), Ordering::Relaxed);
        Data { bytes, waits: Some(self.owed.add()), of: Arc::clone(self) }
    }
}

/// Some of an answer, wherever hyper keeps it until it is written.
pub(crate) struct Data {
    bytes: Bytes,
    /// Until the last byte is taken: hyper may keep what is empty.
    waits: Option<Waits>,
    of: Arc<Given>,
}

impl Data {
    fn took(&mut self, many: usize) {
        self.of.left.fetch_sub(many, Ordering::Relaxed);
        if let Some(waits) = &self.waits {
            waits.took(many);
        }
        if self.bytes.is_empty() {
            self.waits = None;
        }
    }
}

impl Buf for Data {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, many: usize) {
        self.bytes.advance(many);
        self.took(many);
    }

    fn copy_to_bytes(&mut self, many: usize) -> Bytes {
        let bytes = self.bytes.copy_to_bytes(many);
        self.took(many);
        bytes
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        self.of.left.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// See the module.
pub(crate) struct Body {
    content: Content,
    /// Also of an answer without a byte, or a stream on which nothing waits.
    _given: Arc<Given>,
}

enum Content {
    Whole(Option<Data>),
    Stream(mpsc::Receiver<Piece>),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>, given: Arc<Given>) -> Self {
        let bytes: Bytes = bytes.into();
        let data = (!bytes.is_empty()).then(|| given.data(bytes));
        Self { content: Content::Whole(data), _given: given }
    }

    pub(crate) const fn stream(pieces: mpsc::Receiver<Piece>, given: Arc<Given>) -> Self {
        Self { content: Content::Stream(pieces), _given: given }
    }
}

impl hyper::body::Body for Body {
    type Data = Data;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Data>, Cut>>> {
        match &mut self.get_mut().content {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Content::Stream(pieces) => pieces.poll_recv(cx).map(|piece| piece.map(|p| p.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Buf::remaining) as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
