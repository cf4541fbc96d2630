//! From a route to a connection: hop after hop, each with its own trust and deadlines, flakes tried
//! again, bastions shared.

use core::time::Duration;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use aws_lc_rs::rand;
use muster_core::UtcTime;
use russh::ChannelOpenFailure;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::auth;
use crate::certificate::printable;
use crate::error::{Cause, ConnectError, HopRef, Retry, Stage};
use crate::fingerprint::{Fingerprint, KeyKind};
use crate::link::{HandshakeFault, HopReport, Link, Proven, handshake};
use crate::route::{Address, Family, Hop, RetryPolicy, Route};
use crate::stream::lock;
use crate::tunnel;

/// The clock, given by whoever may read one.
type Clock = dyn Fn() -> UtcTime + Send + Sync;

/// Connects to hosts. One client shares its connections to bastions among all hosts behind them, and
/// keeps them until it is dropped.
pub struct Client {
    clock: Box<Clock>,
    bastions: Mutex<HashMap<String, Slot>>,
    /// Of which kind the keys are that were pinned as bare fingerprints. Asking for that kind at once spares the host the
    /// connections on which nobody logs in, which it may count against us.
    kinds: Mutex<HashMap<Fingerprint, KeyKind>>,
    seen: Option<Box<Seen>>,
}

/// Is told of every hop that was logged in to.
type Seen = dyn Fn(&HopReport) + Send + Sync;

type Slot = Arc<tokio::sync::Mutex<Bastion>>;

/// A bastion as one client knows it.
#[derive(Default)]
struct Bastion {
    link: Option<Arc<Link>>,
    /// When it was last not reached, and why.
    failed: Option<(Instant, Trouble)>,
}

/// A fault on the way and the hop it belongs to.
#[derive(Clone)]
struct Trouble {
    hop: HopRef,
    cause: Cause,
    attempts: u32,
    /// The hop is not the one that was being reached, but a bastion that had been up.
    carrier: bool,
}

impl Trouble {
    fn at(hop: &HopRef, cause: Cause) -> Self {
        Self { hop: hop.clone(), cause, attempts: 1, carrier: false }
    }

    /// A bastion on the way is gone.
    fn carrier(outer: &Link) -> Self {
        let (hop, why) = outer.blame();
        Self { hop, cause: Cause::Lost { why }, attempts: 1, carrier: true }
    }
}

impl From<Trouble> for ConnectError {
    fn from(t: Trouble) -> Self {
        Self::new(t.hop, t.cause, t.attempts)
    }
}

/// How far a connection in the making has come.
#[derive(Debug, Default)]
pub struct Progress(Mutex<Way>);

#[derive(Debug, Default)]
struct Way {
    at: Option<(HopRef, Stage)>,
    failed: Option<ConnectError>,
}

impl Progress {
    /// The step that goes on; none before the first and after the last.
    pub fn step(&self) -> Option<(HopRef, Stage)> {
        lock(&self.0).at.clone()
    }

    /// What the last try failed with that is tried again.
    pub fn last_failure(&self) -> Option<ConnectError> {
        lock(&self.0).failed.clone()
    }

    fn at(&self, hop: &HopRef, stage: Stage) {
        lock(&self.0).at = Some((hop.clone(), stage));
    }

    fn failed(&self, trouble: &Trouble) {
        lock(&self.0).failed = Some(trouble.clone().into());
    }

    fn done(&self) {
        *lock(&self.0) = Way::default();
    }
}

impl core::fmt::Debug for Client {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// `clock` says what time it is, for the validity of certificates.
    pub fn new(clock: impl Fn() -> UtcTime + Send + Sync + 'static) -> Self {
        Self {
            clock: Box::new(clock),
            bastions: Mutex::new(HashMap::new()),
            kinds: Mutex::new(HashMap::new()),
            seen: None,
        }
    }

    /// Calls `seen` for every hop that was logged in to, once a connection, before [`Client::connect`] returns.
    #[must_use]
    pub fn on_login(mut self, seen: impl Fn(&HopReport) + Send + Sync + 'static) -> Self {
        self.seen = Some(Box::new(seen));
        self
    }

    /// Goes the whole route. On an error nothing is left open but shared bastions.
    pub async fn connect(&self, route: &Route) -> Result<crate::Connection, ConnectError> {
        self.connect_watched(route, &Progress::default()).await
    }

