//! A list of revoked client certificates (RFC 5280, section 5), as a node takes it.

use crate::fault::Fault;
use crate::operator_ca::{OperatorCa, hex, parsed};
use crate::times::{NEVER, from_x509};
use muster_core::UtcTime;
use webpki::{CertRevocationList, OwnedCertRevocationList};

/// Longest list taken.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A list that the authority signed: there is no other way to have one.
#[derive(Debug)]
pub struct RevocationList {
    inner: CertRevocationList<'static>,
    number: String,
    next_update: Option<UtcTime>,
    serials: usize,
    der: Vec<u8>,
}

impl RevocationList {
    /// Reads a list, DER or PEM, and proves that `ca` signed it.
    pub fn read(bytes: &[u8], ca: &OperatorCa) -> Result<Self, Fault> {
        let malformed = Fault::Malformed("revocation list");
        if bytes.len() > MAX_BYTES {
            return Err(Fault::Malformed("revocation list of at most 4 MiB"));
        }
        let der = if bytes.starts_with(b"-----BEGIN") {
            use rustls_pki_types::pem::PemObject;
            rustls_pki_types::CertificateRevocationListDer::from_pem_slice(bytes)
                .map_err(|_| malformed.clone())?
                .to_vec()
        } else {
            bytes.to_vec()
        };
        let Ok(([], list)) = x509_parser::parse_x509_crl(&der) else { return Err(malformed) };
        let authority = parsed(ca.der())?;
        let other = || Fault::OtherIssuer(ca.name().to_owned());
        if list.issuer().as_raw() != authority.subject().as_raw() {
            return Err(other());
        }
        list.verify_signature(authority.public_key()).map_err(|_| other())?;
        let number = list.crl_number().ok_or(Fault::Malformed("revocation list with a number"))?;
        let number = hex(&number.to_bytes_be());
        let next_update = list.next_update().map(from_x509).filter(|t| *t < NEVER);
        let serials = list.iter_revoked_certificates().count();
        let inner = OwnedCertRevocationList::from_der(&der).map_err(|_| malformed)?;
        if has_distribution_point(&list) {
            return Err(Fault::Malformed("revocation list of all clients: it names a distribution point"));
        }
        drop(authority);
        Ok(Self { inner: CertRevocationList::Owned(inner), number, next_update, serials, der })
    }

    pub(crate) const fn inner(&self) -> &CertRevocationList<'static> {
        &self.inner
    }

    /// Its DER: two texts with one number must not differ in it.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Its number, lower-case hex without leading zeros. A later list has a higher one; see [`RevocationList::is_after`].
    pub fn number(&self) -> &str {
        &self.number
    }

    /// Whether its number is higher than another's.
    pub fn is_after(&self, number: &str) -> bool {
        (self.number.len(), self.number.as_str()) > (number.len(), number)
    }

    /// When it ends; `None` where it was made not to.
    pub const fn next_update(&self) -> Option<UtcTime> {
        self.next_update
    }

    /// How many certificates it revokes.
    pub const fn revoked(&self) -> usize {
        self.serials
    }
}

fn has_distribution_point(list: &x509_parser::revocation_list::CertificateRevocationList<'_>) -> bool {
    list.extensions()
        .iter()
        .any(|e| e.oid == x509_parser::oid_registry::OID_X509_EXT_ISSUER_DISTRIBUTION_POINT)
}
