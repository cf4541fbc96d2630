//! What the documentation shows is what the program takes (CL3).

use crate::run::Place;
use clap::Parser;
use clap::error::ErrorKind::{
    DisplayHelp, DisplayHelpOnMissingArgumentOrSubcommand, InvalidValue, MissingRequiredArgument,
    MissingSubcommand,
};
use muster::args::Cli;
use muster::codes::exit_of_shim;
use muster::exit::Exit;
use muster::inventory::{DEFAULT_NAME, Inventory};
use muster::nodes::contexts::FILE as CONTEXTS;
use muster::profile::manifest::Manifest;
use muster_core::Reason;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents() -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut folders = vec![root().join("docs"), root().join("profiles")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|e| e == "md") {
                out.push((entry.display().to_string(), std::fs::read_to_string(&entry).unwrap()));
            }
        }
    }
    for name in ["README.md", "CONTRIBUTING.md", "SECURITY.md"] {
        out.extend(std::fs::read_to_string(root().join(name)).map(|t| (name.to_owned(), t)));
    }
    out
}

/// Lines of code blocks, and what stands in backticks.
fn commands(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let code = line
            .strip_prefix("    ")
            .or(fenced.then_some(line))
            .map(|l| l.trim_start().trim_start_matches("$ "));
        match code {
            Some(c) if c.starts_with("muster ") => out.push(c.to_owned()),
            Some(_) => {}
            None => out.extend(
                line.split('`').skip(1).step_by(2).filter(|c| c.starts_with("muster ")).map(str::to_owned),
            ),
        }
    }
    out
}

/// Words as a shell would split them; `None` for what only sketches a command (`…`, `|`, several spaces for columns).
pub(crate) fn words(command: &str) -> Option<Vec<String>> {
    let command = command.split(" # ").next().unwrap();
    let full = format!("SHA256:{}", "A".repeat(43));
    let command = command.replace("SHA256:…", &full);
    let sketch = ["…", " | ", "<", "$(", "  ", "[", "{"].iter().any(|mark| command.contains(mark));
    if sketch {
        return None;
    }
    let filled = |w: &str| match w {
        "N" | "EPOCH" => "1".to_owned(),
        "SHELL" => "bash".to_owned(),
        other => other.to_owned(),
    };
    Some(split(&command).iter().map(|w| filled(w)).collect())
}

/// Splits at blanks outside of quotes; redirections and what follows a `;` or `&&` are not the command's.
fn split(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in command.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if q == c => quote = None,
            (None, c) if c.is_whitespace() => {
                words.extend(Some(std::mem::take(&mut word)).filter(|w| !w.is_empty()))
            }
            (None, ';' | '&' | '>' | '|') => break,
            (_, c) => word.push(c),
        }
    }
    words.extend(Some(word).filter(|w| !w.is_empty()));
    words
}

/// Whether the words are a whole command: a mention of a command's name, or of one option of it, is no example of how to call it.
pub(crate) fn parses(words: &[String]) -> Result<bool, clap::Error> {
    let Err(e) = Cli::try_parse_from(words) else { return Ok(true) };
    let option = e.kind() == InvalidValue && words.last().is_some_and(|w| w.starts_with("--"));
    let name = matches!(
        e.kind(),
        MissingRequiredArgument | MissingSubcommand | DisplayHelp | DisplayHelpOnMissingArgumentOrSubcommand
    );
    if (name || option) && words.len() <= 4 { Ok(false) } else { Err(e) }
}

#[test]
fn cl3_every_command_in_the_documents_parses() {
    let mut checked = 0;
    for (file, text) in documents() {
        for command in commands(&text) {
            let Some(words) = words(&command) else { continue };
            if words.get(1).is_some_and(|w| w == "ssh-keygen") {
                continue;
            }
            checked += usize::from(parses(&words).unwrap_or_else(|e| panic!("{file}: `{command}`: {e}")));
        }
    }
    assert!(checked > 15, "only {checked} commands were found");
}

/// A reader types what stands there: a profile of the project must be one.
#[test]
fn cl3_every_profile_that_a_command_names_is_there() {
    let mut checked = 0;
    for (file, text) in documents() {
        if file.contains("/docs/errors/") || file.contains("/docs/decisions/") {
            continue;
        }
        for command in commands(&text) {
            for word in words(&command).into_iter().flatten().filter(|w| w.starts_with("profiles/")) {
                checked += 1;
                assert!(root().join(&word).join("profile.yaml").is_file(), "{file}: `{command}`: no {word}");
            }
        }
    }
    assert!(checked >= 8, "only {checked} were found");
}

