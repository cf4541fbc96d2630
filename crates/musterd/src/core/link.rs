//! The link: what the edge serves with, and who its clients are.
//!
//! One at a time; a new one ends the one before, and all its handles. The edge may go on serving whom it likes: what it cannot do
//! is call in the name of anybody who has no handle of the link that is.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use muster_api::{Fault, Kind};
use muster_core::{Operation, UtcTime};
use muster_sys::clock;
use muster_tls::Fingerprint;

use super::audit::{Decision, Event, Who};
use super::handles::{Handle, Handles};
use super::server::Core;
use super::stream::{Incoming, Timed};
use crate::wire::{Broken, FaultMessage, Proof, Refused, ToCore, ToEdge, VERSION, message, read_message};

/// How long the edge may take to take a message.
const TAKES: Duration = Duration::from_secs(10);
/// Longest certificate of a client.
const MAX_CERTIFICATE: usize = 16 * 1024;
/// Longest signature, and longest signed text.
const MAX_SIGNATURE: usize = 2048;

/// See the module.
pub(crate) struct Link {
    out: Mutex<UnixStream>,
    /// Its clients.
    pub handles: Handles,
}

impl Link {
    /// Tells the edge something. One that does not listen is no edge any more.
    pub(crate) fn tell(&self, what: &ToEdge) {
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = message(what).and_then(|bytes| {
            std::io::Write::write_all(&mut Timed::new(&out, TAKES), &bytes)?;
            Ok(())
        });
        if sent.is_err() {
            drop(out);
            self.end();
        }
    }

    /// Ends it and its handles.
    pub(crate) fn end(&self) {
        self.handles.end_all();
        // Its reader wakes up by this.
        let out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = out.shutdown(std::net::Shutdown::Both);
    }
}

/// Serves a link to its end.
///
/// # Errors
/// What the edge sent that does not belong there.
pub(crate) fn serve(
    core: &Arc<Core>,
    version: u32,
    stream: &UnixStream,
    mut from: Incoming<'_>,
) -> Result<(), Broken> {
    if version != VERSION {
        return Err(Broken::Message(format!(
            "the edge speaks version {version}, and {VERSION} is spoken here: restart it"
        )));
    }
    let link = Arc::new(Link { out: Mutex::new(stream.try_clone()?), handles: Handles::default() });
    // The one before ends first: whoever hears of the new link may know that the handles of the old one are dead.
    core.take_link(&link);
    loop {
        let seen = core.owner.generation();
        link.tell(&ToEdge::Serve(core.owner.serve()));
        // A change in between was told already, perhaps before this.
        if core.owner.generation() == seen {
            break;
        }
    }
    from.get_mut().reset(None);
    let done = listen(core, &link, &mut from);
    core.leave_link(&link);
    link.end();
    done
}

fn listen(core: &Core, link: &Link, from: &mut Incoming<'_>) -> Result<(), Broken> {
    while let Some(said) = read_message::<ToCore>(from)? {
        match said {
            ToCore::Open { id, address, proof } => {
                let answer = match open(core, link, address, proof) {
                    Ok(handle) => ToEdge::Opened { id, handle },
                    Err(fault) => {
                        ToEdge::NotOpened { id, fault: FaultMessage { status: fault.kind.status(), fault } }
                    }
                };
                link.tell(&answer);
            }
            ToCore::Close { handle } => drop(link.handles.end(&handle)),
            ToCore::TurnedAway { address, reason, certificate } => {
                turned_away(core, &address, &reason, certificate.as_deref());
            }
            ToCore::Refused(refused) => core.audit.waits(told(link, &refused)),
            ToCore::Untold { count } => {
                let event =
                    Event::new("uncounted").detail("the edge had more to tell than there was room for");
                core.audit.waits(event.count(count).told_by_edge());
            }
        }
    }
    Ok(())
}

/// An address as the edge says it: what has its characters, cut. It is told to people.
pub(crate) fn shown(address: &str) -> String {
    address
        .chars()
        .filter(|c| c.is_ascii_hexdigit() || matches!(c, '.' | ':' | '[' | ']' | '%'))
        .take(64)
        .collect()
}

