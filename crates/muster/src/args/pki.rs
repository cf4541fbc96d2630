//! `muster pki`

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// The operators' authority: who may call the nodes' API.
#[derive(Debug, Subcommand)]
pub enum Pki {
    /// Make the authority whose clients nodes will obey.
    Init(Init),
    /// Issue a certificate and a key for a client.
    Issue(Issue),
    /// List the certificates that were issued.
    List(List),
    /// Revoke certificates, and sign the list that nodes take.
    Revoke(Revoke),
    /// Hand the list of revoked certificates to nodes.
    Publish(Publish),
    /// Make nodes obey another authority.
    Rotate(Box<Rotate>),
}

/// Where the authority is.
#[derive(Debug, Args)]
pub struct PkiFolder {
    /// The authority's folder.
    #[arg(long, value_name = "FOLDER", env = "MUSTER_PKI", default_value = "pki")]
    pub pki: PathBuf,
}

/// How a new key is kept.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// Read the new key's passphrase from the first line of this file instead of asking.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Leave the new key without a passphrase: whoever reads the file is whoever it was made for.
    #[arg(long, conflicts_with = "passphrase_file")]
    pub danger_no_passphrase: bool,
}

/// Make the authority whose clients nodes will obey.
#[derive(Debug, Args)]
pub struct Init {
    /// Where it is made.
    #[command(flatten)]
    pub pki: PkiFolder,
    /// Its common name, for people.
    #[arg(long, default_value = "muster operators")]
    pub name: String,
    /// How long it is valid: 3650d unless said otherwise.
    #[arg(long, value_name = "SPAN")]
    pub lifetime: Option<String>,
    /// The key's passphrase.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// Issue a certificate and a key for a client.
#[derive(Debug, Args)]
pub struct Issue {
    /// Who it is for: a person or a program, as the audit of a node will name it.
    pub name: String,
    /// What its holder may do.
    #[arg(long, value_enum)]
    pub role: RoleArg,
    /// How long it is valid: 90d unless said otherwise; never longer than the authority.
    #[arg(long, value_name = "SPAN")]
    pub lifetime: Option<String>,
    /// Where the authority is.
    #[command(flatten)]
    pub pki: PkiFolder,
    /// Read the authority's passphrase from the first line of this file instead of asking.
    #[arg(long, value_name = "FILE")]
    pub authority_passphrase_file: Option<PathBuf>,
    /// For this key, which stays where it is: the .pub file of a key in an SSH agent (Ed25519, ECDSA on P-256 or P-384).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["passphrase_file", "danger_no_passphrase"])]
    pub public_key: Option<PathBuf>,
    /// The new key's passphrase.
    #[command(flatten)]
    pub keys: KeyArgs,
}

/// Roles, from the least.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RoleArg {
    /// Look: state, services, journals.
    Readonly,
    /// Run nodes day by day: restarts, staging an image, cordon, drain.
    Operator,
    /// All of it.
    Admin,
}

impl From<RoleArg> for muster_core::Role {
    fn from(role: RoleArg) -> Self {
        match role {
            RoleArg::Readonly => Self::Readonly,
            RoleArg::Operator => Self::Operator,
            RoleArg::Admin => Self::Admin,
        }
    }
}

/// List the certificates that were issued.
#[derive(Debug, Args)]
pub struct List {
    /// Where the authority is.
    #[command(flatten)]
    pub pki: PkiFolder,
}

/// Revoke certificates, and sign the list that nodes take.
#[derive(Debug, Args)]
pub struct Revoke {
    /// Names or serial numbers. None signs the list again as it is.
    pub who: Vec<String>,
    /// Revoke every certificate of a name, where it has several.
    #[arg(long)]
    pub all: bool,
    /// The list ends after this; it does not end unless said.
    #[arg(long, value_name = "SPAN")]
    pub ends: Option<String>,
    /// Where the authority is.
    #[command(flatten)]
    pub pki: PkiFolder,
    /// Read the authority's passphrase from the first line of this file instead of asking.
    #[arg(long, value_name = "FILE")]
    pub authority_passphrase_file: Option<PathBuf>,
    /// Show which certificates would be revoked, and sign nothing.
    #[arg(long)]
    pub plan: bool,
}

/// Make nodes obey another authority.
#[derive(Debug, Args)]
pub struct Rotate {
    /// Which nodes, called by a client of the authority that they obey now.
    #[command(flatten)]
    pub on: super::node::calls::On,
    /// The folder of the new authority, with a client in it that proves it.
    #[arg(long, value_name = "FOLDER")]
    pub to: PathBuf,
    /// The client of the new authority; its only one when not said.
    #[arg(long, value_name = "NAME")]
    pub to_client: Option<String>,
    /// Read the new client's passphrase from the first line of this file instead of asking.
    #[arg(long, value_name = "FILE")]
    pub to_passphrase_file: Option<PathBuf>,
    /// The certificate of the authority that nodes obey now; operator-ca.pem of the authority's folder when not said.
    #[arg(long, value_name = "FILE")]
    pub authority: Option<PathBuf>,
    /// Show what it would change, and do nothing.
    #[arg(long)]
    pub plan: bool,
    /// Do it without the name being typed.
    #[arg(long)]
    pub yes: bool,
}

/// Hand the list of revoked certificates to nodes.
#[derive(Debug, Args)]
pub struct Publish {
    /// Which nodes.
    #[command(flatten)]
    pub on: super::node::calls::On,
    /// The list; operator-ca.crl of the authority's folder when not said.
    #[arg(long, value_name = "FILE")]
    pub list: Option<PathBuf>,
    /// Show which nodes would be asked, and do nothing.
    #[arg(long)]
    pub plan: bool,
}
