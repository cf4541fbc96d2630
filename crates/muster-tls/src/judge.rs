//! A node's judgement of its clients: by one authority and one list, and with what it found remembered.
//!
//! Whether the authority signed a certificate, for clients, and whether the list names it, is a function of three texts that do not
//! change. Only the date changes by itself. So the signature over a certificate is verified once, and after that its dates are
//! compared and its number looked up in the list each time.
//!
//! - Authority and list are fixed when a judge is made. A change of either is another judge, which remembers nothing: there is nothing
//!   to empty, and so nothing that could be forgotten to be emptied.
//! - What is remembered goes by the SHA-256 of the whole certificate. A certificate that differs in one bit is another one, whatever
//!   name, number or key it has.
//! - Only what passed is remembered, and so only what the authority signed: a stranger can neither fill it nor push anybody out.
//! - What a client signed in its handshake is verified each time. Nothing of it is remembered.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use muster_core::UtcTime;
use rustls_pki_types::CertificateDer;
use webpki::EndEntityCert;

use crate::evidence::{Evidence, verify_handshake};
use crate::fault::Fault;
use crate::fingerprint::Fingerprint;
use crate::list::RevocationList;
use crate::operator_ca::{Client, OperatorCa, parsed};
use crate::times::from_x509;

/// Certificates remembered at most; beyond, the one that came first is forgotten.
const KEPT: usize = 128;
/// Longest serial number that is remembered (RFC 5280, 4.1.2.2, has 20 bytes). A longer one is judged in full each time.
const SERIAL: usize = 32;

/// See the module.
#[derive(Debug)]
pub struct Judge {
    authority: OperatorCa,
    list: Option<Arc<RevocationList>>,
    passed: Mutex<VecDeque<Passed>>,
}

/// A certificate that passed.
#[derive(Debug, Clone)]
struct Passed {
    client: Client,
    /// As the list has it.
    serial: Vec<u8>,
    not_before: UtcTime,
}

impl Judge {
    /// One that judges by this authority and this list.
    #[must_use]
    pub fn new(authority: OperatorCa, list: Option<Arc<RevocationList>>) -> Self {
        Self { authority, list, passed: Mutex::default() }
    }

    /// By whom it judges.
    pub const fn authority(&self) -> &OperatorCa {
        &self.authority
    }

    /// Judges a client's certificate (DER) as [`OperatorCa::verify_client`] does.
    ///
    /// # Errors
    /// As there.
    pub fn verify_client(&self, der: &[u8], now: UtcTime) -> Result<Client, Fault> {
        let fingerprint = Fingerprint::of(der);
        let passed = self.passed().iter().find(|p| p.client.fingerprint == fingerprint).cloned();
        if let Some(passed) = passed {
            return self.again(passed, now);
        }
        let client = self.authority.verify_client(der, self.list.as_deref(), now)?;
        if let Some(passed) = Passed::of(der, &client) {
            let mut all = self.passed();
            // Another thread may have judged it meanwhile.
            if all.iter().all(|p| p.client.fingerprint != fingerprint) {
                if all.len() >= KEPT {
                    all.pop_front();
                }
                all.push_back(passed);
            }
        }
        Ok(client)
    }

    /// Judges a client by its evidence: the certificate as [`Judge::verify_client`] does, and the signature by its key.
    ///
    /// # Errors
    /// As [`OperatorCa::verify_evidence`].
    pub fn verify_evidence(&self, evidence: &Evidence<'_>, now: UtcTime) -> Result<Client, Fault> {
        verify_handshake(evidence, |certificate| self.verify_client(certificate, now))
    }

    /// What can have changed of a certificate that passed once.
    fn again(&self, passed: Passed, now: UtcTime) -> Result<Client, Fault> {
        let Passed { client, serial, not_before } = passed;
        if now < not_before {
            return Err(Fault::NotYet(not_before));
        }
        if now > client.not_after {
            return Err(Fault::Ended(client.not_after));
        }
        match self.list.as_ref().map(|list| list.inner().find_serial(&serial)) {
            None | Some(Ok(None)) => Ok(client),
            Some(Ok(Some(_))) => Err(Fault::Revoked),
            Some(Err(e)) => Err(Fault::Other(e.to_string())),
        }
    }

    fn passed(&self) -> std::sync::MutexGuard<'_, VecDeque<Passed>> {
        // Each change is one call of the queue's.
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Passed {
    fn of(der: &[u8], client: &Client) -> Option<Self> {
        let not_before = from_x509(parsed(der).ok()?.validity().not_before);
        let der = CertificateDer::from(der);
        let serial = EndEntityCert::try_from(&der).ok()?.serial().to_vec();
        (serial.len() <= SERIAL).then(|| Self { client: client.clone(), serial, not_before })
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
