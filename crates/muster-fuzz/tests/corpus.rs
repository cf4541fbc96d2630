//! Replays the kept corpora through the very functions that the fuzz targets run.
#![allow(missing_docs, clippy::expect_used, clippy::panic, reason = "tests")]

use muster_fuzz::{Said, TARGETS};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn fuzz_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.expect("a folder that can be read").path())
        .collect();
    out.sort();
    out
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

/// Every input of every corpus runs without a failed assertion, seeds are judged as their names
/// say, and each corpus reaches both answers.
#[test]
fn every_kept_input_replays() {
    let mut wrong = Vec::new();
    for target in TARGETS {
        let (mut accepted, mut refused) = (0, 0);
        for path in files(&fuzz_dir().join("corpus").join(target.name)) {
            let input = fs::read(&path).expect("a corpus file");
            println!("{}", path.display());
            let said = (target.body)(&input);
            let file = name(&path);
            let wanted = match file.strip_prefix("seed-") {
                Some(seed) if seed.starts_with("good") => Some(Said::Accepted),
                Some(seed) if seed.starts_with("bad") => Some(Said::Refused),
                Some(_) => panic!("{file}: a seed is good or bad"),
                None => None,
            };
            if wanted.is_some_and(|w| w != said) {
                wrong.push(format!("{}/{file}: {said:?}", target.name));
            }
            match said {
                Said::Accepted => accepted += 1,
                Said::Refused => refused += 1,
            }
        }
        if accepted == 0 || refused == 0 {
            wrong.push(format!("{}: {accepted} accepted, {refused} refused", target.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The list of targets, the binaries and the corpora are the same set.
#[test]
fn every_target_has_a_binary_and_a_corpus() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|t| t.name.to_owned()).collect();
    assert_eq!(listed.len(), TARGETS.len(), "a target is listed twice");
    let corpora: BTreeSet<String> = files(&fuzz_dir().join("corpus")).iter().map(|p| name(p)).collect();
    assert_eq!(corpora, listed, "folders of fuzz/corpus");
    let sources: BTreeSet<String> = files(&fuzz_dir().join("fuzz_targets"))
        .iter()
        .map(|p| p.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    assert_eq!(sources, listed, "files of fuzz/fuzz_targets");
    let manifest = fs::read_to_string(fuzz_dir().join("Cargo.toml")).expect("fuzz/Cargo.toml");
    let bins: BTreeSet<String> = manifest
        .split("[[bin]]")
        .skip(1)
        .map(|bin| {
            let line = bin.lines().find_map(|l| l.strip_prefix("name = ")).expect("a name");
            line.trim_matches('"').to_owned()
        })
        .collect();
    assert_eq!(bins, listed, "[[bin]] of fuzz/Cargo.toml");
    for target in TARGETS {
        let path = fuzz_dir().join("fuzz_targets").join(target.name).with_extension("rs");
        let text = fs::read_to_string(&path).expect("a fuzz target");
        assert!(text.contains(&format!("{}(", target.path)), "{}: calls another body", path.display());
    }
}

/// The corpora are part of the repository and stay small.
#[test]
fn the_corpora_are_under_a_mebibyte() {
    let size: u64 = TARGETS
        .iter()
        .flat_map(|t| files(&fuzz_dir().join("corpus").join(t.name)))
        .map(|p| fs::metadata(p).expect("a corpus file").len())
        .sum();
    assert!(size < 1 << 20, "{size} bytes");
}
