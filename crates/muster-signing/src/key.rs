//! Public keys as they stand on the wire, and the raw signatures that they verify.
//!
//! Invariant: the blob of a [`PublicKey`] is the only spelling of that key, so that equal keys
//! have equal blobs and one signer cannot count twice.
//! Sources: RFC 4253 section 6.6 (RSA), RFC 5656 (ECDSA), RFC 8332 (rsa-sha2), RFC 8709 (Ed25519),
//! OpenSSH `PROTOCOL.u2f` (sk- keys).

use crate::{
    base64,
    wire::{Reader, WireFault, put_string, shown},
};
use sha2::{Digest, Sha256};
use signature::Verifier;
use ssh_key::{Algorithm, HashAlg, public::KeyData};

/// RSA keys below this do not sign here (NIST SP 800-57: 128-bit security).
pub const RSA_MIN_BITS: u32 = 3072;
/// RSA keys above this are not worth the time that a verification would take.
pub const RSA_MAX_BITS: u32 = 8192;
/// A key or certificate blob over this many bytes is not looked at.
pub const MAX_BLOB: usize = 64 * 1024;

/// User presence, bit 0 of the flags that an authenticator signs (`PROTOCOL.u2f`).
const FLAG_USER_PRESENT: u8 = 0x01;
/// User verification, bit 2.
const FLAG_USER_VERIFIED: u8 = 0x04;

/// The kinds of keys that may sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// `ssh-ed25519`
    Ed25519,
    /// `ecdsa-sha2-nistp256`
    EcdsaP256,
    /// `ecdsa-sha2-nistp384`
    EcdsaP384,
    /// `ecdsa-sha2-nistp521`
    EcdsaP521,
    /// `ssh-rsa`, which signs as `rsa-sha2-256` or `rsa-sha2-512` only
    Rsa,
    /// `sk-ssh-ed25519@openssh.com`
    SkEd25519,
    /// `sk-ecdsa-sha2-nistp256@openssh.com`
    SkEcdsaP256,
}

impl KeyKind {
    const ALL: [Self; 7] = [
        Self::Ed25519,
        Self::EcdsaP256,
        Self::EcdsaP384,
        Self::EcdsaP521,
        Self::Rsa,
        Self::SkEd25519,
        Self::SkEcdsaP256,
    ];

    /// The name on the wire and in key files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ed25519 => "ssh-ed25519",
            Self::EcdsaP256 => "ecdsa-sha2-nistp256",
            Self::EcdsaP384 => "ecdsa-sha2-nistp384",
            Self::EcdsaP521 => "ecdsa-sha2-nistp521",
            Self::Rsa => "ssh-rsa",
            Self::SkEd25519 => "sk-ssh-ed25519@openssh.com",
            Self::SkEcdsaP256 => "sk-ecdsa-sha2-nistp256@openssh.com",
        }
    }

    /// The name of a certificate of such a key.
    pub const fn certificate_name(self) -> &'static str {
        match self {
            Self::Ed25519 => "ssh-ed25519-cert-v01@openssh.com",
            Self::EcdsaP256 => "ecdsa-sha2-nistp256-cert-v01@openssh.com",
            Self::EcdsaP384 => "ecdsa-sha2-nistp384-cert-v01@openssh.com",
            Self::EcdsaP521 => "ecdsa-sha2-nistp521-cert-v01@openssh.com",
            Self::Rsa => "ssh-rsa-cert-v01@openssh.com",
            Self::SkEd25519 => "sk-ssh-ed25519-cert-v01@openssh.com",
            Self::SkEcdsaP256 => "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
        }
    }

    /// The word that `ssh-keygen` prints, `ED25519` and the like.
    pub const fn short_name(self) -> &'static str {
        match self {
            Self::Ed25519 => "ED25519",
            Self::EcdsaP256 | Self::EcdsaP384 | Self::EcdsaP521 => "ECDSA",
            Self::Rsa => "RSA",
            Self::SkEd25519 => "ED25519-SK",
            Self::SkEcdsaP256 => "ECDSA-SK",
        }
    }

    /// Reads a plain key's name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }

    /// Reads a certificate's name.
    pub fn from_certificate_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.certificate_name() == name)
    }

    /// Whether the private half lives in a FIDO authenticator.
    pub const fn is_sk(self) -> bool {
        matches!(self, Self::SkEd25519 | Self::SkEcdsaP256)
    }

    fn signs_as(self, algorithm: &str) -> bool {
        match self {
            Self::Rsa => matches!(algorithm, "rsa-sha2-256" | "rsa-sha2-512"),
            plain => plain.name() == algorithm,
        }
    }
}

