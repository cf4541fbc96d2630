//! The operators' authority as a node holds it: the certificate by which it judges who calls.

use crate::fault::Fault;
use crate::fingerprint::Fingerprint;
use crate::list::RevocationList;
use crate::pem::one_certificate;
use crate::times::from_x509;
use muster_core::{Role, UtcTime};
use rustls_pki_types::{CertificateDer, UnixTime};
use webpki::{
    EndEntityCert, ExpirationPolicy, KeyUsage, RevocationCheckDepth, RevocationOptionsBuilder,
    UnknownStatusPolicy,
};
use x509_parser::certificate::X509Certificate;
use x509_parser::public_key::PublicKey;

/// The authority whose clients a node obeys. Made only of a certificate that may sign certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorCa {
    der: CertificateDer<'static>,
    name: String,
    not_after: UtcTime,
}

/// Who a client is, after its certificate was verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The common name; for people and the audit only.
    pub name: String,
    /// The highest role that the certificate carries, if any.
    pub role: Option<Role>,
    /// The serial number, lower-case hex.
    pub serial: String,
    /// Of the whole certificate.
    pub fingerprint: Fingerprint,
    /// When it ends.
    pub not_after: UtcTime,
}

/// The signatures that a certificate may have: what `muster pki` and the field's tools make, no SHA-1, no short RSA key.
const ALGORITHMS: &[&dyn rustls_pki_types::SignatureVerificationAlgorithm] = &[
    webpki::aws_lc_rs::ECDSA_P256_SHA256,
    webpki::aws_lc_rs::ECDSA_P256_SHA384,
    webpki::aws_lc_rs::ECDSA_P384_SHA256,
    webpki::aws_lc_rs::ECDSA_P384_SHA384,
    webpki::aws_lc_rs::ECDSA_P521_SHA512,
    webpki::aws_lc_rs::ED25519,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA256,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA384,
    webpki::aws_lc_rs::RSA_PKCS1_2048_8192_SHA512,
];

/// Reads all of a DER, with nothing behind it.
pub(crate) fn parsed(der: &[u8]) -> Result<X509Certificate<'_>, Fault> {
    match x509_parser::parse_x509_certificate(der) {
        Ok(([], certificate)) => Ok(certificate),
        _ => Err(Fault::Malformed("certificate")),
    }
}

/// Longest name, in characters: what X.520 lets a common name have.
const MAX_NAME: usize = 64;

/// The common name as people shall read it: here it becomes text for journals, records, errors and screens, and so nothing in it hides or
/// turns around the rest of a line. Two names are written alike only where they are one, or where they are cut.
pub(crate) fn common_name(certificate: &X509Certificate<'_>) -> String {
    let name =
        certificate.subject().iter_common_name().next().and_then(|n| n.as_str().ok()).unwrap_or("(no name)");
    muster_core::hidden::escaped(name, MAX_NAME)
}

impl OperatorCa {
    /// Reads the authority's certificate: exactly one, that may sign certificates with a key that is verified here, and has not ended.
    pub fn from_pem(text: &str, now: UtcTime) -> Result<Self, Fault> {
        let ca = Self::from_der(one_certificate(text)?)?;
        ca.can_be_obeyed()?;
        // One that begins later is taken: a node's clock may be behind at its first boot, and it will begin.
        if ca.not_after < now { Err(Fault::Ended(ca.not_after)) } else { Ok(ca) }
    }

    /// Whether what its key signs is verified here: nobody could ever log in to a node that obeyed another.
    fn can_be_obeyed(&self) -> Result<(), Fault> {
        let anchor = webpki::anchor_from_trusted_cert(&self.der).map_err(|e| Fault::Other(e.to_string()))?;
        // RFC 5280, 4.1: the AlgorithmIdentifier is the first thing in a SubjectPublicKeyInfo; all that are taken here are short.
        let key: &[u8] = &anchor.subject_public_key_info;
        let is_of = |id: &[u8]| {
            key.strip_prefix(&[0x30])
                .and_then(<[u8]>::split_first)
                .is_some_and(|(length, rest)| usize::from(*length) == id.len() && rest.starts_with(id))
        };
        if !ALGORITHMS.iter().any(|a| is_of(a.public_key_alg_id().as_ref())) {
            return Err(Fault::NoAuthority(
                "its key is of a kind that no node verifies; those are ECDSA on P-256, P-384 and P-521, Ed25519, and RSA",
            ));
        }
        let facts = parsed(&self.der)?;
        match facts.public_key().parsed() {
            Ok(PublicKey::RSA(rsa)) if !(2048..=8192).contains(&rsa.key_size()) => {
                Err(Fault::NoAuthority("its RSA key has not 2048 to 8192 bits"))
            }
            Ok(_) => Ok(()),
            Err(_) => Err(Fault::Malformed("certificate")),
        }
    }

