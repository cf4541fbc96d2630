//! Who owns the node, and what it is allowed to do because of that.
//!
//! [`Owner`] is the one place of ownership. It is shared by all threads of the core; each method takes its own lock, and none
//! calls back. What it decides it reads from its own disk: the edge's word counts for an address in a message and no more.
//!
//! Three locks. `state` is taken last, under either of the others; the bootstrap's own (`hold`) is taken under `changing` alone:
//!
//! 1. `changing`, by whoever changes something, from what he reads to what he has written: changes come one after another, and
//!    may wait for a disk, or for a bootstrap that just begins. With it goes what only changes use, the pairing.
//! 2. `state`, what everybody is judged by, for as long as it takes to copy or to assign it. No disk and no program is waited for with
//!    it, so nobody who reads, or is judged, waits for a change. Only this module can hold it.
//! 3. `settling`, never together with `changing`, while the service manager is asked: it may be slow, and neither who reads nor
//!    who changes is to wait for it. Each time what is asked for is read anew under it, so that of two the later one asks for
//!    what is true then, and a late "wait" never follows the "go" of a newer state.
//!
//! On disk, below [`places::API`](crate::places::API), a folder of root alone: `operator-ca.pem` (its presence *is* "claimed", its
//! rename the commit of a claim; see `record`), `server.key` and `server.crt` (`identity`), `claim.json`, `crl.json` and `crl.der`
//! (`revocation`).
//!
//! A node with an owner keeps it, whatever its documents say later. A document that then cannot be read does not shut the owner
//! out: the API runs on its defaults, with proofs demanded, and says so.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use muster_api::{Fault, Kind};
use muster_core::machine::{Hold, Membership};
use muster_core::{Machine, Operation, Role, UtcTime};
use muster_document::Document;
use muster_pairing::door::Door;
use muster_tls::{Client, Evidence, Fingerprint, Judge, OperatorCa, Serving};

use super::banner::{self, Notice};
use super::disk::Disk;
use super::enrolment::Session;
use super::record::{self, Record};
use super::revocation::Held;
use super::{hold, identity, revocation, units};
use crate::places::Places;
use crate::say;
use crate::wire::{Proof, Serve};

/// What the documents of the node say of its API.
pub enum Opened {
    /// It runs.
    Wanted(Owner),
    /// It does not, and no port is to be opened: exit 78. Why, for the journal.
    NotWanted(String),
    /// Whoever opened it was told to end while it waited.
    Ended,
}

/// The core cannot begin: exit 1. One line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotOpen(pub String);

impl From<String> for CannotOpen {
    fn from(line: String) -> Self {
        Self(line)
    }
}

/// Gives the time. Tests have their own.
pub(super) type Clock = Arc<dyn Fn() -> UtcTime + Send + Sync>;

/// Sleeps so long, and says whether to go on.
pub type Patience<'p> = &'p dyn Fn(Duration) -> bool;

/// See the module. Clones are one and the same.
#[derive(Clone)]
pub struct Owner {
    pub(super) shared: Arc<Shared>,
}

pub(super) struct Shared {
    disk: Disk,
    now: Clock,
    changing: Mutex<Pairing>,
    state: Mutex<State>,
    settling: Mutex<()>,
    changed: Condvar,
    /// See [`Owner::trusts`].
    trusts: AtomicU64,
}

/// Whom clients are judged by. Never changed: another authority or list is another one, whose judge remembers nobody.
pub(super) struct Trust {
    pub(super) held: Held,
    judge: Judge,
}

impl Trust {
    pub(super) fn new(authority: OperatorCa, held: Held) -> Arc<Self> {
        Arc::new(Self { judge: Judge::new(authority, held.list()), held })
    }

    pub(super) const fn authority(&self) -> &OperatorCa {
        self.judge.authority()
    }
}

/// What the documents say, as far as they could be read.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) document: Option<Document>,
    /// Why the node's document cannot be read.
    pub(super) broken: Option<String>,
}

/// What everybody is judged by. A copy costs little: what is large in it is shared.
#[derive(Clone)]
pub(super) struct State {
    pub(super) serving: Arc<Serving>,
    pub(super) trust: Option<Arc<Trust>>,
    pub(super) record: Option<Record>,
    pub(super) settings: Arc<Settings>,
    generation: u64,
}

