//! `muster node …`

pub mod calls;

use super::InventoryFile;
use crate::codes::Own;
use crate::fault::Fault;
use crate::inventory::Selection;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Nodes reached over their API.
#[derive(Debug, Subcommand)]
pub enum Node {
    /// Claim a node that nobody owns, by the code from its console.
    Claim(Box<Claim>),
    /// Pin the certificate of a node that has an owner already.
    Pin(Box<Pin>),
    /// List the nodes that are known, and what is pinned of them; or watch them.
    List(Box<List>),
    /// Show role, images, health and ownership.
    Status(calls::On),
    /// Give a node that is not built yet the document of what it shall be.
    Apply(calls::Apply),
    /// List the services.
    Services(calls::On),
    /// Read or follow journals.
    Logs(calls::Logs),
    /// Restart a service that may be restarted.
    Restart(calls::Restart),
    /// Stage an image and boot it, one node at a time, with a look at its health before and after.
    Upgrade(calls::Upgrade),
    /// Keep new pods off nodes.
    Cordon(calls::Changes),
    /// Let pods on nodes again.
    Uncordon(calls::Changes),
    /// Move the pods of nodes elsewhere.
    Drain(calls::Ends),
    /// Reboot.
    Reboot(calls::Ends),
    /// Power off.
    Shutdown(calls::Ends),
    /// Leave the cluster, wipe what belonged to it, and be unclaimed again.
    Reset(calls::Ends),
    /// Take out the pin of nodes; the nodes themselves are not told.
    Forget(Forget),
    /// SSH keys that are let in as an account of the node.
    #[command(subcommand)]
    SshKey(calls::SshKey),
    /// Hand over the cluster administrator's kubeconfig.
    Kubeconfig(calls::Kubeconfig),
    /// Mint a token that another node joins with.
    JoinToken(calls::JoinToken),
    /// Show members of etcd as nodes see them.
    Etcd(calls::On),
}

/// Who calls, and from where it is known.
#[derive(Clone, Debug, Default, Args)]
pub struct Caller {
    /// Where the inventory is.
    #[command(flatten)]
    pub inventory: InventoryFile,
    /// The context, for this command alone.
    #[arg(long, value_name = "NAME", env = "MUSTER_CONTEXT")]
    pub context: Option<String>,
    /// The client's certificate. Its key is read beside it, with the ending .key.
    #[arg(long, value_name = "FILE", env = "MUSTER_CLIENT")]
    pub client: Option<PathBuf>,
    /// The client's key, where it is elsewhere.
    #[arg(long, value_name = "FILE", requires = "client")]
    pub client_key: Option<PathBuf>,
    /// Read the key's passphrase from the first line of this file instead of asking.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// The authority's folder: its only client is taken where none is named.
    #[arg(long, value_name = "FOLDER", env = "MUSTER_PKI", default_value = "pki")]
    pub pki: PathBuf,
}

/// Which nodes.
#[derive(Clone, Debug, Default, Args)]
pub struct Select {
    /// Nodes by name, or by the address that is pinned.
    pub names: Vec<String>,
    /// Nodes of the inventory by label, pool or name: key=value, key!=value, key, !key, joined by commas.
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub selector: Option<String>,
    /// Every node that is known.
    #[arg(long, conflicts_with_all = ["names", "selector"])]
    pub all: bool,
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

/// How many nodes at once, and for how long.
#[derive(Clone, Debug, Args)]
pub struct Pace {
    /// Nodes worked on at the same time: 16 unless said, and one where something ends (restart, drain, reboot, shutdown, reset, rotate).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub parallel: Option<u16>,
    /// For how long.
    #[command(flatten)]
    pub link: Link,
}

/// For how long.
#[derive(Clone, Debug, Args)]
pub struct Link {
    /// How long one node may take in all, such as 90s or 20m; each operation has a limit of its own.
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// How long connecting may take.
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub connect_timeout: String,
}

/// Claim a node.
#[derive(Debug, Args)]
pub struct Claim {
    /// A node of the inventory, or where its API is: HOST or HOST:PORT, an IPv6 address in brackets.
    pub node: String,
    /// What it is called here; otherwise its name in the inventory, or its address.
    #[arg(long)]
    pub name: Option<String>,
    /// Read the pairing code from the first line of this file (`-` is standard input) instead of asking.
    #[arg(long, value_name = "FILE")]
    pub code_file: Option<PathBuf>,
    /// Not taken: everybody on this machine could read it.
    #[arg(long, hide = true, value_name = "CODE")]
    pub code: Option<String>,
    /// The node asks for no code (`api: {insecure: true}`).
    #[arg(long, conflicts_with = "code_file")]
    pub no_code: bool,
    /// The fingerprint that its console shows; another one ends the claim.
    #[arg(long, value_name = "SHA256:…")]
    pub fingerprint: Option<String>,
    /// What the node shall be: a `muster:` document; checked here first.
    #[arg(long, value_name = "FILE")]
    pub document: Option<PathBuf>,
    /// The certificate of the authority that it is to obey; operator-ca.pem of the authority's folder when not said.
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Check what would be sent, and send nothing.
    #[arg(long)]
    pub plan: bool,
    /// Mean what would be asked: that the node builds what its own document says, and with --no-code that whatever answers is it.
    #[arg(long)]
    pub yes: bool,
    /// How long connecting may take.
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub connect_timeout: String,
    /// Where the authority is.
    #[command(flatten)]
    pub caller: Caller,
}

/// Pin a node's certificate.
#[derive(Debug, Args)]
pub struct Pin {
    /// A node of the inventory, or where its API is.
    pub node: String,
    /// What it is called here; otherwise its name in the inventory, or its address.
    #[arg(long)]
    pub name: Option<String>,
    /// The fingerprint that its console or journal shows; asked for at the terminal when not given.
    #[arg(long, value_name = "SHA256:…")]
    pub fingerprint: Option<String>,
    /// Replace what is pinned.
    #[arg(long)]
    pub replace: bool,
    /// How long connecting may take.
    #[arg(long, value_name = "DURATION", default_value = "15s")]
    pub connect_timeout: String,
    /// Who calls.
    #[command(flatten)]
    pub caller: Caller,
}

/// List nodes.
#[derive(Debug, Args)]
pub struct List {
    /// Which; all of them when nothing is said.
    #[command(flatten)]
    pub select: Select,
    /// Ask the nodes, and go on showing what they are until Ctrl-C.
    #[arg(short, long)]
    pub watch: bool,
    /// How often they are asked.
    #[arg(long, value_name = "DURATION", default_value = "5s", requires = "watch")]
    pub every: String,
    /// Who would call.
    #[command(flatten)]
    pub caller: Caller,
    /// How.
    #[command(flatten)]
    pub pace: Pace,
}

/// Forget nodes.
#[derive(Debug, Args)]
pub struct Forget {
    /// Show what would be forgotten, and do nothing.
    #[arg(long)]
    pub plan: bool,
    /// Which.
    #[command(flatten)]
    pub select: Select,
    /// Where the inventory is.
    #[command(flatten)]
    pub caller: Caller,
}
