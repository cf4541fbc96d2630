//! `cargo xtask ci`: what must hold on the main branch.

use std::process::Command;

use anyhow::Result;

use crate::run::{cargo, root, run as spawn};
use crate::{links, setup, test};

/// The version that deny.toml was written for.
const CARGO_DENY: &str = "0.20.2";

/// Runs all checks, cheap ones first.
pub(crate) fn run() -> Result<()> {
    setup::packages()?;
    spawn(cargo()?.args(["fmt", "--all", "--check"]))?;
    links::check()?;
    let deny = setup::cargo_tool("cargo-deny", CARGO_DENY)?;
    // Fetch first: the licence check then runs without a network.
    spawn(cargo()?.args(["fetch", "--locked"]))?;
    spawn(Command::new(deny).current_dir(root()?).args([
        "--offline",
        "--locked",
        "check",
        "licenses",
        "bans",
        "sources",
    ]))?;
    spawn(cargo()?.args(["clippy", "--locked", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    spawn(
        cargo()?
            .args(["doc", "--locked", "--workspace", "--no-deps", "--document-private-items"])
            // Private items are documented too, so a link to one leads somewhere.
            .env("RUSTDOCFLAGS", "-D warnings -A rustdoc::private_intra_doc_links"),
    )?;
    test::run(&[])
}
