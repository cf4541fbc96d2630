//! The inventory: which hosts there are, how they are reached, whom they trust. Form: `docs/inventory.md`.
//!
//! One YAML file. Unknown keys refuse and name the nearest known one; every fault carries its line. Nothing secret stands in it:
//! secrets are named by file. Host keys learned by `muster host add` are not written here but pinned in the state folder.

mod api;
mod edit;
mod endpoint;
mod provisioning;
mod read;
mod select;

pub use api::{ApiDefaults, ApiNode};
pub use edit::{NewHost, add_host, text_with_host, with_host, write};
pub use endpoint::{Admin, Endpoint, HostKey, Identity};
pub use provisioning::{Controller, Profile, Provisioning};
pub use select::{Selection, Selector, choose};

use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::signer::Choice;
use crate::{files, yaml};
use muster_core::{HostName, PoolName};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The name looked for when none is given.
pub const DEFAULT_NAME: &str = "inventory.yaml";

/// A whole inventory.
#[derive(Debug)]
pub struct Inventory {
    /// Its file.
    pub file: PathBuf,
    /// Whom hosts trust to sign.
    pub trust: Trust,
    /// Who signs, unless the command line says.
    pub signing: Option<Choice>,
    /// Hops that hosts are reached through, by name.
    pub bastions: BTreeMap<String, Endpoint>,
    /// In the order of the file.
    pub hosts: Vec<Host>,
    /// The nodes whose API is called, in the order of the file; most are hosts too.
    pub nodes: Vec<ApiNode>,
    /// Who calls them.
    pub api: ApiDefaults,
}

/// Whom hosts trust to sign, as the sender checks it and `provision` puts it in place.
#[derive(Debug, Default)]
pub struct Trust {
    /// An `allowed_signers` file.
    pub allowed_signers: Option<PathBuf>,
    /// A revocation list.
    pub revoked_signers: Option<PathBuf>,
    /// How many distinct signers an intent needs.
    pub signers_needed: Option<u32>,
}

/// How scripts reach a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecMode {
    /// Through the shim: nothing unsigned runs.
    #[default]
    Verified,
    /// `sudo bash -s`, unsigned. For the time of a migration, for this host alone, and said again on each command.
    Raw,
}

/// A host.
#[derive(Debug)]
pub struct Host {
    /// What it calls itself in its `shim.toml`.
    pub name: HostName,
    /// Its line.
    pub line: usize,
    /// How the controller key logs in.
    pub ssh: Endpoint,
    /// How an administrator logs in, for `provision` and what else changes trust.
    pub admin: Admin,
    /// Its pools.
    pub pools: Vec<PoolName>,
    /// For selectors.
    pub labels: BTreeMap<String, String>,
    /// Parameters that every run on it gets where the profile declares them.
    pub vars: Vec<Var>,
    /// How scripts reach it.
    pub exec_mode: ExecMode,
    /// Which envelope its shim takes.
    pub envelope: u8,
    /// What `provision` makes of it.
    pub provision: Provisioning,
}

/// A variable of a host.
#[derive(Debug)]
pub struct Var {
    /// Its name, as in the envelope.
    pub name: String,
    /// Its line.
    pub line: usize,
    /// Its value.
    pub value: VarValue,
}

/// A variable's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VarValue {
    /// Not secret.
    Plain(String),
    /// The file that holds it.
    SecretFile(PathBuf),
}

impl Inventory {
    /// Reads a file.
    pub fn read(file: &Path, home: Option<&Path>) -> Result<Self, Faults> {
        let text = files::read_text(file, yaml::MAX_BYTES)?;
        Self::parse(&text, file, home)
    }

    /// Reads a text; `file` names it and is what its paths are relative to.
    pub fn parse(text: &str, file: &Path, home: Option<&Path>) -> Result<Self, Faults> {
        read::parse(text, file, home)
    }

    /// A host by name, with the nearest one named when there is none.
    pub fn host(&self, name: &str) -> Result<&Host, Fault> {
        self.hosts.iter().find(|h| h.name.as_str() == name).ok_or_else(|| {
            let near = yaml::nearest(name, self.hosts.iter().map(|h| h.name.as_str()));
            let fault = Fault::new(Own::HostUnknown, format!("no host {name:?} in {}", self.file.display()));
            match near {
                Some(n) => fault.fix(format!("Did you mean {n:?}?")),
                None => fault,
            }
        })
    }

    /// The hops to a host: bastions in order, then the host itself.
    pub fn route<'i>(&'i self, host: &'i Host) -> Vec<&'i Endpoint> {
        let hops = host.ssh.via.iter().filter_map(|name| self.bastions.get(name));
        hops.chain([&host.ssh]).collect()
    }
}

/// Where an inventory is: the one named, or `inventory.yaml` here, or the one in the config folder.
pub fn find(named: Option<&Path>, config: Option<&Path>) -> Result<PathBuf, Fault> {
    if let Some(path) = named {
        return Ok(path.to_owned());
    }
    let here = PathBuf::from(DEFAULT_NAME);
    let there = config.map(|c| c.join(DEFAULT_NAME));
    if here.exists() {
        return Ok(here);
    }
    match there {
        Some(path) if path.exists() => Ok(path),
        other => {
            let also = other.map(|p| format!(" and no {}", p.display())).unwrap_or_default();
            Err(Fault::new(Own::InventoryMissing, format!("no ./{DEFAULT_NAME}{also}")))
        }
    }
}
