//! Making SSH signatures (`PROTOCOL.sshsig`).

use crate::wire::Reader;
use crate::{
    key::{KeyFault, RawSignature},
    sshsig::{self, HashAlg, SignerKey},
};
use base64ct::{Base64, Encoding};
use ssh_key::{
    PrivateKey, PublicKey,
    private::{EcdsaKeypair, EcdsaPrivateKey, KeypairData},
    public::EcdsaPublicKey,
};
use zeroize::Zeroizing;

/// Why a signature could not be made. Never holds key material.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SignFault(pub String);

impl From<KeyFault> for SignFault {
    fn from(fault: KeyFault) -> Self {
        Self(fault.to_string())
    }
}

/// Something that holds a private key and signs with it: a file key, an agent, a token.
pub trait Signer {
    /// The public key blob, or the certificate blob, that goes into the signature.
    fn public_blob(&self) -> &[u8];

    /// Signs `data` as it is (it is already the SSHSIG envelope) and returns the SSH signature
    /// blob: `string algorithm, string signature`, and for `sk-` keys flags and counter. RSA
    /// signers must use `rsa-sha2-512` (or `rsa-sha2-256`), never `ssh-rsa`.
    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, SignFault>;
}

/// Signs `message` in `namespace` with SHA-512 and returns the armoured text.
pub fn sign(message: &[u8], namespace: &str, signer: &dyn Signer) -> Result<String, SignFault> {
    sign_with(message, namespace, HashAlg::Sha512, signer)
}

/// As [`sign`], with the hash chosen. What would not verify here is not handed out: the signature
/// is checked against the signer's own public key before it is returned.
pub fn sign_with(
    message: &[u8],
    namespace: &str,
    hash: HashAlg,
    signer: &dyn Signer,
) -> Result<String, SignFault> {
    if namespace.is_empty() || namespace.contains('\0') {
        return Err(SignFault("a namespace must not be empty or hold NUL".to_owned()));
    }
    let public = SignerKey::from_blob(signer.public_blob())?;
    let data = sshsig::signed_data(namespace, hash, message);
    let signature = signer.sign_raw(&data)?;
    let raw = RawSignature::parse(&signature)
        .map_err(|_| SignFault("the signer gave a signature that does not follow its format".to_owned()))?;
    public.key().verify(&data, &raw).map_err(|fault| {
        SignFault(format!("the signer gave a signature that would be refused: {}", fault.describe()))
    })?;
    Ok(sshsig::armored(public.blob(), namespace, hash, &signature))
}

/// A private key from an unencrypted OpenSSH key file: Ed25519 or ECDSA. RSA and `sk-` keys sign
/// through implementations of [`Signer`] elsewhere.
pub struct KeySigner {
    key: PrivateKey,
    public: Vec<u8>,
}

impl core::fmt::Debug for KeySigner {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("KeySigner")
            .field("public", &crate::key::fingerprint(&self.public))
            .finish_non_exhaustive()
    }
}

impl KeySigner {
    /// Reads `-----BEGIN OPENSSH PRIVATE KEY-----`.
    pub fn from_openssh(pem: &[u8]) -> Result<Self, SignFault> {
        let key = PrivateKey::from_openssh(pem).ok().or_else(|| short_p256(pem));
        Self::from_key(key.ok_or_else(|| SignFault("the file is not an OpenSSH private key".to_owned()))?)
    }

    /// Takes a key that was already read (and decrypted).
    pub fn from_key(key: PrivateKey) -> Result<Self, SignFault> {
        if key.is_encrypted() {
            return Err(SignFault("the key has a passphrase; decrypt it, or use an agent".to_owned()));
        }
        if !matches!(key.key_data(), KeypairData::Ed25519(_) | KeypairData::Ecdsa(_)) {
            return Err(SignFault(format!(
                "keys of type {} do not sign from a file here; use an agent",
                key.algorithm().as_str()
            )));
        }
        let public =
            key.public_key().to_bytes().map_err(|_| SignFault("the public half is unreadable".to_owned()))?;
        SignerKey::from_blob(&public)?;
        Ok(Self { key, public })
    }

    /// Signs as the certificate that was issued for this key.
    pub fn with_certificate(mut self, blob: &[u8]) -> Result<Self, SignFault> {
        let shown = SignerKey::from_blob(blob)?;
        if shown.certificate().is_none() || shown.key().blob() != self.key_blob()? {
            return Err(SignFault("the certificate is not one of this key".to_owned()));
        }
        self.public = blob.to_vec();
        Ok(self)
    }

    fn key_blob(&self) -> Result<Vec<u8>, SignFault> {
        self.key.public_key().to_bytes().map_err(|_| SignFault("the public half is unreadable".to_owned()))
    }
}

impl Signer for KeySigner {
    fn public_blob(&self) -> &[u8] {
        &self.public
    }

    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, SignFault> {
        let failed = |_| SignFault("the key could not sign".to_owned());
        let signature = signature::Signer::try_sign(&self.key, data).map_err(failed)?;
        Vec::try_from(signature).map_err(|_| SignFault("the signature could not be written".to_owned()))
    }
}

/// An unencrypted P-256 key whose scalar fits into 31 bytes, as one in 512 does: `PROTOCOL.key`
/// stores an mpint, which leaves leading zeros out, and the library takes no scalar under 32 bytes.
fn short_p256(pem: &[u8]) -> Option<PrivateKey> {
    const KIND: &str = "ecdsa-sha2-nistp256";
    if pem.len() > 64 * 1024 {
        return None;
    }
    let text = core::str::from_utf8(pem).ok()?.trim_start();
    let (inner, _) = text
        .strip_prefix("-----BEGIN OPENSSH PRIVATE KEY-----")?
        .split_once("-----END OPENSSH PRIVATE KEY-----")?;
    let mut base64 = Zeroizing::new(String::with_capacity(inner.len()));
    base64.extend(inner.chars().filter(|c| !c.is_ascii_whitespace()));
    let container = Zeroizing::new(Base64::decode_vec(&base64).ok()?);
    let mut r = Reader::new(&container);
    let plain = r.take(15).ok()? == b"openssh-key-v1\0"
        && r.text().ok()? == "none"
        && r.text().ok()? == "none"
        && r.string().ok()?.is_empty()
        && r.u32().ok()? == 1;
    let public = PublicKey::from_bytes(r.string().ok()?).ok()?;
    let mut body = Reader::new(r.string().ok()?);
    let fits = plain
        && r.is_empty()
        && body.u32().ok()? == body.u32().ok()?
        && body.text().ok()? == KIND
        && body.text().ok()? == "nistp256";
    let point = body.string().ok()?;
    let scalar = body.positive_mpint().ok()?;
    let mut bytes = Zeroizing::new([0u8; 32]);
    bytes.get_mut(32_usize.checked_sub(scalar.len())?..)?.copy_from_slice(scalar);
    let ours = p256::SecretKey::from_slice(bytes.as_slice()).ok()?.public_key();
    let EcdsaPublicKey::NistP256(stated) = public.key_data().ecdsa()? else { return None };
    let same = stated.as_bytes() == point && p256::PublicKey::from_sec1_bytes(point).ok()? == ours;
    let private = EcdsaPrivateKey::from(*bytes);
    let pair = EcdsaKeypair::NistP256 { public: *stated, private };
    PrivateKey::new(KeypairData::Ecdsa(pair), "").ok().filter(|_| fits && same)
}
