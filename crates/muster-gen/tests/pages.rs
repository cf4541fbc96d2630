//! The pages and completions as files: which there are, that man(1) takes them without a word, that bash takes the completions.
#![allow(clippy::disallowed_methods, reason = "runs man and bash")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use muster_needs::require;

static MADE: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let ran = Command::new(env!("CARGO_BIN_EXE_muster-gen")).arg(folder.path()).status().unwrap();
    assert!(ran.success());
    folder
});

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { out.extend(files(&path)) } else { out.push(path) }
    }
    out.sort();
    out
}

fn pages() -> Vec<PathBuf> {
    files(&MADE.path().join("share/man"))
}

#[test]
fn each_command_has_its_page_and_nothing_else_has() {
    let made: BTreeSet<String> = files(MADE.path())
        .iter()
        .map(|f| f.strip_prefix(MADE.path()).unwrap().to_string_lossy().into_owned())
        .collect();
    let listed: BTreeSet<String> = include_str!("pages.list").lines().map(str::to_owned).collect();
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    assert_eq!(
        (only(&made, &listed), only(&listed, &made)),
        (vec![], vec![]),
        "made but not listed; listed but not made"
    );
}

#[test]
fn man_takes_each_page_without_a_warning() {
    require!(muster_needs::tool("/usr/bin/mandb", "man-db"));
    for page in pages() {
        let mut man = Command::new("man");
        // As lintian asks it: no cat page is written, and lines are as long as those of a terminal.
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"]).arg(&page);
        let ran = man.env("LC_ALL", "C.UTF-8").env("MANROFFSEQ", "").env("MANWIDTH", "80").output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(
            ran.status.success() && said.is_empty() && !ran.stdout.is_empty(),
            "{}: {said}",
            page.display()
        );
    }
}

/// What a reader sees, one line.
fn shown(page: &str) -> String {
    let mut man = Command::new("man");
    man.args(["--no-hyphenation", "-E", "UTF-8", "-l", "-Tutf8"])
        .arg(MADE.path().join("share/man").join(page));
    man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "200").env("GROFF_NO_SGR", "1").stderr(Stdio::null());
    let text = String::from_utf8(man.output().unwrap().stdout).unwrap();
    // Without SGR, bold is each letter struck twice (grotty(1)).
    let mut plain = String::new();
    for c in text.chars() {
        if c == '\u{8}' {
            plain.pop();
        } else {
            plain.push(c);
        }
    }
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn exit_codes_and_files_are_those_of_the_sources() {
    require!(muster_needs::tool("/usr/bin/mandb", "man-db"));
    let page = shown("man1/muster-node-claim.1");
    for exit in muster::exit::Exit::ALL {
        let row = format!("{} {}", exit.code(), exit.meaning());
        assert!(page.contains(&row), "{row:?} is not in: {page}");
    }
    for words in [
        "NAME muster-node-claim - ",
        "FILES",
        "$XDG_STATE_HOME/muster/node-pins",
        "MUSTER_CONTEXT the context",
        "SEE ALSO muster-node(1), muster(1)",
    ] {
        assert!(page.contains(words), "{words:?} is not in: {page}");
    }
    let page = shown("man1/muster-ssh-keygen.1");
    assert!(page.contains("EXIT STATUS That of ssh-keygen(1)") && !page.contains("130 ended"), "{page}");
    let page = shown("man8/muster-shim.8");
    for exit in muster_core::ShimExit::ALL {
        assert!(page.contains(&format!(" {} ", exit.code())), "{exit:?}");
    }
    for words in [
        "12 ended because the peer went away",
        "/etc/muster/shim.toml 0644",
        "signers-needed = 1",
        "exactly: PATH=/usr/local/sbin",
    ] {
        assert!(page.contains(words), "{words:?} is not in: {page}");
    }
    let page = shown("man8/musterd-pairing-renew.8");
    for words in ["1 it is not", musterd::places::CONTROL_SOCKET, musterd::places::ENROLMENT] {
        assert!(page.contains(words), "{words:?} is not in: {page}");
    }
}

/// The rows of the exit codes of the shim, in the document that its page is made of.
#[test]
fn the_shims_table_has_each_of_its_codes_once() {
    let text = include_str!("../../../docs/shim.md");
    let table = text.split("## Exit codes").nth(1).unwrap().split("\n\n").nth(1).unwrap();
    let codes: Vec<u8> =
        table.lines().filter_map(|l| l.strip_prefix("| ")?.split(' ').next()?.parse().ok()).collect();
    assert_eq!(codes, muster_core::ShimExit::ALL.map(muster_core::ShimExit::code));
}

#[test]
fn bash_takes_the_completions() {
    for name in ["muster", "musterd"] {
        let file = MADE.path().join("share/bash-completion/completions").join(name);
        let script = format!("source {} && complete -p {name}", file.display());
        let ran = Command::new("bash").args(["-uec", &script]).output().unwrap();
        assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
    }
}
