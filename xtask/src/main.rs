//! Development commands: `cargo xtask test | ci | demo | testbed | ...`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "development tool: it spawns cargo, apt-get and the like")]

mod ci;
mod links;
mod run;
mod setup;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development commands of Muster", disable_version_flag = true)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Installs what the tests need, builds once, runs every test (real nodes too, with root).
    Test {
        /// Passed to the test binaries: a filter, or options of the test harness.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        rest: Vec<String>,
    },
    /// What CI runs: formatting, lints, licences, documentation, then every test.
    Ci,
    /// The nodes of tests and of the demo on this machine.
    Testbed {
        /// Removes every node, also those of a bed that is in use.
        #[arg(long)]
        down: bool,
    },
}

fn main() -> Result<()> {
    match Args::parse().command {
        Command::Test { rest } => test::run(&rest),
        Command::Ci => ci::run(),
        Command::Testbed { down } => testbed(down),
    }
}

fn testbed(down: bool) -> Result<()> {
    let removed = if down { muster_testbed::remove_all()? } else { muster_testbed::collect_garbage()? };
    for name in &removed {
        println!("removed {name}");
    }
    for bed in muster_testbed::list()? {
        println!("{bed:?}");
    }
    Ok(())
}
