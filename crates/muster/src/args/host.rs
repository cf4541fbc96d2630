//! `muster host …`

pub mod phase;
pub mod provision;

use super::InventoryFile;
use crate::codes::Own;
use crate::fault::Fault;
use crate::inventory::Selection;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Hosts reached over SSH.
#[derive(Debug, Subcommand)]
pub enum Host {
    /// Write a host and the key that it must prove to have into the inventory; nothing is asked of the network.
    Add(Add),
    /// List the inventory's hosts.
    List(List),
    /// Make hosts run what is signed for them and nothing else, over an administrator's login.
    Provision(Box<provision::Provision>),
    /// Put hosts back as they were before they were provisioned.
    Unprovision(provision::Unprovision),
    /// Check how hosts are set up, then attack their login as somebody who stole its key.
    Doctor(provision::Doctor),
    /// Pin another host key after a host was set up anew, or put other controller keys on hosts.
    RotateKey(provision::RotateKey),
    /// Epoch floors: what voids older signed intents.
    #[command(subcommand)]
    Floor(provision::Floor),
    /// Ask hosts what they are and what they last ran.
    Probe(phase::Probe),
    /// Run the install script of a signed profile.
    Install(phase::Run),
    /// Run the join script of a signed profile.
    Join(phase::Run),
    /// Run the leave script of a signed profile.
    Leave(phase::Run),
    /// Run the uninstall script of a signed profile.
    Uninstall(phase::Run),
}

/// Which hosts.
#[derive(Clone, Debug, Default, Args)]
pub struct Select {
    /// Hosts by name.
    pub names: Vec<String>,
    /// Hosts by label, pool or name: key=value, key!=value, key, !key, joined by commas.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Every host of the inventory.
    #[arg(long, conflicts_with_all = ["names", "selector"])]
    pub all: bool,
    /// Where the inventory is.
    #[command(flatten)]
    pub inventory: InventoryFile,
}

impl Select {
    /// As a plain value.
    pub fn selection(&self) -> Result<Selection, Fault> {
        let parse = |text: &String| {
            text.parse().map_err(|why: String| Fault::new(Own::SelectorForm, format!("-l {text:?}: {why}")))
        };
        Ok(Selection {
            names: self.names.clone(),
            selector: self.selector.as_ref().map(parse).transpose()?,
            all: self.all,
        })
    }
}

/// How many hosts at once, and for how long.
#[derive(Clone, Debug, Args)]
pub struct Pace {
    /// Hosts worked on at the same time.
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub parallel: u16,
    /// How long one host may take in all, waiting for another run on it included, such as 90s or 20m.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// How long each step of connecting may take.
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub connect_timeout: String,
}

/// Write a host into the inventory and pin its key.
#[derive(Debug, Args)]
pub struct Add {
    /// What the host is called: here, in its shim.toml, and in what is signed for it.
    pub name: String,
    /// Its host name or IP address.
    #[arg(long)]
    pub address: String,
    /// Its SSH port.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// The login that the shim answers; `muster` unless the inventory's defaults say otherwise.
    #[arg(long)]
    pub user: Option<String>,
    /// The host's key: a SHA256: fingerprint read off its console, or a public key line. Several are possible.
    #[arg(long, value_name = "KEY", visible_alias = "fingerprint")]
    pub host_key: Vec<String>,
    /// A known_hosts line that you trust; its host names must fit the address.
    #[arg(long, value_name = "LINE")]
    pub known_hosts_line: Vec<String>,
    /// A host certificate authority: a public key line, or the path of a .pub file.
    #[arg(long, value_name = "KEY")]
    pub host_ca: Vec<String>,
    /// A bastion of the inventory, first hop first.
    #[arg(long, value_name = "BASTION")]
    pub via: Vec<String>,
    /// A pool that the host is in.
    #[arg(long)]
    pub pool: Vec<String>,
    /// A label, for selectors.
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<String>,
    /// Who administers it, for `provision`.
    #[arg(long, value_name = "USER")]
    pub admin_user: Option<String>,
    /// Where the inventory is.
    #[command(flatten)]
    pub inventory: InventoryFile,
    /// Say what would be written, and write nothing.
    #[arg(long)]
    pub plan: bool,
}

/// List the inventory's hosts.
#[derive(Debug, Args)]
pub struct List {
    /// Which; all of them when nothing is said.
    #[command(flatten)]
    pub select: Select,
}

/// How an administrator logs in and becomes root.
#[derive(Clone, Debug, Default, Args)]
pub struct AdminArgs {
    /// Log in as this user; otherwise as the inventory's `admin:` says.
    #[arg(long, value_name = "USER")]
    pub admin_user: Option<String>,
    /// Log in with this private key file.
    #[arg(long, value_name = "FILE")]
    pub admin_key: Vec<PathBuf>,
    /// Read the sudo password from the first line of this file; otherwise it is asked for when a host wants one.
    #[arg(long, value_name = "FILE", visible_alias = "admin-password-file")]
    pub sudo_password_file: Option<PathBuf>,
}
