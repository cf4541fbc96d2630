//! Development commands: `cargo xtask test | ci | demo | testbed | ...`.
#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "development tool: it spawns cargo, apt-get and the like")]

mod bench;
mod ci;
mod demo;
mod dist;
mod fuzz;
mod generate;
mod links;
mod run;
mod setup;
mod test;

use anyhow::{Result, bail};
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
    /// Runs the fuzz targets, each for a while (docs/fuzzing.md).
    Fuzz(fuzz::Options),
    /// Us and the other side, side by side; rewrites docs/benchmarks.md. Needs root.
    Bench {
        /// Which ones; all when none is named.
        parts: Vec<String>,
    },
    /// The main job on real nodes of this machine, and five attacks on it. Needs root or sudo.
    Demo {
        /// Removes all that the demo made.
        #[arg(long)]
        down: bool,
    },
    /// Man pages of all programs, and completions for bash, zsh and fish, from the definitions of their command lines.
    Gen {
        /// The prefix that they are put below, as /usr.
        #[arg(default_value = "target/gen")]
        folder: std::path::PathBuf,
    },
    /// Release files under dist/: static shim, CLI, manual, Debian packages, SBOMs, SHA-256 sums.
    Dist,
    /// The nodes of tests and of the demo on this machine.
    Testbed {
        /// Boots nodes of these names on a bed that stays, and says how to get into them.
        #[arg(long, value_name = "NODE", num_args = 1.., conflicts_with = "down")]
        up: Vec<String>,
        /// With the node's daemon, waiting to be claimed.
        #[arg(long, requires = "up")]
        daemon: bool,
        /// Removes the beds of these names, or every one, but those that a running program holds.
        #[arg(long, value_name = "BED", num_args = 0..)]
        down: Option<Vec<String>>,
    },
}

fn main() -> std::process::ExitCode {
    match run(Args::parse().command) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Test { rest } => test::run(&rest),
        Command::Ci => ci::run(),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Testbed { up, daemon, down } => testbed(&up, daemon, down.as_deref()),
        Command::Bench { parts } => bench::run(&parts),
        Command::Demo { down } => demo::run(down),
        Command::Gen { folder } => generate::run(&folder),
        Command::Dist => dist::run(),
    }
}

fn testbed(up: &[String], daemon: bool, down: Option<&[String]>) -> Result<()> {
    if !up.is_empty() {
        return boot(up, daemon);
    }
    let removed = match down {
        None => muster_testbed::collect_garbage()?,
        Some([]) => muster_testbed::remove_all()?,
        Some(names) => taken_down(names)?,
    };
    for name in &removed {
        println!("removed {name}");
    }
    for bed in muster_testbed::list()? {
        println!("{bed:?}");
    }
    Ok(())
}

fn taken_down(names: &[String]) -> Result<Vec<String>> {
    let mut all = Vec::new();
    for name in names {
        let gone = muster_testbed::remove(name)?;
        if gone.is_empty() {
            let free = muster_testbed::list()?.into_iter().filter(|b| !b.owned).map(|b| b.name);
            let free = free.collect::<Vec<_>>().join(" ");
            bail!("no bed {name} that could be removed (a program may hold it); these could be: {free}");
        }
        all.extend(gone);
    }
    Ok(all)
}

fn boot(names: &[String], daemon: bool) -> Result<()> {
    let programs = if daemon { Some(muster_testbed::programs()?) } else { None };
    // One of its own, so that taking this one down leaves those of others alone.
    let name = format!("{}-{}", names.first().map_or("by-hand", String::as_str), std::process::id());
    let bed = muster_testbed::Testbed::prepare(&name)?;
    let key = bed.keygen("admin")?;
    for name in names {
        let node = bed.node(name)?.boot()?;
        node.add_ssh_key("root", &key)?;
        if let Some(programs) = &programs {
            demo::wait_for_an_owner(&node, &programs.musterd)?;
            println!("{}", node.notice()?.text);
        }
        println!("{name}: nsenter --target {} --all", node.leader()?);
        println!(
            "{name}: ssh -i {} -o UserKnownHostsFile={} root@{}",
            key.private.display(),
            node.known_hosts()?.display(),
            node.addr()
        );
        let host_key = node.host_key("ed25519")?;
        println!(
            "{name}: muster host add {name} --address {} --known-hosts-line '{} {}' --pool example --admin-user root",
            node.addr(),
            node.addr(),
            host_key.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
        );
    }
    println!("what an administrator does on them takes: --admin-key {}", key.private.display());
    bed.keep()?;
    println!("remove it all with: cargo xtask testbed --down {name}");
    Ok(())
}
