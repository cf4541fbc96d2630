//! Who calls: a client's certificate, and its key.

use muster_tls::Fingerprint;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, Signer, SigningKey};
use rustls::{SignatureAlgorithm, SignatureScheme};
use std::sync::Arc;

/// See the module. The key is not to be had from it.
#[derive(Clone)]
pub struct Identity {
    key: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl core::fmt::Debug for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint.to_string()).finish_non_exhaustive()
    }
}

/// Why a certificate and a key are no identity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadIdentity {
    /// No certificate, or several.
    #[error("the certificate is no PEM of one certificate")]
    Certificate,
    /// No key, or none that signs here.
    #[error("the key is no private key in PEM that is read here (PKCS#8, not encrypted)")]
    Key,
    /// They do not belong together.
    #[error("the certificate and the key do not belong together")]
    Apart,
}

/// How an identity signs what is not a handshake, from the best.
const SCHEMES: [SignatureScheme; 5] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA256,
];

impl Identity {
    /// Of a certificate and its key, both PEM, the key not encrypted.
    ///
    /// # Errors
    /// See [`BadIdentity`].
    pub fn from_pem(certificate: &str, key: &str) -> Result<Self, BadIdentity> {
        let certificate = one(certificate)?;
        let fingerprint = Fingerprint::of(&certificate);
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| BadIdentity::Key)?;
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).map_err(|_| BadIdentity::Key)?;
        let key = CertifiedKey::new(vec![certificate], key);
        key.keys_match().map_err(|_| BadIdentity::Apart)?;
        Ok(Self { key: Arc::new(key), fingerprint })
    }

    /// Of a certificate, PEM, whose key somebody else keeps and signs with: `scheme` is how (RFC 8446, 4.2.3).
    ///
    /// # Errors
    /// See [`BadIdentity`].
    pub fn kept_by(certificate: &str, scheme: u16, keeper: Arc<dyn Keeper>) -> Result<Self, BadIdentity> {
        let certificate = one(certificate)?;
        let fingerprint = Fingerprint::of(&certificate);
        let key = Kept { scheme: SignatureScheme::from(scheme), keeper };
        Ok(Self { key: Arc::new(CertifiedKey::new(vec![certificate], Arc::new(key))), fingerprint })
    }

    /// The certificate's fingerprint.
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Signs a text by the certificate's key; gives the SignatureScheme (RFC 8446, 4.2.3) and the signature.
    pub fn sign(&self, text: &[u8]) -> Option<(u16, Vec<u8>)> {
        let signer = self.key.key.choose_scheme(&SCHEMES)?;
        Some((u16::from(signer.scheme()), signer.sign(text).ok()?))
    }
}

/// The one certificate of a text.
fn one(text: &str) -> Result<CertificateDer<'static>, BadIdentity> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let mut all = all.map_err(|_| BadIdentity::Certificate)?;
    all.pop().filter(|_| all.is_empty()).ok_or(BadIdentity::Certificate)
}

/// Whoever keeps a key and signs with it.
pub trait Keeper: Send + Sync {
    /// The signature over a text, as TLS has it.
    ///
    /// # Errors
    /// Why it did not sign.
    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, String>;
}

#[derive(Clone)]
struct Kept {
    scheme: SignatureScheme,
    keeper: Arc<dyn Keeper>,
}

impl core::fmt::Debug for Kept {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Kept").field("scheme", &self.scheme).finish_non_exhaustive()
    }
}

impl SigningKey for Kept {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&self.scheme).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        match self.scheme {
            SignatureScheme::ED25519 => SignatureAlgorithm::ED25519,
            _ => SignatureAlgorithm::ECDSA,
        }
    }
}

impl Signer for Kept {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        self.keeper.sign(message).map_err(rustls::Error::General)
    }

    fn scheme(&self) -> SignatureScheme {
        self.scheme
    }
}

impl ResolvesClientCert for Identity {
    // Whoever the server says it takes: it is pinned, and its own alert says more than an empty answer.
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.key.key.choose_scheme(schemes)?;
        Some(Arc::clone(&self.key))
    }

    fn has_certs(&self) -> bool {
        true
    }
}
