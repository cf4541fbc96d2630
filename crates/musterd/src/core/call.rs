//! One call, from who asks to what is answered.
//!
//! In this order, and nothing is skipped: who (a handle that is), whether the request is the operation that the edge says, role,
//! state of the node, rate, body, proof, intent on the disk, the act, outcome, answer. What the client is told and what is written
//! down come from one place each.

use std::collections::HashMap;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_api::{Answer, Fault, Kind, NDJSON, Route};
use muster_core::operation::{Audit as Kept, Danger, Row};
use muster_tls::Fingerprint;

use super::audit::{Decision, Event, NotKept, Room, Who};
use super::handles::Handle;
use super::proof::Signed;
use super::server::{CLIENT_STREAMS, Core, Taken, answer, answer_fault, busy};
use super::stream::{Incoming, Timed, wait_for_close};
use super::{auditing, link};
use crate::edge::ask::{self, Wanted};
use crate::ops::{self, Caller, Client, Done, Request};
use crate::say;
use crate::shares::Share;
use crate::wire::{Ask, Broken, Call, Kind as Frame, Reply, frame, message, read_body};

/// In which the body must be there: the edge has all of it before it calls.
const BODY: Duration = Duration::from_secs(10);
/// In which an answer must be taken.
const TAKEN: Duration = Duration::from_secs(30);
/// Bodies up to here are not counted.
const SMALL: usize = 64 * 1024;
/// Of a body that says nothing.
const EMPTY: usize = 64;
/// Changes of one client in a second. Each is written to the disk, twice.
const CHANGES: u32 = 10;
/// How long the edge has to hand an answer on before what follows it.
const FLUSH: Duration = Duration::from_secs(5);
/// And its kernel.
const SETTLE: Duration = Duration::from_millis(300);

/// Calls of each client that change something, in this second.
#[derive(Default)]
pub(crate) struct Rate {
    seen: Mutex<HashMap<Fingerprint, (Instant, u32)>>,
}

impl Rate {
    /// Counts one; whether it is one too many.
    fn over(&self, client: Fingerprint, at: Instant) -> bool {
        let second = Duration::from_secs(1);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, (since, _)| at.saturating_duration_since(*since) < second);
        let (_, count) = seen.entry(client).or_insert((at, 0));
        *count = count.saturating_add(1);
        *count > CHANGES
    }
}

/// A call and whose it is.
struct Ticket<'c> {
    core: &'c Arc<Core>,
    handle: Arc<Handle>,
    asked: &'c Call,
    route: &'static Route,
    row: Row,
    id: String,
    begun: Instant,
}

/// What is held while a call is served.
struct Held {
    body: Vec<u8>,
    _bytes: Option<Taken>,
    stream: Option<Follows>,
}

/// A stream, among all and among those of its client.
type Follows = (Taken, Share);

/// Serves a call.
///
/// # Errors
/// The edge sent what does not belong here, or left.
pub(crate) fn serve(
    core: &Arc<Core>,
    asked: &Call,
    stream: &UnixStream,
    mut from: Incoming<'_>,
) -> Result<(), Broken> {
    let handle = core.link().and_then(|link| link.handles.get(&asked.handle));
    let handle = handle.ok_or_else(|| Broken::Message("a handle that there is not".to_owned()))?;
    let row = asked.ask.operation().row();
    let route = route(asked).ok_or_else(|| {
        Broken::Message(format!("a request that is not the operation `{}` that is asked for", row.name))
    })?;
    let id = muster_sys::system::random_128().map_err(|e| io::Error::other(e.line()))?;
    let id = id.iter().take(8).map(|b| format!("{b:02x}")).collect();
    let ticket = Ticket { core, handle, asked, route, row, id, begun: Instant::now() };
    match ticket.admit(&mut from).and_then(|held| ticket.begin(held)) {
        Ok(held) => ticket.act(held, stream),
        Err(fault) => {
            let event = ticket.ended("call", Decision::Denied, fault.kind.status()).reason(&fault.reason);
            core.audit.waits(event);
            answer_fault(stream, &fault, Some(core.audit.head().to_string()), TAKEN)
        }
    }
}

