//! Private keys of certificates in files: PKCS#8 in PEM (RFC 5958), encrypted with PBES2 (RFC 8018).
//!
//! PBKDF2 with HMAC-SHA-256 and AES-256-CBC, since openssl, curl and the rest of the field read it.

use crate::codes::Own;
use crate::fault::Fault;
use crate::files;
use crate::secret::Secret;
use crate::signer::file::{private, random};
use crate::terminal::Passphrases;
use pkcs8::der::pem::PemLabel;
use pkcs8::pkcs5::pbes2;
use pkcs8::{EncryptedPrivateKeyInfoRef, LineEnding, PrivateKeyInfoRef, SecretDocument};
use std::path::Path;
use zeroize::Zeroizing;

/// Rounds of PBKDF2, as OWASP recommends for HMAC-SHA-256.
const ROUNDS: u32 = 600_000;
const MAX_KEY: usize = 64 * 1024;

/// The text of a key file.
pub fn render(pem: &str, passphrase: Option<&Secret>) -> Result<Zeroizing<String>, Fault> {
    let Some(secret) = passphrase else { return Ok(Zeroizing::new(pem.to_owned())) };
    let fault = |e: &dyn core::fmt::Display| Fault::new(Own::Fault, "cannot write a key").why(e.to_string());
    let (_, document) = SecretDocument::from_pem(pem).map_err(|e| fault(&e))?;
    let info = PrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|e| fault(&e))?;
    let (mut salt, mut iv) = ([0; 16], [0; 16]);
    random(&mut salt)?;
    random(&mut iv)?;
    let parameters =
        pbes2::Parameters::generate_pbkdf2_sha256_aes256cbc(ROUNDS, &salt, iv).map_err(|e| fault(&e))?;
    let locked = info.encrypt_with_params(parameters, secret.expose()).map_err(|e| fault(&e))?;
    locked.to_pem(EncryptedPrivateKeyInfoRef::PEM_LABEL, LineEnding::LF).map_err(|e| fault(&e))
}

/// Reads a key file; asks for a passphrase only when it has one. Gives PKCS#8 in PEM.
pub fn open(path: &Path, passphrases: &Passphrases) -> Result<Zeroizing<String>, Fault> {
    private(path)?;
    let bytes = Zeroizing::new(files::read(path, MAX_KEY)?);
    let malformed = || {
        Fault::new(Own::PkiFile, format!("{} is no private key that is read here", path.display()))
            .fix("Give a PKCS#8 key in PEM: `openssl pkcs8 -topk8` makes one of others.")
    };
    let text = core::str::from_utf8(&bytes).map_err(|_| malformed())?;
    let (label, document) = SecretDocument::from_pem(text).map_err(|_| malformed())?;
    if label == PrivateKeyInfoRef::PEM_LABEL {
        return Ok(Zeroizing::new(text.to_owned()));
    }
    if label != EncryptedPrivateKeyInfoRef::PEM_LABEL {
        return Err(malformed());
    }
    let locked = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(|_| malformed())?;
    let secret = passphrases.get(&format!("Passphrase for {}", path.display()))?;
    let open = locked.decrypt(secret.expose()).map_err(|_| {
        Fault::new(Own::Passphrase, format!("the passphrase does not open {}", path.display()))
    })?;
    open.to_pem(PrivateKeyInfoRef::PEM_LABEL, LineEnding::LF).map_err(|_| malformed())
}