/// Why a blob is not a public key that this crate takes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The bytes do not follow the format of the type that they name.
    #[error("the key does not follow its format ({0})")]
    Malformed(&'static str),
    /// A type that never signs here.
    #[error("keys of type {0} are not accepted")]
    Unsupported(String),
    /// A certificate stands where a plain key must.
    #[error("a certificate stands where a plain key must")]
    Certificate,
    /// Over [`MAX_BLOB`].
    #[error("the key is over {MAX_BLOB} bytes")]
    TooLarge,
}

impl From<WireFault> for KeyFault {
    fn from(_: WireFault) -> Self {
        Self::Malformed("it ends early, or a number is not in its shortest form")
    }
}

/// A plain public key, checked for form. Whether it may sign is another question: see
/// [`PublicKey::may_sign`].
#[derive(Clone, Debug)]
pub struct PublicKey {
    kind: KeyKind,
    bits: u32,
    blob: Vec<u8>,
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.blob == other.blob
    }
}

impl Eq for PublicKey {}

impl PublicKey {
    /// Reads a plain key's blob, whole.
    pub fn from_blob(blob: &[u8]) -> Result<Self, KeyFault> {
        if blob.len() > MAX_BLOB {
            return Err(KeyFault::TooLarge);
        }
        let mut r = Reader::new(blob);
        let name = r.text()?;
        let Some(kind) = KeyKind::from_name(name) else {
            return Err(if KeyKind::from_certificate_name(name).is_some() {
                KeyFault::Certificate
            } else {
                KeyFault::Unsupported(shown(name.as_bytes()))
            });
        };
        let bits = check_fields(kind, &mut r)?;
        if !r.is_empty() {
            return Err(KeyFault::Malformed("bytes after its end"));
        }
        Ok(Self { kind, bits, blob: blob.to_vec() })
    }

    /// Reads `type base64`, as in a `.pub` file or a trust file, where the two must agree.
    pub fn from_words(kind: &str, base64_blob: &str) -> Result<Self, KeyFault> {
        let key = Self::from_blob(&decode_words(kind, base64_blob)?)?;
        Ok(key)
    }

    /// The kind.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Size in bits; of the modulus for RSA.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The wire form.
    pub fn blob(&self) -> &[u8] {
        &self.blob
    }

    /// `SHA256:` and unpadded base64 of the SHA-256 of the blob.
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.blob)
    }

    /// `type base64`, as in a `.pub` file without its comment.
    pub fn line(&self) -> String {
        format!("{} {}", self.kind.name(), base64::encode(&self.blob))
    }

    /// Whether a signature by this key could ever be accepted; the answer names the size.
    pub fn may_sign(&self) -> Result<(), String> {
        if self.kind == KeyKind::Rsa && !(RSA_MIN_BITS..=RSA_MAX_BITS).contains(&self.bits) {
            return Err(format!(
                "an RSA key of {} bits; {RSA_MIN_BITS} to {RSA_MAX_BITS} are accepted",
                self.bits
            ));
        }
        Ok(())
    }

    /// Whether `sig` is this key's signature over `data`.
    pub(crate) fn verify(&self, data: &[u8], sig: &RawSignature<'_>) -> Result<(), SignatureFault> {
        self.may_sign().map_err(SignatureFault::Algorithm)?;
        sig.check_algorithm(self.kind).map_err(SignatureFault::Algorithm)?;
        let parsed = sig.to_ssh_key(self)?;
        // The blob was checked field by field, so that this cannot meet a nested certificate,
        // which the library follows without end.
        let mut bytes = self.blob.as_slice();
        let key = <KeyData as ssh_key::encoding::Decode>::decode(&mut bytes)
            .map_err(|_| SignatureFault::Malformed)?;
        key.verify(data, &parsed).map_err(|_| SignatureFault::Differs)
    }
}

