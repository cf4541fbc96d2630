//! A client of `ssh-agent` (draft-miller-ssh-agent, OpenSSH `PROTOCOL.agent`): list, bind, sign.
//!
//! Our own and not the SSH library's, because that one gives up on the whole list when one key in it
//! cannot be read, and has no bound on the time.

use core::fmt;
use std::path::{Path, PathBuf};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::certificate::MAX_BLOB;
use crate::key::RsaHash;
use crate::wire::{Reader, put_string};

const FAILURE: u8 = 5;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
const EXTENSION: u8 = 27;
/// OpenSSH's own bound on an agent message.
const MAX_FRAME: usize = 256 * 1024;

/// Why an agent did not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgentFault {
    /// Nobody listens on the socket, or it may not be opened.
    #[error("cannot reach the agent at {path}: {why}")]
    Unreachable {
        /// The socket.
        path: String,
        /// The system's words.
        why: String,
    },
    /// It would not.
    #[error("the agent refused (locked, not confirmed, or the key is gone)")]
    Refused,
    /// It broke the protocol or off.
    #[error("the agent broke off or answered out of protocol")]
    Broken,
}

/// One key or certificate that an agent holds.
#[derive(Clone, PartialEq, Eq)]
pub struct AgentKey {
    /// The key or certificate in its wire form.
    pub blob: Vec<u8>,
    /// What the agent calls it.
    pub comment: String,
}

impl fmt::Debug for AgentKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AgentKey({:?}, {} bytes)", self.comment, self.blob.len())
    }
}

/// A connection to an agent.
#[derive(Debug)]
pub struct Agent {
    stream: UnixStream,
    path: PathBuf,
}

impl Agent {
    /// Connects to the socket at `path`. Time limits are the caller's.
    pub async fn connect(path: &Path) -> Result<Self, AgentFault> {
        let stream = UnixStream::connect(path)
            .await
            .map_err(|e| AgentFault::Unreachable { path: path.display().to_string(), why: e.to_string() })?;
        Ok(Self { stream, path: path.to_owned() })
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    async fn ask(&mut self, body: &[u8]) -> Result<Vec<u8>, AgentFault> {
        let mut frame = Vec::with_capacity(body.len() + 4);
        put_string(&mut frame, body);
        let broken = |_| AgentFault::Broken;
        self.stream.write_all(&frame).await.map_err(broken)?;
        let length = self.stream.read_u32().await.map_err(broken)? as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(AgentFault::Broken);
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).await.map_err(broken)?;
        Ok(answer)
    }

    /// What it holds. A key that is too large to be one is left out.
    pub async fn identities(&mut self) -> Result<Vec<AgentKey>, AgentFault> {
        read_identities(&self.ask(&[REQUEST_IDENTITIES]).await?)
    }

    /// Tells the agent for which server it will be asked (`session-bind@openssh.com`), so that keys
    /// with destination constraints work. An agent that does not know it says so, and that is fine.
    pub(crate) async fn bind(
        &mut self,
        host_key: &[u8],
        session: &[u8],
        signature: &[u8],
    ) -> Result<(), AgentFault> {
        let mut body = vec![EXTENSION];
        put_string(&mut body, b"session-bind@openssh.com");
        put_string(&mut body, host_key);
        put_string(&mut body, session);
        put_string(&mut body, signature);
        body.push(0); // not forwarding
        self.ask(&body).await.map(|_| ())
    }

    /// A signature in its wire form. `rsa` is for RSA keys alone; an agent that answers with SHA-1
    /// all the same is refused.
    pub async fn sign(&mut self, blob: &[u8], message: &[u8], rsa: RsaHash) -> Result<Vec<u8>, AgentFault> {
        let mut body = vec![SIGN_REQUEST];
        put_string(&mut body, blob);
        put_string(&mut body, message);
        let flags: u32 = match rsa {
            RsaHash::Sha256 => 2,
            RsaHash::Sha512 => 4,
        };
        let is_rsa = crate::fingerprint::blob_kind_name(blob).is_some_and(|n| n.starts_with("ssh-rsa"));
        body.extend_from_slice(&(if is_rsa { flags } else { 0 }).to_be_bytes());
        let answer = self.ask(&body).await?;
        read_signature(&answer, is_rsa.then_some(rsa))
    }
}

pub(crate) fn read_identities(answer: &[u8]) -> Result<Vec<AgentKey>, AgentFault> {
    let mut r = Reader::new(answer);
    let broken = |_| AgentFault::Broken;
    match r.byte().map_err(broken)? {
        IDENTITIES_ANSWER => {}
        FAILURE => return Err(AgentFault::Refused),
        _ => return Err(AgentFault::Broken),
    }
    let count = r.u32().map_err(broken)?;
    let mut keys = Vec::new();
    for _ in 0..count {
        let blob = r.string().map_err(broken)?;
        let comment = r.string().map_err(broken)?;
        if blob.len() <= MAX_BLOB {
            let comment = String::from_utf8_lossy(comment).into_owned();
            keys.push(AgentKey { blob: blob.to_vec(), comment });
        }
    }
    Ok(keys)
}

/// `rsa` is what an RSA key was asked to sign with; `None` for the other kinds.
pub(crate) fn read_signature(answer: &[u8], rsa: Option<RsaHash>) -> Result<Vec<u8>, AgentFault> {
    let mut r = Reader::new(answer);
    match r.byte() {
        Ok(SIGN_RESPONSE) => {}
        Ok(FAILURE) => return Err(AgentFault::Refused),
        _ => return Err(AgentFault::Broken),
    }
    let signature = r.string().map_err(|_| AgentFault::Broken)?;
    let algorithm = Reader::new(signature).text().map_err(|_| AgentFault::Broken)?;
    if rsa.is_some_and(|rsa| algorithm != rsa.name()) {
        return Err(AgentFault::Broken);
    }
    Ok(signature.to_vec())
}
