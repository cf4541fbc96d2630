//! `musterd`: see the library.
#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use musterd::{edge, places};

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
    /// Prints the version.
    Version,
}

fn main() -> ExitCode {
    match Line::parse().command {
        Command::Edge { socket } => edge::main(socket),
        Command::Core(options) => musterd::core::run(&options),
        Command::Version => {
            println!("musterd {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
    }
}
