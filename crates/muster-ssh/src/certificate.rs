//! OpenSSH certificates (`PROTOCOL.certkeys`): reading them from bytes that may be hostile, and the
//! policy for a host's.
//!
//! Invariants:
//! - A blob is at most [`MAX_BLOB`] bytes and its authority's key is a plain key, checked here before
//!   any other parser sees it. `ssh-key` recurses into a certificate inside a certificate.
//! - The policy reads the same bytes that the authority signed; nothing is encoded again.
//! - A certificate that parses is not trusted: [`Certificate::check_host`] decides that.

use core::fmt;

use muster_core::UtcTime;
use russh::keys::ssh_key;

use crate::fingerprint::{Fingerprint, KeyKind, blob_kind_name};
use crate::wire::{Malformed, Reader, put_string};

/// No key or certificate that is used in practice comes near this.
pub(crate) const MAX_BLOB: usize = 64 * 1024;
/// `ssh-keygen` writes at most 256 principals.
const MAX_PRINCIPALS: usize = 256;
/// What OpenSSH ends certificate kinds with.
pub(crate) const CERT_SUFFIX: &str = "-cert-v01@openssh.com";
/// Smaller RSA keys are refused, larger ones too (their cost is the peer's to choose).
pub(crate) const RSA_BITS: core::ops::RangeInclusive<usize> = 2048..=16384;

/// Why a host's certificate does not speak for the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateFault {
    /// It cannot be read, or is larger than 64 KiB, or nests certificates.
    #[error("it is not a well-formed OpenSSH certificate: {0}")]
    Malformed(&'static str),
    /// The host shows none, and no plain key of it is pinned.
    #[error("the host has none of a kind that is taken (it offers {})", list(.offers))]
    Absent {
        /// The host key algorithms that it offers.
        offers: Vec<String>,
    },
    /// It was issued for logging in, not for a host.
    #[error("it is a user certificate, not a host certificate")]
    NotAHost,
    /// Its authority is none of the pinned ones.
    #[error("it is signed by {presented}, which is not a pinned authority for this host (pinned: {})", list(.pinned))]
    Authority {
        /// Who signed it.
        presented: Fingerprint,
        /// Who may.
        pinned: Vec<Fingerprint>,
    },
    /// The key or its authority carries a `@revoked` mark.
    #[error("{0} is marked @revoked")]
    Revoked(Fingerprint),
    /// It names nobody, which older implementations took for everybody.
    #[error("it names no principal")]
    NoPrincipal,
    /// It names others.
    #[error("it is for {}, not for {}", list(.named), list(.wanted))]
    Principal {
        /// The names in it.
        named: Vec<String>,
        /// The names that would do.
        wanted: Vec<String>,
    },
    /// `now` is before it begins.
    #[error("it is not valid before {from} and it is {now} here")]
    NotYetValid {
        /// Its first second.
        from: UtcTime,
        /// The clock here.
        now: UtcTime,
    },
    /// `now` is at or after its end.
    #[error("it was valid until {until} and it is {now} here")]
    Expired {
        /// The first second after it.
        until: UtcTime,
        /// The clock here.
        now: UtcTime,
    },
    /// A critical option that is not known must refuse; none is defined for hosts.
    #[error("it has the critical option {0:?}, which this program does not know")]
    CriticalOption(String),
    /// SHA-1, DSA, a security key, a short RSA key.
    #[error("{0} is not accepted")]
    Algorithm(String),
    /// The authority did not sign these bytes.
    #[error("its signature does not verify")]
    Signature,
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl From<Malformed> for CertificateFault {
    fn from(_: Malformed) -> Self {
        Self::Malformed("a field is cut short or out of place")
    }
}

/// What a certificate says. Read, not trusted.
#[derive(Clone, Debug)]
pub(crate) struct Certificate<'a> {
    blob: &'a [u8],
    pub(crate) kind: KeyKind,
    /// The certified key's own fields, as they stand in its plain form.
    key_fields: &'a [u8],
    /// RSA only: bits of the certified key's modulus.
    rsa_bits: Option<usize>,
    pub(crate) serial: u64,
    is_host: bool,
    pub(crate) key_id: &'a str,
    pub(crate) principals: Vec<&'a str>,
    pub(crate) valid_after: u64,
    pub(crate) valid_before: u64,
    critical: Vec<&'a str>,
    pub(crate) authority: &'a [u8],
    signature_algorithm: &'a str,
}

/// The certificate's plain kind, for a blob that is a certificate.
pub(crate) fn certificate_kind(blob: &[u8]) -> Option<&str> {
    blob_kind_name(blob)?.strip_suffix(CERT_SUFFIX)
}

/// The bits of an RSA modulus in its mpint form.
pub(crate) fn modulus_bits(n: &[u8]) -> usize {
    let start = n.iter().position(|&b| b != 0).unwrap_or(n.len());
    let digits = n.get(start..).unwrap_or_default();
    let top = digits.first().map_or(0, |b| b.leading_zeros() as usize);
    (digits.len() * 8).saturating_sub(top)
}

