//! PEM (RFC 7468), by its labels.

use crate::fault::Fault;
use base64ct::{Base64, Encoding};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

/// Longest PEM text of one certificate or key: the API's bound for such a body.
const MAX_PEM: usize = 64 * 1024;

/// The DER of the one certificate of a PEM text. Nothing of it is judged.
///
/// # Errors
/// None or several, or a private key beside it.
pub fn one_certificate(text: &str) -> Result<CertificateDer<'static>, Fault> {
    if text.len() > MAX_PEM {
        return Err(Fault::Malformed("PEM text of at most 64 KiB"));
    }
    // By the words alone and wherever they stand, so that a key that no reader would find is called a key too.
    if text.contains("PRIVATE KEY") {
        return Err(Fault::PrivateKey);
    }
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let mut all = all.map_err(|_| Fault::Malformed("PEM text"))?;
    match (all.pop(), all.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => Err(Fault::Malformed("certificate in PEM (-----BEGIN CERTIFICATE-----)")),
        (Some(_), more) => Err(Fault::Count(more + 1)),
    }
}

/// DER as PEM, under a label such as `CERTIFICATE`.
#[must_use]
pub fn to_pem(label: &str, der: &[u8]) -> String {
    let text = Base64::encode_string(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at_checked(64).unwrap_or((rest, ""));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}