fn open(core: &Core, link: &Link, address: String, proof: Proof) -> Result<String, Fault> {
    let small = proof.certificate.len() <= MAX_CERTIFICATE
        && proof.message.len() <= MAX_SIGNATURE
        && proof.signature.len() <= MAX_SIGNATURE;
    let judged = if small {
        // Read before the judgement: a change during it makes the handle one of an older state, to be judged again.
        let judged_by = core.owner.trusts();
        core.owner.judge(&proof).map(|client| (client, judged_by))
    } else {
        Err(Fault::new(Kind::Unproven, "certificate", "a certificate or signature that is too long"))
    };
    let judged = judged.and_then(|(client, judged_by)| {
        let handle = Handle::new(client, proof.certificate.clone(), shown(&address), judged_by)
            .map_err(|e| Fault::failed("internal", e.line()))?;
        let id = handle.id.clone();
        if link.handles.put(Arc::new(handle)) {
            Ok(id)
        } else {
            Err(Fault::new(Kind::Busy, "busy", "too many clients are connected"))
        }
    });
    judged.inspect_err(|fault| {
        let certificate = Fingerprint::of(&proof.certificate).to_string();
        core.audit.waits(
            Event::new("handshake")
                .decision(Decision::Denied)
                .reason(&fault.reason)
                .detail(&fault.error)
                .status(fault.kind.status())
                .address(&address)
                .certificate(&certificate),
        );
    })
}

/// What the edge says of somebody whom it turned away: for the record, with the reason a word and the certificate a fingerprint.
fn turned_away(core: &Core, address: &str, reason: &str, certificate: Option<&str>) {
    let word = |c: char| c.is_ascii_lowercase() || c == '-';
    let reason = if reason.len() <= 32 && reason.chars().all(word) { reason } else { "unknown" };
    let event =
        Event::new("handshake").decision(Decision::Denied).reason(reason).address(address).told_by_edge();
    core.audit.waits(match certificate.and_then(|c| c.parse::<Fingerprint>().ok()) {
        Some(certificate) => event.certificate(&certificate.to_string()),
        None => event,
    });
}

/// What the edge says of a request that it refused. Who the connection's client is, the core knows; that he asked this is the edge's word.
fn told(link: &Link, refused: &Refused) -> Event {
    let (status, reason) = refused.why.answer();
    let decision = if status < 500 { Decision::Denied } else { Decision::Failed };
    let address = shown(&refused.address);
    let mut event = Event::new("refused").decision(decision).status(status).reason(reason);
    event = event.address(&address).told_by_edge();
    if let Some(operation) = refused.op.as_deref().and_then(Operation::from_name) {
        event = event.op(operation.row().name);
    }
    if let Some(method) = refused.method {
        event = event.request(method.word());
    }
    match refused.handle.as_deref().and_then(|handle| link.handles.get(handle)) {
        Some(handle) => event.who(Who::from(&*handle)),
        None => event,
    }
}

/// Judges a handle again, if the trust changed since it was judged.
///
/// # Errors
/// Why its client would not be let in now.
pub(crate) fn judge_again(core: &Core, handle: &Handle) -> Result<(), Fault> {
    let now = UtcTime::from_unix(clock::unix_seconds());
    let judged_by = core.owner.trusts();
    if handle.judged_by.load(Ordering::Acquire) == judged_by && !handle.is_dead(now) {
        return Ok(());
    }
    let client = core.owner.judge_certificate(&handle.certificate)?;
    // A handle says who it is for its whole life; a certificate that reads otherwise now is a fault of ours.
    if client != handle.client || handle.is_dead(now) {
        return Err(Fault::new(
            Kind::Unproven,
            "ended",
            "this connection's client was judged otherwise before",
        ));
    }
    handle.judged_by.store(judged_by, Ordering::Release);
    Ok(())
}

/// After the trust changed: everybody is judged again, whoever fails is cut, and the edge serves anew.
pub(crate) fn trust_changed(core: &Core, link: &Link) {
    let mut ended = Vec::new();
    for handle in link.handles.list() {
        if let Err(fault) = judge_again(core, &handle)
            && link.handles.end(&handle.id)
        {
            let who = Who::from(&*handle);
            core.audit.waits(Event::new("cut").reason(&fault.reason).who(who).address(&handle.address));
            ended.push(handle.id.clone());
        }
    }
    // All are ended before the first is told: an edge that does not read holds up nobody's end.
    for handle in ended {
        link.tell(&ToEdge::Drop { handle });
    }
    link.tell(&ToEdge::Serve(core.owner.serve()));
}
