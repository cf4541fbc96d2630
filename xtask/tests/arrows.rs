//! The rules of the design that no compiler checks: which crate may depend on which, what the shim may pull in, where unsafe
//! code and process spawning live, how long a file may be.
#![allow(clippy::disallowed_methods, reason = "asks cargo for the dependency graph")]
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Who may depend on whom, as the design draws it. Development dependencies are exempt.
const ARROWS: &[(&str, &[&str])] = &[
    ("muster-core", &[]),
    ("muster-signing", &["muster-core"]),
    ("muster-sys", &["muster-core"]),
    ("muster-ssh", &["muster-core"]),
    ("muster-provision", &["muster-core", "muster-signing", "muster-sys"]),
    ("muster-shim", &["muster-core", "muster-signing", "muster-sys"]),
    ("muster", &["muster-core", "muster-signing", "muster-sys", "muster-ssh", "muster-provision"]),
];

/// Development only: nothing may depend on them, and the rules for shipped code do not hold in them.
const TOOLS: &[&str] = &["muster-fuzz", "muster-testbed", "xtask"];

/// What must never run as root on a host: servers, async, TLS, SSH clients, macro-heavy front ends.
const NOT_IN_THE_SHIM: &[&str] = &[
    "tokio",
    "mio",
    "russh",
    "aws-lc-rs",
    "aws-lc-sys",
    "ring",
    "rustls",
    "openssl-sys",
    "hyper",
    "regex",
    "clap",
    "tracing",
];

const LONGEST_FILE: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline", "--all-features"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

/// Our crates: name to (folder, names of our crates that it depends on outside tests).
fn ours(metadata: &Value) -> BTreeMap<String, (PathBuf, BTreeSet<String>)> {
    let members: BTreeSet<&str> =
        list(metadata, "workspace_members").iter().filter_map(Value::as_str).collect();
    let packages: Vec<&Value> =
        list(metadata, "packages").iter().filter(|p| members.contains(text(p, "id"))).collect();
    let names: BTreeSet<&str> = packages.iter().map(|p| text(p, "name")).collect();
    packages
        .iter()
        .map(|p| {
            let folder = Path::new(text(p, "manifest_path")).parent().expect("a folder").to_owned();
            let needs = list(p, "dependencies")
                .iter()
                .filter(|d| d["kind"].as_str() != Some("dev") && names.contains(text(d, "name")))
                .map(|d| text(d, "name").to_owned())
                .collect();
            (text(p, "name").to_owned(), (folder, needs))
        })
        .collect()
}

#[test]
fn dependencies_go_only_where_the_design_draws_an_arrow() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut wrong = Vec::new();
    for (name, (_, needs)) in ours(&metadata()) {
        if TOOLS.contains(&name.as_str()) {
            continue;
        }
        let Some(may) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name} has no row in ARROWS"));
            continue;
        };
        wrong.extend(needs.iter().filter(|n| !may.contains(&n.as_str())).map(|n| format!("{name} -> {n}")));
    }
    assert!(wrong.is_empty(), "arrows that the design does not draw (decision record first): {wrong:#?}");
}

/// Every crate in the closure of normal and build dependencies of `name`.
fn closure(metadata: &Value, name: &str) -> BTreeSet<String> {
    let names: BTreeMap<&str, &str> =
        list(metadata, "packages").iter().map(|p| (text(p, "id"), text(p, "name"))).collect();
    let nodes: BTreeMap<&str, &Value> =
        list(&metadata["resolve"], "nodes").iter().map(|n| (text(n, "id"), n)).collect();
    let start = names.iter().find(|(_, n)| **n == name).map(|(id, _)| *id).expect("the crate is there");
    let (mut todo, mut seen) = (vec![start], BTreeSet::new());
    while let Some(id) = todo.pop() {
        if !seen.insert(id) {
            continue;
        }
        for dep in list(nodes[id], "deps") {
            let shipped = list(dep, "dep_kinds").iter().any(|k| k["kind"].as_str() != Some("dev"));
            let here = list(dep, "dep_kinds").iter().any(|k| {
                let target = k["target"].as_str().unwrap_or_default();
                !["windows", "wasm", "macos", "apple"].iter().any(|other| target.contains(other))
            });
            if shipped && here {
                todo.push(text(dep, "pkg"));
            }
        }
    }
    seen.iter().map(|id| names[*id].to_owned()).collect()
}

