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

#[cfg(test)]
mod tests {
    use muster_core::{Role, UtcTime};
    use muster_tls::{Authority, Client, Lifetime};
    use rustls::SignatureScheme;
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};

    use super::*;

    const REQUEST: &str = "POST /v1/lifecycle/reboot";

    /// A client with its key, as the core has it after its handshake.
    struct Signer {
        handle: Handle,
        key: Box<dyn rustls::sign::Signer>,
    }

    impl Signer {
        fn new() -> Self {
            let at = UtcTime::from_unix(1_800_000_000);
            let (authority, _) = Authority::make("operators", Lifetime::AUTHORITY, at, [1; 16]).unwrap();
            let issued = authority.issue("alice", Role::Admin, Lifetime::CLIENT, at, [2; 16]).unwrap();
            let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap().to_vec();
            let key = PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap();
            let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
            let key = key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
            let client = Client {
                name: "alice".into(),
                role: Some(Role::Admin),
                serial: issued.serial,
                fingerprint: Fingerprint::of(&certificate),
                not_after: at,
            };
            Self { handle: Handle::new(client, certificate, "192.0.2.7".into(), 0).unwrap(), key }
        }

        fn header(&self, nonce: &str) -> String {
            let body: [u8; 32] = Sha256::digest(b"{}").into();
            let text = proof_text(REQUEST, &body, Fingerprint::of(b"node").bytes(), nonce);
            let signature = self.key.sign(&text).unwrap();
            let scheme = u16::from(self.key.scheme());
            ProofHeader { nonce: nonce.to_owned(), scheme, signature }.to_string()
        }

        /// Asks for a number at the first moment, uses it at the other, and gives what the judgement said.
        fn uses(&self, nonces: &Nonces, given: Instant, used: Instant) -> Result<(), Fault> {
            let nonce = nonces.give(&self.handle, true, given).unwrap();
            assert_eq!(nonce.seconds, 60, "the client is told how long it has");
            let signed = Signed { request: REQUEST, body: b"{}", node: Fingerprint::of(b"node") };
            nonces.judge(Some(&self.header(&nonce.nonce)), &self.handle, &signed, used)
        }
    }

    #[test]
    fn m15_a_number_is_good_for_sixty_seconds_and_no_longer() {
        let (signer, given) = (Signer::new(), Instant::now());
        let after = |secs, millis| given + Duration::from_secs(secs) + Duration::from_millis(millis);
        for good in [given, after(59, 999), after(60, 0)] {
            signer.uses(&Nonces::default(), given, good).unwrap();
        }
        for old in [after(60, 1), after(61, 0), after(86_400, 0)] {
            let nonces = Nonces::default();
            let fault = signer.uses(&nonces, given, old).unwrap_err();
            assert_eq!((fault.kind, fault.reason.as_str()), (Kind::Unproven, "proof"));
            assert!(fault.error.contains("older than a minute"), "{}", fault.error);
            assert!(nonces.out.lock().unwrap().is_empty(), "it was used up by the attempt");
        }
    }

    /// Numbers that nobody used go when the next one is given: a client that only asks keeps no room.
    #[test]
    fn m15_numbers_that_are_too_old_are_forgotten() {
        let (signer, given, nonces) = (Signer::new(), Instant::now(), Nonces::default());
        let old: Vec<_> = (0..EACH).map(|_| nonces.give(&signer.handle, true, given).unwrap()).collect();
        let later = given + Duration::from_secs(61);
        signer.uses(&nonces, later, later).unwrap();
        assert!(nonces.out.lock().unwrap().is_empty(), "none of {} is left", old.len());
    }
}