/// The row of a request, if its one reading is what is asked for: the edge's own reader, run by who believes it nothing.
fn route(asked: &Call) -> Option<&'static Route> {
    let (method, target) = asked.request.split_once(' ')?;
    match ask::read(method, target) {
        Ok(Wanted::Call { route, ask, request }) if ask == asked.ask && request == asked.request => {
            Some(route)
        }
        _ => None,
    }
}

impl Ticket<'_> {
    fn event(&self, event: &'static str) -> Event {
        Event::new(event)
            .call(&self.id)
            .op(self.row.name)
            .who(Who::from(&*self.handle))
            .address(&self.handle.address)
            .request(&self.asked.request)
    }

    fn ended(&self, event: &'static str, decision: Decision, status: u16) -> Event {
        let ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.event(event).decision(decision).status(status).ms(ms)
    }

    /// Whether the operation leaves a record before it is done.
    fn is_first(&self) -> bool {
        !matches!(self.row.audit, Kept::Spooled)
    }

    fn room(&self) -> Room {
        if self.row.danger == Danger::Destroys { Room::Reserved } else { Room::Ordinary }
    }

    /// Who, role, state, rate, body, proof.
    fn admit(&self, from: &mut Incoming<'_>) -> Result<Held, Fault> {
        let (core, handle) = (self.core, &*self.handle);
        link::judge_again(core, handle)?;
        let operation = self.route.operation;
        if !handle.client.role.is_some_and(|role| operation.permits(role)) {
            return Err(Fault::role(self.row.role, handle.client.role));
        }
        core.owner.allows(operation)?;
        if self.is_first() && core.rate.over(handle.client.fingerprint, Instant::now()) {
            let why = format!("more than {CHANGES} calls that change the node in a second, by one client");
            let mut fault = Fault::new(Kind::TooMany, "rate", why);
            fault.retry_after = Some(1);
            return Err(fault);
        }
        let held = self.body(from)?;
        let wants = operation.wants_proof();
        let header = self.asked.proof.as_deref();
        // Of what can want one, a proof that came is judged, demanded or not: who signs means it.
        if wants && (header.is_some() || core.owner.proof_required()) {
            let node = core.owner.node_fingerprint();
            let signed = Signed { request: &self.asked.request, body: &held.body, node };
            core.nonces.judge(header, handle, &signed, Instant::now())?;
        }
        Ok(held)
    }

    fn follows(&self) -> Result<Follows, Fault> {
        let what = format!("{CLIENT_STREAMS} streams");
        let own = self.core.streams_of.take(self.handle.client.fingerprint, 1, &what)?;
        Ok((self.core.streams.take(1).ok_or_else(busy)?, own))
    }

    fn body(&self, from: &mut Incoming<'_>) -> Result<Held, Fault> {
        let max = if self.route.body == 0 { EMPTY } else { self.route.body };
        let bytes = if max > SMALL { Some(self.core.bodies.take(max).ok_or_else(busy)?) } else { None };
        let follows = if self.route.answer == Answer::Stream { Some(self.follows()?) } else { None };
        from.get_mut().reset(Some(BODY));
        let body = read_body(from, max).map_err(|e| match e {
            Broken::Body(_) if self.route.body == 0 => no_body(),
            Broken::Body(max) => {
                Fault::new(Kind::TooLarge, "too-large", format!("a body of more than {max} bytes"))
            }
            other => Fault::new(Kind::Slow, "body", format!("the body did not come whole: {other}")),
        })?;
        if self.route.body == 0 && !matches!(body.trim_ascii(), b"" | b"{}") {
            return Err(no_body());
        }
        Ok(Held { body, _bytes: bytes, stream: follows })
    }

    /// The intent, where there must be one.
    fn begin(&self, held: Held) -> Result<Held, Fault> {
        if !self.is_first() {
            return Ok(held);
        }
        let event = self.event("intent").decision(Decision::Allowed);
        let audit = &self.core.audit;
        let kept = audit.first(&event, self.room()).map(|_| ()).or_else(|e| match self.row.audit {
            Kept::FirstOrJournal => audit.journal(&event),
            _ => Err(e),
        });
        kept.map(|()| held).map_err(|e| {
            let fix = match e {
                NotKept::Hangs => {
                    "Look what the disk that holds /var/lib/muster waits for; reboot and shutdown go without."
                }
                _ => "Make room on the disk that holds /var/lib/muster; reboot and shutdown go without.",
            };
            let why = format!("{e}; nothing was done, because it could not be written down first");
            Fault::failed("audit", why).fix(fix)
        })
    }

    /// The outcome, after the act: the act stands whether or not it can be written.
    fn end(&self, decision: Decision, status: u16, reason: Option<&str>) {
        let audit = &self.core.audit;
        let event = self.ended(if self.is_first() { "outcome" } else { "call" }, decision, status);
        let event = reason.into_iter().fold(event, |event, reason| event.reason(reason));
        if self.is_first() {
            // For whoever looks into the journal of the unit; what counts is the record.
            let Who { name, role, .. } = Who::from(&*self.handle);
            let (role, op) = (role.unwrap_or_default(), self.row.name);
            say::info(&format!(
                "{op} by {name} ({role}, {}): {status} {}",
                self.handle.address,
                reason.unwrap_or("done")
            ));
        }
        if !self.is_first() || audit.first(&event, self.room()).is_err() {
            audit.waits(event);
        }
    }

    /// Does it, and answers.
    fn act(&self, mut held: Held, stream: &UnixStream) -> Result<(), Broken> {
        let follows = held.stream.take();
        match self.perform(held) {
            Ok(Done::Answer { status, content, no_store, body, then }) => {
                self.end(Decision::Allowed, status, None);
                let audit = Some(self.core.audit.head().to_string());
                let reply = Reply { status, content: content.to_owned(), audit, retry_after: None, no_store };
                let answered = answer(stream, &reply, &body, TAKEN);
                if let Some(then) = then {
                    // The edge closes when it has the answer. Whether the client got it changes nothing of what was asked for.
                    wait_for_close(stream, FLUSH);
                    // A change of trust waits for nobody else: who is let in no longer is cut by it.
                    if !matches!(self.asked.ask, Ask::CaRotate | Ask::CrlUpload) {
                        std::thread::sleep(SETTLE);
                    }
                    then();
                }
                answered
            }
            Ok(Done::Stream(pump)) => self.pump(pump, stream, follows),
            Err(fault) => {
                let status = fault.kind.status();
                let policy = matches!(fault.kind, Kind::Forbidden | Kind::Unproven | Kind::TooMany);
                let decision = if policy { Decision::Denied } else { Decision::Failed };
                self.end(decision, status, Some(&fault.reason));
                answer_fault(stream, &fault, Some(self.core.audit.head().to_string()), TAKEN)
            }
        }
    }

    fn pump(&self, pump: ops::Pump, stream: &UnixStream, follows: Option<Follows>) -> Result<(), Broken> {
        // A follower is seen from its beginning on.
        if !self.is_first() {
            self.end(Decision::Allowed, 200, None);
        }
        let audit = Some(self.core.audit.head().to_string());
        let content = NDJSON.to_owned();
        let reply = Reply { status: 200, content, audit, retry_after: None, no_store: true };
        let deadline = Instant::now() + Duration::from_secs(self.row.deadline.into());
        let mut sink = Sink { core: self.core, stream, handle: &self.handle, until: deadline, failed: false };
        let begun = message(&reply).and_then(|bytes| {
            Timed::new(stream, TAKEN).write_all(&bytes)?;
            Ok(())
        });
        // A pull goes on when its client has left, so it is begun whether or not the client hears.
        let done = pump(&mut sink);
        // Whoever is let in no longer gets no end either: what he has is not the whole.
        let dead = link::judge_again(self.core, &self.handle).is_err();
        let cut = begun.is_err() || done.is_err() || dead;
        if self.is_first() {
            let (decision, reason) = match (sink.failed, cut) {
                (true, _) => (Decision::Failed, Some("stream")),
                (false, true) => (Decision::Allowed, Some("client-left")),
                (false, false) => (Decision::Allowed, None),
            };
            self.end(decision, 200, reason);
        }
        drop(follows);
        if !cut {
            Timed::new(stream, TAKEN).write_all(&frame(Frame::End, &[])?)?;
        }
        Ok(())
    }

    fn perform(&self, held: Held) -> Result<Done, Fault> {
        // The body and the disk were waited for, and an edge that fell chooses how long: who was let in before may not be now.
        if self.handle.judged_by.load(Ordering::Acquire) != self.core.owner.trusts() {
            link::judge_again(self.core, &self.handle)?;
        }
        match &self.asked.ask {
            Ask::AuditRead { after, follow } => auditing::open(self.core, after.unwrap_or(0), *follow),
            Ask::ProofNonce => {
                let required = self.core.owner.proof_required();
                Done::json(&self.core.nonces.give(&self.handle, required, Instant::now())?)
            }
            // Nothing of it can wait for anything, so it needs nobody who watches its time.
            Ask::Health => ops::perform(&Request {
                places: &self.core.places,
                owner: &self.core.owner,
                works: &self.core.works,
                caller: &self.caller()?,
                ask: &self.asked.ask,
                body: &held.body,
                ended: Arc::new(|_, _| {}),
            }),
            _ => self.in_time(held),
        }
    }

    fn caller(&self) -> Result<Caller, Fault> {
        let client = &self.handle.client;
        let role = client.role.ok_or_else(|| Fault::role(self.row.role, None))?;
        let judged_by = self.handle.judged_by.load(Ordering::Acquire);
        Ok(Caller { name: client.name.clone(), role, address: self.handle.address.clone(), judged_by })
    }

    /// Where the end of what this call begins is written down, by its id, in the record and in the journal.
    fn ended_later(&self) -> ops::Ended {
        let (core, event, name) = (Arc::clone(self.core), self.event("ended"), self.row.name);
        Arc::new(move |worked, words| {
            say::info(&format!("what {name} began has ended: {words}"));
            let decision = if worked { Decision::Allowed } else { Decision::Failed };
            let reason = if worked { "done" } else { "failed" };
            core.audit.waits(event.clone().decision(decision).reason(reason).detail(words));
        })
    }

    /// On a thread of its own, which has as long as the table says. One that is late goes on, and its end is written down.
    fn in_time(&self, held: Held) -> Result<Done, Fault> {
        let slot = self.core.works_now.take(1).ok_or_else(busy)?;
        let caller = self.caller()?;
        let (core, ask, late) = (Arc::clone(self.core), self.asked.ask.clone(), self.event("outcome"));
        let ended = self.ended_later();
        // Without room in between: what nobody waits for any more is handed back, and not lost in a buffer.
        let (tell, told) = sync_channel(0);
        let work = move || {
            let request = Request {
                places: &core.places,
                owner: &core.owner,
                works: &core.works,
                caller: &caller,
                ask: &ask,
                body: &held.body,
                ended,
            };
            let done = ops::perform(&request);
            if let Err(unheard) = tell.send(done) {
                let (decision, then) = match unheard.0 {
                    Ok(Done::Answer { then, .. }) => (Decision::Allowed, then),
                    Ok(Done::Stream(_)) => (Decision::Failed, None),
                    Err(_) => (Decision::Failed, None),
                };
                core.audit.waits(late.decision(decision).reason("late"));
                if let Some(then) = then {
                    then();
                }
            }
            drop(slot);
        };
        self.core.crew.take("work", work).map_err(|_| busy())?;
        match told.recv_timeout(Duration::from_secs(self.row.deadline.into())) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => Err(Fault::failed(
                "deadline",
                format!("it took longer than the {} seconds that it has, and goes on", self.row.deadline),
            )
            .fix("Look at the node's state before you ask again.")),
            Err(RecvTimeoutError::Disconnected) => {
                Err(Fault::failed("internal", "the node's own code failed over it; its journal says where"))
            }
        }
    }
}

fn no_body() -> Fault {
    Fault::bad("body", "this request has no body; send none, or {}")
}

/// A client at the other end of a stream.
struct Sink<'s> {
    core: &'s Core,
    stream: &'s UnixStream,
    handle: &'s Handle,
    until: Instant,
    /// The last record was an error.
    failed: bool,
}

impl Sink<'_> {
    fn over(&self) -> bool {
        Instant::now() >= self.until || link::judge_again(self.core, self.handle).is_err()
    }
}

impl Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.failed = bytes.starts_with(b"{\"error\"");
        if self.over() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let piece = bytes.get(..bytes.len().min(crate::wire::MAX_FRAME)).unwrap_or_default();
        let whole = frame(Frame::Piece, piece).map_err(|e| io::Error::other(e.to_string()))?;
        Timed::new(self.stream, TAKEN).write_all(&whole)?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Client for Sink<'_> {
    fn gone(&self) -> bool {
        self.over() || muster_sys::service::is_closed(self.stream)
    }
}
