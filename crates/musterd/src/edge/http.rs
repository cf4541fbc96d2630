//! One request and its answer.

use core::convert::Infallible;
use core::time::Duration;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Version};
use muster_api::{AUDIT_HEADER, Fault, Kind, NDJSON, PROOF_HEADER, Route};
use muster_core::Operation;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;

use super::Fate;
use super::ask::{Wanted, methods, read};
use super::body::{Body, Given, Held};
use super::call::{Answer, away, call, keep};
use super::conn::{Conn, MAX_HEADERS};
use super::heads::{Taken, is_authority};
use super::link::NoHandle;
use crate::shares::Share;
use crate::wire::{Call, Hello, Refusal, Reply, Verb};

/// Longest `Muster-Proof`.
const MAX_PROOF: usize = 4096;
/// Longest body of `POST /v1/enroll`: a document in JSON, and what stands beside it.
const MAX_ENROLL: usize = muster_pairing::message::MAX_BODY;
/// What an enrolment may take: its writes to a slow disk, and the service manager, which is asked to let the bootstrap go.
const ENROLL: Duration = Duration::from_secs(60);
/// A body up to here needs no room in the budget of bodies.
const SMALL: usize = 64 * 1024;
/// What is read of a body that is too long, so that its sender hears that it is.
const MAX_DISCARD: usize = 8 << 20;
/// For a small body behind a request that is refused.
const LITTLE: Duration = Duration::from_secs(1);
/// What a budget of bodies counts in.
const UNIT: usize = 64 * 1024;
/// Pieces of a stream that wait for a slow client.
const WAITING: usize = 2;

/// What the budget of answers that wait for their clients counts in.
const ANSWER_UNIT: usize = 4096;

/// Budget of the answers that wait for their clients, their calls being done: 16 MiB.
pub(crate) const ANSWER_UNITS: usize = 4096;
/// Of it for one client: 4 MiB.
pub(crate) const CLIENT_ANSWER_UNITS: usize = 1024;
/// Budget of the long bodies that are being read: 32 MiB.
pub(crate) const UNITS: usize = 512;
/// Of it for one client: 8 MiB.
pub(crate) const CLIENT_UNITS: usize = 128;
/// Calls at once of one client, its streams among them.
pub(crate) const CLIENT_CALLS: usize = 64;
/// Calls at once. The core takes some more, so that its own limit is not what a client meets.
pub(crate) const CALLS: usize = 256;

type Answered = Response<Body>;

/// Answers whatever comes.
pub(crate) async fn answer(
    conn: Arc<Conn>,
    request: Request<Incoming>,
    taken: Taken,
) -> Result<Answered, Infallible> {
    let busy = conn.busy();
    let (head, body) = request.into_parts();
    let head = Request::from_parts(head, ());
    let mut body = Some(body);
    // HTTP/1.1 is read with this bound; in HTTP/2 its length alone has one, before it is here.
    let long = head.headers().len() > MAX_HEADERS;
    let done = if long { None } else { Some(respond(&conn, &head, taken, &mut body).await) };
    if let Some(body) = body
        && !asks(&head)
    {
        // What was sent along with a request that is refused is read, where it is little: a stream that is reset over it may take
        // the answer with it, and a connection could not be used again.
        let _ = timeout(LITTLE, discard(body, SMALL)).await;
    }
    let given = Given::new(&conn.owed, busy);
    let mut response = match done {
        Some(Ok(Ready::Whole(reply, body, held))) => {
            given.hold(held);
            let mut response = Response::new(Body::whole(body, given));
            dress(&mut response, &reply);
            response
        }
        Some(Ok(Ready::Stream(answer, permit))) => stream(&conn, answer, permit, given),
        Some(Err(fault)) => {
            if let Some(why) = Refusal::of(&fault) {
                conn.refused(why, Verb::of(head.method().as_str()), operation(&head)).await;
            }
            refusal(&fault, head.uri().path(), given)
        }
        None => {
            conn.refused(Refusal::Head, Verb::of(head.method().as_str()), operation(&head)).await;
            let mut response = Response::new(Body::whole(Bytes::new(), given));
            *response.status_mut() = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            response
        }
    };
    if conn.edge.is_doomed(conn.id) && head.version() < Version::HTTP_2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    Ok(response)
}

enum Ready {
    Whole(Reply, Vec<u8>, Held),
    Stream(Answer, Permit),
}

/// A call among all, and among those of its client where that is known.
pub(crate) type Permit = (OwnedSemaphorePermit, Option<Share>);

