//! One connection: its handshake, its handle, its HTTP, its end.

use core::net::IpAddr;
use core::pin::Pin;
use core::time::Duration;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use muster_api::Fault;
use muster_core::Operation;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::heads::Taken;
use super::http;
use super::link::{Handle, NoHandle};
use super::owed::Owed;
use super::patient::Patient;
use super::tls::{H2, Serving};
use super::watched::Watched;
use super::{Edge, Fate, is_dead, is_leaving};
use crate::wire::{Proof, Refusal, Refused, Verb};
use muster_tls::Fingerprint;

/// A message head that is longer is refused with 431.
const MAX_HEAD: usize = 16 * 1024;
pub(super) const MAX_HEADERS: usize = 64;
/// Requests at once on one connection of HTTP/2.
const MAX_STREAMS: u32 = 64;
/// What a connection that is ended at once still gets, to hand out answers that are there already.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// What a stranger still gets when the node has found an owner: for the rest of a handshake, and for a request.
const LATE: Duration = Duration::from_secs(5);
/// Of the kernel: a client that is gone without a word is found after a minute; after two at most, where the first thing that is sent to
/// him comes at the end of the first, since a probe is not sent then and the time begins anew.
const PROBE_AFTER: Duration = Duration::from_secs(30);
const PROBE_EVERY: Duration = Duration::from_secs(10);
const PROBES: u32 = 3;
/// The same where something was sent that nobody says to have got: the kernel would try again for a quarter of an hour (tcp(7),
/// `tcp_retries2`).
const UNHEARD_MS: u32 = 60_000;

/// A connection after its handshake.
pub(crate) struct Conn {
    pub edge: Arc<Edge>,
    pub id: u64,
    /// Where from.
    pub address: IpAddr,
    /// What its client showed; `None` where the node has no owner.
    proof: Option<Proof>,
    /// Whose that is: for its shares, not for its rights.
    pub client: Option<Fingerprint>,
    shown: tokio::sync::Mutex<Shown>,
    work: Arc<Work>,
    /// What was given to its client.
    pub owed: Arc<Owed>,
}

/// What came of showing the client to the core.
#[derive(Default)]
enum Shown {
    #[default]
    NotYet,
    Known(Handle),
    Refused(Fault),
}

/// Requests that are being answered.
#[derive(Debug, Default)]
pub(crate) struct Work {
    now: AtomicUsize,
    /// When there was last one.
    since: Mutex<Option<Instant>>,
    another: Notify,
}

/// One of them, while it lives.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Work>);

impl Busy {
    fn new(work: &Arc<Work>) -> Self {
        work.now.fetch_add(1, Ordering::Relaxed);
        work.another.notify_waiters();
        Self(Arc::clone(work))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        if self.0.now.fetch_sub(1, Ordering::Relaxed) == 1 {
            *self.0.since() = Some(Instant::now());
        }
    }
}

impl Work {
    fn since(&self) -> MutexGuard<'_, Option<Instant>> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when there is something to do.
    async fn begins(&self) {
        let another = self.another.notified();
        if self.now.load(Ordering::Relaxed) == 0 {
            another.await;
        }
    }

