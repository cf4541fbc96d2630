//! The documentation is whole.

use std::collections::BTreeSet;
use std::path::Path;

use muster_core::Reason;

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
