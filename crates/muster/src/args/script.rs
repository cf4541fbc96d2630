//! `muster script …`

use super::{InventoryFile, SignerArgs};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Check, sign and read profiles.
#[derive(Debug, Subcommand)]
pub enum Script {
    /// Look for what is wrong or risky in a profile, without running it.
    Lint(Lint),
    /// Sign all phases of a profile at one epoch.
    Sign(Sign),
    /// Check what was signed, as a host would.
    Verify(Verify),
    /// Say in words what was signed.
    Show(Show),
}

/// Look for what is wrong or risky in a profile.
#[derive(Debug, Args)]
pub struct Lint {
    /// The profile's folder.
    pub folder: PathBuf,
    /// Accept that this parameter, which decides whom a host obeys, is left to the sender.
    #[arg(long, value_name = "NAME")]
    pub accept_open: Vec<String>,
    /// Let warnings fail too.
    #[arg(long)]
    pub strict: bool,
}

/// Which envelope.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Envelope {
    /// The published one: a signature over the script's bytes, and nothing else is signed.
    #[value(name = "1")]
    One,
    /// A signed intent: phase, targets, values, patterns, epoch, validity, deadline.
    #[default]
    #[value(name = "2")]
    Two,
}

/// Sign all phases of a profile at one epoch.
#[derive(Debug, Args)]
pub struct Sign {
    /// The profile's folder.
    pub folder: PathBuf,
    /// Whose signature is made.
    #[command(flatten)]
    pub signer: SignerArgs,
    /// Where the inventory is, for its `signing:`.
    #[command(flatten)]
    pub inventory: InventoryFile,
    /// Another epoch than the manifest's.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    pub epoch: Option<u32>,
    /// Accept an epoch below, or far above, the one that was signed before.
    #[arg(long)]
    pub accept_epoch: bool,
    /// Other targets than the manifest's: host=NAME, pool=NAME or *.
    #[arg(long, value_name = "TARGET")]
    pub target: Vec<String>,
    /// Valid from this time on, such as 2026-11-29T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    pub not_before: Option<String>,
    /// Valid until this time.
    #[arg(long, value_name = "TIME", conflicts_with = "validity")]
    pub not_after: Option<String>,
    /// Valid for this long, such as 12h or 30d.
    #[arg(long, value_name = "DURATION")]
    pub validity: Option<String>,
    /// Accept that this parameter, which decides whom a host obeys, is left to the sender.
    #[arg(long, value_name = "NAME")]
    pub accept_open: Vec<String>,
    /// Add one more signature to what is signed already, for hosts that need several signers.
    #[arg(long, conflicts_with_all = ["epoch", "target", "not_before", "not_after", "validity"])]
    pub add: bool,
    /// Which envelope to sign for.
    #[arg(long, value_enum, default_value_t)]
    pub envelope: Envelope,
    /// Show what would be signed, and sign nothing.
    #[arg(long)]
    pub plan: bool,
}

/// Check what was signed, as a host would.
#[derive(Debug, Args)]
pub struct Verify {
    /// The profile's folder.
    pub folder: PathBuf,
    /// Where the inventory is, for its `trust:`.
    #[command(flatten)]
    pub inventory: InventoryFile,
    /// The allowed_signers file to check against; otherwise the inventory's.
    #[arg(long, value_name = "FILE")]
    pub allowed_signers: Option<PathBuf>,
    /// The revocation list to check against; otherwise the inventory's.
    #[arg(long, value_name = "FILE")]
    pub revoked_signers: Option<PathBuf>,
    /// How many distinct signers are needed; otherwise the inventory's number, or 1.
    #[arg(long, value_name = "N")]
    pub signers_needed: Option<u32>,
    /// Check that it is for this host.
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// The host's pools; otherwise the inventory's.
    #[arg(long, value_name = "POOL", requires = "host")]
    pub pool: Vec<String>,
    /// Check as of this time instead of now.
    #[arg(long, value_name = "TIME")]
    pub at: Option<String>,
    /// Which envelope it was signed for.
    #[arg(long, value_enum, default_value_t)]
    pub envelope: Envelope,
}

/// Say in words what was signed.
#[derive(Debug, Args)]
pub struct Show {
    /// The profile's folder, or one .intent file.
    pub path: PathBuf,
}
