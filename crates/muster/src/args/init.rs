//! `muster init`

use clap::Args;
use std::path::PathBuf;

/// Make a signer key, a controller key, trust files and an inventory.
#[derive(Debug, Args)]
pub struct Init {
    /// The folder to make them in.
    #[arg(default_value = ".")]
    pub folder: PathBuf,
    /// Trust this public key as the signer instead of making one: its private half stays in its token, agent or vault.
    #[arg(long, value_name = "FILE")]
    pub signer_public: Option<PathBuf>,
    /// Read the signer key's passphrase from the first line of this file instead of asking.
    #[arg(long, value_name = "FILE")]
    pub passphrase_file: Option<PathBuf>,
    /// Leave the signer key without a passphrase: whoever reads the file can run code as root on every host that trusts it.
    #[arg(long, conflicts_with_all = ["passphrase_file", "signer_public"])]
    pub danger_no_passphrase: bool,
}
