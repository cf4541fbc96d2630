//! Who we are to a host: key files, agents, certificates.

use core::fmt;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zeroize::Zeroizing;

use crate::certificate::{Certificate, printable};
use crate::fingerprint::Fingerprint;
use crate::key::{KeyFault, PrivateKey, Secret};
use crate::keyfile::{KeyFile, MAX_FILE};
use crate::trust::decode_blob;

/// Asks for the passphrase of the key that it is given the source of. `None` = the user would rather not.
pub type AskPassphrase = Arc<dyn Fn(&str) -> Option<Secret> + Send + Sync>;

/// How often a person may mistype.
const TRIES: usize = 3;

/// Where the passphrase of an encrypted key comes from.
#[derive(Clone)]
pub enum Passphrase {
    /// There is none: an encrypted key is not offered, and the error says why.
    None,
    /// It is known.
    Known(Secret),
    /// Asked for when a host first wants this key, and again (three times in all) while it is wrong.
    /// Called off the async threads, so it may block on a terminal.
    Ask(AskPassphrase),
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Known(_) => "Known([REDACTED])",
            Self::Ask(_) => "Ask(..)",
        })
    }
}

/// Why an identity cannot be made from what was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityFault {
    /// The file cannot be read.
    #[error("cannot read {path}: {why}")]
    Read {
        /// The file.
        path: String,
        /// The system's words.
        why: String,
    },
    /// Others can read the private key.
    #[error("{path} can be read by others (mode {mode:04o}); make it private with `chmod 600`")]
    Exposed {
        /// The file.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// The key itself.
    #[error("{source_name}: {fault}")]
    Key {
        /// The file or other source.
        source_name: String,
        /// What is wrong with it.
        fault: KeyFault,
    },
    /// The certificate.
    #[error("{source_name}: {why}")]
    Certificate {
        /// The file or other source.
        source_name: String,
        /// What is wrong with it.
        why: String,
    },
}

pub(crate) enum KeyState {
    Closed(KeyFile),
    Open(Arc<PrivateKey>),
    /// The passphrase was wrong or not given: not asked for again.
    Failed(KeyFault),
}

pub(crate) enum Source {
    Key {
        name: String,
        public: Vec<u8>,
        passphrase: Passphrase,
        state: tokio::sync::Mutex<KeyState>,
    },
    Agent {
        socket: PathBuf,
        /// Offer these alone, by the fingerprint of the key or of the certified key.
        only: Option<Vec<Fingerprint>>,
    },
}

