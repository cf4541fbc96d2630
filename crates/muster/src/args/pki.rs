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
}
