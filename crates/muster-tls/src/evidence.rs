//! The evidence that a client holds its key: what it signed in the TLS handshake.
//!
//! Whoever ends TLS sees it and can hand it on to another process, which then need not take its word: a certificate alone is
//! public, the signature over this handshake is not to be had without the key. Source: RFC 8446, 4.4.3.
//!
//! What it does not prove is which server the handshake was with: the signed text holds only a hash of it. So evidence can be
//! shown again, by a server that has seen it, to whoever takes it from that server.

use crate::fault::Fault;
use crate::list::RevocationList;
use crate::operator_ca::{Client, OperatorCa};
use muster_core::UtcTime;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use webpki::EndEntityCert;
use webpki::aws_lc_rs as algorithms;

/// What a client sent and signed.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'e> {
    /// Its certificate, DER.
    pub certificate: &'e [u8],
    /// The text that it signed.
    pub message: &'e [u8],
    /// How: a SignatureScheme (RFC 8446, 4.2.3).
    pub scheme: u16,
    /// The signature.
    pub signature: &'e [u8],
}

/// Before the context: no signature of another protocol begins so.
const PAD: [u8; 64] = [0x20; 64];
/// A server signs another one.
const CONTEXT: &[u8] = b"TLS 1.3, client CertificateVerify\0";

/// The schemes of TLS 1.3 for the keys that a client may have.
fn algorithm(scheme: u16) -> Option<&'static dyn SignatureVerificationAlgorithm> {
    Some(match scheme {
        0x0403 => algorithms::ECDSA_P256_SHA256,
        0x0503 => algorithms::ECDSA_P384_SHA384,
        0x0603 => algorithms::ECDSA_P521_SHA512,
        0x0804 => algorithms::RSA_PSS_2048_8192_SHA256_LEGACY_KEY,
        0x0805 => algorithms::RSA_PSS_2048_8192_SHA384_LEGACY_KEY,
        0x0806 => algorithms::RSA_PSS_2048_8192_SHA512_LEGACY_KEY,
        0x0807 => algorithms::ED25519,
        _ => return None,
    })
}

/// Whether a text is what a client signs in a handshake of TLS 1.3, and not what some other protocol let it sign.
fn is_of_a_handshake(message: &[u8]) -> bool {
    let hash = message.strip_prefix(&PAD).and_then(|rest| rest.strip_prefix(CONTEXT));
    // Of the transcript: SHA-256 or SHA-384, as the cipher suites have it.
    hash.is_some_and(|h| matches!(h.len(), 32 | 48))
}

/// Whether the key of a certificate (DER) made a signature, by one of the schemes of TLS 1.3. Who the certificate is, is not asked here.
///
/// # Errors
/// [`Fault::Malformed`], or [`Fault::NotTheHolder`] where it did not.
pub fn verify_signed(certificate: &[u8], message: &[u8], scheme: u16, signature: &[u8]) -> Result<(), Fault> {
    let algorithm = algorithm(scheme).ok_or(Fault::Malformed("signature scheme of TLS 1.3"))?;
    let der = CertificateDer::from(certificate);
    EndEntityCert::try_from(&der)
        .map_err(|_| Fault::Malformed("client certificate"))?
        .verify_signature(algorithm, message, signature)
        .map_err(|_| Fault::NotTheHolder)
}

/// Judges evidence: the text, the certificate by whoever can, and the signature by its key.
pub(crate) fn verify_handshake(
    evidence: &Evidence<'_>,
    judge: impl FnOnce(&[u8]) -> Result<Client, Fault>,
) -> Result<Client, Fault> {
    if !is_of_a_handshake(evidence.message) {
        return Err(Fault::Malformed("text that a client signs in a handshake"));
    }
    let client = judge(evidence.certificate)?;
    verify_signed(evidence.certificate, evidence.message, evidence.scheme, evidence.signature)?;
    Ok(client)
}

impl OperatorCa {
    /// Judges a client by its evidence: the certificate as [`OperatorCa::verify_client`] does, and the signature by its key.
    pub fn verify_evidence(
        &self,
        evidence: &Evidence<'_>,
        list: Option<&RevocationList>,
        now: UtcTime,
    ) -> Result<Client, Fault> {
        verify_handshake(evidence, |certificate| self.verify_client(certificate, list, now))
    }
}