    /// Returns when there was nothing to do for so long.
    async fn idle(&self, patience: Duration) {
        let begun = Instant::now();
        loop {
            let busy = self.now.load(Ordering::Relaxed) > 0;
            let end = if busy { Instant::now() } else { self.since().unwrap_or(begun) } + patience;
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}

impl Conn {
    /// A request begins.
    pub(crate) fn busy(&self) -> Busy {
        Busy::new(&self.work)
    }

    /// Whether clients of this connection have shown who they are.
    pub(crate) const fn claimed(&self) -> bool {
        self.proof.is_some()
    }

    /// Its handle on the link that is now. A refusal is for good.
    pub(crate) async fn handle(&self) -> Result<Handle, NoHandle> {
        let mut shown = self.shown.lock().await;
        let link = self.edge.link.number();
        match &*shown {
            Shown::Known(handle) if Some(handle.link) == link => return Ok(handle.clone()),
            Shown::Refused(fault) => return Err(NoHandle::Refused(fault.clone())),
            _ => {}
        }
        let Some(proof) = self.proof.clone() else { return Err(NoHandle::Away) };
        let answer = self.edge.link.open(self.address.to_string(), proof).await;
        match &answer {
            Ok(handle) => {
                *shown = Shown::Known(handle.clone());
                self.edge.register(self.id, &handle.handle);
            }
            Err(NoHandle::Refused(fault)) => *shown = Shown::Refused(fault.clone()),
            Err(NoHandle::Away) => {}
        }
        answer
    }
}

impl Conn {
    /// Tells the core, for the audit, of a request that it will not see. Nothing of the request's own bytes goes along.
    pub(crate) async fn refused(&self, why: Refusal, method: Option<Verb>, op: Option<Operation>) {
        let handle = match &*self.shown.lock().await {
            Shown::Known(handle) => Some(handle.handle.clone()),
            _ => None,
        };
        let op = op.map(|o| o.row().name.to_owned());
        self.edge.link.refused(Refused { address: self.address.to_string(), handle, why, method, op });
    }

    /// The same of what was no request: a head that is too long, or no HTTP.
    async fn heard(&self, spoken: Result<(), hyper::Error>) {
        let Err(error) = spoken else { return };
        if error.is_parse() {
            let why = if error.is_parse_too_large() { Refusal::Head } else { Refusal::Malformed };
            self.refused(why, None, None).await;
        }
    }
}

/// Serves a connection to its end.
pub(crate) async fn serve(
    edge: Arc<Edge>,
    id: u64,
    address: IpAddr,
    stream: TcpStream,
    serving: Arc<Serving>,
    mut fate: watch::Receiver<Fate>,
) {
    let limits = edge.limits;
    let Ok((config, seen)) = serving.connection() else { return };
    let stream = Patient::new(stream, limits.write);
    // Who came to claim a node that somebody else has just claimed hears so: such a handshake may end, and one request come.
    let put_out = async {
        is_leaving(&mut fate).await;
        if !serving.claimed() {
            let _ = timeout(LATE, is_dead(&mut fate)).await;
        }
    };
    let shaken = tokio::select! {
        shaken = timeout(limits.handshake, TlsAcceptor::from(config).accept(stream)) => shaken,
        () = put_out => return,
    };
    let stream = match shaken {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            if let Some(why) = seen.turned_away(&error) {
                edge.link.turned_away(address.to_string(), why);
            }
            return;
        }
        Err(_) => return,
    };
    let proof = seen.proof();
    // Behind a verifier that must have a certificate there is none without; were there one, it would get nothing.
    if serving.claimed() != proof.is_some() {
        return;
    }
    if proof.is_some() && !edge.seated(id, address) {
        return;
    }
    let conn = Arc::new(Conn {
        edge: Arc::clone(&edge),
        id,
        address,
        client: proof.as_ref().map(|p| Fingerprint::of(&p.certificate)),
        proof,
        shown: tokio::sync::Mutex::default(),
        work: Arc::default(),
        owed: Owed::new(limits.write),
    });
    if conn.claimed() {
        // Early, so that the core knows of a client that says nothing. What it says is for the first request.
        let _ = conn.handle().await;
    }
    tokio::select! {
        () = speak(&conn, stream, &mut fate) => {}
        // Dropped as it is: whoever takes nothing takes no last words either.
        () = conn.owed.stalls() => {}
    }
    if let Shown::Known(handle) = &*conn.shown.lock().await {
        edge.link.close(handle.clone());
    }
}

/// HTTP, in the version that the handshake agreed on.
async fn speak(conn: &Arc<Conn>, stream: TlsStream<Patient<TcpStream>>, fate: &mut watch::Receiver<Fate>) {
    let limits = conn.edge.limits;
    let quiet = if conn.claimed() { limits.idle } else { limits.stranger };
    let whole = if conn.claimed() { None } else { Some(Instant::now() + limits.stranger_whole) };
    let http2 = stream.get_ref().1.alpn_protocol() == Some(H2);
    let end = async {
        tokio::select! {
            () = put_out(conn, fate) => {}
            () = conn.work.idle(quiet) => {}
            () = async { match whole { Some(at) => sleep_until(at).await, None => core::future::pending().await } } => {}
        }
    };
    if http2 {
        let mut builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .max_header_list_size(MAX_HEAD as u32)
            .max_send_buf_size(64 * 1024)
            .initial_stream_window_size(64 * 1024)
            .initial_connection_window_size(1024 * 1024)
            .max_frame_size(16 * 1024);
        let conn = Arc::clone(conn);
        let work = Arc::clone(&conn.work);
        // A fragment is cut off in h2 already, and there is one length only.
        let service = service_fn(move |request| http::answer(Arc::clone(&conn), request, Taken::Nothing));
        let serving = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        tokio::select! {
            _ = &mut serving => return,
            () = end => serving.as_mut().graceful_shutdown(),
        }
        last(serving, fate, &work).await;
    } else {
        let mut builder = hyper::server::conn::http1::Builder::new();
        builder
            .timer(TokioTimer::new())
            .header_read_timeout(quiet.min(limits.head))
            .max_header_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .max_buf_size(4 * MAX_HEAD);
        let (stream, told) = Watched::new(stream);
        let service = {
            let conn = Arc::clone(conn);
            service_fn(move |request| http::answer(Arc::clone(&conn), request, told.next()))
        };
        let serving = builder.serve_connection(TokioIo::new(stream), service);
        tokio::pin!(serving);
        tokio::select! {
            spoken = &mut serving => return conn.heard(spoken).await,
            () = end => serving.as_mut().graceful_shutdown(),
        }
        last(serving, fate, &conn.work).await;
    }
}

/// Until a connection must end: at once, except that of a stranger, who is not answered by an end without a word.
async fn put_out(conn: &Conn, fate: &mut watch::Receiver<Fate>) {
    is_leaving(fate).await;
    if !conn.claimed() {
        tokio::select! {
            _ = timeout(LATE, conn.work.begins()) => {}
            () = is_dead(fate) => {}
        }
    }
}

/// Lets answers that have begun come to their end; not for long where the client may no longer be served, or says nothing.
async fn last<T>(
    mut serving: Pin<&mut impl Future<Output = T>>,
    fate: &mut watch::Receiver<Fate>,
    work: &Work,
) {
    tokio::select! {
        _ = &mut serving => return,
        () = is_dead(fate) => {}
        () = work.idle(LAST_WORDS) => {}
    }
    let _ = timeout(LAST_WORDS, serving).await;
}

/// Of the socket that listens: Linux gives what it accepts the same options, so that none is set for each client.
pub(super) fn keep_alive(listener: &TcpListener) {
    // None of it is needed to be right, only to be rid of dead clients sooner.
    let _ = sockopt::set_tcp_nodelay(listener, true);
    let _ = sockopt::set_socket_keepalive(listener, true);
    let _ = sockopt::set_tcp_keepidle(listener, PROBE_AFTER);
    let _ = sockopt::set_tcp_keepintvl(listener, PROBE_EVERY);
    let _ = sockopt::set_tcp_keepcnt(listener, PROBES);
    let _ = sockopt::set_tcp_user_timeout(listener, UNHEARD_MS);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_accepted_has_the_options_of_the_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        keep_alive(&listener);
        let at = listener.local_addr().expect("bound");
        let (client, accepted) = tokio::join!(TcpStream::connect(at), listener.accept());
        let (client, (accepted, _)) = (client.expect("connected"), accepted.expect("accepted"));
        let seen = |s: &TcpStream| {
            (
                sockopt::tcp_nodelay(s),
                sockopt::socket_keepalive(s),
                sockopt::tcp_keepidle(s),
                sockopt::tcp_keepintvl(s),
                sockopt::tcp_keepcnt(s),
            )
        };
        assert_eq!(sockopt::tcp_user_timeout(&accepted), Ok(UNHEARD_MS));
        assert_eq!(seen(&accepted), (Ok(true), Ok(true), Ok(PROBE_AFTER), Ok(PROBE_EVERY), Ok(PROBES)));
        assert_ne!(seen(&client).0, Ok(true), "it is not the default");
    }
}
