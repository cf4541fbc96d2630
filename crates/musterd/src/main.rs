//! `musterd`: see the library.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;
use musterd::line::{Command, Line};
use musterd::{bootstrap, console, edge, fetch};

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
