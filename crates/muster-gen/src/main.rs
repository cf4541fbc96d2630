//! `cargo xtask gen DIR`: man pages (man(7), groff_man(7)) and completions, as files below a prefix such as `/usr`.
//!
//! Commands and options come from the definitions that the programs parse with. What those do not know comes from where it is held by a
//! test already: exit codes from the enums, files and environment from tables of `docs/`. Nothing is written twice by hand.
//! Development only: no program that ships has a maker of manuals in it.
#![forbid(unsafe_code)]

mod markdown;
mod pages;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{CommandFactory as _, Parser};
use clap_complete::Shell;

/// Writes man pages and completions.
#[derive(Parser)]
struct Line {
    /// The prefix; `share` below it is what belongs to /usr/share.
    folder: PathBuf,
}

/// Where a shell looks for the completions of a command: bash-completion's README, Debian's zsh, fish-completions(7).
const SHELLS: &[(Shell, &str)] = &[
    (Shell::Bash, "share/bash-completion/completions/{}"),
    (Shell::Zsh, "share/zsh/vendor-completions/_{}"),
    (Shell::Fish, "share/fish/vendor_completions.d/{}.fish"),
];

fn main() -> Result<()> {
    let folder = Line::parse().folder;
    for page in pages::all()? {
        put(&folder.join(format!("share/man/man{}/{}.{0}", page.section, page.name)), page.text.as_bytes())?;
    }
    let mut commands =
        [("muster", muster::args::Cli::command()), ("musterd", musterd::line::Line::command())];
    for (name, command) in &mut commands {
        for (shell, place) in SHELLS {
            let mut text = Vec::new();
            clap_complete::generate(*shell, command, *name, &mut text);
            put(&folder.join(place.replace("{}", name)), &text)?;
        }
    }
    Ok(())
}

fn put(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().context("a file has a folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, bytes))
        .with_context(|| file.display().to_string())
}