/// `SHA256:` and unpadded base64 of the SHA-256 of a blob, as `ssh-keygen -l` prints.
pub fn fingerprint(blob: &[u8]) -> String {
    format!("SHA256:{}", base64::encode_unpadded(&Sha256::digest(blob)))
}

/// Whether a text is `SHA256:` and the unpadded base64 of 32 bytes, in its one spelling: two bits of the last character are
/// always zero, and a text in which they are not is the fingerprint of no key.
pub fn is_fingerprint(text: &str) -> bool {
    let digest = text.strip_prefix("SHA256:").and_then(base64::decode_unpadded);
    digest.is_some_and(|d| d.len() == 32)
}

/// Decodes the second word of a key line and checks that the blob names the type of the first.
pub(crate) fn decode_words(kind: &str, base64_blob: &str) -> Result<Vec<u8>, KeyFault> {
    if base64_blob.len() > MAX_BLOB.saturating_mul(2) {
        return Err(KeyFault::TooLarge);
    }
    let blob = base64::decode(base64_blob.as_bytes()).ok_or(KeyFault::Malformed("it is not base64"))?;
    if Reader::new(&blob).string()? != kind.as_bytes() {
        return Err(KeyFault::Malformed("its type is not the one that the line names"));
    }
    Ok(blob)
}

/// Checks the fields after the name and returns the size in bits.
pub(crate) fn check_fields(kind: KeyKind, r: &mut Reader<'_>) -> Result<u32, KeyFault> {
    let point = |r: &mut Reader<'_>, curve: &str, size: usize, on_curve: fn(&[u8]) -> bool, bits: u32| {
        if r.string()? != curve.as_bytes() {
            return Err(KeyFault::Malformed("another curve than its type"));
        }
        match r.string()? {
            // RFC 5656 allows compressed points; OpenSSH and this crate do not.
            all @ [4, xy @ ..] if xy.len() == size && on_curve(all) => Ok(bits),
            _ => Err(KeyFault::Malformed("the point is not an uncompressed one of its curve")),
        }
    };
    let p256 =
        |r: &mut Reader<'_>| point(r, "nistp256", 64, |p| p256::PublicKey::from_sec1_bytes(p).is_ok(), 256);
    let ed25519 = |r: &mut Reader<'_>| match r.string()?.len() {
        32 => Ok(256),
        _ => Err(KeyFault::Malformed("an Ed25519 key is 32 bytes")),
    };
    match kind {
        KeyKind::Ed25519 => ed25519(r),
        KeyKind::EcdsaP256 => p256(r),
        KeyKind::EcdsaP384 => point(r, "nistp384", 96, |p| p384::PublicKey::from_sec1_bytes(p).is_ok(), 384),
        KeyKind::EcdsaP521 => point(r, "nistp521", 132, |p| p521::PublicKey::from_sec1_bytes(p).is_ok(), 521),
        KeyKind::SkEd25519 => {
            let bits = ed25519(r)?;
            r.text()?;
            Ok(bits)
        }
        KeyKind::SkEcdsaP256 => {
            let bits = p256(r)?;
            r.text()?;
            Ok(bits)
        }
        KeyKind::Rsa => {
            let e = r.positive_mpint()?;
            let n = r.positive_mpint()?;
            // Larger exponents make a verification slow on purpose; even ones are no RSA key.
            if e.len() > 4 || e.last().is_none_or(|b| b & 1 == 0) || e == [1] {
                return Err(KeyFault::Malformed("the exponent is not odd and from 3 to 32 bits"));
            }
            bit_length(n).ok_or(KeyFault::TooLarge)
        }
    }
}

fn bit_length(magnitude: &[u8]) -> Option<u32> {
    let first = magnitude.first()?;
    let whole = u32::try_from(magnitude.len()).ok()?.checked_mul(8)?;
    whole.checked_sub(first.leading_zeros())
}

