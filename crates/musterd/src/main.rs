//! `musterd`: see the library.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};

/// The node's own daemon.
#[derive(Parser)]
#[command(name = "musterd", version, about)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Prints the version.
    Version,
}

fn main() {
    match Line::parse().command {
        Command::Version => println!("musterd {}", env!("CARGO_PKG_VERSION")),
    }
}
