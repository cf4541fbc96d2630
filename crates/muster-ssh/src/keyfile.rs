//! Private key files in OpenSSH's format (`PROTOCOL.key`): reading and decrypting.
//!
//! Our own reader and not the SSH library's, because that one refuses one in 512 ECDSA P-256 keys
//! (those whose private scalar fits into 31 bytes: the format leaves leading zeros out).

use core::fmt;
use std::sync::Arc;

use base64ct::{Base64, Encoding as _};
use russh::keys::ssh_key::{Cipher, Kdf};
use zeroize::Zeroizing;

use crate::certificate::printable;
use crate::fingerprint::{Fingerprint, KeyKind, blob_kind_name};
use crate::key::{KeyFault, PrivateKey, Secret, rsa_bits};
use crate::wire::{Malformed, Reader};

/// The largest key file that is read.
pub(crate) const MAX_FILE: usize = 64 * 1024;
/// `ssh-keygen -a` of this many rounds takes minutes.
const MAX_ROUNDS: u32 = 20_000;

const MAGIC: &[u8] = b"openssh-key-v1\0";
const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";

struct Sealed {
    cipher: Cipher,
    salt: Vec<u8>,
    rounds: u32,
    tag: Option<[u8; 16]>,
}

/// A key file as read: perhaps still encrypted. The public half is in the clear in both cases.
#[derive(Clone)]
pub struct KeyFile {
    public: Vec<u8>,
    kind: KeyKind,
    /// The private half, sealed or not.
    body: Arc<Zeroizing<Vec<u8>>>,
    sealed: Option<Arc<Sealed>>,
}

impl From<Malformed> for KeyFault {
    fn from(_: Malformed) -> Self {
        Self::Format
    }
}

impl KeyFile {
    /// Reads OpenSSH's format.
    pub fn parse(pem: &[u8]) -> Result<Self, KeyFault> {
        let container = container(pem)?;
        let mut r = Reader::new(&container);
        let head = Head::read(&mut r)?;
        let public = head.public.to_vec();
        let body = Arc::new(Zeroizing::new(r.string()?.to_vec()));
        let name = blob_kind_name(&public).unwrap_or_default();
        if name.starts_with("sk-") {
            return Err(KeyFault::Hardware);
        }
        let kind = KeyKind::from_name(name).ok_or_else(|| KeyFault::Kind(printable(name)))?;
        if let Some(bits) = rsa_bits(&public).filter(|bits| !(2048..=8192).contains(bits)) {
            return Err(KeyFault::RsaSize(bits));
        }
        let sealed = sealed(&head, &mut r)?.map(Arc::new);
        r.end()?;
        Ok(Self { public, kind, body, sealed })
    }

    /// The public half of a key file of any kind, those that cannot sign here too, in its wire form.
    pub fn public_half(pem: &[u8]) -> Result<Vec<u8>, KeyFault> {
        let container = container(pem)?;
        Ok(Head::read(&mut Reader::new(&container))?.public.to_vec())
    }

    /// Whether a passphrase is needed.
    pub fn is_encrypted(&self) -> bool {
        self.sealed.is_some()
    }

    /// The public half in its wire form.
    pub fn public_blob(&self) -> &[u8] {
        &self.public
    }

    /// Opens it. Slow (a key derivation) when it is encrypted.
    pub fn open(&self, passphrase: Option<&Secret>) -> Result<PrivateKey, KeyFault> {
        let Some(sealed) = &self.sealed else { return self.read(&self.body) };
        let passphrase = passphrase.ok_or(KeyFault::PassphraseMissing)?;
        let kdf = Kdf::Bcrypt { salt: sealed.salt.clone(), rounds: sealed.rounds };
        // An empty passphrase is an error of the derivation, and as wrong as any other.
        let wrong = |_| KeyFault::PassphraseWrong;
        let (key, iv) = kdf.derive_key_and_iv(sealed.cipher, passphrase.expose()).map_err(wrong)?;
        let mut body = (*self.body).clone();
        let tag = sealed.tag.map(Into::into);
        sealed.cipher.decrypt(&key, &iv, &mut body, tag).map_err(|_| KeyFault::PassphraseWrong)?;
        self.read(&body)
    }

    /// The private half in the clear: two equal numbers, the key, a comment, padding.
    fn read(&self, body: &[u8]) -> Result<PrivateKey, KeyFault> {
        let mut r = Reader::new(body);
        if r.u32()? != r.u32()? {
            return Err(KeyFault::PassphraseWrong);
        }
        if r.text()? != self.kind.name() {
            return Err(KeyFault::Damaged("its halves are of different kinds"));
        }
        let key = PrivateKey::from_fields(self.kind, &self.public, &mut r)?;
        r.string()?; // comment
        if r.rest().iter().zip(1u8..).any(|(have, want)| *have != want) {
            return Err(KeyFault::Damaged("its padding is wrong"));
        }
        Ok(key)
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFile({})", Fingerprint::of_blob(&self.public))
    }
}

