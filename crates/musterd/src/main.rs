//! `musterd`: see the library.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use musterd::{bootstrap, console, edge, fetch, places};

/// The node's own daemon.
#[derive(Parser)]
#[command(name = "musterd", version, about)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ends TLS and HTTP for the core.
    Edge {
        /// The core's socket.
        #[arg(long, value_name = "PATH", default_value = places::EDGE_SOCKET)]
        socket: PathBuf,
    },
    /// The half that may: root, no network.
    Core(musterd::core::Options),
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
        #[command(flatten)]
        socket: console::Socket,
    },
    /// Makes a new serving key, where somebody saw the old one.
    Rekey(console::Socket),
    /// Prints the version.
    Version,
}

fn main() -> ExitCode {
    match Line::parse().command {
        Command::Edge { socket } => edge::main(socket),
        Command::Core(options) => musterd::core::run(&options),
        Command::Fetch => fetch::main(),
        Command::Bootstrap(options) => bootstrap::run(&options),
        Command::Status(socket) => console::status(&socket),
        Command::Pairing(command) => console::pairing(&command),
        Command::SetCa { file, socket } => console::set_ca(&socket, &file),
        Command::Rekey(socket) => console::rekey(&socket),
        Command::Version => musterd::printed(concat!("musterd ", env!("CARGO_PKG_VERSION"))),
    }
}
