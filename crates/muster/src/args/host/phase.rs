//! `muster host probe|install|join|leave|uninstall`

use super::{Pace, Select};
use clap::Args;
use std::path::PathBuf;

/// Ask hosts what they are.
#[derive(Debug, Args)]
pub struct Probe {
    /// Which hosts.
    #[command(flatten)]
    pub select: Select,
    /// How many at once, and for how long.
    #[command(flatten)]
    pub pace: Pace,
}

/// Run one phase.
#[derive(Debug, Args)]
pub struct Run {
    /// Which hosts.
    #[command(flatten)]
    pub select: Select,
    /// The signed profile's folder.
    #[arg(long, value_name = "FOLDER")]
    pub profile: PathBuf,
    /// A parameter that the profile declares. It stands on the command line: not for secrets.
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    /// A secret parameter: NAME=@FILE, or NAME=- for standard input. Never the value itself.
    #[arg(long, value_name = "NAME=@FILE")]
    pub secret: Vec<String>,
    /// How many at once, and for how long.
    #[command(flatten)]
    pub pace: Pace,
    /// Say what would be sent where, and connect to nothing.
    #[arg(long)]
    pub plan: bool,
    /// Do not ask before many hosts are changed.
    #[arg(long)]
    pub yes: bool,
    /// Run an unsigned script as root on hosts that the inventory says are raw.
    #[arg(long)]
    pub danger_raw: bool,
}
