//! What messages tell the reader to type is what the program takes (CL3).

use crate::documents::{parses, root, words};
use clap::CommandFactory;
use muster::args::Cli;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Options of other programs in texts of ours, and of what we write for a shell.
const OF_OTHERS: &[(&str, &[&str])] = &[
    ("the script that `provision --as sh` writes", &["check", "undo"]),
    ("a value that a pattern should not take", &["config"]),
    ("a slip that a page shows", &["paralel"]),
];

/// Every option of every command, by its long name and its aliases.
fn options() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut left = vec![Cli::command()];
    while let Some(mut command) = left.pop() {
        // Brings in `help` and `version`.
        command.build();
        for arg in command.get_arguments() {
            all.extend(arg.get_long().map(str::to_owned));
            all.extend(arg.get_all_aliases().into_iter().flatten().map(str::to_owned));
        }
        left.extend(command.get_subcommands().cloned());
    }
    all
}

fn sources(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() {
            files.extend(sources(&entry, end));
        } else if entry.extension().is_some_and(|e| e == end) {
            files.push(entry);
        }
    }
    files.sort();
    files
}

/// What a reader may come to see of a source: its texts, with lines that go on joined, and of the command line's own types the
/// comments too, which are their help. Outside of texts and comments Rust has no `--word`.
fn shown(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap();
    let ships = text.split("#[cfg(test)]").next().unwrap();
    let help = file.components().any(|c| c.as_os_str() == "args" || c.as_os_str() == "args.rs");
    let mut out = String::new();
    let mut goes_on = false;
    for line in ships.lines() {
        let bare = line.trim_start();
        if bare.starts_with("//") && !(help && bare.starts_with("///")) {
            continue;
        }
        let end = line.strip_suffix('\\');
        out.push_str(if goes_on { bare.strip_suffix('\\').unwrap_or(bare) } else { end.unwrap_or(line) });
        goes_on = end.is_some();
        if !goes_on {
            out.push('\n');
        }
    }
    out
}

fn texts() -> Vec<(PathBuf, String)> {
    let folders = ["muster", "muster-core", "muster-provision", "muster-signing", "muster-ssh"];
    let files = folders.iter().flat_map(|f| sources(&root().join("crates").join(f).join("src"), "rs"));
    let mut all: Vec<_> = files.map(|f| (f.clone(), shown(&f))).collect();
    // The pages that `muster explain` shows.
    let pages = sources(&root().join("docs/errors"), "md").into_iter();
    all.extend(pages.map(|f| (f.clone(), std::fs::read_to_string(&f).unwrap())));
    all
}

/// Every `--word` in a text.
fn mentioned(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices("--").filter_map(|(at, _)| {
        let before = text[..at].chars().next_back();
        let word =
            text[at + 2..].split(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
        let word = word.map(|w| w.trim_end_matches('-')).next()?;
        let begins = word.starts_with(|c: char| c.is_ascii_lowercase());
        (begins && before.is_none_or(|c| !c.is_ascii_alphanumeric() && c != '-')).then_some(word)
    })
}

#[test]
fn cl3_every_option_that_a_message_names_is_one() {
    let ours = options();
    assert!(
        ours.contains("admin-key") && ours.contains("help") && ours.contains("admin-password-file"),
        "{ours:?}"
    );
    let others: BTreeMap<&str, &str> =
        OF_OTHERS.iter().flat_map(|(whose, all)| all.iter().map(|o| (*o, *whose))).collect();
    let (mut checked, mut unknown, mut seen) = (0, Vec::new(), BTreeSet::new());
    for (file, text) in texts() {
        for word in mentioned(&text) {
            checked += 1;
            if others.contains_key(word) {
                seen.insert(word.to_owned());
            } else if !ours.contains(word) {
                unknown.push(format!("{}: --{word}", file.display()));
            }
        }
    }
    assert!(unknown.is_empty(), "no command has them: {unknown:#?}");
    assert!(checked > 60, "only {checked} were found");
    let idle: Vec<_> = others.keys().filter(|o| !seen.contains(**o)).collect();
    assert!(idle.is_empty(), "listed, and nowhere named: {idle:?}");
}

#[test]
fn cl3_every_command_that_a_message_shows_parses() {
    let mut checked = 0;
    for (file, text) in texts() {
        for command in text.split('`').skip(1).step_by(2).filter(|c| c.starts_with("muster ")) {
            // What is filled in when it is shown.
            let filled: String = command
                .split('{')
                .enumerate()
                .map(|(n, part)| {
                    if n == 0 {
                        part.to_owned()
                    } else {
                        format!("x{}", part.split_once('}').map_or("", |(_, rest)| rest))
                    }
                })
                .collect();
            let Some(words) = words(&filled) else { continue };
            // One has the grammar of another program, the other is named by a table that is ahead of its command.
            if words.get(1).is_some_and(|w| w == "ssh-keygen" || w == "node") {
                continue;
            }
            checked += 1;
            parses(&words).unwrap_or_else(|e| panic!("{}: `{command}`: {e}", file.display()));
        }
    }
    assert!(checked > 10, "only {checked} were found");
}

#[test]
fn an_option_that_is_none_is_seen() {
    let words: Vec<&str> = mentioned("give --no-such-thing=X, `--admin-key`, a--b, --- and --9").collect();
    assert_eq!(words, ["no-such-thing", "admin-key"]);
    assert!(!options().contains("no-such-thing"));
}
