//! Whom a host must be, decided before first contact.
//!
//! Invariants:
//! - A [`HostTrust`] always holds at least one pin or one authority; there is no value of it that
//!   accepts anybody.
//! - A `@revoked` key refuses, whatever else would accept it.
//! - Keys are compared as wire bytes (or as the SHA-256 of them).

use std::collections::HashMap;

use base64ct::{Base64, Encoding as _};
use muster_core::UtcTime;

use crate::certificate::{
    Certificate, CertificateFault, MAX_BLOB, RSA_BITS, certificate_kind, key_fields, printable,
};
use crate::fingerprint::{Fingerprint, KeyKind, blob_kind_name};
use crate::wire::{Malformed, Reader};

/// Why a trust cannot be made from what was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustFault {
    /// Neither a key nor an authority was pinned.
    #[error("nothing is pinned for this host: give its key, its fingerprint, or its certificate authority")]
    Nothing,
    /// A text that is no key.
    #[error("{shown:?} is not a host key: {why}")]
    NotAKey {
        /// The beginning of the text.
        shown: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A key that this program does not take for a host.
    #[error("a host key of kind {0} is not accepted")]
    Kind(String),
    /// An authority with no name that it may speak for.
    #[error("a host certificate authority needs at least one name that it may speak for")]
    NoPrincipal,
}

/// One pinned key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pin {
    fingerprint: Fingerprint,
    /// Not known for a bare fingerprint.
    kind: Option<KeyKind>,
}

/// A host certificate authority and the names that it may speak for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Authority {
    fingerprint: Fingerprint,
    principals: Vec<String>,
}

impl Authority {
    /// `key` is the authority's public key line; the host's certificate must name one of
    /// `principals`, byte for byte. A pattern in a certificate matches only itself.
    pub fn new<S: Into<String>>(
        key: &str,
        principals: impl IntoIterator<Item = S>,
    ) -> Result<Self, TrustFault> {
        let (blob, _) = parse_key_line(key)?;
        Self::from_blob(&blob, principals.into_iter().map(Into::into).collect())
    }

    pub(crate) fn from_blob(blob: &[u8], principals: Vec<String>) -> Result<Self, TrustFault> {
        if principals.is_empty() || principals.iter().any(String::is_empty) {
            return Err(TrustFault::NoPrincipal);
        }
        known_kind(blob)?;
        Ok(Self { fingerprint: Fingerprint::of_blob(blob), principals })
    }

    /// The authority's key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

/// Whom a host must be: one of the pinned keys, or anyone a pinned authority vouches for by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostTrust {
    pins: Vec<Pin>,
    authorities: Vec<Authority>,
    revoked: Vec<Fingerprint>,
}

/// Collects what is pinned for one host.
#[derive(Clone, Debug, Default)]
pub struct TrustBuilder {
    pins: Vec<Pin>,
    authorities: Vec<Authority>,
    revoked: Vec<Fingerprint>,
}

/// What a host proved to be.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Basis {
    /// Its key is pinned.
    PinnedKey,
    /// A pinned authority vouches for it.
    Certificate {
        /// The authority.
        authority: Fingerprint,
        /// The certificate's key id: free text from whoever signed it.
        key_id: String,
        /// Its serial number.
        serial: u64,
        /// The first second at which it no longer holds.
        valid_before: UtcTime,
    },
}

/// Why a host is not whom it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Untrusted {
    Changed,
    Revoked(Fingerprint),
    Weak(String),
    Certificate(CertificateFault),
}

impl HostTrust {
    /// An empty collection, which does not build.
    pub fn builder() -> TrustBuilder {
        TrustBuilder::default()
    }

    /// One text, as an operator has it at hand: `SHA256:…` from the console, a line of
    /// `ssh-keygen -l`, or a public key line.
    pub fn parse(text: &str) -> Result<Self, TrustFault> {
        let text = text.trim();
        let builder = Self::builder();
        if let Some((fingerprint, kind)) = listing(text) {
            return builder.pin(fingerprint, kind).build();
        }
        builder.key(text)?.build()
    }

