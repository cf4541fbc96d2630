//! The body of an answer: whole, or as it comes.

use core::any::Any;
use core::convert::Infallible;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::mpsc;

use super::conn::Busy;

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
pub(crate) type Piece = Result<Bytes, Cut>;

/// What is held until an answer has been handed out.
pub(crate) type Held = Box<dyn Any + Send>;

/// See the module. Its connection is busy as long as it lives.
pub(crate) struct Body {
    content: Content,
    _busy: Busy,
    _held: Option<Held>,
}

enum Content {
    Whole(Option<Bytes>),
    Stream(mpsc::Receiver<Piece>),
}

impl Body {
    pub(crate) fn whole(bytes: impl Into<Bytes>, busy: Busy, held: Option<Held>) -> Self {
        let bytes: Bytes = bytes.into();
        Self { content: Content::Whole(Some(bytes).filter(|b| !b.is_empty())), _busy: busy, _held: held }
    }

    pub(crate) const fn stream(pieces: mpsc::Receiver<Piece>, busy: Busy) -> Self {
        Self { content: Content::Stream(pieces), _busy: busy, _held: None }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
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
            Content::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, Bytes::len) as u64),
            Content::Stream(_) => SizeHint::default(),
        }
    }
}