/// The pairing of a node without an owner. Whoever has it is the only one who changes anything of the node's ownership.
#[derive(Default)]
pub(super) struct Pairing {
    /// Only where the node has no owner and asks for a code.
    pub(super) session: Option<Session>,
    pub(super) door: Door,
    /// The addresses that the console shows.
    shown: Vec<IpAddr>,
}

/// What `POST /v1/enroll` answers.
#[derive(Debug)]
pub struct Enrolment {
    /// Status code.
    pub status: u16,
    /// JSON.
    pub body: Vec<u8>,
    /// Seconds, for `Retry-After`.
    pub retry_after: Option<u64>,
    /// The node has an owner since this answer: [`Owner::announce`] is to be called once it is out.
    pub claimed: bool,
    /// For the audit: `started`, `enrolled`, or the `reason` of the refusal.
    pub reason: String,
}

/// How the node came to its owner, for its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ownership {
    /// `configuration`, `pairing-code`, `open` or `rotation`; `None` where nobody wrote it down.
    pub method: Option<String>,
    /// Since when.
    pub at: Option<UtcTime>,
    /// Whoever came first got it, this owner or one before.
    pub tainted: bool,
    /// Nobody owns it, and whoever comes first will.
    pub open_enrolment: bool,
    /// The authority that it obeys.
    pub authority: Option<Fingerprint>,
}

/// What the node knows of revoked clients (M18).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Revocation {
    /// It never took a list under this authority.
    None,
    /// It has one.
    List {
        /// crlNumber, lower-case hex.
        number: String,
        /// How many certificates it revokes.
        revoked: usize,
        /// When it ends, where it does.
        next_update: Option<UtcTime>,
        /// It has ended: reads and the next list only.
        ended: bool,
    },
    /// It took one, and it is gone or damaged: reads and a list only. Why.
    Lost(String),
}

