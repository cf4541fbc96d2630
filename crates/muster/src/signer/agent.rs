//! Signing through an SSH agent, whose client is `muster-ssh`'s: one connection a request, waited for here.

use super::Named;
use crate::codes::Own;
use crate::fault::Fault;
use muster_signing::key::{self, PublicKey};
use muster_signing::sign::{SignFault, Signer};
use muster_signing::sshsig::SignerKey;
use muster_ssh::{AgentKey, RsaHash};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Of an agent without keys. One that is locked says the same (PROTOCOL.agent, 3.7).
pub const EMPTY: &str = "it shows no keys: it has none, or it is locked";

/// Listing keys asks nobody.
const LIST: Duration = Duration::from_secs(15);
/// Somebody may have to touch a token or confirm.
const PATIENCE: Duration = Duration::from_secs(120);

/// An agent's socket.
#[derive(Clone, Debug)]
pub struct Agent {
    socket: PathBuf,
}

/// Waits for one exchange with an agent.
fn wait<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, muster_ssh::AgentFault>>,
) -> Result<T, String> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    runtime.block_on(async {
        match tokio::time::timeout(limit, work).await {
            Ok(done) => done.map_err(|e| e.to_string()),
            Err(_) => Err(format!("the agent did not answer within {} s", limit.as_secs())),
        }
    })
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

    /// The keys that the agent holds.
    pub fn identities(&self) -> Result<Vec<AgentKey>, Fault> {
        wait(LIST, async { muster_ssh::Agent::connect(&self.socket).await?.identities().await }).map_err(
            |why| {
                Fault::new(
                    Own::AgentUnreachable,
                    format!("the agent at {} does not answer", self.socket.display()),
                )
                .why(why)
            },
        )
    }

    /// Signs a text with a key that the agent holds; gives the signature as SSH has it.
    pub fn sign(&self, blob: &[u8], text: &[u8]) -> Result<Vec<u8>, String> {
        wait(PATIENCE, async {
            muster_ssh::Agent::connect(&self.socket).await?.sign(blob, text, RsaHash::Sha512).await
        })
    }

    /// Finds a key by `SHA256:…`, by comment, or by its public half.
    pub fn find(&self, wanted: &str, public: Option<&PublicKey>) -> Result<Named, Fault> {
        let held = self.identities()?;
        let mut hits = held.iter().filter(|i| match public {
            Some(p) => p.blob() == i.blob,
            None => key::fingerprint(&i.blob) == wanted || i.comment == wanted,
        });
        let (hit, more) = (hits.next(), hits.next());
        let Some(hit) = hit else {
            let list: Vec<String> = held.iter().map(|i| key::fingerprint(&i.blob)).collect();
            let why = if list.is_empty() { EMPTY.into() } else { format!("it holds {}", list.join(", ")) };
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
        let signer = Box::new(AgentSigner { agent: self.clone(), held: held.to_vec(), blob: blob.to_vec() });
        Ok(Named { public, place, signer, waits: true })
    }
}

struct AgentSigner {
    agent: Agent,
    /// What the agent knows the key by.
    held: Vec<u8>,
    /// What the signature carries.
    blob: Vec<u8>,
}

impl Signer for AgentSigner {
    fn public_blob(&self) -> &[u8] {
        &self.blob
    }

    fn sign_raw(&self, data: &[u8]) -> Result<Vec<u8>, SignFault> {
        let work = async {
            let mut agent = muster_ssh::Agent::connect(&self.agent.socket).await?;
            agent.sign(&self.held, data, RsaHash::Sha512).await
        };
        wait(PATIENCE, work).map_err(SignFault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_agent_is_said_plainly() {
        assert_eq!(Agent::at(None).unwrap_err().code, Own::AgentUnreachable.into());
        let agent = Agent::at(Some(Path::new("/nonexistent/agent"))).unwrap();
        assert!(agent.identities().unwrap_err().to_string().contains("/nonexistent/agent"));
    }
}