    /// The fingerprints of all pinned keys.
    pub fn pinned(&self) -> Vec<Fingerprint> {
        self.pins.iter().map(|p| p.fingerprint).collect()
    }

    /// The pinned authorities.
    pub fn authorities(&self) -> &[Authority] {
        &self.authorities
    }

    /// Whether any host may show a certificate here.
    pub(crate) fn takes_certificates(&self) -> bool {
        !self.authorities.is_empty()
    }

    /// The kinds of plain key worth asking the host for. A bare fingerprint does not tell its kind, but `known` may.
    pub(crate) fn kinds(&self, known: &HashMap<Fingerprint, KeyKind>) -> Vec<KeyKind> {
        let of = |pin: &Pin| pin.kind.or_else(|| known.get(&pin.fingerprint).copied());
        let any = self.pins.iter().any(|p| of(p).is_none());
        KeyKind::ALL.into_iter().filter(|k| any || self.pins.iter().any(|p| of(p) == Some(*k))).collect()
    }

    /// Whether some pin is a bare fingerprint, so that a key of another kind may yet be the one.
    pub(crate) fn has_untyped_pin(&self) -> bool {
        self.pins.iter().any(|p| p.kind.is_none())
    }

    /// Judges a plain host key.
    pub(crate) fn check_key(&self, blob: &[u8]) -> Result<Basis, Untrusted> {
        let fingerprint = Fingerprint::of_blob(blob);
        if self.revoked.contains(&fingerprint) {
            return Err(Untrusted::Revoked(fingerprint));
        }
        if !self.pins.iter().any(|p| p.fingerprint == fingerprint) {
            return Err(Untrusted::Changed);
        }
        if let Err(fault) = known_kind(blob) {
            return Err(Untrusted::Weak(fault.to_string()));
        }
        Ok(Basis::PinnedKey)
    }

    /// Judges a host certificate.
    pub(crate) fn check_certificate(&self, blob: &[u8], now: UtcTime) -> Result<Basis, Untrusted> {
        let cert = Certificate::parse(blob).map_err(Untrusted::Certificate)?;
        let authority = cert.authority_fingerprint();
        let certified = Fingerprint::of_blob(&cert.plain_key());
        if let Some(&revoked) = self.revoked.iter().find(|r| **r == authority || **r == certified) {
            return Err(Untrusted::Revoked(revoked));
        }
        // The exchange is signed with the certified key. Where that very key is pinned, what the
        // certificate says beside it does not matter.
        if self.pins.iter().any(|p| p.fingerprint == certified) {
            return self.check_key(&cert.plain_key());
        }
        let held: Vec<&Authority> = self.authorities.iter().filter(|a| a.fingerprint == authority).collect();
        let pinned: Vec<Fingerprint> = self.authorities.iter().map(|a| a.fingerprint).collect();
        let wanted: Vec<String> = held.iter().flat_map(|a| a.principals.iter().cloned()).collect();
        cert.check_host(!held.is_empty(), &pinned, &wanted, now).map_err(Untrusted::Certificate)?;
        Ok(Basis::Certificate {
            authority,
            key_id: printable(cert.key_id),
            serial: cert.serial,
            valid_before: UtcTime::from_unix(cert.valid_before),
        })
    }
}

impl TrustBuilder {
    /// Pins a fingerprint. `kind`, where it is known, is the only kind that the host is asked for.
    #[must_use]
    pub fn pin(mut self, fingerprint: Fingerprint, kind: Option<KeyKind>) -> Self {
        self.pins.push(Pin { fingerprint, kind });
        self
    }

    /// Pins a public key line (`ssh-ed25519 AAAA… comment`).
    pub fn key(self, line: &str) -> Result<Self, TrustFault> {
        let (blob, kind) = parse_key_line(line)?;
        Ok(self.pin(Fingerprint::of_blob(&blob), Some(kind)))
    }

    pub(crate) fn blob(self, blob: &[u8]) -> Result<Self, TrustFault> {
        let kind = known_kind(blob)?;
        Ok(self.pin(Fingerprint::of_blob(blob), Some(kind)))
    }

