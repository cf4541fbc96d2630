//! A node's own certificate: signed by itself, told by its fingerprint.

use crate::fault::Fault;
use crate::fingerprint::Fingerprint;
use crate::operator_ca::parsed;
use crate::pem::{one_certificate, to_pem};
use crate::times::to_x509;
use core::net::IpAddr;
use muster_core::UtcTime;
use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, KeyUsagePurpose, SanType, SerialNumber,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

const DAY: u64 = 86_400;
/// Nothing of it is trusted for its dates, and a clock may be wrong by a day at the first boot.
const BEFORE: u64 = DAY;
const LASTS: u64 = 3650 * DAY;

/// A node's certificate and its key.
#[derive(Debug)]
pub struct Serving {
    /// The certificate.
    pub certificate: CertificateDer<'static>,
    /// The key, PKCS#8.
    pub key: Zeroizing<Vec<u8>>,
}

impl Serving {
    /// Makes one for a node of this name and these addresses: ECDSA P-256, ten years.
    pub fn make(name: &str, addresses: &[IpAddr], now: UtcTime, serial: [u8; 16]) -> Result<Self, Fault> {
        let other = |e: rcgen::Error| Fault::Other(e.to_string());
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(other)?;
        params.subject_alt_names.extend(addresses.iter().map(|a| SanType::IpAddress(*a)));
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = to_x509(UtcTime::from_unix(now.unix().saturating_sub(BEFORE)));
        params.not_after = to_x509(now.plus(LASTS));
        params.serial_number = Some(serial_number(serial));
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let key = KeyPair::generate().map_err(other)?;
        let certificate = params.self_signed(&key).map_err(other)?;
        Ok(Self { certificate: certificate.der().clone(), key: Zeroizing::new(key.serialize_der()) })
    }

    /// Opens one from what [`Serving::to_pem`] gave, and proves that both belong together.
    pub fn open(certificate: &str, key: &str) -> Result<Self, Fault> {
        let certificate = one_certificate(certificate)?;
        let no_key = || Fault::Malformed("private key in PEM (PKCS#8, not encrypted)");
        let key = PrivatePkcs8KeyDer::from_pem_slice(key.as_bytes()).map_err(|_| no_key())?;
        let pair = KeyPair::try_from(&key).map_err(|_| no_key())?;
        let same =
            parsed(&certificate)?.public_key().subject_public_key.data.as_ref() == pair.public_key_raw();
        let key = Zeroizing::new(key.secret_pkcs8_der().to_vec());
        if same { Ok(Self { certificate, key }) } else { Err(Fault::OtherKey) }
    }

    /// Certificate and key, as files have them.
    pub fn to_pem(&self) -> (String, Zeroizing<String>) {
        (to_pem("CERTIFICATE", &self.certificate), Zeroizing::new(to_pem("PRIVATE KEY", &self.key)))
    }

    /// What an operator compares.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }
}

/// A positive serial number of at most 16 bytes that is not zero (RFC 5280, 4.1.2.2).
pub(crate) fn serial_number(mut bytes: [u8; 16]) -> SerialNumber {
    if let Some(first) = bytes.first_mut() {
        *first = (*first & 0x7f) | 0x40;
    }
    SerialNumber::from_slice(&bytes)
}
