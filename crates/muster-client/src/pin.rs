//! Whether the certificate that a server shows is the one that is pinned.
//!
//! Asked in the handshake, before anything is sent, on every connection: sessions are not resumed. The signature of the
//! handshake is verified by that certificate's key, as always; names and dates are not looked at, since whoever pinned
//! the certificate knows it better than they do.

use crate::connection::Trust;
use muster_tls::Fingerprint;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};
use std::sync::OnceLock;

/// See the module. One for each connection.
#[derive(Debug)]
pub(crate) struct Pin {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
    shown: OnceLock<CertificateDer<'static>>,
}

impl Pin {
    pub(crate) fn new(trust: Trust, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { trust, algorithms, shown: OnceLock::new() }
    }

    /// What the server showed, whether or not it was the right one.
    pub(crate) fn shown(&self) -> Option<&CertificateDer<'static>> {
        self.shown.get()
    }
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = self.shown.get_or_init(|| certificate.clone().into_owned());
        let right = match self.trust {
            Trust::Pinned(pin) => Fingerprint::of(certificate) == pin,
            Trust::ByCode => true,
        };
        // One handshake, one certificate: a second one would be judged but not kept.
        if right && shown == certificate {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 alone is spoken here".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
