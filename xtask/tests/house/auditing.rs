//! `docs/auditing.md` names every source of the two programs that run as root, once, with its size. Written with MUSTER_WRITE_AUDITING=1.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::graph::ours;
use crate::root;
use crate::sources::of_crates;

const PAGE: &str = "docs/auditing.md";
/// What runs as root on machines.
const PROGRAMS: &[&str] = &["muster-shim", "musterd"];
/// In percent: a page that names sizes to the nearest ten need not be written anew with each change.
const OFF: usize = 8;

/// The crates of ours that a program of [`PROGRAMS`] is built from.
fn closure() -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    let mut next: Vec<String> = PROGRAMS.iter().map(|p| (*p).to_owned()).collect();
    while let Some(name) = next.pop() {
        if out.insert(name.clone()) {
            next.extend(ours()[&name].1.iter().cloned());
        }
    }
    out
}

/// Lines of code of each source: those that hold more than blanks once comments, texts and tests are blanked.
fn sizes() -> BTreeMap<PathBuf, usize> {
    let closure = closure();
    let sources = of_crates(|name| closure.contains(name));
    let lines = |code: &str| code.lines().filter(|l| !l.trim().is_empty()).count();
    let short = |path: &Path| path.strip_prefix(root()).expect("in the workspace").to_owned();
    sources.iter().map(|(path, code)| (short(path), lines(code))).collect()
}

/// `a/{b,c}.rs` is two files; what ends in a slash is all that is below.
fn spelled_out(cell: &str) -> Vec<String> {
    let mut out = Vec::new();
    for item in cell.split('`').skip(1).step_by(2) {
        match item.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?))) {
            Some((head, (names, tail))) => out.extend(names.split(',').map(|n| format!("{head}{n}{tail}"))),
            None => out.push(item.to_owned()),
        }
    }
    out
}

/// What a row's items are of the sources, taken out of those that no row had yet.
fn taken(items: &[String], left: &mut BTreeMap<PathBuf, usize>) -> usize {
    let mut sum = 0;
    for item in items {
        let here: Vec<PathBuf> = left
            .keys()
            .filter(|p| if item.ends_with('/') { p.starts_with(item) } else { *p == Path::new(item) })
            .cloned()
            .collect();
        assert!(!here.is_empty(), "{PAGE}: `{item}` is no source of the two programs, or in a row before");
        sum += here.iter().filter_map(|p| left.remove(p)).sum::<usize>();
    }
    sum
}

/// The page with the sizes as they are, and the rows whose size is not.
fn written(page: &str, mut left: BTreeMap<PathBuf, usize>) -> (String, Vec<String>) {
    let (mut out, mut off) = (String::new(), Vec::new());
    for line in page.lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let row = line.starts_with("| `crates/") && cells.len() == 3;
        if !row {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let is = taken(&spelled_out(cells[0]), &mut left);
        let said: usize = cells[1].parse().expect("a size");
        if said.abs_diff(is) * 100 > is * OFF {
            off.push(format!("{} {said}, and is {is}", cells[0]));
        }
        out.push_str(&format!("{} | {} | {}\n", cells[0], (is + 5) / 10 * 10, cells[2]));
    }
    assert!(left.is_empty(), "{PAGE}: in no row: {:?}", left.keys().collect::<Vec<_>>());
    (out, off)
}

#[test]
fn the_page_for_auditors_leaves_nothing_out_and_says_true_sizes() {
    let path = root().join(PAGE);
    let page = fs::read_to_string(&path).expect(PAGE);
    let (now, off) = written(&page, sizes());
    if env::var_os("MUSTER_WRITE_AUDITING").is_some() {
        fs::write(&path, now).expect("write");
        return;
    }
    assert!(off.is_empty(), "{PAGE} (write it with MUSTER_WRITE_AUDITING=1): {off:#?}");
}

#[test]
fn a_wrong_size_and_a_source_in_two_rows_are_seen() {
    let sizes =
        || BTreeMap::from([(PathBuf::from("crates/a/src/b.rs"), 100), ("crates/a/src/c.rs".into(), 20)]);
    let (page, off) = written("x\n| `crates/a/src/{b,c}.rs` | 120 | why |\n", sizes());
    assert_eq!((page.as_str(), off.len()), ("x\n| `crates/a/src/{b,c}.rs` | 120 | why |\n", 0));
    let (page, off) = written("| `crates/a/src/` | 140 | why |\n", sizes());
    assert_eq!((page.as_str(), off.len()), ("| `crates/a/src/` | 120 | why |\n", 1));
    let twice = "| `crates/a/src/` | 120 | why |\n| `crates/a/src/b.rs` | 100 | why |\n";
    let out = std::panic::catch_unwind(|| written(twice, sizes()));
    assert!(out.is_err(), "a source in two rows");
    let less = std::panic::catch_unwind(|| written("| `crates/a/src/b.rs` | 100 | why |\n", sizes()));
    assert!(less.is_err(), "a source in no row");
}