#[test]
fn cl3_every_yaml_example_is_what_it_claims_to_be() {
    for (name, parse) in [
        ("docs/profiles.md", (|t: &str, f: &Path| Manifest::parse(t, f).map(|_| ())) as fn(&str, &Path) -> _),
        ("docs/inventory.md", |t: &str, f: &Path| {
            Inventory::parse(t, f, Some(Path::new("/home/o"))).map(|_| ())
        }),
    ] {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        let blocks: Vec<&str> =
            text.split("```yaml\n").skip(1).map(|b| b.split("```").next().unwrap()).collect();
        assert!(!blocks.is_empty(), "{name}");
        for block in blocks {
            if let Err(faults) = parse(block, Path::new(name)) {
                panic!("{name}: {}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
            }
        }
    }
}

/// What the sender can see for itself; all else is the host's alone to say.
const FOUND_BEFORE_SENDING: &[Reason] = &[
    Reason::SignatureMalformed,
    Reason::SignatureMissing,
    Reason::Algorithm,
    Reason::Namespace,
    Reason::BytesDiffer,
    Reason::KeyUnknown,
    Reason::Principal,
    Reason::KeyNotYetValid,
    Reason::KeyExpired,
    Reason::Certificate,
    Reason::Revoked,
    Reason::Threshold,
    Reason::ScriptDigest,
    Reason::ParamName,
    Reason::ParamForm,
    Reason::TooLarge,
    Reason::IntentForm,
    Reason::SignatureForm,
    Reason::Target,
    Reason::NotYetValid,
    Reason::Expired,
    Reason::ParamMissing,
    Reason::ParamUndeclared,
    Reason::ParamPattern,
    Reason::ParamIsValue,
];

#[test]
fn each_page_of_a_hosts_reason_says_both_exit_codes() {
    for reason in Reason::ALL {
        let exit = reason.exit();
        let mut line = format!(
            "Told by the host: exit code {} of the shim; `muster` then ends with {}.",
            exit.code(),
            exit_of_shim(exit).code()
        );
        if FOUND_BEFORE_SENDING.contains(reason) {
            line.push_str(" Found by `muster` before sending: exit code 4.");
        }
        let page = root().join("docs/errors").join(format!("{}.md", reason.code()));
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.lines().any(|l| l == line), "{} lacks: {line}", page.display());
    }
}

#[test]
fn the_exit_code_table_is_the_enum() {
    let text = std::fs::read_to_string(root().join("docs/cli.md")).unwrap();
    for exit in Exit::ALL {
        let row = format!("| {} | {} |", exit.code(), exit.meaning());
        assert!(text.contains(&row), "docs/cli.md lacks {row:?}");
    }
    let rows = text.split("## Exit codes").nth(1).unwrap().split("\n\n").nth(1).unwrap().lines().count() - 2;
    assert_eq!(rows, Exit::ALL.len(), "a row that is no exit code");
}

/// The manual has the same table.
#[test]
fn the_table_of_files_is_what_the_sources_open() {
    let text = std::fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let table = text.split("## Files").nth(1).unwrap();
    let mut names =
        vec![format!("XDG_CONFIG_HOME/muster/{DEFAULT_NAME}"), format!("XDG_CONFIG_HOME/muster/{CONTEXTS}")];
    for source in ["nodes/pins.rs", "nodes/heads.rs", "nodes/contexts.rs", "remote/pins.rs"] {
        let source = std::fs::read_to_string(root().join("crates/muster/src").join(source)).unwrap();
        let shipped = source.split("#[cfg(test)]").next().unwrap();
        let opened = shipped.split(".join(\"").skip(1).filter_map(|rest| rest.split_once("\")"));
        let plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'-' | b'.'));
        names.extend(opened.map(|(name, _)| name.to_owned()).filter(|n| plain(n)));
        // What is read and written in one place for all is named by a constant, and its lock by it.
        let named = shipped
            .split("const ")
            .skip(1)
            .filter_map(|rest| rest.split_once(": &str = \"")?.1.split_once("\";"));
        for (name, _) in named.filter(|(n, _)| plain(n) && !n.ends_with(".yaml")) {
            names.extend([name.to_owned(), format!("{name}.lock")]);
        }
    }
    assert!(names.len() >= 11, "the sources were not read: {names:?}");
    for name in names {
        assert!(table.contains(&format!("{name}`")), "docs/cli.md has no file {name}");
    }
}

#[test]
fn the_first_steps_work_as_they_are_written() {
    let p = Place::new();
    let text = std::fs::read_to_string(root().join("docs/cli.md")).unwrap();
    let steps = text.split("## First steps\n\n").nth(1).unwrap().split("\n\n").next().unwrap();
    p.write("pp", "a long passphrase\n");
    let mut folder = String::from(".");
    let mut done = 0;
    // They begin in the project's folder, of which they need the profiles.
    p.sh(&format!("cp -r {}/profiles .", root().display()));
    for line in steps.lines().map(str::trim) {
        if let Some(to) = line.strip_prefix("cd ") {
            folder = to.to_owned();
            continue;
        }
        // The reader types the passphrase; here it comes from a file.
        let more = if line.contains("init") {
            "--passphrase-file pp"
        } else if line.contains(" sign ") {
            "--passphrase-file ../pp"
        } else {
            ""
        };
        let line = line.replace("muster ", &format!("{} ", crate::run::MUSTER));
        p.sh(&format!("cd {folder}; {line} {more}"));
        done += 1;
    }
    assert_eq!(done, 5);
}