/// One way to log in. Cheap to clone; clones share what was unlocked.
#[derive(Clone)]
pub struct Identity {
    pub(crate) source: Arc<Source>,
    /// Each with its own name for messages.
    pub(crate) certificates: Vec<(String, Arc<Vec<u8>>)>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Identity {
    /// A private key in OpenSSH's format. `source` names it in messages.
    pub fn key(source: &str, pem: &[u8], passphrase: Passphrase) -> Result<Self, IdentityFault> {
        let fault = |fault| IdentityFault::Key { source_name: source.to_owned(), fault };
        let file = KeyFile::parse(pem).map_err(fault)?;
        let public = file.public_blob().to_vec();
        let state = if file.is_encrypted() {
            KeyState::Closed(file)
        } else {
            KeyState::Open(Arc::new(file.open(None).map_err(fault)?))
        };
        let name = source.to_owned();
        let state = tokio::sync::Mutex::new(state);
        let source = Arc::new(Source::Key { name, public, passphrase, state });
        Ok(Self { source, certificates: Vec::new() })
    }

    /// A private key file, and the certificate `FILE-cert.pub` beside it where there is one, as
    /// `ssh -i` does. A file that others can read is refused.
    pub fn key_file(path: &Path, passphrase: Passphrase) -> Result<Self, IdentityFault> {
        let pem = read_private(path)?;
        let identity = Self::key(&format!("file {}", path.display()), &pem, passphrase)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push("-cert.pub");
        let beside = PathBuf::from(beside);
        match std::fs::symlink_metadata(&beside) {
            Ok(_) => identity.with_certificate_file(&beside),
            Err(_) => Ok(identity),
        }
    }

    /// The agent behind a socket; with `only`, no other keys of it than these.
    pub fn agent(socket: &Path, only: Option<Vec<Fingerprint>>) -> Self {
        Self { source: Arc::new(Source::Agent { socket: socket.to_owned(), only }), certificates: Vec::new() }
    }

    /// A user certificate (`…-cert.pub` line) for this key, or for a key that the agent holds. It is
    /// offered before the plain key.
    pub fn with_certificate(mut self, source: &str, line: &str) -> Result<Self, IdentityFault> {
        let fault = |why: String| IdentityFault::Certificate { source_name: source.to_owned(), why };
        let mut words = line.split_ascii_whitespace();
        let (Some(kind), Some(base64)) = (words.next(), words.next()) else {
            return Err(fault("not a certificate line (kind, base64)".to_owned()));
        };
        let blob = decode_blob(kind, base64).map_err(|e| fault(e.to_owned()))?;
        let cert = Certificate::parse(&blob).map_err(|e| fault(e.to_string()))?;
        if !cert.is_user() {
            return Err(fault("this is a host certificate; logging in takes a user certificate".to_owned()));
        }
        if let Source::Key { name, public, .. } = &*self.source
            && cert.plain_key() != *public
        {
            return Err(fault(format!("the certificate is not for the key of {name}")));
        }
        self.certificates.push((source.to_owned(), Arc::new(blob)));
        Ok(self)
    }

    /// As [`Self::with_certificate`], from a file.
    pub fn with_certificate_file(self, path: &Path) -> Result<Self, IdentityFault> {
        let read = |why: String| IdentityFault::Read { path: path.display().to_string(), why };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(|e| read(e.to_string()))?;
        file.take(MAX_FILE as u64 * 2).read_to_string(&mut text).map_err(|e| read(e.to_string()))?;
        self.with_certificate(&format!("file {}", path.display()), &text)
    }

    /// Opens an encrypted key now, asking where it must be asked: before a run over many hosts, so that
    /// the question does not count against the first host's time to log in. An agent has nothing to open.
    pub async fn unlock(&self) -> Result<(), KeyFault> {
        match &*self.source {
            Source::Key { .. } => self.source.unlock().await.map(|_| ()),
            Source::Agent { .. } => Ok(()),
        }
    }

    /// For messages: never anything secret.
    pub fn describe(&self) -> String {
        match &*self.source {
            Source::Key { name, public, .. } => {
                format!("{} ({})", printable(name), Fingerprint::of_blob(public))
            }
            Source::Agent { socket, .. } => format!("agent {}", socket.display()),
        }
    }

    /// Two identities with the same key here are the same identity.
    pub(crate) fn cache_key(&self) -> String {
        let certificates: Vec<String> =
            self.certificates.iter().map(|(_, blob)| Fingerprint::of_blob(blob).to_string()).collect();
        let only = match &*self.source {
            Source::Agent { only, .. } => format!("{only:?}"),
            Source::Key { .. } => String::new(),
        };
        format!("{} {only} {certificates:?}", self.describe())
    }
}

impl Source {
    /// The private key, unlocked at most once for all clones.
    pub(crate) async fn unlock(&self) -> Result<Arc<PrivateKey>, KeyFault> {
        let Self::Key { name, passphrase, state, .. } = self else {
            return Err(KeyFault::Signing);
        };
        let mut state = state.lock().await;
        let file = match &*state {
            KeyState::Open(key) => return Ok(Arc::clone(key)),
            KeyState::Failed(fault) => return Err(fault.clone()),
            KeyState::Closed(file) => file.clone(),
        };
        let (passphrase, name) = (passphrase.clone(), name.clone());
        // Asking may wait for a person, and deriving the key takes a tenth of a second or more.
        let opened = tokio::task::spawn_blocking(move || match &passphrase {
            Passphrase::None => file.open(None),
            Passphrase::Known(secret) => file.open(Some(secret)),
            Passphrase::Ask(ask) => {
                for _ in 0..TRIES {
                    match file.open(ask(&name).as_ref()) {
                        Err(KeyFault::PassphraseWrong) => {}
                        other => return other,
                    }
                }
                Err(KeyFault::PassphraseWrong)
            }
        })
        .await
        .unwrap_or(Err(KeyFault::Signing));
        match opened {
            Ok(key) => {
                let key = Arc::new(key);
                *state = KeyState::Open(Arc::clone(&key));
                Ok(key)
            }
            Err(fault) => {
                *state = KeyState::Failed(fault.clone());
                Err(fault)
            }
        }
    }
}

/// Opens once, then judges and reads what was opened.
fn read_private(path: &Path) -> Result<Zeroizing<Vec<u8>>, IdentityFault> {
    let shown = path.display().to_string();
    let read = |why: String| IdentityFault::Read { path: shown.clone(), why };
    let mut options = std::fs::OpenOptions::new();
    // A FIFO put in the file's place must not hold us.
    let file =
        options.read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(|e| read(e.to_string()))?;
    let meta = file.metadata().map_err(|e| read(e.to_string()))?;
    if !meta.is_file() {
        return Err(read("not a regular file".to_owned()));
    }
    let mode = meta.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(IdentityFault::Exposed { path: shown, mode });
    }
    let mut pem = Zeroizing::new(Vec::with_capacity(8 * 1024));
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut pem).map_err(|e| read(e.to_string()))?;
    Ok(pem)
}
