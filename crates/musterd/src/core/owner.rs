//! Who owns the node, and what it is allowed to do because of that.
//!
//! [`Owner`] is the one place of ownership. It is shared by all threads of the core; each method takes its own lock, and none
//! calls back. What it decides it reads from its own disk: the edge's word counts for an address in a message and no more.
//!
//! On disk, below [`places::API`](crate::places::API), a folder of root alone: `operator-ca.pem` (its presence *is* "claimed", its
//! rename the commit of a claim), `server.key` and `server.crt`, `claim.json`, `crl.der` and `crl.json`.

use std::net::SocketAddr;
use std::time::Duration;

use muster_api::Fault;
use muster_core::{Machine, Operation, UtcTime};
use muster_tls::{Client, Fingerprint, OperatorCa};

use crate::places::Places;
use crate::wire::{Proof, Serve};

/// What the documents of the node say of its API.
pub enum Opened {
    /// It runs.
    Wanted(Box<Owner>),
    /// It does not, and no port is to be opened: exit 78. Why, for the journal.
    NotWanted(String),
}

/// The core cannot begin: exit 1. One line.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct CannotOpen(pub String);

/// See the module.
pub struct Owner {
    places: Places,
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
    /// The node has an owner since this answer: `Serve` changes once it is out.
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
    /// document names, and releases the bootstrap where nothing holds it.
    ///
    /// # Errors
    /// A document that cannot be read, state that may not be trusted, a node that is in a cluster and has no owner.
    pub fn open(places: &Places) -> Result<Opened, CannotOpen> {
        Ok(Opened::Wanted(Box::new(Self { places: places.clone() })))
    }

    /// What the edge serves with.
    pub fn serve(&self) -> Serve {
        Serve { certificate: Vec::new(), key: Vec::new(), listen: self.listen(), authority: None }
    }

    /// SHA-256 of the node's serving certificate.
    #[must_use]
    pub fn node_fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.serve().certificate)
    }

    /// Whom the node obeys; `None` where nobody owns it.
    #[must_use]
    pub fn authority(&self) -> Option<OperatorCa> {
        None
    }

    /// Where the edge listens.
    #[must_use]
    pub fn listen(&self) -> SocketAddr {
        SocketAddr::from(([0, 0, 0, 0], 7443))
    }

    /// The state of the node as its disk has it now: the bootstrap is another process, so this is read anew each time.
    #[must_use]
    pub fn machine(&self) -> Machine {
        Machine::UNCLAIMED
    }

    /// Whether destructive calls need a `Muster-Proof`.
    #[must_use]
    pub fn proof_required(&self) -> bool {
        false
    }

    /// Rises whenever somebody who was let in may be so no longer: another authority, another list, no owner. Handles of an older
    /// number are judged again with [`Owner::judge_certificate`], and the edge gets [`Owner::serve`] anew.
    #[must_use]
    pub fn generation(&self) -> u64 {
        0
    }

    /// Waits until [`Owner::generation`] is another than `seen`, or so long.
    pub fn wait_for_change(&self, seen: u64, longest: Duration) -> u64 {
        std::thread::sleep(longest);
        seen
    }

    /// Judges a client by the evidence of its handshake.
    ///
    /// # Errors
    /// 401: why it is not let in. 409 `unclaimed`.
    pub fn judge(&self, proof: &Proof) -> Result<Client, Fault> {
        self.judge_certificate(&proof.certificate)
    }

    /// Judges the certificate (DER) of a client whose evidence was judged before: after the trust changed, and on long connections.
    ///
    /// # Errors
    /// As [`Owner::judge`].
    pub fn judge_certificate(&self, certificate: &[u8]) -> Result<Client, Fault> {
        let _ = certificate;
        Err(not_built())
    }

    /// Whether the state of the node and of its revocation list allow an operation, whoever asks. The role is another question.
    ///
    /// # Errors
    /// 409 with the reason of [`Operation::allowed_in`], 403 `revocation-lost` or `revocation-ended` (M18).
    pub fn allows(&self, operation: Operation) -> Result<(), Fault> {
        operation.allowed_in(self.machine()).map_err(|f| Fault::state(f.reason(), f.reason()).fix(f.fix()))
    }

    /// Answers a body of `POST /v1/enroll`, also on a node that has an owner (409 `claimed`). `address` is as the edge says.
    pub fn enroll(&self, body: &[u8], address: &str) -> Enrolment {
        let _ = (body, address);
        Enrolment {
            status: 500,
            body: serde_json::to_vec(&not_built()).unwrap_or_default(),
            retry_after: None,
            claimed: false,
            reason: "not-built".to_owned(),
        }
    }

    /// How the node came to its owner.
    #[must_use]
    pub fn ownership(&self) -> Ownership {
        Ownership { method: None, at: None, tainted: false, open_enrolment: false, authority: None }
    }

    /// What the node knows of revoked clients.
    #[must_use]
    pub fn revocation(&self) -> Revocation {
        Revocation::None
    }

    /// Takes a document for a node that is not built yet, and releases the bootstrap if it says all that is needed. Gives the role
    /// that it names and whether the API will run after the next boot.
    ///
    /// # Errors
    /// 400 `bad-document`, 409 of the node's state, 500.
    pub fn apply_document(&self, document: &str) -> Result<Applied, Fault> {
        let _ = document;
        Err(not_built())
    }

    /// Makes another authority the owner (S15). It is pinned when this returns; live handles die by [`Owner::generation`].
    ///
    /// # Errors
    /// 400 of the authority or the proof, 409 `unclaimed`, 500.
    pub fn rotate(&self, rotation: &Rotation<'_>) -> Result<OperatorCa, Fault> {
        let _ = rotation;
        Err(not_built())
    }

    /// Takes a revocation list, PEM or DER (M18).
    ///
    /// # Errors
    /// 400 of the list, 409 `crl-number`, 500.
    pub fn take_list(&self, list: &[u8]) -> Result<Revocation, Fault> {
        let _ = list;
        Err(not_built())
    }

    /// Forgets owner, serving identity, list and document: the last step of a reset, right when it is done again after a crash.
    /// The markers of the bootstrap go first, so that the node is never in a cluster and unowned.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn forget(&self) -> Result<(), Fault> {
        let _ = &self.places;
        Err(not_built())
    }
}

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Where it was written.
    pub path: String,
    /// The role that it names.
    pub role: Option<&'static str>,
    /// Whether the API runs after the next boot.
    pub api: bool,
    /// Whether the bootstrap goes on now.
    pub released: bool,
}

/// What somebody who would be the new owner shows.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'r> {
    /// Its certificate, PEM.
    pub authority: &'r str,
    /// A client's certificate under it, PEM.
    pub proof: &'r str,
    /// By the key of `proof`, over `muster_api::rotation_text`.
    pub signature: Option<&'r [u8]>,
}

fn not_built() -> Fault {
    Fault::failed("not-built", "this build cannot do that yet")
}
