//! Private keys, and signing with them.
//!
//! Every private operation goes through aws-lc-rs, which does them in constant time. RSA signs with
//! SHA-2 or not at all.

use core::fmt;

use aws_lc_rs::error::KeyRejected;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use crypto_bigint::{BoxedUint, NonZero};
use zeroize::Zeroizing;

use crate::certificate::modulus_bits;
use crate::fingerprint::{Fingerprint, KeyKind};
use crate::wire::{Reader, put_mpint, put_string};

/// A passphrase, or another text that must not be seen. Wiped when dropped, never printed.
#[derive(Clone)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Takes the bytes as they are.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret([REDACTED])")
    }
}

/// Why a private key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFault {
    /// A PEM of another format, or something else.
    #[error("not a private key in OpenSSH's format; convert it with `ssh-keygen -p -f FILE`")]
    Format,
    /// Larger than any key.
    #[error("larger than 64 KiB, which no private key is")]
    Size,
    /// Its numbers do not fit together.
    #[error("the private key is damaged or too short ({0})")]
    Damaged(&'static str),
    /// RSA outside what is used.
    #[error("an RSA key of {0} bits is not used (2048 to 8192 are)")]
    RsaSize(usize),
    /// DSA, or an unknown kind.
    #[error("a private key of kind {0} is not used; use Ed25519, ECDSA or RSA")]
    Kind(String),
    /// The private half is in hardware.
    #[error("the private half of a security key (sk-) is in the token: load it in an agent")]
    Hardware,
    /// It is encrypted and nobody gave the passphrase.
    #[error("it is encrypted and no passphrase was given")]
    PassphraseMissing,
    /// The passphrase does not open it.
    #[error("the passphrase is wrong")]
    PassphraseWrong,
    /// The library failed.
    #[error("signing failed")]
    Signing,
}

/// Which SHA-2 an RSA key signs with. The other kinds have one hash each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RsaHash {
    /// `rsa-sha2-256`
    Sha256,
    /// `rsa-sha2-512`
    Sha512,
}

impl RsaHash {
    /// The signature algorithm's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "rsa-sha2-256",
            Self::Sha512 => "rsa-sha2-512",
        }
    }
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    Ecdsa(KeyKind, EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

/// A private key that is ready to sign.
pub struct PrivateKey {
    public: Vec<u8>,
    pair: Pair,
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey({})", self.fingerprint())
    }
}

impl PrivateKey {
    /// From the private fields of a key file (`PROTOCOL.key`), the kind already read. `public` stands
    /// in the clear beside them and is what will be offered, so the two must belong together.
    pub(crate) fn from_fields(kind: KeyKind, public: &[u8], r: &mut Reader<'_>) -> Result<Self, KeyFault> {
        let mut stated = Vec::with_capacity(public.len());
        put_string(&mut stated, kind.name().as_bytes());
        let pair = match kind {
            KeyKind::Ed25519 => ed25519(&mut stated, r)?,
            KeyKind::EcdsaP256 => ecdsa(kind, &ECDSA_P256_SHA256_FIXED_SIGNING, 32, &mut stated, r)?,
            KeyKind::EcdsaP384 => ecdsa(kind, &ECDSA_P384_SHA384_FIXED_SIGNING, 48, &mut stated, r)?,
            KeyKind::EcdsaP521 => ecdsa(kind, &ECDSA_P521_SHA512_FIXED_SIGNING, 66, &mut stated, r)?,
            KeyKind::Rsa => RsaKeyPair::from_der(&rsa_der(&mut stated, r)?).map(Pair::Rsa),
        };
        // aws-lc has checked that the private numbers fit the public ones beside them.
        let pair = pair.map_err(|_| KeyFault::Damaged("its numbers do not fit together"))?;
        if stated != public {
            return Err(KeyFault::Damaged("its halves do not match"));
        }
        Ok(Self { public: stated, pair })
    }

    /// The public half in its wire form.
    pub fn public_blob(&self) -> &[u8] {
        &self.public
    }

    /// Of the public half.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_blob(&self.public)
    }

    /// Signs `message` and gives the signature in its wire form: algorithm name, then the raw
    /// signature (RFC 4253 section 6.6, RFC 5656, RFC 8332, RFC 8709). `rsa` is for RSA keys alone.
    pub fn sign(&self, message: &[u8], rsa: RsaHash) -> Result<Vec<u8>, KeyFault> {
        let mut out = Vec::new();
        match &self.pair {
            Pair::Ed25519(pair) => {
                put_string(&mut out, KeyKind::Ed25519.name().as_bytes());
                put_string(&mut out, pair.try_sign(message).map_err(|_| KeyFault::Signing)?.as_ref());
            }
            Pair::Ecdsa(kind, pair) => {
                let fixed = pair.sign(&SystemRandom::new(), message).map_err(|_| KeyFault::Signing)?;
                let (r, s) = fixed.as_ref().split_at(fixed.as_ref().len() / 2);
                let mut scalars = Vec::new();
                put_mpint(&mut scalars, r);
                put_mpint(&mut scalars, s);
                put_string(&mut out, kind.name().as_bytes());
                put_string(&mut out, &scalars);
            }
            Pair::Rsa(pair) => {
                let padding = match rsa {
                    RsaHash::Sha256 => &RSA_PKCS1_SHA256,
                    RsaHash::Sha512 => &RSA_PKCS1_SHA512,
                };
                let mut raw = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &SystemRandom::new(), message, &mut raw).map_err(|_| KeyFault::Signing)?;
                put_string(&mut out, rsa.name().as_bytes());
                put_string(&mut out, &raw);
            }
        }
        Ok(out)
    }
}

