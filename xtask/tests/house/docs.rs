//! The documentation is whole.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use muster_core::Reason;

use crate::rules::all_tests;
use crate::{files, root};

fn pages(dir: &Path) -> BTreeSet<String> {
    let stem = |p: &Path| p.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_owned();
    files(dir, ".md").iter().map(|p| stem(p)).collect()
}

fn missing(pages: &BTreeSet<String>) -> Vec<&'static str> {
    Reason::ALL.iter().map(|r| r.code()).filter(|code| !pages.contains(*code)).collect()
}

#[test]
fn every_reason_has_a_page() {
    let dir = root().join("docs/errors");
    if dir.is_dir() {
        let missing = missing(&pages(&dir));
        assert!(missing.is_empty(), "no docs/errors/<code>.md for {missing:?}");
    }
}

#[test]
fn a_missing_page_is_seen() {
    let mut all: BTreeSet<String> = Reason::ALL.iter().map(|r| r.code().to_owned()).collect();
    assert_eq!(missing(&all), Vec::<&str>::new());
    all.remove("epoch-floor");
    assert_eq!(missing(&all), ["epoch-floor"]);
}

/// The tests that a page names in backticks, by the form of a rule's test: `m3_…` is any of a rule, a whole name is that one.
fn named(page: &str) -> Vec<&str> {
    let is_rule = |word: &&str| {
        let Some((rule, rest)) = word.split_once('_') else { return false };
        let digits = rule.trim_start_matches(|c: char| c.is_ascii_lowercase());
        let family = rule.strip_suffix(digits).unwrap_or_default();
        let numbered = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        numbered && ["m", "s", "ve", "st", "cl"].contains(&family) && !rest.contains('.')
    };
    page.split('`').skip(1).step_by(2).filter(is_rule).collect()
}

fn absent<'p>(named: &[&'p str], tests: &BTreeSet<String>) -> Vec<&'p str> {
    let there = |word: &str| match word.strip_suffix('…') {
        Some(head) => tests.iter().any(|t| t.starts_with(head)),
        None => tests.contains(word),
    };
    named.iter().copied().filter(|word| !there(word)).collect()
}

#[test]
fn every_test_that_a_page_names_is_there() {
    let tests = all_tests();
    let mut seen = 0;
    let mut wrong = Vec::new();
    for path in files(&root().join("docs"), ".md") {
        let page = fs::read_to_string(&path).expect("a page");
        let named = named(&page);
        seen += named.len();
        wrong.extend(absent(&named, &tests).iter().map(|n| format!("{}: {n}", path.display())));
    }
    assert!(seen > 10, "the promises were not read");
    assert!(wrong.is_empty(), "proofs that are not there: {wrong:#?}");
}

#[test]
fn a_proof_that_is_not_there_is_seen() {
    let page = "| a | `m3_…`, `s9_the_list`, `peer_claimed`, `x86_64`, `m9_x.rs` | `ve1_…` |\n`m4_gone`";
    assert_eq!(named(page), ["m3_…", "s9_the_list", "ve1_…", "m4_gone"]);
    let tests = BTreeSet::from(["m3_epoch".to_owned(), "s9_the_list".to_owned(), "ve10_x".to_owned()]);
    assert_eq!(absent(&named(page), &tests), ["ve1_…", "m4_gone"]);
}

/// The fuzz targets, by the folders of their corpora, that the page has no row for.
fn unsaid<'t>(targets: &'t BTreeSet<String>, page: &str) -> Vec<&'t str> {
    // A row may be of several targets: | `a`, `b` | input | asserted |
    let rows = page.lines().filter_map(|l| l.strip_prefix("| ")?.split(" | ").next());
    let named: BTreeSet<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    targets.iter().map(String::as_str).filter(|t| !named.contains(t)).collect()
}

#[test]
fn the_page_names_every_fuzz_target() {
    let corpora = fs::read_dir(root().join("fuzz/corpus")).expect("the corpora");
    let targets: BTreeSet<String> =
        corpora.map(|e| e.expect("a folder").file_name().to_string_lossy().into_owned()).collect();
    assert!(targets.len() > 40, "the targets were not found");
    let page = fs::read_to_string(root().join("docs/fuzzing.md")).expect("the page");
    let (asserted, _numbers) = page.split_once("## Numbers").expect("the numbers stand last");
    assert_eq!(unsaid(&targets, asserted), Vec::<&str>::new(), "targets without a row in docs/fuzzing.md");
}

