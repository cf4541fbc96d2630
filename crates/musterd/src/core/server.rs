//! Who connects, how many at a time, and which of three things a connection is.
//!
//! Everything has a bound: connections, streams among them, bytes of bodies that are held at once, and the time in which
//! something must be said. What goes over a bound is closed; a client of the edge's then hears that the node is busy.

use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::{Fault, Kind};
use muster_sys::service::{Peer, tell};

use super::audit::{Audit, Decision, Event};
use super::crew::Crew;
use super::link::{self, Link};
use super::owner::Owner;
use super::proof::Nonces;
use super::stream::Timed;
use super::{call, enrolling};
use crate::ops::Works;
use crate::places::Places;
use crate::shares::Shares;
use crate::wire::{Broken, Hello, Reply, message, read_message, write_body};

/// Connections of the edge's at a time, and so threads.
pub(crate) const MAX_CALLS: usize = 300;
/// Streams among them: followers leave room for those who act.
pub(crate) const MAX_STREAMS: usize = 240;
/// Streams of one client among them.
pub(crate) const CLIENT_STREAMS: usize = 32;
/// Operations that are being done at a time, beside the calls that wait for them: the unit has 512 tasks, children included.
pub(crate) const MAX_WORKS: usize = 128;
/// Bytes of long bodies that are held at once.
pub(crate) const MAX_BODIES: usize = 16 * 1024 * 1024;
/// Threads that wait for a connection at least: as many calls as may come at once without a thread being made or woken for another.
pub(crate) const AT_THE_DOOR: usize = 4;
/// In which the first message must be there.
const HELLO: Duration = Duration::from_secs(10);
/// How often the state of the node is looked at for those who ask the service manager.
const LOOKS: Duration = Duration::from_secs(10);

/// Everything that the threads of the core share.
pub(crate) struct Core {
    /// Where everything is.
    pub places: Places,
    /// Who owns the node.
    pub owner: Arc<Owner>,
    /// What goes on between the calls.
    pub works: Works,
    /// The record.
    pub audit: Arc<Audit>,
    /// Numbers for signed requests.
    pub nonces: Nonces,
    /// Calls of each client that are durable first, for their rate.
    pub rate: call::Rate,
    /// Of the connections that are.
    pub calls: Arc<Count>,
    /// Of the streams that are.
    pub streams: Arc<Count>,
    /// What each client has of them.
    pub streams_of: Arc<Shares>,
    /// Of the operations that are done, late ones included.
    pub works_now: Arc<Count>,
    /// Of the bytes of long bodies that are held.
    pub bodies: Arc<Count>,
    /// Threads for calls and for what they do.
    pub crew: Arc<Crew>,
    link: Mutex<Option<Arc<Link>>>,
}

/// So many of something, and no more than its bound.
pub(crate) struct Count {
    now: AtomicUsize,
    max: usize,
}

/// Some of what is counted, until it is dropped.
pub(crate) struct Taken {
    count: Arc<Count>,
    many: usize,
}

impl Count {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { now: AtomicUsize::new(0), max })
    }

    /// Takes so many, if they are there.
    pub(crate) fn take(self: &Arc<Self>, many: usize) -> Option<Taken> {
        let sum = |now: usize| now.checked_add(many).filter(|sum| *sum <= self.max);
        self.now.fetch_update(Ordering::AcqRel, Ordering::Acquire, sum).ok()?;
        Some(Taken { count: Arc::clone(self), many })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.count.now.fetch_sub(self.many, Ordering::AcqRel);
    }
}

impl Core {
    /// A core without a link.
    #[must_use]
    pub(crate) fn new(places: Places, owner: Arc<Owner>, audit: Arc<Audit>) -> Arc<Self> {
        Arc::new(Self {
            places,
            owner,
            works: Works::default(),
            audit,
            nonces: Nonces::default(),
            rate: call::Rate::default(),
            calls: Count::new(MAX_CALLS),
            streams: Count::new(MAX_STREAMS),
            streams_of: Shares::new(CLIENT_STREAMS),
            works_now: Count::new(MAX_WORKS),
            bodies: Count::new(MAX_BODIES),
            crew: Arc::default(),
            link: Mutex::new(None),
        })
    }

    /// The link that is.
    pub(crate) fn link(&self) -> Option<Arc<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A new link; the one before ends.
    pub(crate) fn take_link(&self, link: &Arc<Link>) {
        let before = self.link.lock().unwrap_or_else(PoisonError::into_inner).replace(Arc::clone(link));
        if let Some(before) = before {
            before.end();
        }
    }

    /// A link that ended.
    pub(crate) fn leave_link(&self, link: &Arc<Link>) {
        let mut now = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if now.as_ref().is_some_and(|l| Arc::ptr_eq(l, link)) {
            *now = None;
        }
    }

