//! Who proves what, in which order.
//!
//! ```text
//! operator                                        node
//! Operator::start ── share ─────────────────────▶ Open::answer
//! Operator::claim ◀────────────── session, share ─
//!                 ── confirmation over the Claim ▶ Open::judge   wrong: WrongCode, the exchange is gone
//! Awaiting::check ◀───── Outcome, confirmation ── Proven::confirm
//! ```
//!
//! The types make the order hold: nothing that depends on the session key can be had from an [`Open`] exchange, only
//! from [`Proven`], which only a right confirmation gives; and each step takes the one before by value, so that one
//! exchange is judged once.
//!
//! Both confirmations are HMAC-SHA-256 under keys of their own, taken from the CPace key by HKDF-SHA-256, over the
//! [`Claim`]: certificate of the node, authority of the operator, digest of the document, acknowledgement. A relay that
//! shows the operator another certificate, or changes one of the others on the way, has other bytes under the MAC.

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use crate::code::Code;
use crate::cpace::{BadShare, Half, Role, SessionKey, Share};

/// Names the protocol, its suite and its version in everything that is hashed.
const LABEL: &[u8] = b"muster-pair-1 CPace-ristretto255-SHA512 HKDF-HMAC-SHA256";
/// Bytes of a session's name.
pub const SESSION: usize = 16;
/// Bytes of a confirmation.
pub const CONFIRMATION: usize = 32;

/// What the node calls an open exchange: random, and part of the key.
pub type Session = [u8; SESSION];

/// Bytes of randomness that one side of one exchange needs.
pub type Random = [u8; 64];

/// Proof of knowing the session key, over one claim.
#[derive(Debug, Clone, Copy)]
pub struct Confirmation(pub [u8; CONFIRMATION]);

/// What the operator asks for, and of which machine. All of it is under both confirmations.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Serving certificate of the node (DER): the operator's from its own TLS session, the node's from its own disk.
    pub node_certificate: &'a [u8],
    /// The authority that the node is to obey (DER).
    pub operator_ca: &'a [u8],
    /// SHA-256 of the document that goes with the claim.
    pub document: Option<[u8; 32]>,
    /// Whether the operator knows that the node will build what it was described as.
    pub acknowledge: bool,
}

impl Claim<'_> {
    fn context(&self) -> Vec<u8> {
        let mut out = Vec::new();
        lay(&mut out, LABEL);
        lay(&mut out, self.node_certificate);
        lay(&mut out, self.operator_ca);
        lay(&mut out, self.document.as_ref().map_or(&[], |d| d.as_slice()));
        lay(&mut out, &[u8::from(self.acknowledge)]);
        out
    }
}

/// What became of a claim whose code was right. The node confirms it, so that nobody on the way can make one of the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The node obeys this authority from now on.
    Enrolled {
        /// `SHA256:…` of the authority that was pinned.
        operator_ca: String,
        /// What went wrong after the claim was made, which it does not undo.
        warnings: Vec<String>,
    },
    /// Nothing changed, and the code is as good as before.
    Refused {
        /// Stable word, as in `would-bootstrap`.
        reason: String,
        /// For people.
        detail: String,
    },
}

impl Outcome {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Enrolled { operator_ca, warnings } => {
                lay(&mut out, b"enrolled");
                lay(&mut out, operator_ca.as_bytes());
                for warning in warnings {
                    lay(&mut out, warning.as_bytes());
                }
            }
            Self::Refused { reason, detail } => {
                lay(&mut out, b"refused");
                lay(&mut out, reason.as_bytes());
                lay(&mut out, detail.as_bytes());
            }
        }
        out
    }
}

/// The confirmation is not of this code and this claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the code is wrong, or the claim was changed on its way")]
pub struct WrongCode;

/// The answer was not made by the machine that shows the code. Nothing is to be retried: each retry gives it a guess.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is not the machine whose code was typed")]
pub struct NotTheMachine;

/// The operator's side, which starts.
pub struct Operator {
    half: Half,
}

impl Operator {
    /// `node_certificate` (DER) is what the TLS session showed.
    #[must_use]
    pub fn start(code: &Code, node_certificate: &[u8], random: Random) -> Self {
        Self { half: Half::new(code.symbols(), &channel(node_certificate), random) }
    }

    /// What to send first.
    #[must_use]
    pub fn share(&self) -> Share {
        self.half.share()
    }