#[test]
fn the_shim_pulls_in_no_server_no_async_and_no_tls() {
    let all = closure(&metadata(), "muster-shim");
    assert!(all.contains("muster-signing"), "the closure was not read: {all:?}");
    let bad: Vec<_> = NOT_IN_THE_SHIM.iter().filter(|n| all.contains(**n)).collect();
    assert!(bad.is_empty(), "in the graph of muster-shim: {bad:?}");
}

#[test]
fn every_crate_takes_the_workspace_lints_and_forbids_unsafe_code() {
    for (name, (folder, _)) in ours(&metadata()) {
        let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("manifest");
        assert!(manifest.contains("[lints]\nworkspace = true"), "{name} does not take the workspace lints");
        if name == "muster-sys" || TOOLS.contains(&name.as_str()) {
            continue;
        }
        for entry in ["src/lib.rs", "src/main.rs"] {
            // A crate of one or two lines is a place that is kept for its first content.
            if let Ok(source) = fs::read_to_string(folder.join(entry))
                && source.lines().count() > 2
            {
                assert!(
                    source.contains("#![forbid(unsafe_code)]"),
                    "{name}/{entry} lacks forbid(unsafe_code)"
                );
            }
        }
    }
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                rust_files(&path, found);
            }
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
}

/// The lines of a source file that ship: up to its test module, without comments; with their numbers.
fn shipped(source: &str) -> impl Iterator<Item = (usize, &str)> {
    source
        .lines()
        .enumerate()
        .take_while(|(_, line)| line.trim() != "#[cfg(test)]")
        .map(|(n, line)| (n + 1, line.split("//").next().unwrap_or_default()))
}

/// Every shipped line of ours outside `muster-sys` for which `bad` says so.
fn offenders(bad: impl Fn(&str) -> bool) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, (folder, _)) in ours(&metadata()) {
        if name == "muster-sys" || TOOLS.contains(&name.as_str()) {
            continue;
        }
        let mut files = Vec::new();
        rust_files(&folder.join("src"), &mut files);
        for file in files.iter().filter(|f| !f.ends_with("tests.rs")) {
            let source = fs::read_to_string(file).expect("source");
            wrong.extend(
                shipped(&source)
                    .filter(|(_, l)| bad(l))
                    .map(|(n, l)| format!("{}:{n}: {}", file.display(), l.trim())),
            );
        }
    }
    wrong
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word)
}

#[test]
fn unsafe_code_and_process_spawning_live_in_muster_sys() {
    let wrong = offenders(|line| {
        let spawns = line.contains("process::Command")
            || (line.contains("std::process::{") && has_word(line, "Command"))
            || line.contains("CommandExt");
        spawns
            || ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe("]
                .iter()
                .any(|w| line.contains(w))
    });
    assert!(wrong.is_empty(), "belongs in muster-sys: {wrong:#?}");
}

#[test]
fn lints_are_never_switched_off_without_a_reason() {
    let wrong = offenders(|line| {
        let switch = line.contains("#[allow(") || line.contains("#![allow(");
        switch && !line.contains("reason =") && line.trim_end().ends_with(']')
    });
    assert!(wrong.is_empty(), "say the reason: {wrong:#?}");
}

#[test]
fn no_file_is_longer_than_600_lines() {
    let mut files = Vec::new();
    rust_files(&root(), &mut files);
    assert!(files.len() > 20, "sources were not found");
    let long: Vec<_> = files
        .iter()
        .filter_map(|f| {
            let lines = fs::read_to_string(f).expect("source").lines().count();
            (lines > LONGEST_FILE).then(|| format!("{}: {lines}", f.display()))
        })
        .collect();
    assert!(long.is_empty(), "split them: {long:#?}");
}

#[test]
fn the_rules_themselves_see_what_they_forbid() {
    let source =
        "fn a() {}\n// unsafe in a comment\nlet x = unsafe { y };\n#[cfg(test)]\nmod tests { unsafe {} }\n";
    let hits: Vec<usize> = shipped(source).filter(|(_, l)| l.contains("unsafe {")).map(|(n, _)| n).collect();
    assert_eq!(hits, [3]);
    assert!(has_word("use std::process::{Child, Command};", "Command"));
    assert!(!has_word("use clap::Subcommand;", "Command"));
}
