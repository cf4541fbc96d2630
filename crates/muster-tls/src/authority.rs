//! The operators' authority as its holder has it: certificate and key.

use crate::client_key::ClientKey;
use crate::fault::Fault;
use crate::fingerprint::Fingerprint;
use crate::operator_ca::{OperatorCa, hex, parsed};
use crate::pem::one_certificate;
use crate::serving::serial_number;
use crate::times::{NEVER, to_x509};
use muster_core::{Role, UtcTime};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PublicKeyData,
    RevokedCertParams, SerialNumber, SubjectPublicKeyInfo,
};
use x509_parser::extensions::ParsedExtension;
use zeroize::Zeroizing;

const DAY: u64 = 86_400;
/// The clocks of those who read it may be behind by this.
const BEFORE: u64 = 3600;

/// How long a certificate is valid, from now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Seconds.
    pub secs: u64,
}

impl Lifetime {
    /// Of an authority unless said otherwise: ten years.
    pub const AUTHORITY: Self = Self { secs: 3650 * DAY };
    /// Of a client unless said otherwise: 90 days.
    pub const CLIENT: Self = Self { secs: 90 * DAY };
}

/// A certificate that is to be on the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Serial number, hex.
    pub serial: String,
    /// Since when.
    pub at: UtcTime,
}

/// A certificate that was just issued, with the key that was made for it.
#[derive(Debug)]
pub struct Issued {
    /// PEM.
    pub certificate: String,
    /// PKCS#8 PEM; not encrypted.
    pub key: Zeroizing<String>,
    /// Hex.
    pub serial: String,
    /// When it ends.
    pub not_after: UtcTime,
}

/// The authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    ca: OperatorCa,
}

impl core::fmt::Debug for Authority {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Authority").field("name", &self.ca.name()).finish_non_exhaustive()
    }
}

fn other(error: rcgen::Error) -> Fault {
    Fault::Other(error.to_string())
}

impl Authority {
    /// Makes an authority: ECDSA P-256, may sign clients and lists and no further authority. Gives what is to be kept.
    pub fn make(
        name: &str,
        lifetime: Lifetime,
        now: UtcTime,
        serial: [u8; 16],
    ) -> Result<(Self, Issued), Fault> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let not_after = now.plus(lifetime.secs);
        let serial = dated(&mut params, now, not_after, serial);
        let key = KeyPair::generate().map_err(other)?;
        let certificate = params.self_signed(&key).map_err(other)?;
        let issued = Issued {
            certificate: certificate.pem(),
            key: Zeroizing::new(key.serialize_pem()),
            serial,
            not_after,
        };
        let ca = OperatorCa::from_der(certificate.der().clone())?;
        Ok((Self { issuer: Issuer::new(params, key), ca }, issued))
    }

    /// Opens one from its certificate and its key, both PEM, and proves that they belong together.
    pub fn open(certificate: &str, key: &str) -> Result<Self, Fault> {
        let der = one_certificate(certificate)?;
        let key = KeyPair::from_pem(key)
            .map_err(|_| Fault::Malformed("private key in PEM (PKCS#8, not encrypted)"))?;
        let facts = parsed(&der)?;
        if facts.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
            return Err(Fault::OtherKey);
        }
        let issuer = Issuer::from_ca_cert_der(&der, key).map_err(other)?;
        Ok(Self { issuer, ca: OperatorCa::from_der(der)? })
    }

    /// What the nodes get of it.
    pub const fn ca(&self) -> &OperatorCa {
        &self.ca
    }

    /// Issues a certificate for a client, with a key made for it.
    pub fn issue(
        &self,
        name: &str,
        role: Role,
        lifetime: Lifetime,
        now: UtcTime,
        serial: [u8; 16],
    ) -> Result<Issued, Fault> {
        let key = KeyPair::generate().map_err(other)?;
        let (certificate, serial, not_after) = self.certify(name, role, lifetime, (now, serial), &key)?;
        Ok(Issued { certificate, key: Zeroizing::new(key.serialize_pem()), serial, not_after })
    }

    /// The same for a key that somebody else keeps; the key that is handed back is empty.
    pub fn issue_for(
        &self,
        name: &str,
        role: Role,
        lifetime: Lifetime,
        now: UtcTime,
        serial: [u8; 16],
        key: &ClientKey,
    ) -> Result<Issued, Fault> {
        let key = SubjectPublicKeyInfo::from_der(&key.spki()).map_err(other)?;
        let (certificate, serial, not_after) = self.certify(name, role, lifetime, (now, serial), &key)?;
        Ok(Issued { certificate, key: Zeroizing::default(), serial, not_after })
    }

    fn certify(
        &self,
        name: &str,
        role: Role,
        lifetime: Lifetime,
        (now, serial): (UtcTime, [u8; 16]),
        key: &impl PublicKeyData,
    ) -> Result<(String, String, UtcTime), Fault> {
        let not_after = now.plus(lifetime.secs);
        if not_after > self.ca.not_after() {
            return Err(Fault::Outlives(not_after, self.ca.not_after()));
        }
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, role.organisation());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let serial = dated(&mut params, now, not_after, serial);
        let certificate = params.signed_by(key, &self.issuer).map_err(other)?;
        Ok((certificate.pem(), serial, not_after))
    }

    /// Signs the list of all that is revoked, PEM. `number` must be above that of every list before. Without `ends` the list
    /// does not end, and a node goes on with it until it gets the next.
    pub fn revoke(
        &self,
        all: &[Revoked],
        number: u64,
        ends: Option<UtcTime>,
        now: UtcTime,
    ) -> Result<String, Fault> {
        let revoked_certs = all
            .iter()
            .map(|one| {
                Ok(RevokedCertParams {
                    serial_number: SerialNumber::from_slice(&unhex(&one.serial)?),
                    revocation_time: to_x509(one.at),
                    reason_code: None,
                    invalidity_date: None,
                })
            })
            .collect::<Result<_, Fault>>()?;
        let params = CertificateRevocationListParams {
            this_update: to_x509(now),
            next_update: to_x509(ends.unwrap_or(NEVER)),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::PreSpecified(key_id(&self.ca)?),
        };
        params.signed_by(&self.issuer).and_then(|list| list.pem()).map_err(other)
    }
}

/// The fingerprint of a certificate in PEM.
pub fn fingerprint(certificate: &str) -> Result<Fingerprint, Fault> {
    Ok(Fingerprint::of(&one_certificate(certificate)?))
}

/// The authority's own key identifier: readers of a list look for the issuer by it.
fn key_id(ca: &OperatorCa) -> Result<Vec<u8>, Fault> {
    let facts = parsed(ca.der())?;
    let id = facts.iter_extensions().find_map(|e| match e.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    });
    id.ok_or(Fault::NoAuthority("it has no subject key identifier"))
}

fn dated(params: &mut CertificateParams, now: UtcTime, not_after: UtcTime, serial: [u8; 16]) -> String {
    params.not_before = to_x509(UtcTime::from_unix(now.unix().saturating_sub(BEFORE)));
    params.not_after = to_x509(not_after);
    let serial = serial_number(serial);
    let shown = hex(&serial.to_bytes());
    params.serial_number = Some(serial);
    shown
}

fn unhex(text: &str) -> Result<Vec<u8>, Fault> {
    let malformed = Fault::Malformed("serial number in hex");
    let digits: Option<Vec<u8>> =
        text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let digits = digits.filter(|d| !d.is_empty() && d.len() % 2 == 0 && d.len() <= 40).ok_or(malformed)?;
    Ok(digits.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}
