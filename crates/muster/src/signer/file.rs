//! Key files of the operator's own: OpenSSH format, private to their owner, encrypted or not.
//!
//! The private operation is `muster-ssh`'s, which does every kind, RSA too, through aws-lc in constant time.

use super::{MAX_KEY_FILE, Named};
use crate::codes::Own;
use crate::fault::Fault;
use crate::files;
use crate::secret::Secret;
use muster_signing::key::PublicKey;
use muster_signing::sign::{SignFault, Signer};
use muster_signing::sshsig::SignerKey;
use muster_ssh::{KeyFault, KeyFile, PrivateKey, RsaHash};
use ssh_key::private::{Ed25519Keypair, KeypairData};
use ssh_key::{Cipher, Kdf, LineEnding};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use zeroize::Zeroizing;

/// bcrypt-pbkdf rounds for new keys; 24 is OpenSSH's default since 9.4.
const ROUNDS: u32 = 24;

/// How a passphrase is come by; called only for a key that has one.
pub type Ask<'a> = &'a mut dyn FnMut(&str) -> Result<Secret, Fault>;

/// What a private key file is.
pub enum Opened {
    /// A key that can sign.
    Key(PrivateKey),
    /// The handle of a key in a token.
    Token,
}

fn bad(path: &Path, fault: &KeyFault) -> Fault {
    let code = if *fault == KeyFault::PassphraseWrong { Own::Passphrase } else { Own::KeyFile };
    let what = match fault {
        KeyFault::Format => format!("{} is not an OpenSSH private key", path.display()),
        KeyFault::PassphraseWrong => format!("the passphrase does not open {}", path.display()),
        other => format!("{}: {other}", path.display()),
    };
    let made = Fault::new(code, what);
    if *fault == KeyFault::Format {
        made.fix(format!("Convert it with: ssh-keygen -p -f {}", path.display()))
    } else {
        made
    }
}

/// Whether nobody else may read a private key, encrypted or not.
pub fn private(path: &Path) -> Result<(), Fault> {
    let meta = std::fs::metadata(path).map_err(|e| Fault::io(path, "read", &e))?;
    let mode = meta.permissions().mode() & 0o777;
    if meta.is_file() && mode & 0o077 != 0 {
        return Err(Fault::new(Own::KeyFile, format!("{} has mode {mode:04o}", path.display()))
            .why("others could read a private key")
            .fix(format!("Run: chmod 600 {}", path.display())));
    }
    Ok(())
}

/// Reads and opens a private key file.
pub fn read(path: &Path, ask: Ask<'_>) -> Result<Opened, Fault> {
    private(path)?;
    let bytes = Zeroizing::new(files::read(path, MAX_KEY_FILE)?);
    let file = match KeyFile::parse(&bytes) {
        Ok(file) => file,
        Err(KeyFault::Hardware) => return Ok(Opened::Token),
        Err(fault) => return Err(bad(path, &fault)),
    };
    let passphrase = match file.is_encrypted() {
        true => Some(ask(&format!("Passphrase of {}", path.display()))?),
        false => None,
    };
    let passphrase = passphrase.map(|s| muster_ssh::Secret::new(s.expose().to_vec()));
    file.open(passphrase.as_ref()).map(Opened::Key).map_err(|fault| bad(path, &fault))
}

/// Opens a key file to sign with.
pub fn open(path: &Path, ask: Ask<'_>) -> Result<Named, Fault> {
    match read(path, ask)? {
        Opened::Key(key) => named(path, key, None),
        Opened::Token => Err(Fault::new(Own::KeyFile, format!("{} cannot sign here", path.display()))
            .why("its private half is in a token")
            .fix(format!(
                "Add it to your agent with ssh-add {}, then sign with --signer-agent.",
                path.display()
            ))),
    }
}

/// A signer from an opened key; its signatures carry the certificate when one is given.
pub fn named(path: &Path, key: PrivateKey, certificate: Option<&[u8]>) -> Result<Named, Fault> {
    let place = path.display().to_string();
    let refuse = |why: String| Fault::new(Own::KeyFile, format!("{place} cannot sign here")).why(why);
    let public = PublicKey::from_blob(key.public_blob()).map_err(|e| refuse(e.to_string()))?;
    super::check_kind(&public)?;
    let blob = match certificate {
        None => public.blob().to_vec(),
        Some(blob) => {
            let shown = SignerKey::from_blob(blob).map_err(|e| refuse(e.to_string()))?;
            if shown.key().blob() != public.blob() {
                return Err(refuse("the certificate is not one of this key".into()));
            }
            blob.to_vec()
        }
    };
    Ok(Named { public, place, signer: Box::new(FileSigner { key, blob }), waits: false })
}

struct FileSigner {
    key: PrivateKey,
    blob: Vec<u8>,
}

impl Signer for FileSigner {
    fn public_blob(&self) -> &[u8] {
        &self.blob
    }

    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, SignFault> {
        self.key.sign(data, RsaHash::Sha512).map_err(|e| SignFault(e.to_string()))
    }
}

/// Makes a new Ed25519 key.
pub fn generate(comment: &str) -> Result<ssh_key::PrivateKey, Fault> {
    let fault = |e: &dyn core::fmt::Display| Fault::new(Own::Fault, "cannot make a key").why(e.to_string());
    let mut seed = Zeroizing::new([0u8; 32]);
    random(seed.as_mut())?;
    let pair = Ed25519Keypair::from_seed(&seed);
    ssh_key::PrivateKey::new(KeypairData::Ed25519(pair), comment).map_err(|e| fault(&e))
}

/// The text of a private key file, encrypted when there is a passphrase.
pub fn render(key: &ssh_key::PrivateKey, passphrase: Option<&Secret>) -> Result<Zeroizing<String>, Fault> {
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
