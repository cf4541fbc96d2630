//! Evidence out of real handshakes: what rustls hands over is what another process can judge by.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use muster_core::{Role, UtcTime};
use muster_tls::{Authority, Evidence, Fault, Lifetime, RevocationList, Revoked, Serving};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, DigitallySignedStruct, DistinguishedName, Error,
    ServerConfig, ServerConnection, SideData, SignatureScheme,
};
use std::ops::DerefMut;
use std::sync::{Arc, Mutex};

/// 2026-11-30T00:00:00Z
const NOW: UtcTime = UtcTime::from_unix(1_795_996_800);

/// What was seen of one handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    certificate: Vec<u8>,
    message: Vec<u8>,
    scheme: u16,
    signature: Vec<u8>,
}

impl Seen {
    fn evidence(&self) -> Evidence<'_> {
        let Self { certificate, message, scheme, signature } = self;
        Evidence { certificate, message, scheme: *scheme, signature }
    }
}

/// Takes everybody, and keeps what they showed: both ends of a handshake at once.
#[derive(Debug)]
struct Keeper {
    seen: Mutex<Vec<Seen>>,
    provider: Arc<CryptoProvider>,
}

impl Keeper {
    fn keep(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> HandshakeSignatureValid {
        self.seen.lock().expect("one thread").push(Seen {
            certificate: certificate.to_vec(),
            message: message.to_vec(),
            scheme: u16::from(signed.scheme),
            signature: signed.signature().to_vec(),
        });
        HandshakeSignatureValid::assertion()
    }
}

/// What the two traits of rustls have alike.
macro_rules! keeps_what_was_signed {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(Error::General("TLS 1.3 only".into()))
        }
        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(self.keep(message, certificate, signed))
        }
        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.provider.signature_verification_algorithms.supported_schemes()
        }
    };
}

impl ClientCertVerifier for Keeper {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }
    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }
    keeps_what_was_signed!();
}

impl ServerCertVerifier for Keeper {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }
    keeps_what_was_signed!();
}

/// What one end has to say, to the other.
fn hand_over<A, B>(
    from: &mut impl DerefMut<Target = ConnectionCommon<A>>,
    to: &mut impl DerefMut<Target = ConnectionCommon<B>>,
) -> Result<(), Error>
where
    A: SideData,
    B: SideData,
{
    let mut wire = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut wire).expect("memory");
    }
    if !wire.is_empty() {
        to.read_tls(&mut wire.as_slice()).expect("memory");
    }
    to.process_new_packets().map(drop)
}

/// One handshake in memory; what the client showed to the server, and the server to the client.
fn handshake(certificate: &str, key: &str) -> (Seen, Seen) {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let keeper = || Arc::new(Keeper { seen: Mutex::default(), provider: Arc::clone(&provider) });
    let (at_server, at_client) = (keeper(), keeper());
    let serving = Serving::make("edge-1", &[], NOW, [9; 16]).expect("a node's certificate");
    let serving_key = PrivateKeyDer::try_from(serving.key.to_vec()).expect("PKCS#8");
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .with_client_cert_verifier(Arc::clone(&at_server) as Arc<dyn ClientCertVerifier>)
        .with_single_cert(vec![serving.certificate], serving_key)
        .expect("a server");
    let client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(&at_client) as Arc<dyn ServerCertVerifier>)
        .with_client_auth_cert(
            vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("a certificate")],
            PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key"),
        )
        .expect("a client");
    let mut server = ServerConnection::new(Arc::new(server)).expect("a server");
    let mut client =
        ClientConnection::new(Arc::new(client), "edge-1".try_into().expect("a name")).expect("a client");
    for _ in 0..8 {
        hand_over(&mut client, &mut server).expect("a good client");
        hand_over(&mut server, &mut client).expect("a good server");
    }
    assert!(!server.is_handshaking() && !client.is_handshaking());
    let one = |keeper: &Keeper| {
        let seen = keeper.seen.lock().expect("one thread");
        assert_eq!(seen.len(), 1);
        seen[0].clone()
    };
    (one(&at_server), one(&at_client))
}

/// An authority; each has another key, and all have one name and number.
fn operators() -> Authority {
    Authority::make("operators", Lifetime::AUTHORITY, NOW, [1; 16]).expect("an authority").0
}

#[test]
fn m15_evidence_of_a_handshake_proves_who_the_client_is() {
    let authority = operators();
    let issued = authority.issue("alice", Role::Operator, Lifetime::CLIENT, NOW, [2; 16]).expect("a client");
    let (client, server) = handshake(&issued.certificate, &issued.key);
    let judge = |seen: &Seen| authority.ca().verify_evidence(&seen.evidence(), None, NOW);
    let found = judge(&client).expect("alice");
    assert_eq!((found.name.as_str(), found.role), ("alice", Some(Role::Operator)));

    // A public certificate without the key: another handshake's signature, a changed text, one changed bit.
    let mallory =
        authority.issue("mallory", Role::Readonly, Lifetime::CLIENT, NOW, [3; 16]).expect("a client");
    let (other, _) = handshake(&mallory.certificate, &mallory.key);
    let borrowed = Seen { certificate: client.certificate.clone(), ..other.clone() };
    assert_eq!(judge(&borrowed), Err(Fault::NotTheHolder));
    let (again, _) = handshake(&issued.certificate, &issued.key);
    assert_eq!(judge(&Seen { signature: again.signature, ..client.clone() }), Err(Fault::NotTheHolder));
    for at in 0..client.message.len() {
        let mut changed = client.clone();
        changed.message[at] ^= 1;
        assert!(judge(&changed).is_err(), "byte {at} of the text");
    }
    for at in 0..client.signature.len() {
        let mut changed = client.clone();
        changed.signature[at] ^= 1;
        assert!(judge(&changed).is_err(), "byte {at} of the signature");
    }
    for scheme in [0, 0x0503, 0x0807, 0x0804, 0x0203, 0xffff] {
        assert!(judge(&Seen { scheme, ..client.clone() }).is_err(), "scheme {scheme:#x}");
    }
    // What a server signs is no client's evidence, whoever has that key.
    let text = Seen { message: server.message.clone(), ..client.clone() };
    assert_eq!(judge(&text), Err(Fault::Malformed("text that a client signs in a handshake")));
    let mut longer = client.clone();
    longer.message.push(0);
    assert_eq!(judge(&longer), Err(Fault::Malformed("text that a client signs in a handshake")));
}

#[test]
fn m15_the_certificate_is_judged_too() {
    let authority = operators();
    let stranger = operators();
    let issued = authority.issue("alice", Role::Admin, Lifetime::CLIENT, NOW, [2; 16]).expect("a client");
    let (client, _) = handshake(&issued.certificate, &issued.key);
    let evidence = client.evidence();
    assert_eq!(
        stranger.ca().verify_evidence(&evidence, None, NOW),
        Err(Fault::OtherIssuer("operators".into()))
    );
    let late = NOW.plus(91 * 86_400);
    assert!(matches!(authority.ca().verify_evidence(&evidence, None, late), Err(Fault::Ended(_))));
    let gone = Revoked { serial: issued.serial, at: NOW };
    let list = authority.revoke(&[gone], 1, None, NOW).expect("a list");
    let list = RevocationList::read(list.as_bytes(), authority.ca()).expect("our own");
    assert_eq!(authority.ca().verify_evidence(&evidence, Some(&list), NOW), Err(Fault::Revoked));
}