    /// The same, with what is known on the way written into `progress`, for who gives up before this returns.
    pub async fn connect_watched(
        &self,
        route: &Route,
        progress: &Progress,
    ) -> Result<crate::Connection, ConnectError> {
        let started = Instant::now();
        let policy = route.target.timing.retry;
        let mut round = 1;
        loop {
            let mut reused = false;
            let trouble = match self.walk(route, &mut reused, progress).await {
                Ok(link) => {
                    progress.done();
                    return Ok(crate::Connection::new(link));
                }
                Err(trouble) => trouble,
            };
            // A bastion that had been up went away under the next hop: begin again from it. One that
            // was kept from earlier may have been gone for long, which is nobody's flake.
            let again = trouble.carrier && round < policy.attempts.max(if reused { 2 } else { 1 });
            progress.failed(&trouble);
            if !again || started.elapsed() > policy.within {
                return Err(trouble.into());
            }
            if !reused {
                sleep(delay(&policy, round)).await;
            }
            round += 1;
        }
    }

    async fn walk(
        &self,
        route: &Route,
        reused: &mut bool,
        progress: &Progress,
    ) -> Result<Arc<Link>, Trouble> {
        let of = route.len();
        let mut outer: Option<Arc<Link>> = None;
        let mut key = String::new();
        for (i, hop) in route.bastions.iter().enumerate() {
            let hop_ref = hop_ref(hop, i + 1, of);
            key.push_str(&hop_key(hop));
            progress.at(&hop_ref, Stage::Connect);
            outer = Some(self.bastion(&key, (hop, hop_ref), outer, reused, progress).await?);
        }
        let target = hop_ref(&route.target, of, of);
        self.establish(&route.target, target, outer, progress).await.map(Arc::new)
    }

    /// A bastion that is up already, or a new connection to it. Whoever else wants the same one waits,
    /// and shares what comes of it: a thousand hosts behind a dead bastion fail together and not one
    /// after the other.
    async fn bastion(
        &self,
        key: &str,
        (hop, hop_ref): (&Hop, HopRef),
        outer: Option<Arc<Link>>,
        reused: &mut bool,
        progress: &Progress,
    ) -> Result<Arc<Link>, Trouble> {
        let slot = Arc::clone(lock(&self.bastions).entry(key.to_owned()).or_default());
        let asked = Instant::now();
        let mut slot = slot.lock().await;
        if let Some(link) = slot.link.as_ref().filter(|l| l.is_alive()) {
            *reused = true;
            return Ok(Arc::clone(link));
        }
        if let Some((_, trouble)) = slot.failed.as_ref().filter(|(when, _)| *when > asked) {
            return Err(Trouble { hop: HopRef { of: hop_ref.of, ..trouble.hop.clone() }, ..trouble.clone() });
        }
        *slot = Bastion::default();
        match self.establish(hop, hop_ref, outer, progress).await {
            Ok(link) => {
                let link = Arc::new(link);
                slot.link = Some(Arc::clone(&link));
                Ok(link)
            }
            Err(trouble) => {
                slot.failed = Some((Instant::now(), trouble.clone()));
                Err(trouble)
            }
        }
    }

    /// One hop, with its retries.
    async fn establish(
        &self,
        hop: &Hop,
        hop_ref: HopRef,
        outer: Option<Arc<Link>>,
        progress: &Progress,
    ) -> Result<Link, Trouble> {
        let policy = hop.timing.retry;
        let started = Instant::now();
        let mut attempt = 1;
        loop {
            let trouble = match self.attempt(hop, &hop_ref, outer.clone(), progress).await {
                Ok(link) => return Ok(link),
                Err(trouble) => trouble,
            };
            let again = !trouble.carrier
                && is_flake(&trouble.cause)
                && attempt < tries(&trouble.cause, &policy)
                && started.elapsed() < policy.within;
            if !again {
                return Err(Trouble { attempts: attempt, ..trouble });
            }
            progress.failed(&Trouble { attempts: attempt, ..trouble });
            sleep(delay(&policy, attempt)).await;
            attempt += 1;
        }
    }

