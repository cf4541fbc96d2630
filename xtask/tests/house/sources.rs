//! What the sources may hold.

use std::fs;
use std::path::{Path, PathBuf};

use crate::graph::ours;
use crate::rust::{code, has_word, shipped};
use crate::{TOOLS, files, root};

const LONGEST_FILE: usize = 600;

/// Sources of ours that ship outside `muster-sys`.
fn shipped_sources() -> Vec<(PathBuf, String)> {
    of_crates(|name| name != "muster-sys" && !TOOLS.contains(&name))
}

/// Sources of some of our crates: path and code, without tests and fixtures for tests.
pub(crate) fn of_crates(wanted: impl Fn(&str) -> bool) -> Vec<(PathBuf, String)> {
    let mut out = Vec::new();
    for (name, (folder, _)) in ours() {
        if !wanted(name) {
            continue;
        }
        let mut sources: Vec<(PathBuf, String)> = Vec::new();
        let mut tests: Vec<PathBuf> = Vec::new();
        for path in files(&folder.join("src"), ".rs") {
            let (code, modules) = shipped(&fs::read_to_string(&path).expect("source"));
            tests.extend(modules.iter().map(|m| module_folder(&path).join(m)));
            sources.push((path, code));
        }
        let is_test =
            |path: &Path| tests.iter().any(|t| path == t.with_extension("rs") || path.starts_with(t));
        out.extend(sources.into_iter().filter(|(path, _)| !is_test(path)));
    }
    assert!(out.len() > 20, "sources were not found");
    out
}

/// Where the modules of a file are.
fn module_folder(file: &Path) -> PathBuf {
    let folder = file.parent().expect("a folder");
    match file.file_stem().and_then(|s| s.to_str()) {
        Some("lib" | "main" | "mod") | None => folder.to_owned(),
        Some(name) => folder.join(name),
    }
}

fn offenders(bad: fn(&str) -> bool) -> Vec<String> {
    let mut out = Vec::new();
    for (path, code) in shipped_sources() {
        let lines = code.lines().enumerate().filter(|(_, line)| bad(line));
        out.extend(lines.map(|(n, line)| format!("{}:{}: {}", path.display(), n + 1, line.trim())));
    }
    out
}

fn is_unsafe(line: &str) -> bool {
    has_word(line, "unsafe")
}

/// Names the standard library's way to start a program. `muster_sys::command::Command` is the way of ours.
fn spawns(line: &str) -> bool {
    let squeezed: String = line.split_whitespace().collect();
    squeezed.contains("process::Command")
        || squeezed.contains("process::*")
        || (squeezed.contains("process::{") && has_word(line, "Command"))
        || has_word(line, "CommandExt")
        || ["fork", "vfork", "posix_spawn", "execve", "execvp"]
            .iter()
            .any(|f| squeezed.contains(&format!("libc::{f}(")))
}

#[test]
fn unsafe_code_lives_in_muster_sys() {
    let wrong = offenders(is_unsafe);
    assert!(wrong.is_empty(), "belongs in muster-sys: {wrong:#?}");
}

#[test]
fn process_spawning_lives_in_muster_sys() {
    let wrong = offenders(spawns);
    assert!(wrong.is_empty(), "belongs in muster-sys: {wrong:#?}");
}

#[test]
fn unsafe_code_and_spawning_are_seen() {
    for line in
        ["let x = unsafe { y };", "unsafe fn a();", "#[unsafe(no_mangle)]", "unsafe impl Send for X {}"]
    {
        assert!(is_unsafe(line), "{line}");
    }
    assert!(!is_unsafe("#![forbid(unsafe_code)]"));
    for line in [
        "use std::process::Command;",
        "use std::{fs, process::Command};",
        "use std::process::{Child, Command};",
        "std :: process :: Command::new(x)",
        "use std::process::*;",
        "use std::os::unix::process::CommandExt as _;",
        "libc::fork()",
    ] {
        assert!(spawns(line), "{line}");
    }
    for line in [
        "use clap::Subcommand;",
        "use muster_sys::command::Command;",
        "std::process::exit(1)",
        "use std::process::{ExitCode};",
    ] {
        assert!(!spawns(line), "{line}");
    }
}