/// What stands in the clear before the private half (`PROTOCOL.key`, section 1).
struct Head<'c> {
    cipher: &'c str,
    kdf: &'c str,
    kdf_options: &'c [u8],
    public: &'c [u8],
}

impl<'c> Head<'c> {
    /// Leaves the reader at the private half. Of several keys in one file, which nothing writes, there is none.
    fn read(r: &mut Reader<'c>) -> Result<Self, KeyFault> {
        if r.take(MAGIC.len())? != MAGIC {
            return Err(KeyFault::Format);
        }
        let (cipher, kdf, kdf_options) = (r.text()?, r.text()?, r.string()?);
        if r.u32()? != 1 {
            return Err(KeyFault::Format);
        }
        Ok(Self { cipher, kdf, kdf_options, public: r.string()? })
    }
}

/// The bytes between the two lines of a file that is not too large.
fn container(pem: &[u8]) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
    if pem.len() > MAX_FILE {
        return Err(KeyFault::Size);
    }
    let text = core::str::from_utf8(pem).map_err(|_| KeyFault::Format)?;
    let text = text.trim_start().strip_prefix(BEGIN).ok_or(KeyFault::Format)?;
    let (inner, _) = text.split_once(END).ok_or(KeyFault::Format)?;
    let mut base64 = Zeroizing::new(String::with_capacity(inner.len()));
    base64.extend(inner.chars().filter(|c| !c.is_ascii_whitespace()));
    Base64::decode_vec(&base64).map(Zeroizing::new).map_err(|_| KeyFault::Format)
}

fn sealed(head: &Head<'_>, r: &mut Reader<'_>) -> Result<Option<Sealed>, KeyFault> {
    let cipher = Cipher::new(head.cipher).map_err(|_| KeyFault::Format)?;
    match (head.kdf, cipher.is_none()) {
        ("none", true) => return Ok(None),
        ("bcrypt", false) => {}
        _ => return Err(KeyFault::Format),
    }
    let mut o = Reader::new(head.kdf_options);
    let salt = o.string()?.to_vec();
    let rounds = o.u32()?;
    o.end()?;
    if rounds == 0 || rounds > MAX_ROUNDS {
        return Err(KeyFault::Damaged("its key derivation has an impossible number of rounds"));
    }
    let tag = if cipher.has_tag() { r.take(16)?.first_chunk::<16>().copied() } else { None };
    Ok(Some(Sealed { cipher, salt, rounds, tag }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RsaHash;
    use proptest::prelude::*;

    /// Made by `ssh-keygen`; see `make.sh` beside it.
    const SHORT: &[u8] = include_bytes!("../../muster-signing/tests/vectors/short-p256");

    #[test]
    fn a_p256_key_with_a_short_scalar_opens_and_signs() {
        let file = KeyFile::parse(SHORT).unwrap();
        assert_eq!(KeyFile::public_half(SHORT).unwrap(), file.public_blob());
        let key = file.open(None).unwrap();
        assert_eq!(key.public_blob(), file.public_blob());
        assert!(key.sign(b"x", RsaHash::Sha512).is_ok());
    }

    /// One reader for both: what one of them refuses in the clear part, so does the other.
    #[test]
    fn a_bad_head_is_refused_with_and_without_the_private_half() {
        let good = container(SHORT).unwrap();
        for at in [0, MAGIC.len(), MAGIC.len() + 3, MAGIC.len() + 8 + 4 + 8 + 3] {
            let mut bad = good.to_vec();
            bad[at] ^= 0xff;
            let pem = format!("{BEGIN}\n{}\n{END}\n", Base64::encode_string(&bad));
            assert_eq!(KeyFile::public_half(pem.as_bytes()), Err(KeyFault::Format), "{at}");
            assert_eq!(KeyFile::parse(pem.as_bytes()).err(), Some(KeyFault::Format), "{at}");
        }
        let long = vec![b'a'; MAX_FILE + 1];
        assert_eq!(KeyFile::public_half(&long), Err(KeyFault::Size));
        assert_eq!(KeyFile::parse(&long).err(), Some(KeyFault::Size));
    }

    proptest! {
        #[test]
        fn never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut container = MAGIC.to_vec();
            container.extend_from_slice(&bytes);
            let pem = format!("{BEGIN}\n{}\n{END}\n", Base64::encode_string(&container));
            prop_assert!(KeyFile::parse(pem.as_bytes()).is_err());
        }
    }
}