async fn respond(
    conn: &Arc<Conn>,
    request: &Request<()>,
    taken: Taken,
    sent: &mut Option<Incoming>,
) -> Result<Ready, Fault> {
    let target = form(request, taken).and_then(|()| target(request));
    let wanted = target.and_then(|target| read(request.method().as_str(), target));
    if !conn.claimed() {
        return match wanted {
            Ok(Wanted::Enroll) => enroll(conn, request, sent).await,
            _ => Err(Fault::state("unclaimed", "nobody has claimed this node, and it answers nothing else")
                .fix("Claim it: `muster node claim`, with the code from its console.")),
        };
    }
    let handle = match conn.handle().await {
        Ok(handle) => handle,
        Err(NoHandle::Away) => return Err(away()),
        Err(NoHandle::Refused(fault)) => {
            // One answer, and then the connection ends.
            conn.edge.doom(conn.id, Fate::Leaving);
            return Err(fault);
        }
    };
    by_a_program(request.headers())?;
    let (route, ask, line) = match wanted? {
        Wanted::Call { route, ask, request } => (route, ask, request),
        Wanted::Enroll => {
            return Err(Fault::state("claimed", "this node has an owner already")
                .fix("Only a reset of the node, or root on its console, changes that."));
        }
    };
    let proof = proof(request.headers())?;
    let what = format!("{CLIENT_CALLS} calls at once");
    let own = conn.client.map(|who| conn.edge.calls_of.take(who, 1, &what)).transpose()?;
    let permit = (permit(&conn.edge.calls, 1)?, own);
    let body = if route.body == 0 {
        let none = || Fault::bad("body", "this call takes no body, or `{}`");
        let body = body(conn, request, sent.take(), SMALL).await?;
        if matches!(body.as_ref(), b"" | b"{}") { body } else { return Err(none()) }
    } else {
        body(conn, request, sent.take(), route.body).await?
    };
    let deadline = Duration::from_secs(ask.operation().row().deadline.into());
    let hello = Hello::Call(Call { handle: handle.handle, ask, request: line, proof });
    let answer = call(&conn.edge.link, &hello, &body, deadline).await?;
    finish(conn, route, answer, permit).await
}

/// Which operation a request is of, where it is one at all.
fn operation(request: &Request<()>) -> Option<Operation> {
    match target(request).and_then(|target| read(request.method().as_str(), target)) {
        Ok(Wanted::Call { route, .. }) => Some(route.operation),
        _ => None,
    }
}

/// A stream is handed on as it comes; everything else is short, and whole or nothing.
async fn finish(conn: &Conn, route: &Route, answer: Answer, permit: Permit) -> Result<Ready, Fault> {
    let streams = route.answer == muster_api::Answer::Stream;
    if streams && answer.reply.content == NDJSON && answer.reply.status == 200 {
        return Ok(Ready::Stream(answer, permit));
    }
    let (reply, body, connection) = answer.whole().await?;
    // Nothing follows a read, so nobody waits for what becomes of its answer.
    let kept = (route.method != muster_api::Method::Get).then(|| keep(connection));
    let rests = rest(conn, permit, body.len());
    Ok(Ready::Whole(reply, body, Box::new((kept, rests))))
}

/// What is held for a call that is done, until its client has taken the answer: its client's share, and room in memory. Where there
/// is none, the call itself goes on to count.
fn rest(conn: &Conn, (call, own): Permit, bytes: usize) -> (Permit, Option<Share>) {
    let units = bytes.div_ceil(ANSWER_UNIT);
    let share = conn.client.map(|who| conn.edge.answers_of.take(who, units, "answers that wait")).transpose();
    let room = u32::try_from(units).map(|units| permit(&conn.edge.answers, units));
    match (room, share) {
        (Ok(Ok(room)), Ok(share)) => ((room, own), share),
        _ => ((call, own), None),
    }
}

async fn enroll(
    conn: &Arc<Conn>,
    request: &Request<()>,
    sent: &mut Option<Incoming>,
) -> Result<Ready, Fault> {
    by_a_program(request.headers())?;
    let permit = permit(&conn.edge.calls, 1)?;
    let body = body(conn, request, sent.take(), MAX_ENROLL).await?;
    let hello = Hello::Enroll { address: conn.address.to_string() };
    let answer = call(&conn.edge.link, &hello, &body, ENROLL).await?;
    let (reply, body, connection) = answer.whole().await?;
    let rests = rest(conn, (permit, None), body.len());
    Ok(Ready::Whole(reply, body, Box::new((keep(connection), rests))))
}