/// Why a signature does not verify.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SignatureFault {
    /// The bytes do not follow the format of the algorithm that they name.
    Malformed,
    /// The algorithm, the key's size or the authenticator's flags are not accepted.
    Algorithm(String),
    /// Well-formed, by an acceptable key, and not over these bytes.
    Differs,
}

impl SignatureFault {
    /// In words, for whoever cannot refuse with a reason.
    pub(crate) fn describe(&self) -> &str {
        match self {
            Self::Malformed => "it does not follow its format",
            Self::Algorithm(what) => what,
            Self::Differs => "it is not by the public key that goes with it",
        }
    }
}

/// `string algorithm, string signature`, and for sk- keys flags and counter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawSignature<'a> {
    pub(crate) algorithm: &'a str,
    bytes: &'a [u8],
    blob: &'a [u8],
    sk_flags: Option<u8>,
}

impl<'a> RawSignature<'a> {
    pub(crate) fn parse(blob: &'a [u8]) -> Result<Self, WireFault> {
        let mut r = Reader::new(blob);
        let algorithm = r.text()?;
        let bytes = r.string()?;
        let mut sk_flags = None;
        if KeyKind::from_name(algorithm).is_some_and(KeyKind::is_sk) {
            sk_flags = Some(r.u8()?);
            r.u32()?;
        }
        // Of an algorithm that is not known here the tail has no known form; it is refused later
        // by its name, which says more than "malformed".
        let known = algorithm.starts_with("rsa-sha2-") || KeyKind::from_name(algorithm).is_some();
        if known && !r.is_empty() {
            return Err(WireFault);
        }
        Ok(Self { algorithm, bytes, blob, sk_flags })
    }

    /// Whether the authenticator says that it verified its user (PIN or biometry).
    pub(crate) fn user_verified(&self) -> bool {
        self.sk_flags.is_some_and(|f| f & FLAG_USER_VERIFIED != 0)
    }

    /// Whether a key of this kind may sign with this algorithm and these flags.
    pub(crate) fn check_algorithm(&self, kind: KeyKind) -> Result<(), String> {
        if !kind.signs_as(self.algorithm) {
            return Err(format!("{} by a key of type {}", shown(self.algorithm.as_bytes()), kind.name()));
        }
        match self.sk_flags {
            Some(flags) if flags & FLAG_USER_PRESENT == 0 => {
                Err("the security key was not touched".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn to_ssh_key(self, key: &PublicKey) -> Result<ssh_key::Signature, SignatureFault> {
        let parsed = if key.kind == KeyKind::Rsa {
            let hash = if self.algorithm == "rsa-sha2-256" { HashAlg::Sha256 } else { HashAlg::Sha512 };
            // OpenSSH pads a short signature to the size of the modulus before it verifies.
            let size = usize::try_from(key.bits.div_ceil(8)).map_err(|_| SignatureFault::Malformed)?;
            let missing = size.checked_sub(self.bytes.len()).ok_or(SignatureFault::Malformed)?;
            let mut padded = vec![0; missing];
            padded.extend_from_slice(self.bytes);
            ssh_key::Signature::new(Algorithm::Rsa { hash: Some(hash) }, padded)
        } else {
            ssh_key::Signature::try_from(self.blob)
        };
        parsed.map_err(|_| SignatureFault::Malformed)
    }
}

/// Builds `string name` and the fields that follow it, as in a plain key's blob.
pub(crate) fn plain_blob(kind: KeyKind, fields: &[u8]) -> Vec<u8> {
    let mut blob = Vec::with_capacity(fields.len().saturating_add(64));
    put_string(&mut blob, kind.name().as_bytes());
    blob.extend_from_slice(fields);
    blob
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_has_one_spelling() {
        let real = fingerprint(b"x");
        assert!(is_fingerprint(&real), "{real}");
        let (head, last) = real.split_at(real.len() - 1);
        let next = char::from(last.as_bytes()[0] + 1);
        for bad in [
            "",
            "SHA256:",
            head,
            &format!("{real}="),
            &format!("{real}A"),
            &format!("{head}{next}"),
            &real[7..],
        ] {
            assert!(!is_fingerprint(bad), "{bad}");
        }
    }
}