    async fn attempt(
        &self,
        hop: &Hop,
        hop_ref: &HopRef,
        outer: Option<Arc<Link>>,
        progress: &Progress,
    ) -> Result<Link, Trouble> {
        let here = |cause| Trouble::at(hop_ref, cause);
        let mut proven = self.prove(hop, hop_ref, outer.as_ref(), progress).await?;
        progress.at(hop_ref, Stage::Auth);
        let login = timeout(hop.timing.auth, auth::login(&mut proven, hop, (self.clock)()));
        let result = match login.await {
            Ok(result) => result,
            Err(_) => Err(Cause::Deadline { stage: Stage::Auth, after: hop.timing.auth }),
        };
        match result {
            Ok(identity) => {
                let link = Link::new(proven, hop, hop_ref.clone(), identity, outer).map_err(here)?;
                if let Some(seen) = &self.seen {
                    seen(&link.report);
                }
                Ok(link)
            }
            Err(cause) => {
                drop(proven);
                match outer.filter(|o| !o.is_alive()) {
                    Some(outer) => Err(Trouble::carrier(&outer)),
                    None => Err(here(cause)),
                }
            }
        }
    }

    /// Connects and proves the host key. A bare fingerprint does not say of which kind of key it is,
    /// so a host that shows another key is asked for those kinds that it also has, one by one.
    async fn prove(
        &self,
        hop: &Hop,
        hop_ref: &HopRef,
        outer: Option<&Arc<Link>>,
        progress: &Progress,
    ) -> Result<Proven, Trouble> {
        let mut kinds = hop.trust.kinds(&lock(&self.kinds));
        let mut presented: Vec<(String, Fingerprint)> = Vec::new();
        loop {
            progress.at(hop_ref, Stage::Connect);
            let io = dial(hop, hop_ref, outer).await?;
            progress.at(hop_ref, Stage::Handshake);
            let fault = match handshake(io, hop, &kinds, (self.clock)()).await {
                Ok(proven) => {
                    if let Some(shown) = &proven.shared.notes().shown
                        && let Some(kind) = KeyKind::from_name(&shown.kind)
                    {
                        lock(&self.kinds).insert(shown.fingerprint, kind);
                    }
                    return Ok(proven);
                }
                Err(fault) => fault,
            };
            let cause = match fault {
                HandshakeFault::Cause(Cause::HostKeyChanged { pinned, presented: last }) => {
                    presented.extend(last);
                    Cause::HostKeyChanged { pinned, presented }
                }
                HandshakeFault::Cause(cause) => cause,
                HandshakeFault::OtherKind { shown, offers } => {
                    kinds.retain(|k| k.name() != shown.0 && offers.iter().any(|o| offers_kind(o, *k)));
                    presented.push(shown);
                    if !kinds.is_empty() && presented.len() < KeyKind::ALL.len() {
                        continue;
                    }
                    Cause::HostKeyChanged { pinned: hop.trust.pinned(), presented }
                }
            };
            return Err(match outer.filter(|o| !o.is_alive()) {
                Some(outer) => Trouble::carrier(outer),
                None => Trouble::at(hop_ref, cause),
            });
        }
    }
}

/// Whether an algorithm name in a server's list means a key of this kind.
fn offers_kind(offer: &str, kind: KeyKind) -> bool {
    match kind {
        KeyKind::Rsa => matches!(offer, "rsa-sha2-256" | "rsa-sha2-512"),
        other => offer == other.name(),
    }
}

fn hop_ref(hop: &Hop, index: usize, of: usize) -> HopRef {
    HopRef { index, of, name: hop.name.clone(), endpoint: hop.endpoint() }
}

/// Hops with the same key are the same bastion, reached and trusted in the same way.
fn hop_key(hop: &Hop) -> String {
    format!(
        "{}\0{}\0{:?}\0{:?}\0{:?}\0{}\n",
        hop.endpoint(),
        hop.user,
        hop.trust,
        hop.family,
        hop.timing,
        auth::identities_key(&hop.identities)
    )
}

/// What another try may mend. Logging in is not among it, nor anything that the host decided.
fn is_flake(cause: &Cause) -> bool {
    match cause {
        Cause::Deadline { stage, .. } => matches!(stage, Stage::Connect | Stage::Handshake),
        Cause::Lost { .. } | Cause::Unreachable { .. } | Cause::DroppedBeforeBanner { .. } => {
            cause.retry() == Retry::Helps
        }
        _ => false,
    }
}

/// What sshd says as it drops a connection because `MaxStartups` others have not logged in yet (`drop_connection` in OpenSSH's
/// sshd.c; sshd_config(5)). A penalty against us has other words.
const CROWDED: &str = "Exceeded MaxStartups";

/// How often such a fault is worth a try. A host that is merely crowded, as when many log in at the same moment, says so and
/// has room again soon: there the time decides.
fn tries(cause: &Cause, policy: &RetryPolicy) -> u32 {
    match cause {
        Cause::DroppedBeforeBanner { said: Some(said) } if said == CROWDED && policy.attempts > 1 => {
            policy.attempts.saturating_mul(6)
        }
        _ => policy.attempts,
    }
}

