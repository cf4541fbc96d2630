//! `muster-shim` and `kpssh-shim`. All logic is in the library.

#![forbid(unsafe_code)]

use muster_shim::{process, steps::NoSteps};
use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(process::run(std::env::args_os(), &mut NoSteps).code())
}
