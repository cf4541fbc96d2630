//! Who calls nodes: a client's certificate in a file, and its key in another one or in an SSH agent.

use crate::codes::Own;
use crate::fault::Fault;
use crate::files;
use crate::pki::keyfile;
use crate::signer::agent::Agent;
use crate::terminal::Passphrases;
use muster_client::{Identity, Keeper};
use muster_tls::ClientKey;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::signer::agent::EMPTY;

const MAX_PEM: usize = 64 * 1024;

/// Which files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// The certificate.
    pub client: Option<PathBuf>,
    /// Its key; beside it when not said.
    pub key: Option<PathBuf>,
}

impl Caller {
    /// The first of several that names a certificate.
    pub fn first(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().find(|c| c.client.is_some()).unwrap_or_default()
    }

    /// The files, or the only client of an authority's folder.
    pub fn files(&self, pki: &Path) -> Result<(PathBuf, PathBuf), Fault> {
        let client = match &self.client {
            Some(client) => client.clone(),
            None => only(&pki.join("clients"))?,
        };
        let key = self.key.clone().unwrap_or_else(|| client.with_extension("key"));
        Ok((client, key))
    }

    /// Reads both; asks for a passphrase where the key has one. Where there is no key file, the SSH agent keeps the key.
    pub fn open(
        &self,
        pki: &Path,
        passphrases: &Passphrases,
        agent: Option<&Path>,
    ) -> Result<Arc<Identity>, Fault> {
        let (client, key) = self.files(pki)?;
        let certificate = files::read_text(&client, MAX_PEM)?;
        if self.key.is_none() && !key.exists() {
            if agent.is_some() {
                return kept(&client, &certificate, agent).map(Arc::new);
            }
            let what = format!("there is no {}, the key of {}", key.display(), client.display());
            return Err(Fault::new(Own::FileMissing, what)
                .why("SSH_AUTH_SOCK is not set, so no SSH agent keeps it either")
                .fix("Name the key's file with --client-key, or start the agent that has it."));
        }
        let open = keyfile::open(&key, passphrases)?;
        let identity = Identity::from_pem(&certificate, &open).map_err(|e| {
            Fault::new(Own::PkiFile, format!("{} and {} will not do", client.display(), key.display()))
                .why(e.to_string())
        })?;
        Ok(Arc::new(identity))
    }
}

/// The key of a certificate, in an agent.
struct InAgent {
    agent: Agent,
    key: ClientKey,
}

impl Keeper for InAgent {
    fn sign(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        // The agent is waited for on a thread of its own: this is called in the middle of a handshake.
        let answer = std::thread::scope(|s| s.spawn(|| self.agent.sign(&self.key.ssh(), text)).join());
        let signature = answer.map_err(|_| "asking the SSH agent broke off".to_owned())??;
        self.key
            .signature(&signature)
            .ok_or_else(|| "the SSH agent signed in a form that TLS does not have".to_owned())
    }
}

fn kept(client: &Path, certificate: &str, agent: Option<&Path>) -> Result<Identity, Fault> {
    let key = ClientKey::of_certificate(certificate).map_err(|f| crate::pki::bad(client, &f))?;
    let agent = Agent::at(agent)?;
    let held = agent.identities()?;
    if !held.iter().any(|held| held.blob == key.ssh()) {
        let what = format!(
            "there is no key file beside {}, and the SSH agent does not hold its key",
            client.display()
        );
        let fault = Fault::new(Own::AgentKeyMissing, what);
        return Err(match held.is_empty() {
            true => fault.why(EMPTY).fix(
                "Unlock it with ssh-add -X, add the key with ssh-add, or name its file with --client-key.",
            ),
            false => fault.fix("Add the key with ssh-add, or name its file with --client-key."),
        });
    }
    let scheme = key.scheme();
    Identity::kept_by(certificate, scheme, Arc::new(InAgent { agent, key }))
        .map_err(|e| Fault::new(Own::PkiFile, format!("{} will not do", client.display())).why(e.to_string()))
}

/// The one certificate of a folder; none is guessed among several.
fn only(folder: &Path) -> Result<PathBuf, Fault> {
    let missing = |what: String| Fault::new(Own::ClientMissing, what);
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Err(missing(format!(
            "no client certificate was named, and there is no {}",
            folder.display()
        )));
    };
    let paths = entries.filter_map(|e| Some(e.ok()?.path()));
    let mut all: Vec<PathBuf> = paths.filter(|p| p.extension().is_some_and(|e| e == "pem")).collect();
    match (all.pop(), all.len()) {
        (Some(one), 0) => Ok(one),
        (None, _) => {
            Err(missing(format!("no client certificate was named, and {} has none", folder.display())))
        }
        (Some(_), more) => {
            Err(missing(format!("{} has {} certificates, and none was named", folder.display(), more + 1)))
        }
    }
}
