//! The link: what the edge serves with, and who its clients are, from the core.
//!
//! One connection, made anew whenever it ends. Handles are of one link and die with it; a client that is still connected is shown
//! to the next core with the same evidence, and that core judges it for itself.

use core::time::Duration;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::{Fault, Kind};
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::frames::{read_message, write_message};
use super::log;
use super::tls::{Serving, TurnedAway};
use crate::wire::{Broken, FaultMessage, Hello, Proof, Refused, ToCore, ToEdge, VERSION};

/// Messages to the core that wait at most.
const WAITING: usize = 1024;
/// A handle comes in one read.
const BUFFER: usize = 4096;
/// How long a core may take to judge a client.
const JUDGE: Duration = Duration::from_secs(10);
/// Between two tries to reach the core.
const AGAIN: Duration = Duration::from_millis(500);

/// A client that the core knows, on the link of this number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    /// 32 hex digits.
    pub handle: String,
    /// Which link it is of.
    pub link: u64,
}

/// Why there is no handle.
#[derive(Debug)]
pub(crate) enum NoHandle {
    /// The core is away; it may come back.
    Away,
    /// The core said no.
    Refused(Fault),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Link {
    /// Where the core is.
    socket: PathBuf,
    state: Mutex<State>,
    serving: watch::Sender<Option<Arc<Serving>>>,
    dropped: mpsc::UnboundedSender<String>,
}

#[derive(Debug, Default)]
struct State {
    /// Counts links.
    number: u64,
    /// To the core, while there is a link.
    out: Option<mpsc::Sender<ToCore>>,
    /// Who waits for its handle.
    asked: HashMap<u64, oneshot::Sender<Result<String, FaultMessage>>>,
    next: u64,
    /// What was for the audit and found no room, or no core.
    untold: u64,
}

impl State {
    /// Tells the core something for the audit. In a flood, and while there is no core, only how much it was.
    fn tell(&mut self, what: ToCore) {
        let room = self.out.as_ref().filter(|out| out.capacity() > WAITING / 2);
        if room.is_none_or(|out| out.try_send(what).is_err()) {
            self.untold = self.untold.saturating_add(1);
        } else if self.untold > 0
            && room.is_some_and(|out| out.try_send(ToCore::Untold { count: self.untold }).is_ok())
        {
            self.untold = 0;
        }
    }
}

impl Link {
    /// With what is served, from now on; and the handles that the core drops.
    pub(crate) fn new(
        socket: PathBuf,
    ) -> (Arc<Self>, watch::Receiver<Option<Arc<Serving>>>, mpsc::UnboundedReceiver<String>) {
        let (serving, serving_of) = watch::channel(None);
        let (dropped, dropped_of) = mpsc::unbounded_channel();
        (Arc::new(Self { socket, state: Mutex::default(), serving, dropped }), serving_of, dropped_of)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Another connection to the core.
    pub(crate) async fn connect(&self) -> std::io::Result<UnixStream> {
        timeout(JUDGE, UnixStream::connect(&self.socket)).await?
    }

    /// The number of the link that is, where one is.
    pub(crate) fn number(&self) -> Option<u64> {
        let state = self.state();
        state.out.as_ref().map(|_| state.number)
    }

    /// Shows a client to the core.
    pub(crate) async fn open(&self, address: String, proof: Proof) -> Result<Handle, NoHandle> {
        let (id, link, answer) = {
            let mut state = self.state();
            let Some(out) = state.out.clone() else { return Err(NoHandle::Away) };
            let id = state.next;
            state.next += 1;
            if out.try_send(ToCore::Open { id, address, proof }).is_err() {
                return Err(NoHandle::Away);
            }
            let (tell, answer) = oneshot::channel();
            state.asked.insert(id, tell);
            (id, state.number, answer)
        };
        match timeout(JUDGE, answer).await {
            Ok(Ok(Ok(handle))) => Ok(Handle { handle, link }),
            Ok(Ok(Err(FaultMessage { status, mut fault }))) => {
                fault.kind = Kind::of(status).unwrap_or(Kind::Failed);
                Err(NoHandle::Refused(fault))
            }
            Ok(Err(_)) => Err(NoHandle::Away),
            Err(_) => {
                self.state().asked.remove(&id);
                Err(NoHandle::Away)
            }
        }
    }

    /// The client has left.
    pub(crate) fn close(&self, handle: Handle) {
        let state = self.state();
        if state.number == handle.link {
            // One that finds no room dies with the link, or with the certificate; the core bounds what it keeps.
            let _ = state.out.as_ref().map(|out| out.try_send(ToCore::Close { handle: handle.handle }));
        }
    }

    /// A client was turned away.
    pub(crate) fn turned_away(&self, address: String, why: TurnedAway) {
        let TurnedAway { reason, certificate } = why;
        self.state().tell(ToCore::TurnedAway { address, reason: reason.to_owned(), certificate });
    }

    /// A request was refused.
    pub(crate) fn refused(&self, refused: Refused) {
        self.state().tell(ToCore::Refused(refused));
    }

    /// Keeps a link for ever.
    pub(crate) async fn keep(self: Arc<Self>) {
        let mut told = None;
        loop {
            let why = match self.connect().await {
                Ok(stream) => self.hold(stream).await,
                Err(e) => Err(e.into()),
            };
            {
                let mut state = self.state();
                state.out = None;
                state.asked.clear();
            }
            let why = why.map_or_else(|e| e.to_string(), |()| "it closed the link".to_owned());
            // Once, not twice a second, while a core is away for long.
            if told.as_ref() != Some(&why) {
                log(4, &format!("no core at {}: {why}", self.socket.display()));
                told = Some(why);
            }
            sleep(AGAIN).await;
        }
    }

    /// One link, to its end.
    async fn hold(&self, stream: UnixStream) -> Result<(), Broken> {
        let (from, mut to) = stream.into_split();
        let mut from = BufReader::with_capacity(BUFFER, from);
        write_message(&mut to, &Hello::Link { version: VERSION }).await?;
        let (out, mut waiting) = mpsc::channel(WAITING);
        {
            let mut state = self.state();
            state.number += 1;
            state.out = Some(out);
        }
        let writes = async {
            while let Some(message) = waiting.recv().await {
                write_message(&mut to, &message).await?;
            }
            Ok(())
        };
        let reads = async {
            while let Some(message) = read_message::<ToEdge>(&mut from).await? {
                self.heed(message);
            }
            Ok(())
        };
        tokio::select! { end = reads => end, end = writes => end }
    }

    fn heed(&self, message: ToEdge) {
        match message {
            ToEdge::Serve(serve) => match Serving::new(serve) {
                Ok(serving) => {
                    self.serving.send_if_modified(|now| {
                        let new = !now.as_ref().is_some_and(|now| now.same(&serving));
                        if new {
                            *now = Some(Arc::new(serving));
                        }
                        new
                    });
                }
                Err(why) => log(3, &format!("the core gave what cannot be served with: {why}")),
            },
            // The socket stays; nobody is taken from it until there is something to serve with.
            ToEdge::Hold => drop(self.serving.send_replace(None)),
            ToEdge::Opened { id, handle } => self.answer(id, Ok(handle)),
            ToEdge::NotOpened { id, fault } => self.answer(id, Err(fault)),
            ToEdge::Drop { handle } => {
                let _ = self.dropped.send(handle);
            }
        }
    }

    fn answer(&self, id: u64, answer: Result<String, FaultMessage>) {
        let asked = self.state().asked.remove(&id);
        // Nobody waits any longer: the client has left, and so must its handle.
        if let Err(Ok(handle)) = asked.map_or_else(|| Err(answer.clone()), |tell| tell.send(answer.clone())) {
            let link = self.state().number;
            self.close(Handle { handle, link });
        }
    }
}
