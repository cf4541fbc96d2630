//! The command line as clap sees it. These types end here: [`crate::settings`] makes plain values of them.

pub mod audit;
pub mod context;
pub mod host;
pub mod init;
pub mod node;
pub mod pki;
pub mod script;
pub mod ui;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Signed execution on machines that already exist, and nodes that are operated without a login.
///
/// Hosts: nothing runs as root on one that a key you trust did not vouch for. Sign a profile's scripts offline, provision hosts once, then
/// probe, install, join, leave and uninstall over plain SSH.
///
/// Nodes: machines that run musterd are claimed once, by the code on their console, and operated over their API with a certificate of
/// your own authority: state, services, journals, upgrades, reboot, reset. What they were asked stands in a record that can be verified.
#[derive(Debug, Parser)]
#[command(name = "muster", version, max_term_width = 100, after_help = AFTER)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const AFTER: &str = "Exit codes: 0 done, 1 failed, 2 command line, 3 bad input, 4 refused here, 5 unreachable, 6 the host refused, \
7 busy, 8 outcome unknown, 9 internal, 10 the script failed, 11 deadline, 130 interrupted. `muster explain CODE` explains an error.";

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// How results are written to standard output.
    #[arg(short, long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Output,
    /// When to use colour; NO_COLOR is honoured.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub color: When,
    /// Say only what went wrong.
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

/// Formats of results.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Output {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// One name a line.
    Name,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum When {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a signer key, a controller key, trust files and an inventory.
    Init(init::Init),
    /// Check, sign and read profiles.
    #[command(subcommand)]
    Script(script::Script),
    /// Same as `script sign`.
    Sign(script::Sign),
    /// Same as `script verify`.
    Verify(script::Verify),
    /// Hosts reached over SSH: add, provision, check, run phases.
    #[command(subcommand)]
    Host(host::Host),
    /// Nodes reached over their API: claim, look, operate, upgrade.
    #[command(subcommand)]
    Node(node::Node),
    /// Same as `node claim`.
    Enroll(Box<node::Claim>),
    /// The operators' authority: who may call the nodes' API.
    #[command(subcommand)]
    Pki(pki::Pki),
    /// Contexts: which nodes, called as whom.
    #[command(subcommand)]
    Context(context::Context),
    /// The record that each node keeps of what it was asked: verify it, look at it.
    #[command(subcommand)]
    Audit(Box<audit::Audit>),
    /// A dashboard of nodes on this terminal, by keyboard alone.
    Ui(Box<ui::Ui>),
    /// Explain an error code, or list them all.
    Explain {
        /// The code in an error's brackets.
        code: Option<String>,
    },
    /// Write a completion script for a shell.
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Stand in for ssh-keygen: -Y verify, sign, find-principals, match-principals and check-novalidate are done here.
    #[command(disable_help_flag = true, disable_version_flag = true, name = "ssh-keygen")]
    SshKeygen {
        /// Arguments as for ssh-keygen.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

/// Where the inventory is.
#[derive(Clone, Debug, Default, Args)]
pub struct InventoryFile {
    /// The inventory; otherwise ./inventory.yaml, then the one in the config folder.
    #[arg(short, long, value_name = "FILE", env = "MUSTER_INVENTORY")]
    pub inventory: Option<PathBuf>,
}

/// Whose signature is made.
#[derive(Clone, Debug, Default, Args)]
pub struct SignerArgs {
    /// Sign with this private key file; otherwise with what the inventory's `signing:` says.
    #[arg(long, value_name = "FILE", conflicts_with = "signer_agent")]
    pub key: Option<PathBuf>,
    /// Sign with this key of the SSH agent: SHA256:…, a comment, or a .pub file. The way for sk- keys.
    #[arg(long, value_name = "KEY")]
    pub signer_agent: Option<String>,
    /// Read the key's passphrase from the first line of this file instead of asking.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
}