/// Half of the doubled delay, and a random part of the other half.
fn delay(policy: &RetryPolicy, attempt: u32) -> Duration {
    let full =
        policy.first_delay.saturating_mul(1 << attempt.saturating_sub(1).min(16)).min(policy.max_delay);
    let mut byte = [128];
    // Without randomness the delay is in the middle: nothing depends on it but politeness.
    let _ = rand::fill(&mut byte);
    full / 2 + full / 2 * u32::from(byte[0]) / 255
}

/// A stream to the hop: TCP from here, or a channel of the bastion before it.
trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

async fn dial(hop: &Hop, hop_ref: &HopRef, outer: Option<&Arc<Link>>) -> Result<Box<dyn Io>, Trouble> {
    match outer {
        None => match dial_tcp(hop).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(cause) => Err(Trouble::at(hop_ref, cause)),
        },
        Some(outer) => dial_through(hop, hop_ref, outer).await,
    }
}

async fn dial_tcp(hop: &Hop) -> Result<TcpStream, Cause> {
    let deadline = Instant::now() + hop.timing.connect;
    let late = || Cause::Deadline { stage: Stage::Connect, after: hop.timing.connect };
    let addresses = timeout_at(deadline, resolve(hop)).await.map_err(|_| late())??;
    let mut first: Option<Cause> = None;
    let mut left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    for address in addresses {
        // One after the other, never two at once: a connection that is dropped without a login is
        // what sshd's PerSourcePenalties punish. Each gets its share of the time.
        let share = deadline.saturating_duration_since(Instant::now()) / left.max(1);
        left = left.saturating_sub(1);
        let cause = match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Ok(Err(e)) => Cause::Unreachable { why: format!("{address}: {e}") },
            Err(_) => late(),
        };
        first.get_or_insert(cause);
    }
    Err(first.unwrap_or_else(|| Cause::Unreachable {
        why: "the name has no address of the family asked for".to_owned(),
    }))
}

async fn resolve(hop: &Hop) -> Result<Vec<SocketAddr>, Cause> {
    let mut addresses: Vec<SocketAddr> = match &hop.address {
        Address::Ip(ip) => return Ok(vec![SocketAddr::new(*ip, hop.port)]),
        Address::Name(name) => tokio::net::lookup_host((name.as_str(), hop.port))
            .await
            .map_err(|e| Cause::Unreachable { why: format!("cannot resolve {name}: {e}") })?
            .collect(),
    };
    match hop.family {
        Family::System => {}
        Family::V6First => addresses.sort_by_key(SocketAddr::is_ipv4),
        Family::V4First => addresses.sort_by_key(SocketAddr::is_ipv6),
        Family::V6Only => addresses.retain(SocketAddr::is_ipv6),
        Family::V4Only => addresses.retain(SocketAddr::is_ipv4),
    }
    addresses.truncate(8);
    Ok(addresses)
}

async fn dial_through(hop: &Hop, hop_ref: &HopRef, outer: &Arc<Link>) -> Result<Box<dyn Io>, Trouble> {
    let here = |cause| Trouble::at(hop_ref, cause);
    let host = hop.address.to_string();
    let open = tunnel::open_direct(outer, &host, hop.port);
    let error = match timeout(hop.timing.connect, open).await {
        Ok(Ok(stream)) => return Ok(Box::new(stream)),
        Ok(Err(e)) => e,
        Err(_) if outer.is_alive() => {
            return Err(here(Cause::Deadline { stage: Stage::Connect, after: hop.timing.connect }));
        }
        Err(_) => russh::Error::Disconnect,
    };
    let said = outer.shared.notes().refused.take().unwrap_or_default();
    match error {
        russh::Error::ChannelOpenFailure(ChannelOpenFailure::ConnectFailed) => {
            Err(here(Cause::Unreachable {
                why: format!("the bastion {} could not connect: {}", outer.report.hop.name, printable(&said)),
            }))
        }
        russh::Error::ChannelOpenFailure(_) => {
            let why = format!(
                "it does not connect on to {}: {}; look at its AllowTcpForwarding, DisableForwarding and PermitOpen",
                hop_ref.endpoint,
                printable(&said)
            );
            Err(Trouble::at(&outer.report.hop, Cause::ChannelRefused { why }))
        }
        _ => Err(Trouble::carrier(outer)),
    }
}