/// Reads the fields of a plain key, which must have the form of their kind, and gives an RSA key's bits.
pub(crate) fn key_fields(kind: KeyKind, r: &mut Reader<'_>) -> Result<Option<usize>, Malformed> {
    let point = match kind {
        KeyKind::Ed25519 => return if r.string()?.len() == 32 { Ok(None) } else { Err(Malformed) },
        KeyKind::Rsa => {
            // An exponent of more than 64 bits only makes verifying slow.
            let exponent = r.string()?.len();
            let bits = modulus_bits(r.string()?);
            return if (1..=9).contains(&exponent) { Ok(Some(bits)) } else { Err(Malformed) };
        }
        KeyKind::EcdsaP256 => 65,
        KeyKind::EcdsaP384 => 97,
        KeyKind::EcdsaP521 => 133,
    };
    let curve = r.text()?;
    let q = r.string()?;
    let fits = kind.name().ends_with(curve) && curve.starts_with("nistp") && q.len() == point;
    if fits && q.first() == Some(&4) { Ok(None) } else { Err(Malformed) }
}

impl<'a> Certificate<'a> {
    /// Reads every field, strictly and to the end.
    pub(crate) fn parse(blob: &'a [u8]) -> Result<Self, CertificateFault> {
        if blob.len() > MAX_BLOB {
            return Err(CertificateFault::Malformed("it is larger than 64 KiB"));
        }
        let mut r = Reader::new(blob);
        let name = r.text()?;
        let plain = name.strip_suffix(CERT_SUFFIX).ok_or(CertificateFault::Malformed("not a certificate"))?;
        let kind = KeyKind::from_name(plain).ok_or_else(|| CertificateFault::Algorithm(printable(name)))?;
        r.string()?; // nonce
        let before_key = r.rest();
        let rsa_bits = key_fields(kind, &mut r)?;
        let key_fields = before_key.get(..before_key.len() - r.rest().len()).unwrap_or_default();
        let serial = r.u64()?;
        let is_host = match r.u32()? {
            1 => false,
            2 => true,
            _ => return Err(CertificateFault::Malformed("its type is neither user nor host")),
        };
        let key_id = r.text()?;
        let principals = names(r.string()?, MAX_PRINCIPALS)?;
        let valid_after = r.u64()?;
        let valid_before = r.u64()?;
        let critical = options(r.string()?)?;
        options(r.string()?)?; // extensions: unknown ones are ignored by their definition
        r.string()?; // reserved
        let authority = r.string()?;
        if blob_kind_name(authority).is_none_or(|n| n.contains("-cert-v0")) {
            return Err(CertificateFault::Malformed("its authority is itself a certificate, or no key"));
        }
        let signature = r.string()?;
        r.end()?;
        let signature_algorithm = Reader::new(signature).text()?;
        Ok(Self {
            blob,
            kind,
            key_fields,
            rsa_bits,
            serial,
            is_host,
            key_id,
            principals,
            valid_after,
            valid_before,
            critical,
            authority,
            signature_algorithm,
        })
    }

    pub(crate) fn authority_fingerprint(&self) -> Fingerprint {
        Fingerprint::of_blob(self.authority)
    }

    /// The certified key in its plain wire form.
    pub(crate) fn plain_key(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.key_fields.len() + 32);
        put_string(&mut out, self.kind.name().as_bytes());
        out.extend_from_slice(self.key_fields);
        out
    }

    pub(crate) fn is_user(&self) -> bool {
        !self.is_host
    }

    /// Whether this certificate speaks for a host called one of `wanted`, at `now`, under an
    /// authority that the caller has already looked up (`pinned` is for the message alone).
    pub(crate) fn check_host(
        &self,
        authority_is_pinned: bool,
        pinned: &[Fingerprint],
        wanted: &[String],
        now: UtcTime,
    ) -> Result<(), CertificateFault> {
        if !self.is_host {
            return Err(CertificateFault::NotAHost);
        }
        if !authority_is_pinned {
            let presented = self.authority_fingerprint();
            return Err(CertificateFault::Authority { presented, pinned: pinned.to_vec() });
        }
        self.check_algorithms()?;
        if self.principals.is_empty() {
            return Err(CertificateFault::NoPrincipal);
        }
        if !self.principals.iter().any(|p| wanted.iter().any(|w| w == p)) {
            let named = self.principals.iter().take(8).map(|p| printable(p)).collect();
            return Err(CertificateFault::Principal { named, wanted: wanted.to_vec() });
        }
        if now.unix() < self.valid_after {
            return Err(CertificateFault::NotYetValid { from: UtcTime::from_unix(self.valid_after), now });
        }
        if now.unix() >= self.valid_before {
            return Err(CertificateFault::Expired { until: UtcTime::from_unix(self.valid_before), now });
        }
        if let Some(option) = self.critical.first() {
            return Err(CertificateFault::CriticalOption(printable(option)));
        }
        let parsed = ssh_key::Certificate::from_bytes(self.blob)
            .map_err(|_| CertificateFault::Malformed("its keys cannot be read"))?;
        parsed.verify_signature().map_err(|_| CertificateFault::Signature)
    }

    fn check_algorithms(&self) -> Result<(), CertificateFault> {
        let refused = |what: String| Err(CertificateFault::Algorithm(what));
        if self.rsa_bits.is_some_and(|b| !RSA_BITS.contains(&b)) {
            return refused("an RSA host key of this size".to_owned());
        }
        let name = blob_kind_name(self.authority).unwrap_or_default();
        let Some(kind) = KeyKind::from_name(name) else {
            return refused(format!("an authority of kind {}", printable(name)));
        };
        if kind == KeyKind::Rsa {
            let mut r = Reader::new(self.authority);
            r.string()?;
            r.string()?;
            if !RSA_BITS.contains(&modulus_bits(r.string()?)) {
                return refused("an RSA authority of this size".to_owned());
            }
        }
        let fits = match kind {
            KeyKind::Rsa => matches!(self.signature_algorithm, "rsa-sha2-256" | "rsa-sha2-512"),
            other => self.signature_algorithm == other.name(),
        };
        if fits {
            Ok(())
        } else {
            refused(format!("the signature algorithm {} (SHA-1?)", printable(self.signature_algorithm)))
        }
    }
}

