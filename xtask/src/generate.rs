//! `cargo xtask gen`: what is made of the definitions of the command lines, by `muster-gen`, which has all of them in it and so is built only then.

use std::path::{Path, absolute};

use anyhow::Result;

use crate::run::{cargo, run as spawn};

/// Writes man pages and completions below a folder.
pub(crate) fn run(folder: &Path) -> Result<()> {
    let folder = absolute(folder)?;
    spawn(cargo()?.args(["run", "--locked", "--quiet", "--package", "muster-gen", "--"]).arg(&folder))?;
    println!("{}", folder.display());
    Ok(())
}