/// The size of an RSA key in its wire form; `None` for another kind.
pub(crate) fn rsa_bits(public: &[u8]) -> Option<usize> {
    let mut r = Reader::new(public);
    if r.text() != Ok(KeyKind::Rsa.name()) {
        return None;
    }
    r.string().ok()?;
    Some(r.string().map_or(0, modulus_bits))
}

/// public, then seed and public again.
fn ed25519(stated: &mut Vec<u8>, r: &mut Reader<'_>) -> Result<Result<Pair, KeyRejected>, KeyFault> {
    let cut = |_| KeyFault::Damaged("its fields are cut short");
    let point = r.string().map_err(cut)?;
    let both = r.string().map_err(cut)?;
    let seed = both.get(..32).ok_or(KeyFault::Damaged("its seed is cut short"))?;
    put_string(stated, point);
    Ok(Ed25519KeyPair::from_seed_and_public_key(seed, point).map(Pair::Ed25519))
}

/// curve, point, scalar. The scalar is an mpint, which has no leading zeros: padded to the curve's size.
fn ecdsa(
    kind: KeyKind,
    algorithm: &'static EcdsaSigningAlgorithm,
    size: usize,
    stated: &mut Vec<u8>,
    r: &mut Reader<'_>,
) -> Result<Result<Pair, KeyRejected>, KeyFault> {
    let cut = |_| KeyFault::Damaged("its fields are cut short");
    put_string(stated, r.string().map_err(cut)?);
    let point = r.string().map_err(cut)?;
    put_string(stated, point);
    let digits = number(r)?;
    let zeros = size.checked_sub(digits.len()).ok_or(KeyFault::Damaged("its scalar is too long"))?;
    let mut scalar = Zeroizing::new(vec![0; zeros]);
    scalar.extend_from_slice(digits);
    Ok(EcdsaKeyPair::from_private_key_and_public_key(algorithm, &scalar, point).map(|p| Pair::Ecdsa(kind, p)))
}

/// OpenSSH keeps `n e d iqmp p q`; PKCS #1 (RFC 8017 A.1.2), which aws-lc reads, also wants the two
/// exponents of the Chinese remainder theorem.
fn rsa_der(stated: &mut Vec<u8>, r: &mut Reader<'_>) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
    let (n, e, d) = (number(r)?, number(r)?, number(r)?);
    let (iqmp, p, q) = (number(r)?, number(r)?, number(r)?);
    put_mpint(stated, e);
    put_mpint(stated, n);
    let exponent = |prime: &[u8]| -> Result<Zeroizing<Box<[u8]>>, KeyFault> {
        let prime = BoxedUint::from_be_slice_vartime(prime);
        let less_one = NonZero::new(prime.wrapping_sub(BoxedUint::one()))
            .into_option()
            .ok_or(KeyFault::Damaged("a prime of one"))?;
        Ok(Zeroizing::new(BoxedUint::from_be_slice_vartime(d).rem(&less_one).to_be_bytes()))
    };
    let (dp, dq) = (exponent(p)?, exponent(q)?);
    let mut body = Zeroizing::new(Vec::with_capacity(4096));
    for integer in [&[], n, e, d, p, q, &dp, &dq, iqmp] {
        der_integer(&mut body, integer);
    }
    let mut der = Zeroizing::new(Vec::with_capacity(body.len() + 8));
    der.push(0x30);
    der_length(&mut der, body.len());
    der.extend_from_slice(&body);
    Ok(der)
}

/// The digits of a positive mpint, without leading zeros.
fn number<'a>(r: &mut Reader<'a>) -> Result<&'a [u8], KeyFault> {
    let bytes = r.string().map_err(|_| KeyFault::Damaged("its fields are cut short"))?;
    if bytes.first().is_some_and(|b| b & 0x80 != 0) {
        return Err(KeyFault::Damaged("a negative number"));
    }
    let start = bytes.iter().position(|&b| b != 0).unwrap_or(bytes.len());
    let digits = bytes.get(start..).unwrap_or_default();
    // Zero fits none of the fields, and 8192 bits is the largest modulus.
    if digits.is_empty() || digits.len() > 1024 {
        return Err(KeyFault::Damaged("a number of impossible size"));
    }
    Ok(digits)
}