    /// Takes the node's answer and confirms the claim.
    ///
    /// # Errors
    /// The node's share is no point; no guess was made.
    pub fn claim(
        self,
        session: &Session,
        share: &Share,
        claim: &Claim<'_>,
    ) -> Result<(Confirmation, Awaiting), BadShare> {
        let keys = Keys::of(&self.half.finish(share, Role::Initiator, b"", session)?);
        let context = claim.context();
        let confirmation = mac(&keys.operator, &[&context]);
        Ok((confirmation, Awaiting { keys, context }))
    }
}

/// The operator has proven; the node has not yet.
pub struct Awaiting {
    keys: Keys,
    context: Vec<u8>,
}

impl Awaiting {
    /// Whether the machine that shows the code says this outcome. Only now may the operator believe and pin anything.
    ///
    /// # Errors
    /// It does not; whoever answered did not have the code.
    pub fn check(self, outcome: &Outcome, confirmation: &Confirmation) -> Result<(), NotTheMachine> {
        let right = mac(&self.keys.node, &[&self.context, &outcome.bytes()]);
        if bool::from(right.0.ct_eq(&confirmation.0)) { Ok(()) } else { Err(NotTheMachine) }
    }
}

/// The node's side of an exchange that nobody has proven anything in.
pub struct Open {
    key: SessionKey,
}

impl Open {
    /// Takes the operator's share; gives the exchange and the share to answer with.
    ///
    /// # Errors
    /// The share is no point; no guess was made, no try is spent.
    pub fn answer(
        code: &Code,
        node_certificate: &[u8],
        session: &Session,
        share: &Share,
        random: Random,
    ) -> Result<(Self, Share), BadShare> {
        let half = Half::new(code.symbols(), &channel(node_certificate), random);
        let key = half.finish(share, Role::Responder, b"", session)?;
        Ok((Self { key }, half.share()))
    }

    /// One guess. The count of tries must have been lowered durably before: see [`crate::door`].
    pub(crate) fn judge(self, claim: &Claim<'_>, confirmation: &Confirmation) -> Result<Proven, WrongCode> {
        let keys = Keys::of(&self.key);
        let context = claim.context();
        let right = mac(&keys.operator, &[&context]);
        if bool::from(right.0.ct_eq(&confirmation.0)) { Ok(Proven { keys, context }) } else { Err(WrongCode) }
    }
}

/// The operator has proven to know the code and to mean this claim.
pub struct Proven {
    keys: Keys,
    context: Vec<u8>,
}

impl Proven {
    /// The node's confirmation of what became of the claim.
    #[must_use]
    pub fn confirm(self, outcome: &Outcome) -> Confirmation {
        mac(&self.keys.node, &[&self.context, &outcome.bytes()])
    }
}

struct Keys {
    operator: [u8; 32],
    node: [u8; 32],
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.operator.zeroize();
        self.node.zeroize();
    }
}

impl Keys {
    fn of(session: &SessionKey) -> Self {
        let hkdf = Hkdf::<Sha256>::new(Some(LABEL), session.expose());
        let mut keys = Self { operator: [0; 32], node: [0; 32] };
        for (info, key) in
            [(&b"operator confirms"[..], &mut keys.operator), (&b"node confirms"[..], &mut keys.node)]
        {
            #[expect(clippy::expect_used, reason = "HKDF-SHA-256 gives up to 8160 bytes; 32 are asked for")]
            hkdf.expand(info, key).expect("32 bytes are within the bounds of HKDF");
        }
        keys
    }
}

fn mac(key: &[u8; 32], parts: &[&[u8]]) -> Confirmation {
    #[expect(clippy::expect_used, reason = "HMAC takes a key of any length")]
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key).expect("HMAC takes a key of any length");
    for part in parts {
        mac.update(part);
    }
    Confirmation(mac.finalize().into_bytes().into())
}

/// The draft's CI: the protocol and the machine. Bound already here, a share made for one certificate is of no use
/// under another.
fn channel(node_certificate: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    lay(&mut out, LABEL);
    lay(&mut out, node_certificate);
    out
}

/// Four bytes of length (big endian), then the part: no two lists of parts have the same bytes.
fn lay(out: &mut Vec<u8>, part: &[u8]) {
    let len = u32::try_from(part.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(part);
}

#[cfg(test)]
#[path = "exchange/tests.rs"]
mod tests;
