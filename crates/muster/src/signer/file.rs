//! Key files of the operator's own: OpenSSH format, private to their owner, encrypted or not.

use super::{MAX_KEY_FILE, Named};
use crate::codes::Own;
use crate::fault::Fault;
use crate::files;
use crate::secret::Secret;
use muster_signing::key::PublicKey;
use muster_signing::sign::{KeySigner, Signer};
use ssh_key::private::{Ed25519Keypair, KeypairData};
use ssh_key::{Cipher, Kdf, LineEnding, PrivateKey};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use zeroize::Zeroizing;

/// bcrypt-pbkdf rounds for new keys; 24 is OpenSSH's default since 9.4.
const ROUNDS: u32 = 24;

/// Reads a private key file, still encrypted when it is.
pub fn read(path: &Path) -> Result<PrivateKey, Fault> {
    let meta = std::fs::metadata(path).map_err(|e| Fault::io(path, "read", &e))?;
    let mode = meta.permissions().mode() & 0o777;
    if meta.is_file() && mode & 0o077 != 0 {
        return Err(Fault::new(Own::KeyFile, format!("{} has mode {mode:04o}", path.display()))
            .why("others could read a private key")
            .fix(format!("Run: chmod 600 {}", path.display())));
    }
    let bytes = Zeroizing::new(files::read(path, MAX_KEY_FILE)?);
    PrivateKey::from_openssh(bytes.as_slice()).map_err(|_| {
        Fault::new(Own::KeyFile, format!("{} is not an OpenSSH private key", path.display()))
            .fix(format!("Convert it with: ssh-keygen -p -f {}", path.display()))
    })
}

/// Opens a key file; `passphrase` is asked for only when it is encrypted.
pub fn open(path: &Path, passphrase: &mut dyn FnMut(&str) -> Result<Secret, Fault>) -> Result<Named, Fault> {
    let key = read(path)?;
    let key = if key.is_encrypted() {
        let secret = passphrase(&format!("Passphrase of {}", path.display()))?;
        key.decrypt(secret.expose()).map_err(|_| {
            Fault::new(Own::Passphrase, format!("the passphrase does not open {}", path.display()))
        })?
    } else {
        key
    };
    named(path, &key, None)
}

/// A signer from an opened key; its signatures carry the certificate when one is given.
pub fn named(path: &Path, key: &PrivateKey, certificate: Option<&[u8]>) -> Result<Named, Fault> {
    let place = path.display().to_string();
    let refuse =
        |why: &str| Fault::new(Own::KeyFile, format!("{place} cannot sign here")).why(why.to_owned());
    let blob = key.public_key().to_bytes().map_err(|_| refuse("its public half cannot be written out"))?;
    let public = PublicKey::from_blob(&blob).map_err(|e| refuse(&e.to_string()))?;
    super::check_kind(&public)?;
    let signer: Box<dyn Signer> = match key.key_data() {
        KeypairData::Rsa(pair) => {
            let shown = certificate.map_or(blob, <[u8]>::to_vec);
            Box::new(
                super::rsa::RsaSigner::new(pair, shown)
                    .ok_or_else(|| refuse("its numbers do not form an RSA key"))?,
            )
        }
        KeypairData::SkEd25519(_) | KeypairData::SkEcdsaSha2NistP256(_) => {
            return Err(refuse("its private half is in a token")
                .fix(format!("Add it to your agent with ssh-add {place}, then sign with --signer-agent.")));
        }
        _ => {
            let plain = KeySigner::from_key(key.clone()).map_err(|f| refuse(&f.0))?;
            let signer = match certificate {
                Some(blob) => plain.with_certificate(blob),
                None => Ok(plain),
            };
            Box::new(signer.map_err(|f| refuse(&f.0))?)
        }
    };
    Ok(Named { public, place, signer, waits: false })
}

/// Makes a new Ed25519 key.
pub fn generate(comment: &str) -> Result<PrivateKey, Fault> {
    let fault = |e: &dyn core::fmt::Display| Fault::new(Own::Fault, "cannot make a key").why(e.to_string());
    let mut seed = Zeroizing::new([0u8; 32]);
    random(seed.as_mut())?;
    let pair = Ed25519Keypair::from_seed(&seed);
    PrivateKey::new(KeypairData::Ed25519(pair), comment).map_err(|e| fault(&e))
}

/// The text of a private key file, encrypted when there is a passphrase.
pub fn render(key: &PrivateKey, passphrase: Option<&Secret>) -> Result<Zeroizing<String>, Fault> {
    let fault = |e: &dyn core::fmt::Display| Fault::new(Own::Fault, "cannot write a key").why(e.to_string());
    let Some(secret) = passphrase else {
        return key.to_openssh(LineEnding::LF).map_err(|e| fault(&e));
    };
    let mut salt = vec![0u8; 16];
    random(&mut salt)?;
    let mut check = [0u8; 4];
    random(&mut check)?;
    let kdf = Kdf::Bcrypt { salt, rounds: ROUNDS };
    let locked = key
        .encrypt_with(Cipher::Aes256Ctr, kdf, u32::from_be_bytes(check), secret.expose())
        .map_err(|e| fault(&e))?;
    locked.to_openssh(LineEnding::LF).map_err(|e| fault(&e))
}

/// Fills a buffer from the kernel.
pub fn random(buffer: &mut [u8]) -> Result<(), Fault> {
    use rustix::rand::{GetRandomFlags, getrandom};
    let got = getrandom(&mut *buffer, GetRandomFlags::empty())
        .map_err(|e| Fault::new(Own::Fault, "the kernel gave no random bytes").why(e.to_string()))?;
    if got == buffer.len() {
        Ok(())
    } else {
        Err(Fault::new(Own::Fault, "the kernel gave too few random bytes"))
    }
}