/// Refuses what HTTP lets a server mend, or pass over: one form for each request.
fn form(request: &Request<()>, taken: Taken) -> Result<(), Fault> {
    let no = |why: &str| Err(Fault::bad("malformed", why));
    match taken {
        Taken::Fragment => {
            return Err(Fault::bad("path", "the path is not in its plain spelling: it has a `#`"));
        }
        Taken::Length => return no("the request has both `Content-Length` and `Transfer-Encoding`"),
        Taken::Lost => return no("a line before was too long for what it says"),
        Taken::Nothing => {}
    }
    if request.version() < Version::HTTP_11 {
        // A stream that was cut off would look like one that came to its end.
        return no("HTTP before 1.1 is not spoken here");
    }
    // hyper looks at the last of the codings only, and hands on the body in the others.
    let mut codings = request.headers().get_all(header::TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next()) {
        (None, _) => {}
        (Some(one), None) if one.as_bytes().eq_ignore_ascii_case(b"chunked") => {}
        _ => return no("the request has a `Transfer-Encoding` that is not `chunked`, once"),
    }
    host(request)
}

/// Whom the request is to: one name, in one place or alike in two (RFC 9112, 3.2; RFC 9113, 8.3.1). Which name it is decides nothing.
fn host(request: &Request<()>) -> Result<(), Fault> {
    let no = |why: &str| Err(Fault::bad("host", why));
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let (host, more) = (hosts.next(), hosts.next());
    if more.is_some() {
        return no("the request has `Host` twice");
    }
    let host = match host.map(HeaderValue::to_str) {
        None => None,
        Some(Ok(host)) => Some(host),
        Some(Err(_)) => return no("the request's `Host` is no name of a host"),
    };
    // That of an absolute form of HTTP/1.1 is refused with its form.
    let authority = request.uri().authority().filter(|_| request.version() >= Version::HTTP_2);
    let Some(named) = authority.map(hyper::http::uri::Authority::as_str).or(host) else {
        return no("the request does not say whom it is to: it has no `Host`");
    };
    if !is_authority(named) {
        return no("the request's `Host` is no name of a host");
    }
    if host.is_some_and(|host| !host.eq_ignore_ascii_case(named)) {
        return no("the request's `:authority` and `Host` are not the same");
    }
    Ok(())
}

/// Path and query. HTTP/1.1 also has a form with a host in it, which a proxy is asked by, and this is none.
fn target<B>(request: &Request<B>) -> Result<&str, Fault> {
    let uri = request.uri();
    let bare = request.version() >= Version::HTTP_2 || uri.authority().is_none() && uri.scheme().is_none();
    let target = uri.path_and_query().map(hyper::http::uri::PathAndQuery::as_str);
    match target {
        Some(target) if bare && request.method() != Method::CONNECT => Ok(target),
        _ => Err(Fault::bad("path", "the path is not in its plain spelling: it names a host")),
    }
}

/// Refuses a request that a page in a browser made: a browser that holds an operator's certificate would send it along.
fn by_a_program(headers: &HeaderMap) -> Result<(), Fault> {
    if headers.contains_key(header::ORIGIN) || headers.contains_key("sec-fetch-site") {
        return Err(Fault::new(Kind::Forbidden, "browser", "this is no address for pages in a browser"));
    }
    Ok(())
}

fn proof(headers: &HeaderMap) -> Result<Option<String>, Fault> {
    let mut all = headers.get_all(PROOF_HEADER).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) if one.len() <= MAX_PROOF => one
            .to_str()
            .map(|text| Some(text.to_owned()))
            .map_err(|_| Fault::bad("proof", "the request's `Muster-Proof` cannot be read")),
        _ => Err(Fault::bad("proof", "the request's `Muster-Proof` is there twice, or too long")),
    }
}

fn permit(of: &Arc<Semaphore>, units: u32) -> Result<OwnedSemaphorePermit, Fault> {
    Arc::clone(of).try_acquire_many_owned(units).map_err(|_| {
        let mut fault = Fault::new(Kind::Busy, "busy", "the node answers as many calls as it can");
        fault.retry_after = Some(1);
        fault
    })
}

/// Whether the client sends its body only when it is told to, so that there is none yet (RFC 9110, 10.1.1).
fn asks(request: &Request<()>) -> bool {
    request.headers().contains_key(header::EXPECT)
}