#[test]
fn a_target_without_a_row_is_seen() {
    let targets = BTreeSet::from(["a", "b", "c", "d"].map(str::to_owned));
    assert_eq!(unsaid(&targets, "| `a`, `b` | `d` | x |\n`c`\n| x | `c` |"), ["c", "d"]);
}

/// Calls that read bytes or text. A file that makes one is a parser, or has a reason not to be one.
const READS: &[&str] = &[
    "from_utf8(",
    "FromStr for",
    "fn parse",
    "_json::from_",
    "toml::from_",
    "from_str_radix(",
    ".lines()",
    "split_once(",
    "splitn(",
    ".parse()",
    ".parse::<",
];

/// Whether what ships of a source file reads text.
fn reads(source: &str) -> bool {
    let shipped = source.split("#[cfg(test)]").next().unwrap_or_default();
    let code = shipped.lines().filter(|l| !l.trim_start().starts_with("//"));
    code.into_iter().any(|l| READS.iter().any(|mark| l.contains(mark)))
}

/// The files of the table of parsers, as `crate/src/path.rs`, and the targets that it names for them.
fn readers(table: &str) -> (BTreeSet<String>, BTreeSet<&str>) {
    let (mut readers, mut targets) = (BTreeSet::new(), BTreeSet::new());
    let words = |cell| str::split(cell, '`').skip(1).step_by(2);
    for row in table.lines().filter_map(|l| l.strip_prefix("| `")) {
        let Some((files, by)) = row.split_once(" | ") else { continue };
        let Some((name, files)) = files.split_once('`') else { continue };
        readers.extend(words(files).map(|file| format!("{name}/src/{file}.rs")));
        if !by.starts_with("none: ") {
            let said = by.split(';').next().unwrap_or_default();
            assert!(said.contains('`'), "neither a target nor a reason: {row}");
            targets.extend(words(said));
        }
    }
    (readers, targets)
}

#[test]
fn every_parser_has_a_fuzz_target_or_a_reason() {
    let page = fs::read_to_string(root().join("docs/fuzzing.md")).expect("the page");
    let (_, rest) = page.split_once("## Which target reads what").expect("the table of parsers");
    let (listed, targets) = readers(rest.split("\n## ").next().unwrap_or_default());
    assert!(listed.len() > 60, "the table was not read");
    for target in targets {
        assert!(root().join("fuzz/corpus").join(target).is_dir(), "no target {target}");
    }
    let tools = ["muster-fuzz", "muster-gen", "muster-needs", "muster-testbed"];
    let mut missing = Vec::new();
    for path in files(&root().join("crates"), ".rs") {
        let short = path.strip_prefix(root().join("crates")).expect("below").to_string_lossy().into_owned();
        let ships = !tools.iter().any(|t| short.starts_with(t)) && short.contains("/src/");
        let test =
            short.ends_with("tests.rs") || short.ends_with("testing.rs") || short.ends_with("fuzzing.rs");
        if ships && !test && !listed.contains(&short) && reads(&fs::read_to_string(&path).expect("a source"))
        {
            missing.push(short);
        }
    }
    assert!(missing.is_empty(), "they read text and have no row in docs/fuzzing.md: {missing:#?}");
    let gone: Vec<&String> = listed.iter().filter(|f| !root().join("crates").join(f).is_file()).collect();
    assert!(gone.is_empty(), "rows of files that are not there: {gone:?}");
}

#[test]
fn a_parser_without_a_row_is_seen() {
    assert!(
        reads("fn f(t: &str) { t.split_once('=') }")
            && !reads("// t.lines()\nfn f() {}\n#[cfg(test)]\n.lines()")
    );
    let (files, targets) =
        readers("| files | by |\n| `a`: `b`, `c/d` and more | `t`; not `u` |\n| `a`: `e` | none: `x` |\n");
    assert_eq!(files.into_iter().collect::<Vec<_>>(), ["a/src/b.rs", "a/src/c/d.rs", "a/src/e.rs"]);
    assert_eq!(targets.into_iter().collect::<Vec<_>>(), ["t"]);
}