/// A packed list of strings.
fn names(packed: &[u8], most: usize) -> Result<Vec<&str>, CertificateFault> {
    let mut r = Reader::new(packed);
    let mut out = Vec::new();
    while !r.is_empty() {
        if out.len() == most {
            return Err(CertificateFault::Malformed("it names more than 256 principals"));
        }
        out.push(r.text()?);
    }
    Ok(out)
}

/// A packed list of name and data: the names.
fn options(packed: &[u8]) -> Result<Vec<&str>, CertificateFault> {
    let mut r = Reader::new(packed);
    let mut out = Vec::new();
    while !r.is_empty() {
        out.push(r.text()?);
        r.string()?;
    }
    Ok(out)
}

/// A peer's text for a message to a person: no control characters, no more than a line.
pub(crate) fn printable(text: &str) -> String {
    text.chars().take(120).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_servers_words_stay_one_short_line() {
        let name = format!("ssh-\u{1b}[2J\n{}{CERT_SUFFIX}", "x".repeat(5000));
        let mut blob = Vec::new();
        put_string(&mut blob, name.as_bytes());
        let said = Certificate::parse(&blob).unwrap_err().to_string();
        assert!(said.len() < 600 && !said.chars().any(char::is_control), "{said:?}");
        let said = crate::trust::known_kind(&blob).unwrap_err().to_string();
        assert!(said.len() < 600 && !said.chars().any(char::is_control), "{said:?}");
    }

    /// A certificate with this in the place of its authority's key.
    fn with_authority(authority: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for part in [&b"ssh-ed25519-cert-v01@openssh.com"[..], &[0; 32], &[1; 32]] {
            put_string(&mut out, part);
        }
        out.extend_from_slice(&7u64.to_be_bytes());
        out.extend_from_slice(&2u32.to_be_bytes());
        put_string(&mut out, b"id");
        let mut principals = Vec::new();
        put_string(&mut principals, b"edge-1");
        put_string(&mut out, &principals);
        out.extend_from_slice(&0u64.to_be_bytes());
        out.extend_from_slice(&u64::MAX.to_be_bytes());
        for part in [&b""[..], b"", b"", authority] {
            put_string(&mut out, part);
        }
        let mut signature = Vec::new();
        put_string(&mut signature, b"ssh-ed25519");
        put_string(&mut signature, &[2; 64]);
        put_string(&mut out, &signature);
        out
    }

    fn plain() -> Vec<u8> {
        let mut out = Vec::new();
        put_string(&mut out, b"ssh-ed25519");
        put_string(&mut out, &[3; 32]);
        out
    }

    #[test]
    fn nested_certificates_are_refused_before_another_reader_recurses() {
        let mut blob = with_authority(&plain());
        assert!(Certificate::parse(&blob).is_ok());
        // One level is enough to be refused; so are as many as fit.
        for depth in 1.. {
            blob = with_authority(&blob);
            assert!(matches!(Certificate::parse(&blob), Err(CertificateFault::Malformed(_))), "{depth}");
            if blob.len() > MAX_BLOB {
                break;
            }
        }
    }

    #[test]
    fn a_signature_that_nobody_made_does_not_verify() {
        let blob = with_authority(&plain());
        let cert = Certificate::parse(&blob).unwrap();
        let wanted = ["edge-1".to_owned()];
        assert_eq!(
            cert.check_host(true, &[], &wanted, UtcTime::from_unix(1000)),
            Err(CertificateFault::Signature)
        );
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..400) {
            let mut blob = with_authority(&plain());
            blob.truncate(cut);
            blob.extend(bytes);
            let _ = Certificate::parse(&blob);
        }
    }
}
