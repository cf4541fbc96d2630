//! The command line, as `musterd --help` and the manual show it.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::{bootstrap, console, places};

/// The node's own daemon.
#[derive(Parser)]
#[command(name = "musterd", version, about)]
pub struct Line {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Subcommand)]
pub enum Command {
    /// Ends TLS and HTTP for the core.
    Edge {
        /// The core's socket.
        #[arg(long, value_name = "PATH", default_value = places::EDGE_SOCKET)]
        socket: PathBuf,
    },
    /// The half that may: root, no network.
    Core(crate::core::Options),
    /// Gets one text for the core from the URL that it names; standard input is the connection to it.
    Fetch,
    /// Makes of the node what its document says.
    Bootstrap(bootstrap::Options),
    /// Shows who owns the node, and what it waits for.
    Status(console::Socket),
    /// The pairing of a node that nobody owns.
    #[command(subcommand)]
    Pairing(console::PairingCommand),
    /// Makes another authority the owner, where the owner lost its key.
    SetCa {
        /// Its certificate, PEM; - reads standard input.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        /// The core.
        #[command(flatten)]
        socket: console::Socket,
    },
    /// Makes a new serving key, where somebody saw the old one.
    Rekey(console::Socket),
    /// Prints the version.
    Version,
}

/// How it ends: number, and what it means.
pub const EXITS: &[(u8, &str)] = &[
    (0, "it is done"),
    (1, "it is not; standard error says why"),
    (2, "the command line itself is wrong"),
    (crate::core::NOT_WANTED, "core: the node's document wants no API; its unit does not start it again"),
];
