//! TLS 1.3 and nothing older, for one connection at a time.
//!
//! - A client of a claimed node is judged in the handshake already, so that a stranger learns nothing but an alert; and what it
//!   showed and signed is kept, because the core judges it again by itself.
//! - No session is resumed and no ticket given: a resumed one has no signature to show to the core, and would outlive a revocation.
//! - X25519MLKEM768 is offered first.
//!
//! Sources: RFC 8446 (4.4.3, 6.2), RFC 7301.

use core::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64ct::{Base64, Encoding as _};
use muster_core::UtcTime;
use muster_tls::{Fault, Fingerprint, Judge, OperatorCa};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::wire::{Proof, Serve};

/// The protocols that are spoken, the better first.
pub(crate) const H2: &[u8] = b"h2";
const PROTOCOLS: [&[u8]; 2] = [H2, b"http/1.1"];

/// The schemes that the core judges by ([`muster_tls::Evidence`]).
const SCHEMES: [SignatureScheme; 7] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::ECDSA_NISTP521_SHA512,
    SignatureScheme::ED25519,
    SignatureScheme::RSA_PSS_SHA512,
    SignatureScheme::RSA_PSS_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
];

/// What is served with: of one [`Serve`].
#[derive(Debug)]
pub(crate) struct Serving {
    /// Where.
    pub listen: SocketAddr,
    authority: Option<Authority>,
    key: Arc<SingleCertAndKey>,
    provider: Arc<CryptoProvider>,
    of: Parts,
}

/// What tells one [`Serve`] from another. The key goes with its certificate.
#[derive(Debug, PartialEq, Eq)]
struct Parts(Vec<u8>, SocketAddr, Option<String>);

/// Whom clients must be signed by, and its name, which a client chooses its certificate by.
#[derive(Debug)]
struct Authority {
    judge: Judge,
    names: Vec<DistinguishedName>,
}

impl Serving {
    /// Makes it of what the core says.
    ///
    /// # Errors
    /// What of it cannot be used.
    pub(crate) fn new(serve: Serve) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let authority = serve.authority.as_deref().map(Authority::read).transpose()?;
        let certificate = CertificateDer::from(serve.certificate.clone());
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(serve.key));
        let key = CertifiedKey::from_der(vec![certificate], key, &provider)
            .map_err(|e| format!("the node's certificate or its key: {e}"))?;
        Ok(Self {
            listen: serve.listen,
            authority,
            key: Arc::new(SingleCertAndKey::from(key)),
            provider,
            of: Parts(serve.certificate, serve.listen, serve.authority),
        })
    }

    /// Whether somebody owns the node, so that clients must show who they are.
    pub(crate) const fn claimed(&self) -> bool {
        self.authority.is_some()
    }

    /// Whether it serves as the other does.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.of == other.of
    }

    /// How to serve one connection, and where what its client shows is kept.
    pub(crate) fn connection(self: &Arc<Self>) -> Result<(Arc<ServerConfig>, Arc<Seen>), Error> {
        let seen = Arc::new(Seen::default());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let builder = if self.claimed() {
            let judge = Verifier { serving: Arc::clone(self), seen: Arc::clone(&seen) };
            builder.with_client_cert_verifier(Arc::new(judge))
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&self.key) as Arc<_>);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        config.max_early_data_size = 0;
        config.alpn_protocols = PROTOCOLS.iter().map(|p| p.to_vec()).collect();
        Ok((Arc::new(config), seen))
    }
}

impl Authority {
    fn read(text: &str) -> Result<Self, String> {
        let der = Base64::decode_vec(text).map_err(|_| "the operators' authority is no base64".to_owned())?;
        let ca = OperatorCa::from_der(der.into()).map_err(|e| format!("the operators' authority: {e}"))?;
        let mut store = RootCertStore::empty();
        store.add(ca.der().clone()).map_err(|e| format!("the operators' authority: {e}"))?;
        // Revocation is the core's to know: it has the list.
        Ok(Self { judge: Judge::new(ca, None), names: store.subjects() })
    }
}

/// What was seen of the client in one handshake.
#[derive(Debug, Default)]
pub(crate) struct Seen(Mutex<(Option<Proof>, Option<TurnedAway>)>);

/// A client that was refused in the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TurnedAway {
    /// Stable word.
    pub reason: &'static str,
    /// Fingerprint of what it showed.
    pub certificate: Option<String>,
}

impl Seen {
    fn inner(&self) -> MutexGuard<'_, (Option<Proof>, Option<TurnedAway>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the client showed and signed.
    pub(crate) fn proof(&self) -> Option<Proof> {
        self.inner().0.clone()
    }

    /// Why it was turned away, where it was a client at all: for the end of a handshake that failed.
    pub(crate) fn turned_away(&self, error: &std::io::Error) -> Option<TurnedAway> {
        let none = || {
            let error = error.get_ref()?.downcast_ref::<Error>()?;
            let reason = "no-certificate";
            matches!(error, Error::NoCertificatesPresented)
                .then_some(TurnedAway { reason, certificate: None })
        };
        self.inner().1.clone().or_else(none)
    }
}

/// Judges the client of one connection.
#[derive(Debug)]
struct Verifier {
    serving: Arc<Serving>,
    seen: Arc<Seen>,
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.serving.authority.as_ref().map_or(&[], |a| &a.names)
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        // No chain is followed: the authority signs its clients itself.
        _: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let Some(authority) = &self.serving.authority else {
            return Err(Error::General("no client certificate was asked for".to_owned()));
        };
        match authority.judge.verify_client(end_entity, UtcTime::from_unix(now.as_secs())) {
            Ok(_) => Ok(ClientCertVerified::assertion()),
            Err(fault) => {
                let (reason, error) = (fault.reason(), alert(&fault));
                let certificate = Some(Fingerprint::of(end_entity).to_string());
                self.seen.inner().1 = Some(TurnedAway { reason, certificate });
                Err(error.into())
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 only".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, Error> {
        let algorithms = &self.serving.provider.signature_verification_algorithms;
        match verify_tls13_signature(message, certificate, signed, algorithms) {
            Ok(valid) => {
                self.seen.inner().0 = Some(Proof {
                    certificate: certificate.to_vec(),
                    message: message.to_vec(),
                    scheme: u16::from(signed.scheme),
                    signature: signed.signature().to_vec(),
                });
                Ok(valid)
            }
            Err(error) => {
                let certificate = Some(Fingerprint::of(certificate).to_string());
                self.seen.inner().1 = Some(TurnedAway { reason: "not-the-holder", certificate });
                Err(error)
            }
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }
}

/// The alert that says a refusal.
const fn alert(fault: &Fault) -> CertificateError {
    match fault {
        Fault::NotYet(_) => CertificateError::NotValidYet,
        Fault::Ended(_) => CertificateError::Expired,
        Fault::OtherIssuer(_) => CertificateError::UnknownIssuer,
        Fault::Revoked => CertificateError::Revoked,
        Fault::Purpose(_) => CertificateError::InvalidPurpose,
        _ => CertificateError::BadEncoding,
    }
}