/// An unsigned INTEGER: no leading zeros, one where the top bit would read as a sign, and zero as one byte.
fn der_integer(out: &mut Vec<u8>, magnitude: &[u8]) {
    let start = magnitude.iter().position(|&b| b != 0).unwrap_or(magnitude.len());
    let digits = magnitude.get(start..).unwrap_or_default();
    let pad = digits.first().is_none_or(|b| b & 0x80 != 0);
    out.push(0x02);
    der_length(out, digits.len() + usize::from(pad));
    if pad {
        out.push(0);
    }
    out.extend_from_slice(digits);
}

fn der_length(out: &mut Vec<u8>, n: usize) {
    if n < 0x80 {
        out.push(n as u8);
        return;
    }
    let bytes = n.to_be_bytes();
    let digits = bytes.get(n.leading_zeros() as usize / 8..).unwrap_or_default();
    out.push(0x80 | digits.len() as u8);
    out.extend_from_slice(digits);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyFile;
    use aws_lc_rs::signature::KeyPair as _;
    use russh::keys::signature::Verifier as _;
    use russh::keys::ssh_key;
    use std::process::Command;

    /// Keys by the real tool, signatures judged by the library's own verifier.
    #[test]
    fn signatures_verify_for_every_kind_and_both_rsa_hashes() {
        muster_needs::require!(muster_needs::tool("/usr/bin/ssh-keygen", "openssh-client"));
        let dir = tempfile::tempdir().unwrap();
        for (kind, bits) in [
            ("ed25519", "256"),
            ("ecdsa", "256"),
            ("ecdsa", "384"),
            ("ecdsa", "521"),
            ("rsa", "2048"),
            ("rsa", "3072"),
        ] {
            let path = dir.path().join(format!("{kind}{bits}"));
            #[allow(clippy::disallowed_methods, reason = "tests run the real programs")]
            let made = Command::new("/usr/bin/ssh-keygen")
                .args(["-q", "-t", kind, "-b", bits, "-N", "", "-f"])
                .arg(&path)
                .status()
                .unwrap();
            assert!(made.success());
            let file = KeyFile::parse(&std::fs::read(&path).unwrap()).unwrap();
            let key = file.open(None).unwrap();
            let public = ssh_key::PublicKey::from_bytes(key.public_blob()).unwrap();
            for hash in [RsaHash::Sha256, RsaHash::Sha512] {
                // Many, so that scalars with leading zeros come by.
                for n in 0..if kind == "ecdsa" { 300u32 } else { 2 } {
                    let signature = key.sign(&n.to_be_bytes(), hash).unwrap();
                    if kind == "rsa" {
                        assert!(signature[4..].starts_with(hash.name().as_bytes()));
                    }
                    let signature = ssh_key::Signature::try_from(signature.as_slice()).unwrap();
                    public.key_data().verify(&n.to_be_bytes(), &signature).unwrap();
                    assert!(public.key_data().verify(b"other", &signature).is_err());
                }
            }
        }
    }

    /// One P-256 key in 256 has a private scalar with a leading zero byte, which the format leaves out.
    #[test]
    fn a_scalar_with_a_leading_zero_is_read() {
        let (pair, scalar) = loop {
            let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
            let scalar: aws_lc_rs::encoding::EcPrivateKeyBin<'_> =
                aws_lc_rs::encoding::AsBigEndian::as_be_bytes(&pair.private_key()).unwrap();
            if scalar.as_ref()[0] == 0 {
                let scalar = scalar.as_ref().to_vec();
                break (pair, scalar);
            }
        };
        let mut public = Vec::new();
        for part in [b"ecdsa-sha2-nistp256", &b"nistp256"[..], pair.public_key().as_ref()] {
            put_string(&mut public, part);
        }
        let mut body = vec![1, 2, 3, 4, 1, 2, 3, 4];
        body.extend_from_slice(&public);
        put_mpint(&mut body, &scalar);
        put_string(&mut body, b"comment");
        body.extend((1u8..).take((8 - body.len() % 8) % 8));
        let mut file = b"openssh-key-v1\0".to_vec();
        for part in [&b"none"[..], b"none", b""] {
            put_string(&mut file, part);
        }
        file.extend_from_slice(&[0, 0, 0, 1]);
        put_string(&mut file, &public);
        put_string(&mut file, &body);
        let base64 = <base64ct::Base64 as base64ct::Encoding>::encode_string(&file);
        let lines: Vec<&str> =
            base64.as_bytes().chunks(70).map(|c| core::str::from_utf8(c).unwrap()).collect();
        let pem = format!(
            "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n",
            lines.join("\n")
        );
        let key = KeyFile::parse(pem.as_bytes()).unwrap().open(None).unwrap();
        let signature =
            ssh_key::Signature::try_from(key.sign(b"x", RsaHash::Sha512).unwrap().as_slice()).unwrap();
        ssh_key::PublicKey::from_bytes(&public).unwrap().key_data().verify(b"x", &signature).unwrap();
    }

    #[test]
    fn secrets_do_not_show() {
        assert_eq!(format!("{:?}", Secret::new(b"hunter2".to_vec())), "Secret([REDACTED])");
    }
}
