//! Private keys in OpenSSH's format (`PROTOCOL.key`), and signing with them.
//!
//! Every private operation goes through aws-lc-rs, which does them in constant time; the parser
//! (`ssh-key`) only reads and decrypts. RSA signs with SHA-2 or not at all.

use core::fmt;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, Ed25519KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use crypto_bigint::{BoxedUint, NonZero};
use russh::keys::ssh_key::{self, EcdsaCurve, private::KeypairData};
use zeroize::Zeroizing;

use crate::certificate::printable;
use crate::fingerprint::{Fingerprint, KeyKind, blob_kind_name};
use crate::wire::{put_mpint, put_string};

/// The largest key file that is read.
pub(crate) const MAX_FILE: usize = 64 * 1024;

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

/// A key file as read: perhaps still encrypted. The public half is in the clear in both cases.
#[derive(Clone)]
pub struct KeyFile {
    parsed: Arc<ssh_key::PrivateKey>,
    public: Vec<u8>,
}

impl KeyFile {
    /// Reads OpenSSH's format.
    pub fn parse(pem: &[u8]) -> Result<Self, KeyFault> {
        if pem.len() > MAX_FILE {
            return Err(KeyFault::Size);
        }
        let parsed = ssh_key::PrivateKey::from_openssh(pem).map_err(|_| KeyFault::Format)?;
        let public = parsed.public_key().to_bytes().map_err(|_| KeyFault::Format)?;
        let name = blob_kind_name(&public).unwrap_or_default();
        if name.starts_with("sk-") {
            return Err(KeyFault::Hardware);
        }
        if KeyKind::from_name(name).is_none() {
            return Err(KeyFault::Kind(printable(name)));
        }
        Ok(Self { parsed: Arc::new(parsed), public })
    }

    /// Whether a passphrase is needed.
    pub fn is_encrypted(&self) -> bool {
        self.parsed.is_encrypted()
    }

    /// The public half in its wire form.
    pub fn public_blob(&self) -> &[u8] {
        &self.public
    }

    /// Opens it. Slow (a key derivation) when it is encrypted.
    pub fn open(&self, passphrase: Option<&Secret>) -> Result<PrivateKey, KeyFault> {
        if !self.is_encrypted() {
            return PrivateKey::from_parsed(&self.parsed, &self.public);
        }
        let passphrase = passphrase.ok_or(KeyFault::PassphraseMissing)?;
        let opened = self.parsed.decrypt(passphrase.expose()).map_err(|_| KeyFault::PassphraseWrong)?;
        PrivateKey::from_parsed(&opened, &self.public)
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFile({})", Fingerprint::of_blob(&self.public))
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
    fn from_parsed(parsed: &ssh_key::PrivateKey, public: &[u8]) -> Result<Self, KeyFault> {
        let damaged = |_| KeyFault::Damaged("its numbers do not fit together");
        let pair = match parsed.key_data() {
            KeypairData::Ed25519(k) => {
                let seed = Zeroizing::new(k.private.to_bytes());
                Ed25519KeyPair::from_seed_and_public_key(&*seed, &k.public.0).map(Pair::Ed25519)
            }
            KeypairData::Ecdsa(k) => {
                let (kind, algorithm) = match k.curve() {
                    EcdsaCurve::NistP256 => (KeyKind::EcdsaP256, &ECDSA_P256_SHA256_FIXED_SIGNING),
                    EcdsaCurve::NistP384 => (KeyKind::EcdsaP384, &ECDSA_P384_SHA384_FIXED_SIGNING),
                    EcdsaCurve::NistP521 => (KeyKind::EcdsaP521, &ECDSA_P521_SHA512_FIXED_SIGNING),
                };
                EcdsaKeyPair::from_private_key_and_public_key(
                    algorithm,
                    k.private_key_bytes(),
                    k.public_key_bytes(),
                )
                .map(|pair| Pair::Ecdsa(kind, pair))
            }
            KeypairData::Rsa(k) => RsaKeyPair::from_der(&rsa_der(k)?).map(Pair::Rsa),
            _ => return Err(KeyFault::Kind(printable(blob_kind_name(public).unwrap_or_default()))),
        };
        Ok(Self { public: public.to_vec(), pair: pair.map_err(damaged)? })
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

/// OpenSSH keeps `n e d iqmp p q`; PKCS #1 (RFC 8017 A.1.2), which aws-lc reads, also wants the two
/// exponents of the Chinese remainder theorem.
fn rsa_der(k: &ssh_key::private::RsaKeypair) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
    let (public, private) = (k.public(), k.private());
    let d = number(private.d())?;
    let exponent = |prime: &ssh_key::Mpint| -> Result<Zeroizing<Box<[u8]>>, KeyFault> {
        let bytes = prime.as_positive_bytes().ok_or(KeyFault::Damaged("a negative prime"))?;
        let p = BoxedUint::from_be_slice_vartime(bytes);
        let less_one = NonZero::new(p.wrapping_sub(BoxedUint::one()))
            .into_option()
            .ok_or(KeyFault::Damaged("a prime of one"))?;
        let big = BoxedUint::from_be_slice_vartime(&d);
        Ok(Zeroizing::new(big.rem(&less_one).to_be_bytes()))
    };
    let mut body = Zeroizing::new(Vec::with_capacity(4096));
    der_integer(&mut body, &[]);
    der_integer(&mut body, &number(public.n())?);
    der_integer(&mut body, &number(public.e())?);
    der_integer(&mut body, &d);
    der_integer(&mut body, &number(private.p())?);
    der_integer(&mut body, &number(private.q())?);
    der_integer(&mut body, &exponent(private.p())?);
    der_integer(&mut body, &exponent(private.q())?);
    der_integer(&mut body, &number(private.iqmp())?);
    let mut der = Zeroizing::new(Vec::with_capacity(body.len() + 8));
    der.push(0x30);
    der_length(&mut der, body.len());
    der.extend_from_slice(&body);
    Ok(der)
}

fn number(n: &ssh_key::Mpint) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
    let bytes = n.as_positive_bytes().ok_or(KeyFault::Damaged("a negative number"))?;
    Ok(Zeroizing::new(bytes.to_vec()))
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