    /// Sees to it that a change of trust reaches the link, and that the service manager knows the state of the node, as long as
    /// the process lives.
    pub(crate) fn watch(&self) {
        let mut seen = self.owner.generation();
        let mut told = String::new();
        loop {
            let status = self.owner.status();
            if status != told {
                tell(&format!("READY=1\nSTATUS={status}"));
                told = status;
            }
            // The bootstrap is another process, and says nothing when it is done.
            let now = self.owner.wait_for_change(seen, LOOKS);
            if now != seen
                && let Some(link) = self.link()
            {
                link::trust_changed(self, &link);
            }
            seen = now;
        }
    }
}

/// Whose connections are taken.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// The edge's user.
    pub uid: u32,
    /// The edge's unit, where it must be in one.
    pub unit: Option<String>,
}

impl Gate {
    /// Judges the other end (S17).
    ///
    /// # Errors
    /// Who it is instead.
    pub(crate) fn judge(&self, stream: &UnixStream) -> Result<(), String> {
        let peer = Peer::of(stream).map_err(|e| e.line())?;
        if peer.uid != self.uid {
            return Err(format!("user {} is not the edge's ({})", peer.uid, self.uid));
        }
        match (&self.unit, self.unit.as_ref().and_then(|_| peer.unit())) {
            (Some(wanted), Some(unit)) if *wanted != unit => {
                Err(format!("process {} of the edge's user is in {unit}, not in {wanted}", peer.pid))
            }
            _ => Ok(()),
        }
    }
}

/// Where the edge connects. Several threads wait there, and each serves whom it took in, without waking another; the last one of
/// them first sees to it that somebody waits.
pub(crate) struct Door {
    core: Arc<Core>,
    listener: UnixListener,
    gate: Gate,
    waiting: AtomicUsize,
}

impl Door {
    /// Where these wait for a thread.
    pub(crate) fn new(core: Arc<Core>, listener: UnixListener, gate: Gate) -> Arc<Self> {
        Arc::new(Self { core, listener, gate, waiting: AtomicUsize::new(0) })
    }

    /// Takes connections and serves them, until [`AT_THE_DOOR`] others wait for the next.
    pub(crate) fn keep(self: &Arc<Self>) {
        loop {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let came = self.listener.accept();
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            match came {
                Ok((stream, _)) => self.admit(stream),
                // Out of descriptors, most likely; one of them will be closed.
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
            if self.waiting.load(Ordering::SeqCst) >= AT_THE_DOOR {
                return;
            }
        }
    }

    fn admit(self: &Arc<Self>, stream: UnixStream) {
        let core = &self.core;
        let refused = |reason| Event::new("socket").decision(Decision::Denied).reason(reason);
        if let Err(why) = self.gate.judge(&stream) {
            return core.audit.waits(refused("peer").detail(&why));
        }
        let Some(slot) = core.calls.take(1) else {
            core.audit.waits(refused("busy"));
            return refuse_busy(&stream);
        };
        // Whoever is the last to leave the door sees that nobody is there: each leaves before it looks.
        if self.waiting.load(Ordering::SeqCst) == 0 {
            let here = Arc::clone(self);
            if core.crew.take("call", move || here.keep()).is_err() {
                // Then this thread has to stay there.
                return core.audit.waits(refused("threads"));
            }
        }
        if let Err(why) = connection(core, &stream) {
            core.audit.waits(refused("frame").detail(&why.to_string()));
        }
        drop(stream);
        drop(slot);
    }
}

/// Says that there is no room, if the other end takes it at once.
fn refuse_busy(stream: &UnixStream) {
    let _ = answer_fault(stream, &busy(), None, Duration::from_millis(5));
}

/// 503: come again.
pub(crate) fn busy() -> Fault {
    let mut fault = Fault::new(Kind::Busy, "busy", "the node has as many calls in hand as it takes");
    fault.retry_after = Some(1);
    fault
}

/// Answers a fault.
pub(crate) fn answer_fault(
    stream: &UnixStream,
    fault: &Fault,
    audit: Option<String>,
    longest: Duration,
) -> Result<(), Broken> {
    let reply = Reply {
        status: fault.kind.status(),
        content: "application/json".to_owned(),
        audit,
        retry_after: fault.retry_after,
        no_store: true,
    };
    let body = serde_json::to_vec(fault).map_err(|e| Broken::Message(e.to_string()))?;
    answer(stream, &reply, &body, longest)
}

/// Answers with one body.
pub(crate) fn answer(
    stream: &UnixStream,
    reply: &Reply,
    body: &[u8],
    longest: Duration,
) -> Result<(), Broken> {
    let mut bytes = message(reply)?;
    write_body(&mut bytes, body)?;
    std::io::Write::write_all(&mut Timed::new(stream, longest), &bytes)?;
    Ok(())
}

fn connection(core: &Arc<Core>, stream: &UnixStream) -> Result<(), Broken> {
    let mut from = Timed::incoming(stream, HELLO);
    match read_message::<Hello>(&mut from)? {
        None => Ok(()),
        Some(Hello::Link { version }) => link::serve(core, version, stream, from),
        Some(Hello::Call(asked)) => call::serve(core, &asked, stream, from),
        Some(Hello::Enroll { address }) => enrolling::serve(core, &address, stream, from),
    }
}
