//! `POST /v1/enroll`: carried to the one who owns that question, and written down.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::audit::{Decision, Event, Room};
use super::link::shown;
use super::server::{Core, answer, answer_fault, busy};
use super::stream::{Incoming, wait_for_close};
use crate::wire::{Broken, Reply, ToEdge, read_body};

/// Longest body: a document in JSON, where a byte may take two, beside an authority.
const MAX_BODY: usize = 2 * (1 << 20) + 128 * 1024;
/// In which it must be there, and the answer be taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the edge has to hand the answer of a claim on.
const FLUSH: Duration = Duration::from_secs(5);

/// Serves one step of a pairing.
///
/// # Errors
/// The edge sent what does not belong here, or left.
pub(crate) fn serve(
    core: &Arc<Core>,
    address: &str,
    stream: &UnixStream,
    mut from: Incoming<'_>,
) -> Result<(), Broken> {
    let head = || Some(core.audit.head().to_string());
    let Some(_bytes) = core.bodies.take(MAX_BODY) else {
        return answer_fault(stream, &busy(), head(), PATIENCE);
    };
    from.get_mut().reset(Some(PATIENCE));
    let body = read_body(&mut from, MAX_BODY)?;
    let address = shown(address);
    let done = core.owner.enroll(&body, &address);
    let decision = if done.status < 300 { Decision::Allowed } else { Decision::Denied };
    let event =
        Event::new("enroll").decision(decision).reason(&done.reason).status(done.status).address(&address);
    // A claim stands whether or not it can be written; it is also in the claim's own record.
    if !done.claimed || core.audit.first(&event, Room::Reserved).is_err() {
        core.audit.waits(event);
    }
    let reply = Reply {
        status: done.status,
        content: "application/json".to_owned(),
        audit: head(),
        retry_after: done.retry_after,
        no_store: true,
    };
    // Who claimed it calls at once, as a client, and must not meet an edge that still serves a node without an owner.
    if let Some(link) = core.link().filter(|_| done.claimed) {
        link.tell(&ToEdge::Hold);
    }
    let answered = answer(stream, &reply, &done.body, PATIENCE);
    if done.claimed {
        // The edge serves anew from here on, with the answer behind it.
        wait_for_close(stream, FLUSH);
        core.owner.announce();
    }
    answered
}