    /// Pins an authority.
    #[must_use]
    pub fn authority(mut self, authority: Authority) -> Self {
        self.authorities.push(authority);
        self
    }

    /// Refuses a key or an authority, whatever else accepts it.
    #[must_use]
    pub fn revoke(mut self, fingerprint: Fingerprint) -> Self {
        self.revoked.push(fingerprint);
        self
    }

    /// The trust, or [`TrustFault::Nothing`]: revocations alone trust nobody.
    pub fn build(self) -> Result<HostTrust, TrustFault> {
        if self.pins.is_empty() && self.authorities.is_empty() {
            return Err(TrustFault::Nothing);
        }
        Ok(HostTrust { pins: self.pins, authorities: self.authorities, revoked: self.revoked })
    }
}

/// A fingerprint alone, or the line that `ssh-keygen -l` prints: bits, fingerprint, comment, (KIND).
fn listing(text: &str) -> Option<(Fingerprint, Option<KeyKind>)> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    if let Ok(fp) = Fingerprint::parse(first) {
        return words.next().is_none().then_some((fp, None));
    }
    let bits: usize = first.parse().ok()?;
    let fp = Fingerprint::parse(words.next()?).ok()?;
    let kind = match (words.next_back()?, bits) {
        ("(ED25519)", _) => Some(KeyKind::Ed25519),
        ("(RSA)", _) => Some(KeyKind::Rsa),
        ("(ECDSA)", 256) => Some(KeyKind::EcdsaP256),
        ("(ECDSA)", 384) => Some(KeyKind::EcdsaP384),
        ("(ECDSA)", 521) => Some(KeyKind::EcdsaP521),
        _ => None,
    };
    Some((fp, kind))
}

/// `kind base64 [comment]`: the wire form and its kind.
pub(crate) fn parse_key_line(line: &str) -> Result<(Vec<u8>, KeyKind), TrustFault> {
    let not = |why| TrustFault::NotAKey { shown: line.chars().take(60).collect(), why };
    let mut words = line.split_ascii_whitespace();
    let (Some(kind), Some(base64)) = (words.next(), words.next()) else {
        return Err(not("expected a kind and base64, such as `ssh-ed25519 AAAA…`, or SHA256:…"));
    };
    let blob = decode_blob(kind, base64).map_err(not)?;
    let kind = known_kind(&blob)?;
    Ok((blob, kind))
}

/// Decodes base64 whose bytes must begin with the kind that stands before it.
pub(crate) fn decode_blob(kind: &str, base64: &str) -> Result<Vec<u8>, &'static str> {
    if base64.len() > MAX_BLOB * 4 / 3 + 4 {
        return Err("it is larger than 64 KiB");
    }
    let blob = Base64::decode_vec(base64).map_err(|_| "its second word is not padded base64")?;
    if blob_kind_name(&blob) != Some(kind) {
        return Err("its base64 is not a key of the kind before it");
    }
    Ok(blob)
}

/// The kind of a plain key, where it is one that is accepted and complete.
pub(crate) fn known_kind(blob: &[u8]) -> Result<KeyKind, TrustFault> {
    let name = blob_kind_name(blob).unwrap_or_default();
    if let Some(inner) = certificate_kind(blob) {
        let inner = printable(inner);
        return Err(TrustFault::Kind(format!("{inner} certificate (pin the key or its authority instead)")));
    }
    let kind = KeyKind::from_name(name).ok_or_else(|| TrustFault::Kind(printable(name)))?;
    let mut r = Reader::new(blob);
    let fields = r.string().and_then(|_| key_fields(kind, &mut r)).and_then(|bits| r.end().map(|()| bits));
    match fields {
        Ok(Some(bits)) if !RSA_BITS.contains(&bits) => {
            return Err(TrustFault::Kind(format!("ssh-rsa with {bits} bits (2048 to 16384 are)")));
        }
        Ok(_) => {}
        Err(Malformed) => {
            let why = "its fields are not those of its kind";
            return Err(TrustFault::NotAKey { shown: name.to_owned(), why });
        }
    }
    Ok(kind)
}
