//! One call to the core: a connection of its own, the request, the answer.

use core::time::Duration;
use std::io;
use std::sync::Arc;

use muster_api::{Fault, Kind};
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use super::body::{Cut, Given, Piece};
use super::frames::{read, read_message, write_call};
use super::link::Link;
use super::{Fate, is_dead};
use crate::wire::{Broken, Hello, Kind as Frame, Reply};

/// Longest answer that is no stream.
const MAX_ANSWER: usize = 4 << 20;
/// What the core may take beyond the deadline of an operation, which it keeps itself.
const GRACE: Duration = Duration::from_secs(15);

/// For what came before a stream was cut off to be sent.
const FLUSH: Duration = Duration::from_millis(100);

/// A short answer comes in one read.
const BUFFER: usize = 4096;

type From = BufReader<OwnedReadHalf>;
/// To the core, both ways.
pub(crate) type Connection = (From, OwnedWriteHalf);

/// What the core has begun to answer.
pub(crate) struct Answer {
    /// The beginning.
    pub reply: Reply,
    from: From,
    /// Not dropped before the end: that would be a client that left.
    to: OwnedWriteHalf,
    end: Instant,
}

/// Asks, and waits for the beginning of the answer. Dropped half way, the core sees that the client left.
pub(crate) async fn call(
    link: &Link,
    hello: &Hello,
    body: &[u8],
    deadline: Duration,
) -> Result<Answer, Fault> {
    let end = Instant::now() + deadline + GRACE;
    let stream = link.connect().await.map_err(|_| away())?;
    match timeout_at(end, ask(stream, hello, body)).await {
        Ok(Ok((reply, from, to))) => Ok(Answer { reply, from, to, end }),
        Ok(Err(_)) => Err(lost("the core went away over it")),
        Err(_) => Err(lost("the core took longer than the operation may")),
    }
}

async fn ask(
    stream: UnixStream,
    hello: &Hello,
    body: &[u8],
) -> Result<(Reply, From, OwnedWriteHalf), Broken> {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::with_capacity(BUFFER, from);
    let writes = write_call(&mut to, hello, body);
    let reply = {
        let reads = read_message::<Reply>(&mut from);
        tokio::pin!(reads);
        // A core that refuses answers before it has read all, and reads no more.
        tokio::select! {
            reply = &mut reads => reply?,
            _ = writes => reads.await?,
        }
    };
    let reply = reply.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    Ok((reply, from, to))
}

/// The core cannot be reached; nothing was done.
pub(crate) fn away() -> Fault {
    let mut fault = Fault::new(Kind::Busy, "core-away", "the node's core does not answer; nothing was done")
        .fix("Try again; if it goes on: `systemctl status musterd-core.service` on the node.");
    fault.retry_after = Some(2);
    fault
}

fn lost(why: &str) -> Fault {
    Fault::failed("core-lost", format!("{why}; whether it was done is not known"))
        .fix("Look at the node (`muster node status`, `muster audit tail`) before you do it again.")
}

impl Answer {
    /// All of an answer that is no stream; and the connection, whose end tells the core that its answer was handed on: what ends
    /// the node or the client's rights waits for that.
    pub(crate) async fn whole(mut self) -> Result<(Reply, Vec<u8>, Connection), Fault> {
        let all = async {
            let mut body = Vec::new();
            loop {
                match read(&mut self.from).await {
                    Ok(Some((Frame::Piece, piece))) if body.len() + piece.len() <= MAX_ANSWER => {
                        body.extend_from_slice(&piece);
                    }
                    Ok(Some((Frame::End, _))) => return Ok(body),
                    _ => return Err(lost("the core's answer was cut off")),
                }
            }
        };
        match timeout_at(self.end, all).await {
            Ok(body) => Ok((self.reply, body?, (self.from, self.to))),
            Err(_) => Err(lost("the core's answer did not end")),
        }
    }

    /// Hands a stream on as it comes, until either end has enough. How long its client may take is the connection's to say.
    pub(crate) async fn pump(
        self,
        to: mpsc::Sender<Piece>,
        mut fate: watch::Receiver<Fate>,
        patience: Duration,
        given: &Arc<Given>,
    ) {
        let Self { mut from, to: _kept, end, .. } = self;
        let cut = loop {
            let frame = tokio::select! {
                frame = read(&mut from) => frame,
                () = to.closed() => return,
                () = is_dead(&mut fate) => break true,
                () = sleep_until(end) => break true,
            };
            let piece = match frame {
                Ok(Some((Frame::Piece, piece))) => piece,
                Ok(Some((Frame::End, _))) => break false,
                _ => break true,
            };
            if !piece.is_empty() && to.send(Ok(given.data(piece))).await.is_err() {
                return;
            }
        };
        if cut {
            // What came before is sent as soon as nothing follows at once; an end of this kind would throw it away.
            sleep(FLUSH).await;
            let _ = timeout(patience, to.send(Err(Cut))).await;
        }
    }
}

/// Keeps the connection of a call until its answer is taken, which drops what is given back here, or the core has closed: it waits
/// for the first where something follows the answer, and not for long.
pub(crate) fn keep(connection: Connection) -> oneshot::Sender<()> {
    let (kept, taken) = oneshot::channel();
    tokio::spawn(async move {
        let (mut from, _to) = connection;
        tokio::select! {
            _ = read(&mut from) => {}
            _ = taken => {}
        }
    });
    kept
}
