//! What nodes are asked for.

use super::{Caller, Link, Pace, Select};
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// A call of nodes.
#[derive(Debug, Args)]
pub struct On {
    /// Which.
    #[command(flatten)]
    pub select: Select,
    /// Who calls.
    #[command(flatten)]
    pub caller: Caller,
    /// How.
    #[command(flatten)]
    pub pace: Pace,
}

/// A call of nodes that are not worked on side by side: one after the other, or all of them for as long as it takes.
#[derive(Debug, Args)]
pub struct Those {
    /// Which.
    #[command(flatten)]
    pub select: Select,
    /// Who calls.
    #[command(flatten)]
    pub caller: Caller,
    /// For how long.
    #[command(flatten)]
    pub link: Link,
}

impl Those {
    /// As a call of nodes that says nothing of how many at once.
    pub fn on(&self) -> On {
        let pace = Pace { parallel: None, link: self.link.clone() };
        On { select: self.select.clone(), caller: self.caller.clone(), pace }
    }
}

/// A call that changes something, and is not asked about.
#[derive(Debug, Args)]
pub struct Changes {
    /// Which nodes.
    #[command(flatten)]
    pub on: On,
    /// Show which nodes would be asked, and do nothing.
    #[arg(long)]
    pub plan: bool,
}

/// A call that ends something.
#[derive(Debug, Args)]
pub struct Ends {
    /// Which nodes.
    #[command(flatten)]
    pub on: On,
    /// Show what it would end, and do nothing.
    #[arg(long)]
    pub plan: bool,
    /// Do it without the name being typed.
    #[arg(long)]
    pub yes: bool,
}

/// A document for a node that is not built yet.
#[derive(Debug, Args)]
pub struct Apply {
    /// Which nodes.
    #[command(flatten)]
    pub on: On,
    /// The `muster:` document (`-` is standard input); checked here first.
    #[arg(short, long, value_name = "FILE")]
    pub file: PathBuf,
    /// Check the document, and send nothing.
    #[arg(long)]
    pub plan: bool,
}

/// Journals.
#[derive(Debug, Args)]
pub struct Logs {
    /// Which nodes.
    #[command(flatten)]
    pub on: Those,
    /// A unit that nodes show, or `kernel`; all of them when not said.
    #[arg(short, long, value_name = "UNIT")]
    pub unit: Option<String>,
    /// The newest lines: 200 unless said, at most 10000.
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<u32>,
    /// Not older than this, such as 10m or 2h.
    #[arg(long, value_name = "DURATION")]
    pub since: Option<String>,
    /// Go on with what comes, for an hour at most.
    #[arg(short, long)]
    pub follow: bool,
}

/// A restart.
#[derive(Debug, Args)]
pub struct Restart {
    /// Which nodes.
    #[command(flatten)]
    pub on: On,
    /// The unit, one that `muster node services` shows as restartable.
    #[arg(short, long, value_name = "UNIT")]
    pub unit: String,
    /// Show which nodes would be asked, and do nothing.
    #[arg(long)]
    pub plan: bool,
}

/// A roll-out.
#[derive(Debug, Args)]
pub struct Upgrade {
    /// Which nodes, in this order.
    #[command(flatten)]
    pub on: Those,
    /// The image: HOST/PATH:TAG or HOST/PATH@sha256:…
    #[arg(long, value_name = "IMAGE", required_unless_present = "rollback")]
    pub image: Option<String>,
    /// Make the image before this one the next to boot, instead; nothing reboots.
    #[arg(long, conflicts_with = "image")]
    pub rollback: bool,
    /// With --rollback: also where an image is staged, which is dropped then.
    #[arg(long, requires = "rollback", conflicts_with = "image")]
    pub drop_staged: bool,
    /// Stage the image and leave the reboot to a later run.
    #[arg(long, conflicts_with = "rollback")]
    pub stage_only: bool,
    /// How long a node may take to come back.
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    pub settle: String,
    /// Show in which order nodes would be upgraded from what, and do nothing.
    #[arg(long)]
    pub plan: bool,
    /// Do it without the name being typed.
    #[arg(long)]
    pub yes: bool,
}

/// SSH keys.
#[derive(Debug, Subcommand)]
pub enum SshKey {
    /// Let a key in as an account that the node has.
    Add(SshKeyAdd),
    /// List the keys that were let in.
    List(On),
    /// Let a key in no longer.
    Revoke(SshKeyRevoke),
}

/// A key to let in.
#[derive(Debug, Args)]
pub struct SshKeyAdd {
    /// Which nodes.
    #[command(flatten)]
    pub on: On,
    /// An account that the nodes have.
    #[arg(long)]
    pub user: String,
    /// The public key's file (`-` is standard input).
    #[arg(long, value_name = "FILE")]
    pub key_file: PathBuf,
    /// Show which nodes would be asked, and do nothing.
    #[arg(long)]
    pub plan: bool,
}

/// A key to let in no longer.
#[derive(Debug, Args)]
pub struct SshKeyRevoke {
    /// Which nodes.
    #[command(flatten)]
    pub on: On,
    /// Its fingerprint, as the list shows it.
    #[arg(long, value_name = "SHA256:…")]
    pub key: String,
    /// Show which nodes would be asked, and do nothing.
    #[arg(long)]
    pub plan: bool,
}

/// A kubeconfig.
#[derive(Debug, Args)]
pub struct Kubeconfig {
    /// Which node.
    #[command(flatten)]
    pub on: Those,
    /// The server to write into it.
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// Write it to a new file that only you can read, instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}

/// A join token.
#[derive(Debug, Args)]
pub struct JoinToken {
    /// Which node.
    #[command(flatten)]
    pub on: Those,
    /// What the node that joins shall be: worker or controlplane.
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// How long it is good for, such as 1h.
    #[arg(long, value_name = "DURATION")]
    pub expiry: Option<String>,
    /// Write it to a new file that only you can read, instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub to: Option<PathBuf>,
}