impl Owner {
    /// Reads the node's documents and its state, makes what is missing (serving identity, pairing code), pins the authority that a
    /// document names, and releases the bootstrap where nothing holds it. Where the authority is to come from a file or a URL where it is
    /// not yet, it waits as long as the document says (`waitFor`, at most an hour), by `patience`.
    ///
    /// # Errors
    /// A document that cannot be read, state that may not be trusted, a node that is in a cluster and has no owner.
    pub fn open(places: &Places, patience: Patience<'_>) -> Result<Opened, CannotOpen> {
        Self::open_at(places, Arc::new(|| UtcTime::from_unix(muster_sys::clock::unix_seconds())), patience)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // What a thread that panicked left is whole: each change is one assignment after its file was written.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What counts now.
    pub(super) fn state(&self) -> State {
        self.lock().clone()
    }

    /// Waits for whoever changes something, and keeps others from it.
    pub(super) fn change(&self) -> MutexGuard<'_, Pairing> {
        // A session that a thread which panicked left is as its file is, or is begun anew by the next start.
        self.shared.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody is changing something.
    #[cfg(test)]
    pub(super) fn is_changing(&self) -> bool {
        matches!(self.shared.changing.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// Makes a change count. `_held` is whoever may: see [`Owner::change`].
    pub(super) fn set(&self, _held: &Pairing, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.shared.disk
    }

    pub(super) fn now(&self) -> UtcTime {
        (self.shared.now)()
    }

    pub(super) fn of(disk: Disk, now: Clock, state: State, session: Option<Session>) -> Self {
        let (state, changed, trusts) = (Mutex::new(state), Condvar::new(), AtomicU64::new(0));
        let (changing, settling) = (Mutex::new(Pairing { session, ..Pairing::default() }), Mutex::new(()));
        Self { shared: Arc::new(Shared { disk, now, changing, state, settling, changed, trusts }) }
    }

    pub(super) fn trust(&self) -> Option<Arc<Trust>> {
        self.lock().trust.clone()
    }

    /// What the edge serves with.
    #[must_use]
    pub fn serve(&self) -> Serve {
        let state = self.state();
        Serve {
            certificate: state.serving.certificate.to_vec(),
            key: state.serving.key.to_vec(),
            listen: state.settings.listen(),
            authority: state.trust.as_ref().map(|t| base64(t.authority().der())),
        }
    }

    /// SHA-256 of the node's serving certificate.
    #[must_use]
    pub fn node_fingerprint(&self) -> Fingerprint {
        self.lock().serving.fingerprint()
    }

    /// Whom the node obeys; `None` where nobody owns it.
    #[must_use]
    pub fn authority(&self) -> Option<OperatorCa> {
        self.trust().map(|t| t.authority().clone())
    }

    /// Where the edge listens.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        self.lock().settings.listen()
    }

    /// The state of the node as its disk has it now: the bootstrap is another process, so this is read anew each time.
    #[must_use]
    pub fn machine(&self) -> Machine {
        self.machine_of(&self.state())
    }

    pub(super) fn machine_of(&self, state: &State) -> Machine {
        let claimed = state.trust.is_some();
        let membership = hold::membership(self.disk()).unwrap_or_else(|e| {
            say::warning(&format!(
                "the state of the node cannot be read, nothing is changed until it can: {e}"
            ));
            Membership::Leaving
        });
        let complete = state.settings.is_complete(hold::is_described(self.disk()));
        // A node that was forgotten just now and is about to reboot answers as what it is: nobody's.
        Machine::booted(claimed, complete, membership).unwrap_or(Machine::UNCLAIMED)
    }

    /// Whether destructive calls need a `Muster-Proof`.
    #[must_use]
    pub fn proof_required(&self) -> bool {
        self.lock().settings.proof_required()
    }

    /// Rises the moment that whom the node obeys changes: another authority, another list, no owner. A handle that was judged by an
    /// older number is judged again, with [`Owner::judge_certificate`], before anything is done for it.
    #[must_use]
    pub fn trusts(&self) -> u64 {
        self.shared.trusts.load(Ordering::Acquire)
    }

    /// Makes another trust count, and with it, in the same moment, what else `change` sets.
    pub(super) fn trust_anew(
        &self,
        held: &Pairing,
        trust: Option<Arc<Trust>>,
        change: impl FnOnce(&mut State),
    ) {
        self.set(held, |state| {
            state.trust = trust;
            change(state);
            self.shared.trusts.fetch_add(1, Ordering::Release);
        });
    }

    /// Rises when a change of trust, or of the serving key, is told to the edge and to those who are connected.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.lock().generation
    }

    /// Waits until [`Owner::generation`] is another than `seen`, or so long.
    #[must_use]
    pub fn wait_for_change(&self, seen: u64, longest: Duration) -> u64 {
        let state = self.lock();
        let waited = self.shared.changed.wait_timeout_while(state, longest, |s| s.generation == seen);
        waited.unwrap_or_else(PoisonError::into_inner).0.generation
    }

    /// Tells a change to the edge, and cuts those who are connected and let in no longer. Whoever made the change calls it when his
    /// answer is out, since it may cut his own connection. The change itself counts from the moment it was made ([`Owner::trusts`]).
    pub fn announce(&self) {
        self.lock().generation += 1;
        self.shared.changed.notify_all();
    }

    /// Judges a client by the evidence of its handshake.
    ///
    /// # Errors
    /// 401: why it is not let in. 409 `unclaimed`.
    pub fn judge(&self, proof: &Proof) -> Result<Client, Fault> {
        let trust = self.trust().ok_or_else(unclaimed)?;
        let evidence = Evidence {
            certificate: &proof.certificate,
            message: &proof.message,
            scheme: proof.scheme,
            signature: &proof.signature,
        };
        trust.judge.verify_evidence(&evidence, self.now()).map_err(|e| turned_away(&e))
    }

    /// Judges the certificate (DER) of a client whose evidence was judged before: after the trust changed, and on long connections.
    ///
    /// # Errors
    /// As [`Owner::judge`].
    pub fn judge_certificate(&self, certificate: &[u8]) -> Result<Client, Fault> {
        let trust = self.trust().ok_or_else(unclaimed)?;
        trust.judge.verify_client(certificate, self.now()).map_err(|e| turned_away(&e))
    }

    /// Whether the state of the node and of its revocation list allow an operation, whoever asks. The role is another question.
    ///
    /// # Errors
    /// 409 with the reason of [`Operation::allowed_in`], 403 `revocation-lost` or `revocation-ended` (M18).
    pub fn allows(&self, operation: Operation) -> Result<(), Fault> {
        let state = self.state();
        let (machine, trust) = (self.machine_of(&state), state.trust);
        operation.allowed_in(machine).map_err(|f| {
            let what = operation.row().name;
            Fault::state(f.reason(), format!("`{what}` is not possible now: {f}")).fix(f.fix())
        })?;
        // Reads, and what every role may: a list is taken from whoever has one, the signature is its authority.
        if operation.row().role == Role::Readonly {
            return Ok(());
        }
        match trust.map(|t| t.held.told(self.now())) {
            Some(Revocation::Lost(why)) => Err(Fault::new(
                Kind::Forbidden,
                "revocation-lost",
                format!("the node took a revocation list and no longer has it, so it only lets look: {why}"),
            )
            .fix("Send the newest list: `muster pki revoke` makes it.")),
            Some(Revocation::List { ended: true, next_update, number, .. }) => Err(Fault::new(
                Kind::Forbidden,
                "revocation-ended",
                format!(
                    "the revocation list {number} ended at {}, so the node only lets look",
                    next_update.map_or_else(String::new, |t| t.to_string())
                ),
            )
            .fix("Send a newer list: `muster pki revoke` makes it.")),
            _ => Ok(()),
        }
    }

    /// How the node came to its owner.
    #[must_use]
    pub fn ownership(&self) -> Ownership {
        let state = self.state();
        let record = state.record.as_ref();
        let open = state.trust.is_none() && state.settings.open_enrolment();
        Ownership {
            method: record.map(|r| r.method.as_str().to_owned()),
            at: record.and_then(|r| UtcTime::parse(&r.at).ok()),
            // An owner of whom nothing is written down, or nothing that can be read, is not one who came in well.
            tainted: state.trust.is_some() && record.is_none_or(|r| r.tainted),
            open_enrolment: open,
            authority: state.trust.as_ref().map(|t| t.authority().fingerprint()),
        }
    }

    /// What the node knows of revoked clients.
    #[must_use]
    pub fn revocation(&self) -> Revocation {
        self.trust().map_or(Revocation::None, |t| t.held.told(self.now()))
    }

    /// Why the node's document cannot be read, where it cannot and the node has an owner.
    #[must_use]
    pub fn document_fault(&self) -> Option<String> {
        self.lock().settings.broken.clone()
    }

    /// Takes a revocation list, PEM or DER (M18). [`Owner::announce`] is called when the answer is out.
    ///
    /// # Errors
    /// 400 of the list, 409 `crl-number`, 500.
    pub fn take_list(&self, list: &[u8]) -> Result<Revocation, Fault> {
        // Read without the lock: a long list of nobody in particular must not hold up those who are judged meanwhile.
        let trust = self.trust().ok_or_else(unclaimed)?;
        let list = revocation::read(trust.authority(), list)?;
        let pairing = self.change();
        let now = self.trust().ok_or_else(unclaimed)?;
        if now.authority() != trust.authority() {
            return Err(Fault::state("busy", "the owner changed while the list was read"));
        }
        let held = revocation::take(self.disk(), trust.authority(), list)?;
        let told = held.told(self.now());
        self.trust_anew(&pairing, Some(Trust::new(trust.authority().clone(), held)), |_| {});
        Ok(told)
    }

    /// Forgets owner, serving identity and list, and gives the machine back the document that it had before anybody wrote one through
    /// us: the last step of a reset, right when it is done again after a crash. The markers of the bootstrap go first, so that
    /// the node is never in a cluster and unowned.
    ///
    /// # Errors
    /// 409 where no reset has begun, 500: what could not be removed.
    pub fn forget(&self) -> Result<(), Fault> {
        let pairing = self.change();
        let failed = |e: String| Fault::failed("disk", format!("the node is not forgotten yet: {e}"));
        if hold::membership(self.disk()).map_err(failed)? != Membership::Leaving {
            return Err(Fault::state("not-resetting", "the node is not being taken apart"));
        }
        hold::forget(self.disk()).map_err(failed)?;
        record::forget(self.disk()).map_err(failed)?;
        self.trust_anew(&pairing, None, |state| state.record = None);
        revocation::drop_all(self.disk()).map_err(failed)?;
        identity::remove(&self.disk().api).map_err(failed)
    }

    /// One line for whoever looks at the service.
    #[must_use]
    pub fn status(&self) -> String {
        let machine = self.machine();
        match (machine.hold(), machine.membership()) {
            (_, Membership::Leaving) => "being taken apart".to_owned(),
            (_, Membership::Member) => "owned, in service".to_owned(),
            (_, Membership::Building) => "owned, being built".to_owned(),
            (Hold::Claim, _) => "parked: waits for an owner".to_owned(),
            (Hold::Document, _) => "parked: waits for its owner's document".to_owned(),
            (Hold::Released, _) => "owned, the bootstrap may go".to_owned(),
        }
    }

    /// Lets the bootstrap go or makes it plain that it waits, as the state of the node has it when the service manager is asked. Never
    /// called by who holds [`Owner::change`].
    ///
    /// # Errors
    /// One line.
    pub(super) fn settle(&self) -> Result<(), String> {
        let _one = self.shared.settling.lock().unwrap_or_else(PoisonError::into_inner);
        let machine = self.machine();
        match (machine.hold(), machine.membership()) {
            (Hold::Released, Membership::None) if record::is_pending(self.disk()) => {
                Err("what came with the claim is not in its place yet, so nothing is built".to_owned())
            }
            (Hold::Released, Membership::None) => units::release(self.disk().places()),
            (Hold::Claim | Hold::Document, Membership::None) => {
                units::park(self.disk().places(), units::TIME)
            }
            _ => Ok(()),
        }
    }

    /// Shows on the console what a person needs to claim the node.
    pub(super) fn show(&self, pairing: &mut Pairing) {
        let state = self.state();
        pairing.shown = muster_sys::net::addresses(&self.disk().places().at("/proc"));
        let session = pairing.session.as_ref();
        banner::show(
            self.disk(),
            &Notice {
                code: session.map(Session::code),
                tries: session.map_or(0, Session::tries),
                spent: session.map_or(&[], Session::spent),
                fingerprint: state.serving.fingerprint(),
                port: state.settings.listen().port(),
                addresses: &pairing.shown,
            },
        );
    }

    /// Tells whoever stands before an owned node what it is known by.
    pub(super) fn tell_owned(&self) {
        let state = self.state();
        if let Some(trust) = &state.trust {
            banner::owned(self.disk(), state.serving.fingerprint(), trust.authority().fingerprint());
        }
    }

    /// Shows it again where the machine has got other addresses: at a boot it has none yet.
    pub fn refresh_banner(&self) {
        // Who asks this asks again, and has signals to listen to.
        let mut pairing = match self.shared.changing.try_lock() {
            Ok(pairing) => pairing,
            Err(TryLockError::Poisoned(held)) => held.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let state = self.state();
        let waits = state.trust.is_none() && self.machine_of(&state) == Machine::UNCLAIMED;
        if waits && muster_sys::net::addresses(&self.disk().places().at("/proc")) != pairing.shown {
            self.show(&mut pairing);
        }
    }
}

impl State {
    pub(super) fn new(serving: Serving, settings: Settings) -> Self {
        Self {
            serving: Arc::new(serving),
            trust: None,
            record: None,
            settings: Arc::new(settings),
            generation: 1,
        }
    }
}

impl Settings {
    fn listen(&self) -> SocketAddr {
        let default = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 7443));
        self.document.as_ref().map_or(default, |d| d.api.listen)
    }

    /// A document that cannot be read may have demanded it.
    pub(super) fn proof_required(&self) -> bool {
        self.broken.is_some() || self.document.as_ref().is_some_and(|d| d.api.proof_required)
    }

    pub(super) fn open_enrolment(&self) -> bool {
        self.document.as_ref().is_some_and(Document::open_enrolment)
    }

    /// The document says all that is needed to build the node. `described`: somebody said in this boot what it shall be.
    pub(super) fn is_complete(&self, described: bool) -> bool {
        self.document.as_ref().is_some_and(|d| d.role.is_some() && (described || !d.holds_for_document()))
    }
}

pub(super) fn unclaimed() -> Fault {
    let f = muster_core::operation::Forbidden::Unclaimed;
    Fault::state(f.reason(), "nobody owns this node yet").fix(f.fix())
}

fn turned_away(fault: &muster_tls::Fault) -> Fault {
    Fault::new(Kind::Unproven, fault.reason(), format!("the client's certificate: {fault}"))
}

fn base64(bytes: &[u8]) -> String {
    use base64ct::{Base64, Encoding};
    Base64::encode_string(bytes)
}
