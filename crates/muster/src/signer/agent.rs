//! Signing through an SSH agent (draft-ietf-sshm-ssh-agent; OpenSSH `PROTOCOL.agent`).
//!
//! One connection a request; frames are bounded before they are read.

use super::Named;
use crate::codes::Own;
use crate::fault::Fault;
use muster_signing::key::{self, KeyKind, PublicKey};
use muster_signing::sign::{SignFault, Signer};
use muster_signing::sshsig::SignerKey;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// OpenSSH's own bound for agent messages.
const MAX_FRAME: usize = 256 * 1024;
const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;
const FLAG_RSA_SHA2_512: u32 = 4;
/// Somebody may have to touch a token or confirm.
const PATIENCE: Duration = Duration::from_secs(120);

/// A key that an agent holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The public key or certificate blob.
    pub blob: Vec<u8>,
    /// Whatever the agent calls it; never trusted.
    pub comment: String,
}

/// An agent's socket.
#[derive(Clone, Debug)]
pub struct Agent {
    socket: PathBuf,
}

impl Agent {
    /// The agent at `SSH_AUTH_SOCK`.
    pub fn at(socket: Option<&Path>) -> Result<Self, Fault> {
        match socket {
            Some(s) if !s.as_os_str().is_empty() => Ok(Self { socket: s.to_owned() }),
            _ => {
                Err(Fault::new(Own::AgentUnreachable, "no SSH agent is known")
                    .why("SSH_AUTH_SOCK is not set"))
            }
        }
    }

    fn ask(&self, message: &[u8]) -> Result<Vec<u8>, std::io::Error> {
        let mut stream = UnixStream::connect(&self.socket)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(Duration::from_secs(10)))?;
        let len = u32::try_from(message.len()).map_err(|_| std::io::Error::other("message too long"))?;
        stream.write_all(&len.to_be_bytes())?;
        stream.write_all(message)?;
        let mut head = [0u8; 4];
        stream.read_exact(&mut head)?;
        let len = usize::try_from(u32::from_be_bytes(head)).unwrap_or(usize::MAX);
        if len == 0 || len > MAX_FRAME {
            return Err(std::io::Error::other(format!("the agent's answer is {len} bytes long")));
        }
        let mut body = vec![0u8; len];
        stream.read_exact(&mut body)?;
        Ok(body)
    }

    /// The keys that the agent holds.
    pub fn identities(&self) -> Result<Vec<Identity>, Fault> {
        let broken = |why: String| {
            Fault::new(
                Own::AgentUnreachable,
                format!("the agent at {} does not answer", self.socket.display()),
            )
            .why(why)
        };
        let body = self.ask(&[REQUEST_IDENTITIES]).map_err(|e| broken(e.to_string()))?;
        parse_identities(&body).ok_or_else(|| broken("it did not list its keys".into()))
    }

    /// Finds a key by `SHA256:…`, by comment, or by the blob of a public key.
    pub fn find(&self, wanted: &str, public: Option<&PublicKey>) -> Result<Named, Fault> {
        let held = self.identities()?;
        let mut hits = held.iter().filter(|i| match public {
            Some(p) => p.blob() == i.blob,
            None => key::fingerprint(&i.blob) == wanted || i.comment == wanted,
        });
        let (hit, more) = (hits.next(), hits.next());
        let Some(hit) = hit else {
            let list: Vec<String> = held.iter().map(|i| key::fingerprint(&i.blob)).collect();
            let why = if list.is_empty() {
                "it holds no keys".into()
            } else {
                format!("it holds {}", list.join(", "))
            };
            return Err(
                Fault::new(Own::AgentKeyMissing, format!("the agent does not hold {wanted:?}")).why(why)
            );
        };
        if more.is_some() {
            return Err(Fault::new(
                Own::AgentKeyMissing,
                format!("{wanted:?} names several keys of the agent"),
            )
            .fix("Name it by its SHA256: fingerprint."));
        }
        self.named(&hit.blob)
    }

    /// A signer for a blob that the agent holds, which may be a certificate's.
    pub fn named(&self, blob: &[u8]) -> Result<Named, Fault> {
        self.signer(blob, blob)
    }

    /// A signer whose signatures carry a certificate, of a key that the agent holds without it.
    pub fn named_as(&self, certificate: &[u8]) -> Result<Named, Fault> {
        let key = SignerKey::from_blob(certificate).map(|k| k.key().blob().to_vec());
        self.signer(&key.unwrap_or_default(), certificate)
    }

    fn signer(&self, held: &[u8], blob: &[u8]) -> Result<Named, Fault> {
        let shown = SignerKey::from_blob(blob).map_err(|e| {
            Fault::new(Own::KeyKind, "the agent's key cannot be used here").why(e.to_string())
        })?;
        let public = shown.key().clone();
        super::check_kind(&public)?;
        let place = format!("the SSH agent, key {}", public.fingerprint());
        let rsa = public.kind() == KeyKind::Rsa;
        let signer =
            Box::new(AgentSigner { agent: self.clone(), held: held.to_vec(), blob: blob.to_vec(), rsa });
        Ok(Named { public, place, signer, waits: true })
    }
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (head, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    Some(u32::from_be_bytes(*head))
}

fn take_string<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let len = usize::try_from(take_u32(rest)?).ok()?;
    let (head, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(head)
}

fn parse_identities(body: &[u8]) -> Option<Vec<Identity>> {
    let (&kind, mut rest) = body.split_first()?;
    if kind != IDENTITIES_ANSWER {
        return None;
    }
    let count = take_u32(&mut rest)?;
    let mut out = Vec::new();
    for _ in 0..count.min(2048) {
        let blob = take_string(&mut rest)?.to_vec();
        let comment = String::from_utf8_lossy(take_string(&mut rest)?).into_owned();
        out.push(Identity { blob, comment });
    }
    Some(out)
}

struct AgentSigner {
    agent: Agent,
    /// What the agent knows the key by.
    held: Vec<u8>,
    /// What the signature carries.
    blob: Vec<u8>,
    rsa: bool,
}

impl Signer for AgentSigner {
    fn public_blob(&self) -> &[u8] {
        &self.blob
    }

    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, SignFault> {
        let mut message = vec![SIGN_REQUEST];
        for part in [self.held.as_slice(), data] {
            let len = u32::try_from(part.len()).map_err(|_| SignFault("the message is too long".into()))?;
            message.extend_from_slice(&len.to_be_bytes());
            message.extend_from_slice(part);
        }
        let flags = if self.rsa { FLAG_RSA_SHA2_512 } else { 0 };
        message.extend_from_slice(&flags.to_be_bytes());
        let body =
            self.agent.ask(&message).map_err(|e| SignFault(format!("the agent did not answer: {e}")))?;
        match body.split_first() {
            Some((&SIGN_RESPONSE, mut rest)) => {
                let blob =
                    take_string(&mut rest).ok_or(SignFault("the agent's answer is cut short".into()))?;
                Ok(blob.to_vec())
            }
            _ => Err(SignFault("the agent refused; confirm or touch when asked".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn answers_never_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            let _ = parse_identities(&bytes);
        }
    }

    #[test]
    fn no_agent_is_said_plainly() {
        assert_eq!(Agent::at(None).unwrap_err().code, Own::AgentUnreachable.into());
        let agent = Agent::at(Some(Path::new("/nonexistent/agent"))).unwrap();
        assert!(agent.identities().unwrap_err().to_string().contains("/nonexistent/agent"));
    }
}
