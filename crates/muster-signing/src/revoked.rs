//! The revocation list: text (one public key or `SHA256:` fingerprint a line) or a binary KRL
//! (OpenSSH `PROTOCOL.krl`).
//!
//! Checked for the signing key and, where a certificate signed, for the certificate and its
//! authority. A list that is not wholly understood is refused: a skipped line may have been the
//! key that was lost.

mod krl;

use crate::{
    FileFault, base64, key,
    sshsig::SignerKey,
    wire::{Reader, shown},
};
use krl::Krl;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// A list over this many bytes is not looked at.
pub const MAX_BYTES: usize = 16 * 1024 * 1024;

/// A whole list, every entry of which was understood.
#[derive(Clone, Debug, Default)]
pub struct RevokedSigners {
    /// SHA-256 of the plain key blobs that are revoked.
    digests: BTreeSet<[u8; 32]>,
    krl: Option<Krl>,
}

impl RevokedSigners {
    /// Reads a list. An empty file revokes nobody.
    pub fn parse(file: &[u8]) -> Result<Self, FileFault> {
        if file.len() > MAX_BYTES {
            return Err(FileFault::at(0, format!("the list is over {MAX_BYTES} bytes")));
        }
        if file.starts_with(krl::MAGIC) {
            let krl = krl::parse(file).map_err(|why| FileFault::at(0, format!("the KRL {why}")))?;
            return Ok(Self { digests: BTreeSet::new(), krl: Some(krl) });
        }
        let mut digests = BTreeSet::new();
        for (n, line) in (1usize..).zip(file.split(|b| *b == b'\n')) {
            let fault = |why: &str| FileFault::at(n, why.to_owned());
            let text = core::str::from_utf8(line).map_err(|_| fault("the line is not UTF-8"))?;
            let text = text.trim_end_matches('\r').trim_start_matches([' ', '\t']);
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            digests.insert(revoked_digest(text).map_err(|why| fault(&why))?);
        }
        Ok(Self { digests, krl: None })
    }

    /// Whether nobody is revoked.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty() && self.krl.as_ref().is_none_or(Krl::is_empty)
    }

    /// Why this signer is revoked, if it is.
    pub fn why_revoked(&self, signer: &SignerKey) -> Option<String> {
        let key = signer.key();
        if self.lists(key.blob()) {
            return Some(format!("key {}", key.fingerprint()));
        }
        let cert = signer.certificate()?;
        if self.lists(cert.authority().blob()) {
            return Some(format!("authority {}", cert.authority().fingerprint()));
        }
        let by_krl = self.krl.as_ref().is_some_and(|krl| krl.lists_certificate(cert));
        by_krl.then(|| format!("certificate with serial {} of key {}", cert.serial(), key.fingerprint()))
    }

    fn lists(&self, blob: &[u8]) -> bool {
        self.digests.contains(&<[u8; 32]>::from(Sha256::digest(blob)))
            || self.krl.as_ref().is_some_and(|krl| krl.lists_key(blob))
    }
}

/// The digest of the key that a line revokes.
fn revoked_digest(text: &str) -> Result<[u8; 32], String> {
    let mut words = text.split([' ', '\t']).filter(|w| !w.is_empty());
    let first = words.next().unwrap_or_default();
    if let Some(digest) = first.strip_prefix("SHA256:") {
        let bytes = base64::decode_unpadded(digest.trim_end_matches('='));
        return bytes
            .and_then(|b| b.try_into().ok())
            .ok_or_else(|| "the fingerprint is not SHA256: and 43 characters of base64".to_owned());
    }
    let Some(second) = words.next() else {
        return Err(format!(
            "{:?} is neither a public key nor a SHA256: fingerprint",
            shown(first.as_bytes())
        ));
    };
    let blob = key::decode_words(first, second).map_err(|e| e.to_string())?;
    // A certificate revokes its key, as in OpenSSH; a key of a type that never signs here is
    // taken as it is, so that one list can serve sshd too.
    match SignerKey::from_blob(&blob) {
        Ok(signer) => Ok(Sha256::digest(signer.key().blob()).into()),
        Err(key::KeyFault::Unsupported(_)) if Reader::new(&blob).text().is_ok() => {
            Ok(Sha256::digest(&blob).into())
        }
        Err(fault) => Err(fault.to_string()),
    }
}
