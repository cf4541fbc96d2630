//! The `muster` binary: look around, run, exit.
#![forbid(unsafe_code)]

use muster::settings::World;
use muster_core::UtcTime;
use std::process::ExitCode;

fn main() -> ExitCode {
    let now = UtcTime::from_unix(muster_sys::clock::unix_seconds());
    ExitCode::from(muster::app::run(std::env::args_os().collect(), &World::look(now)))
}
