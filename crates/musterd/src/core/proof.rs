//! Numbers for signed requests, and the judgement of one (M15).
//!
//! A number is for one client, good for a minute and for one request. Each is 128 random bits; those that were given out and not used
//! are kept in a bounded list, the oldest of a client making room for its newest.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use muster_api::{Fault, Kind, Nonce, ProofHeader, proof_text};
use muster_tls::Fingerprint;
use muster_tls::evidence::verify_signed;
use sha2::{Digest as _, Sha256};

use super::handles::Handle;

/// A number is good for so long.
const LASTS: Duration = Duration::from_secs(60);
/// For one client.
const EACH: usize = 16;
/// For all.
const ALL: usize = 1024;

/// What is signed, beside the number.
pub(crate) struct Signed<'s> {
    /// Method, path and query.
    pub request: &'s str,
    /// The body.
    pub body: &'s [u8],
    /// The node that it is for.
    pub node: Fingerprint,
}

/// Numbers that were given out.
#[derive(Default)]
pub(crate) struct Nonces {
    out: Mutex<VecDeque<(String, Fingerprint, Instant)>>,
}

impl Nonces {
    /// A new number for a client.
    ///
    /// # Errors
    /// The system gave no random numbers.
    pub(crate) fn give(&self, handle: &Handle, required: bool, at: Instant) -> Result<Nonce, Fault> {
        let random = muster_sys::system::random_128().map_err(|e| Fault::failed("internal", e.line()))?;
        let nonce: String = random.iter().map(|b| format!("{b:02x}")).collect();
        let client = handle.client.fingerprint;
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.retain(|(_, _, since)| at.saturating_duration_since(*since) <= LASTS);
        if out.iter().filter(|(_, c, _)| *c == client).count() >= EACH
            && let Some(oldest) = out.iter().position(|(_, c, _)| *c == client)
        {
            out.remove(oldest);
        }
        if out.len() >= ALL {
            out.pop_front();
        }
        out.push_back((nonce.clone(), client, at));
        Ok(Nonce { nonce, seconds: LASTS.as_secs(), required })
    }

    /// Uses a number up, whatever comes of it.
    fn take(&self, nonce: &str, client: Fingerprint, at: Instant) -> bool {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let found = out.iter().position(|(n, c, _)| n == nonce && *c == client);
        let found = found.and_then(|at| out.remove(at));
        found.is_some_and(|(_, _, since)| at.saturating_duration_since(since) <= LASTS)
    }

    /// Judges a signed request.
    ///
    /// # Errors
    /// 401: `proof-required` where there is none, `proof` where it is not right.
    pub(crate) fn judge(
        &self,
        header: Option<&str>,
        handle: &Handle,
        signed: &Signed<'_>,
        at: Instant,
    ) -> Result<(), Fault> {
        let unproven = |reason: &str, error: &str| {
            Fault::new(Kind::Unproven, reason, error).fix("`muster` signs such requests by itself.")
        };
        let header = header.ok_or_else(|| {
            unproven("proof-required", "this node wants such a request signed (Muster-Proof), and it is not")
        })?;
        let header = ProofHeader::parse(header)
            .ok_or_else(|| unproven("proof", "Muster-Proof is not `1 NUMBER SCHEME SIGNATURE`"))?;
        if !self.take(&header.nonce, handle.client.fingerprint, at) {
            let why = "its number was not given to this client, was used, or is older than a minute (GET /v1/proof gives one)";
            return Err(unproven("proof", why));
        }
        let body: [u8; 32] = Sha256::digest(signed.body).into();
        let text = proof_text(signed.request, &body, signed.node.bytes(), &header.nonce);
        verify_signed(&handle.certificate, &text, header.scheme, &header.signature).map_err(|_| {
            unproven("proof", "the signature is not this client's over this request, body, node and number")
        })
    }
}