    /// The same of DER, whatever the time and the key: a node keeps the one that it pinned.
    pub fn from_der(der: CertificateDer<'static>) -> Result<Self, Fault> {
        let certificate = parsed(&der)?;
        let constraints = certificate.basic_constraints().map_err(|_| Fault::Malformed("certificate"))?;
        if !constraints.is_some_and(|c| c.value.ca) {
            return Err(Fault::NoAuthority("its basic constraints do not say CA:TRUE"));
        }
        let usage = certificate.key_usage().map_err(|_| Fault::Malformed("certificate"))?;
        if usage.is_some_and(|u| !u.value.key_cert_sign()) {
            return Err(Fault::NoAuthority("its key usage lacks keyCertSign"));
        }
        webpki::anchor_from_trusted_cert(&der).map_err(|e| Fault::Other(e.to_string()))?;
        let (name, not_after) = (common_name(&certificate), from_x509(certificate.validity().not_after));
        Ok(Self { name, not_after, der })
    }

    /// Its DER.
    pub const fn der(&self) -> &CertificateDer<'static> {
        &self.der
    }

    /// Its common name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its fingerprint.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.der)
    }

    /// When it ends.
    pub const fn not_after(&self) -> UtcTime {
        self.not_after
    }

    /// Whether two have one key: a renewed certificate of the same authority is no new authority.
    pub fn same_key(&self, other: &Self) -> bool {
        let key = |ca: &Self| parsed(&ca.der).map(|c| c.public_key().raw.to_vec());
        matches!((key(self), key(other)), (Ok(a), Ok(b)) if a == b)
    }

    /// Judges a client's certificate: signed by this authority and by nobody between, for clients, valid now, and not on the
    /// list, where there is one. Whether the list itself is still fresh is the caller's question.
    pub fn verify_client(
        &self,
        der: &[u8],
        list: Option<&RevocationList>,
        now: UtcTime,
    ) -> Result<Client, Fault> {
        let facts = parsed(der)?;
        let der = CertificateDer::from(der);
        let certificate =
            EndEntityCert::try_from(&der).map_err(|_| Fault::Malformed("client certificate"))?;
        let anchor = webpki::anchor_from_trusted_cert(&self.der).map_err(|e| Fault::Other(e.to_string()))?;
        let lists: Vec<&webpki::CertRevocationList<'_>> = list.iter().map(|l| l.inner()).collect();
        let revocation = RevocationOptionsBuilder::new(&lists).ok().map(|options| {
            options
                .with_depth(RevocationCheckDepth::EndEntity)
                .with_status_policy(UnknownStatusPolicy::Deny)
                .with_expiration_policy(ExpirationPolicy::Ignore)
                .build()
        });
        let time = UnixTime::since_unix_epoch(core::time::Duration::from_secs(now.unix()));
        certificate
            .verify_for_usage(ALGORITHMS, &[anchor], &[], time, KeyUsage::client_auth(), revocation, None)
            .map_err(|e| self.told(e))?;
        Ok(client(&facts, &der))
    }

    /// Who a certificate is that this authority issued, whether or not it is still valid: for its own list.
    pub fn described(&self, certificate: &str) -> Result<Client, Fault> {
        let der = one_certificate(certificate)?;
        let facts = parsed(&der)?;
        // At its own last moment, so that time is no question.
        self.verify_client(&der, None, from_x509(facts.validity().not_after))
    }

    fn told(&self, error: webpki::Error) -> Fault {
        let time = |t: UnixTime| UtcTime::from_unix(t.as_secs());
        match error {
            webpki::Error::CertExpired { not_after, .. } => Fault::Ended(time(not_after)),
            webpki::Error::CertNotValidYet { not_before, .. } => Fault::NotYet(time(not_before)),
            webpki::Error::CertRevoked => Fault::Revoked,
            webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
                Fault::OtherIssuer(self.name.clone())
            }
            webpki::Error::RequiredEkuNotFoundContext(_) => Fault::Purpose("clients"),
            webpki::Error::CaUsedAsEndEntity => Fault::Purpose("clients: it is an authority itself"),
            other => Fault::Other(other.to_string()),
        }
    }
}

fn client(facts: &X509Certificate<'_>, der: &[u8]) -> Client {
    let organisations = facts.subject().iter_organization().filter_map(|o| o.as_str().ok());
    Client {
        name: common_name(facts),
        role: Role::of(organisations),
        serial: hex(facts.tbs_certificate.raw_serial()),
        fingerprint: Fingerprint::of(der),
        not_after: from_x509(facts.validity().not_after),
    }
}

/// A serial number as people and lists write it: lower-case hex, without the leading zero byte that DER may need.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let bytes = match bytes {
        [0, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