/// The whole body, of at most so many bytes, in so long.
async fn body(
    conn: &Conn,
    request: &Request<()>,
    sent: Option<Incoming>,
    most: usize,
) -> Result<Bytes, Fault> {
    let asks = asks(request);
    let Some(body) = sent else { return Ok(Bytes::new()) };
    let hint = hyper::body::Body::size_hint(&body);
    let read = async {
        if hint.lower() > most as u64 {
            return Err((!asks).then_some(body));
        }
        let length = hint.upper().map_or(most, |upper| usize::try_from(upper).unwrap_or(most).min(most));
        collect(conn, body, most, length).await
    };
    let fault = match timeout(conn.edge.limits.body, read).await {
        Ok(Ok(read)) => return read,
        Ok(Err(rest)) => {
            if let Some(rest) = rest {
                // A connection that is closed on bytes that nobody read is reset, and with it the answer (RFC 9112, 9.6).
                let _ = timeout(conn.edge.limits.drain, discard(rest, MAX_DISCARD)).await;
            }
            Fault::new(Kind::TooLarge, "body", format!("the body is over {most} bytes"))
        }
        Err(_) => Fault::new(Kind::Slow, "slow-body", "the body did not come in time"),
    };
    conn.edge.doom(conn.id, Fate::Leaving);
    Err(fault)
}

/// Reads a body to its end; `Err` is what is left of one that is too long.
async fn collect(
    conn: &Conn,
    mut body: Incoming,
    most: usize,
    length: usize,
) -> Result<Result<Bytes, Fault>, Option<Incoming>> {
    let units = u32::try_from(length.div_ceil(UNIT)).unwrap_or(u32::MAX);
    let room = if length > SMALL { room(conn, units).map(Some) } else { Ok(None) };
    let _room = match room {
        Ok(room) => room,
        Err(fault) => return Ok(Err(fault)),
    };
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Ok(Err(Fault::bad("body", "the body was cut off"))) };
        // What is no data is a trailer, and nobody asked for one.
        let Ok(data) = frame.into_data() else { continue };
        if all.len() + data.len() > most {
            return Err(Some(body));
        }
        all.extend_from_slice(&data);
    }
    Ok(Ok(all.into()))
}

/// For a long body.
fn room(conn: &Conn, units: u32) -> Result<Permit, Fault> {
    let what = format!("{} MiB of bodies that are on their way", (CLIENT_UNITS * UNIT) >> 20);
    let many = usize::try_from(units).unwrap_or(usize::MAX);
    let own = conn.client.map(|who| conn.edge.bodies_of.take(who, many, &what)).transpose()?;
    Ok((permit(&conn.edge.bodies, units)?, own))
}

/// Reads on, for a while, and keeps nothing.
async fn discard(mut body: Incoming, mut left: usize) {
    while let Some(Ok(frame)) = body.frame().await {
        let Some(rest) = left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) else { return };
        left = rest;
    }
}

fn stream(conn: &Arc<Conn>, answer: Answer, permit: Permit, given: Arc<Given>) -> Answered {
    let (to, pieces) = mpsc::channel(WAITING);
    let mut response = Response::new(Body::stream(pieces, Arc::clone(&given)));
    dress(&mut response, &answer.reply);
    if let Some(fate) = conn.edge.fate(conn.id) {
        let conn = Arc::clone(conn);
        tokio::spawn(async move {
            answer.pump(to, fate, conn.edge.limits.write, &given).await;
            given.hold(Box::new(rest(&conn, permit, given.left())));
        });
    }
    response
}

/// Status and headers of an answer of the core.
fn dress(response: &mut Answered, reply: &Reply) {
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    let mut put = |name: &'static str, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    put("content-type", &reply.content);
    put("x-content-type-options", "nosniff");
    if let Some(head) = &reply.audit {
        put(AUDIT_HEADER, head);
    }
    if let Some(seconds) = reply.retry_after {
        put("retry-after", &seconds.to_string());
    }
    if reply.no_store || reply.content == NDJSON {
        put("cache-control", "no-store");
    }
}

/// A refusal of the edge itself.
fn refusal(fault: &Fault, path: &str, given: Arc<Given>) -> Answered {
    let text = serde_json::to_vec(fault).unwrap_or_default();
    let mut response = Response::new(Body::whole(text, given));
    let reply = Reply {
        status: fault.kind.status(),
        content: "application/json".to_owned(),
        audit: None,
        retry_after: fault.retry_after,
        no_store: false,
    };
    dress(&mut response, &reply);
    if fault.kind == Kind::Method
        && let Ok(value) = HeaderValue::from_str(&methods(path))
    {
        response.headers_mut().insert(header::ALLOW, value);
    }
    response
}