/// Whether a crate root forbids unsafe code. A root without content, kept for what will come, has none.
fn forbids(source: &str) -> bool {
    let code = code(source);
    let content: String = code.split_whitespace().collect();
    content.is_empty()
        || content == "fnmain(){}"
        || code.lines().any(|l| l.trim() == "#![forbid(unsafe_code)]")
}

#[test]
fn every_crate_but_muster_sys_forbids_unsafe_code_and_takes_the_workspace_lints() {
    let mut wrong = Vec::new();
    for (name, (folder, _)) in ours() {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("manifest");
        if !manifest.contains("[lints]\nworkspace = true") {
            wrong.push(format!("{name} does not take the workspace lints"));
        }
        if name == "muster-sys" || name == "muster-testbed" {
            continue;
        }
        for entry in ["src/lib.rs", "src/main.rs"] {
            if let Ok(source) = fs::read_to_string(folder.join(entry))
                && !forbids(&source)
            {
                wrong.push(format!("{name}/{entry} lacks #![forbid(unsafe_code)]"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(forbids("//! x\n#![forbid(unsafe_code)]\n"));
    assert!(!forbids("// #![forbid(unsafe_code)]\n#![deny(unsafe_code)]\n"));
}

/// Lints that are switched off without saying why: the line of each. For `unsafe_code` the comment `SAFETY` is the reason,
/// and another lint asks for it.
fn silent(source: &str) -> Vec<usize> {
    let code = code(source);
    let mut out = Vec::new();
    for start in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
        for (at, _) in code.match_indices(start) {
            let end = code[at..].find(")]").map_or(code.len(), |p| at + p);
            let attribute = &code[at..end];
            if !has_word(attribute, "reason") && !attribute.ends_with("(unsafe_code") {
                out.push(code[..at].matches('\n').count() + 1);
            }
        }
    }
    out.sort_unstable();
    out
}

#[test]
fn lints_are_never_switched_off_without_a_reason() {
    let mut wrong = Vec::new();
    for path in files(&root().join("crates"), ".rs") {
        let lines = silent(&fs::read_to_string(&path).expect("source"));
        wrong.extend(lines.iter().map(|n| format!("{}:{n}", path.display())));
    }
    assert!(wrong.is_empty(), "say the reason: {wrong:#?}");
    let sample = "#[allow(unsafe_code)]\n#[allow(dead_code)]\n#[allow(\n  dead_code,\n  reason = \"x\"\n)]\n#![expect(clippy::all)]\n";
    assert_eq!(silent(sample), [2, 7]);
}

fn too_long(source: &str) -> bool {
    source.lines().count() > LONGEST_FILE
}

#[test]
fn no_source_file_is_longer_than_600_lines() {
    let sources: Vec<PathBuf> = [".rs", ".sh"].iter().flat_map(|end| files(&root(), end)).collect();
    assert!(sources.len() > 40, "sources were not found");
    let long: Vec<_> = sources.iter().filter(|f| too_long(&fs::read_to_string(f).expect("source"))).collect();
    assert!(long.is_empty(), "split them: {long:#?}");
    assert!(!too_long(&"x\n".repeat(600)) && too_long(&"x\n".repeat(601)));
}

fn ignores(source: &str) -> bool {
    let squeezed: String = code(source).split_whitespace().collect();
    squeezed.contains("#[ignore") || squeezed.contains(",ignore)]") || squeezed.contains(",ignore=")
}

#[test]
fn no_test_is_ignored() {
    let wrong: Vec<_> = files(&root(), ".rs")
        .into_iter()
        .filter(|f| ignores(&fs::read_to_string(f).expect("source")))
        .collect();
    assert!(wrong.is_empty(), "a test that cannot run says why it was skipped, and fails in CI: {wrong:#?}");
    assert!(ignores("#[test]\n#[ignore]\nfn a() {}") && ignores("#[ignore = \"slow\"]"));
    assert!(ignores("#[cfg_attr(miri, ignore)]"));
    assert!(!ignores("// #[ignore]\nlet x = \"#[ignore]\";"));
}
