//! Who signs: a key file, an SSH agent. The private half of an `sk-` key stays in its token, behind an agent.

pub mod agent;
pub mod file;

use crate::codes::Own;
use crate::fault::Fault;
use crate::files;
use muster_signing::key::PublicKey;
use muster_signing::sign::{SignFault, Signer};
use muster_signing::sshsig::HashAlg;
use std::path::{Path, PathBuf};

/// Longest key file taken.
const MAX_KEY_FILE: usize = 64 * 1024;

/// A signer with what a person calls it.
pub struct Named {
    /// The public key (for a certificate, the certified key).
    pub public: PublicKey,
    /// Where its private half is.
    pub place: String,
    signer: Box<dyn Signer>,
    waits: bool,
}

impl Named {
    /// `SHA256:…` of the public key.
    pub fn fingerprint(&self) -> String {
        self.public.fingerprint()
    }

    /// Whether somebody may have to confirm or touch before it signs.
    pub fn waits(&self) -> bool {
        self.waits
    }

    /// Signs a message in a namespace.
    pub fn sign(&self, message: &[u8], namespace: &str) -> Result<String, Fault> {
        self.sign_with(message, namespace, HashAlg::Sha512)
    }

    /// The same, with the hash chosen.
    pub fn sign_with(&self, message: &[u8], namespace: &str, hash: HashAlg) -> Result<String, Fault> {
        let code = if self.waits { Own::AgentRefused } else { Own::KeyFile };
        muster_signing::sign::sign_with(message, namespace, hash, self.signer.as_ref())
            .map_err(|SignFault(why)| Fault::new(code, format!("{} did not sign", self.place)).why(why))
    }
}

/// How the operator named a signer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A private key file.
    File(PathBuf),
    /// A key in the agent: `SHA256:…`, a comment, or a public key file.
    Agent(String),
}

/// Reads a public key: a `.pub` file.
pub fn read_public(path: &Path) -> Result<PublicKey, Fault> {
    let text = files::read_text(path, MAX_KEY_FILE)?;
    let line = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.starts_with('#')).unwrap_or_default();
    parse_public(line).ok_or_else(|| {
        Fault::new(Own::KeyFile, "not an OpenSSH public key").at(path, 1).fix("Give the .pub file of a key.")
    })
}

/// Reads a public key line: type, base64, perhaps a comment.
pub fn parse_public(line: &str) -> Option<PublicKey> {
    let mut words = line.split_whitespace();
    PublicKey::from_words(words.next()?, words.next()?).ok()
}

/// Whether a key is of a size that hosts take signatures of.
pub fn check_kind(key: &PublicKey) -> Result<(), Fault> {
    key.may_sign().map_err(|why| Fault::new(Own::KeyKind, "the key is not one that hosts take").why(why))
}
