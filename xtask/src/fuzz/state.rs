//! What each target has had so far, kept under `target/fuzz/state.json` after each slice, so that a stopped run goes on.
//!
//! A record counts for the sources that it was made with and for no others: a target begins again when they change.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::slice::Outcome;

/// Of one target, over all its slices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    /// Of the sources: [`source_digest`].
    pub(super) source: String,
    pub(super) slices: u64,
    pub(super) cpu_seconds: f64,
    /// By the clock, waiting for a processor included.
    #[serde(default)]
    pub(super) clock_seconds: f64,
    pub(super) executions: u64,
    pub(super) edges: u64,
    pub(super) peak_rss_mb: u64,
    /// Seconds by libFuzzer's clock, waiting for a processor included.
    pub(super) slowest: u64,
    /// What ended the target.
    pub(super) finding: Option<String>,
}

impl Record {
    fn add(&mut self, slice: &Outcome) {
        self.slices += 1;
        self.cpu_seconds += slice.cpu_seconds;
        self.clock_seconds += slice.clock_seconds;
        self.executions += slice.runs;
        self.edges = self.edges.max(slice.edges);
        self.peak_rss_mb = self.peak_rss_mb.max(slice.peak_rss_mb);
        self.slowest = self.slowest.max(slice.slowest);
        self.finding.clone_from(&slice.crash);
    }
}

/// The records and their file.
pub(super) struct State {
    file: PathBuf,
    source: String,
    records: BTreeMap<String, Record>,
}

impl State {
    /// Reads what there is. Records of other sources stay in the file until their target runs again.
    pub(super) fn read(file: PathBuf, source: String) -> Result<Self> {
        let records = match fs::read(&file) {
            Ok(bytes) => serde_json::from_slice(&bytes).with_context(|| file.display().to_string())?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return Err(e).with_context(|| file.display().to_string()),
        };
        Ok(Self { file, source, records })
    }

    /// What `target` has had of these sources.
    pub(super) fn of(&self, target: &str) -> Record {
        let record = self.records.get(target).filter(|r| r.source == self.source);
        record.cloned().unwrap_or_else(|| Record { source: self.source.clone(), ..Record::default() })
    }

    pub(super) fn forget(&mut self, target: &str) {
        self.records.remove(target);
    }

    /// Adds a slice and writes the file; the sum so far.
    pub(super) fn add(&mut self, target: &str, slice: &Outcome) -> Result<Record> {
        let mut record = self.of(target);
        record.add(slice);
        self.records.insert(target.to_owned(), record.clone());
        let dir = self.file.parent().context("the state file has a folder")?;
        let mut new = tempfile::NamedTempFile::new_in(dir)?;
        serde_json::to_writer_pretty(&mut new, &self.records)?;
        new.write_all(b"\n")?;
        new.persist(&self.file)?;
        Ok(record)
    }
}

/// Of everything that is compiled into the targets: the locked dependencies, our crates among them, the binaries. Tests
/// and the kept corpus are not in it.
pub(super) fn source_digest(root: &Path) -> Result<String> {
    let lock = root.join("fuzz/Cargo.lock");
    let mut paths = vec![root.join("fuzz/Cargo.toml")];
    collect(&root.join("fuzz/fuzz_targets"), &mut paths)?;
    for name in ours(&fs::read_to_string(&lock)?) {
        let dir = root.join("crates").join(name);
        if dir.is_dir() {
            paths.push(dir.join("Cargo.toml"));
            collect(&dir.join("src"), &mut paths)?;
        }
    }
    paths.push(lock);
    paths.sort();
    let mut all = Sha256::new();
    for path in paths {
        let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
        let content = fs::read(&path).with_context(|| name.clone())?;
        all.update(Sha256::digest(name));
        all.update(Sha256::digest(content));
    }
    Ok(all.finalize().iter().take(8).map(|b| format!("{b:02x}")).collect())
}

/// The packages of a lock file that come from no registry.
fn ours(lock: &str) -> impl Iterator<Item = &str> {
    let packages = lock.split("[[package]]").skip(1).filter(|p| !p.contains("\nsource = "));
    packages.filter_map(|p| p.lines().find_map(|l| l.strip_prefix("name = \"")?.strip_suffix('"')))
}

fn collect(dir: &Path, into: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}

/// A table that can go into docs/fuzzing.md as it is.
pub(super) fn table(records: &BTreeMap<String, Record>) -> String {
    let head = [
        "target",
        "CPU min",
        "clock min",
        "executions",
        "exec/s",
        "edges",
        "peak RSS MB",
        "slowest s",
        "finding",
    ];
    let rows = records.iter().map(|(target, r)| {
        [
            format!("`{target}`"),
            format!("{:.1}", r.cpu_seconds / 60.0),
            format!("{:.1}", r.clock_seconds / 60.0),
            r.executions.to_string(),
            if r.cpu_seconds > 0.0 {
                format!("{:.0}", r.executions as f64 / r.cpu_seconds)
            } else {
                "-".to_owned()
            },
            r.edges.to_string(),
            r.peak_rss_mb.to_string(),
            r.slowest.to_string(),
            r.finding.clone().unwrap_or_else(|| "none".to_owned()),
        ]
    });
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let dashes = head.map(|_| "---".to_owned());
    iter::once(line(&head.map(str::to_owned)))
        .chain(iter::once(line(&dashes)))
        .chain(rows.map(|row| line(&row)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(cpu_seconds: f64, edges: u64) -> Outcome {
        Outcome {
            cpu_seconds,
            clock_seconds: 2.0 * cpu_seconds,
            runs: 10,
            edges,
            peak_rss_mb: edges,
            slowest: 0,
            crash: None,
        }
    }

    #[test]
    fn a_stopped_run_goes_on() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("state.json");
        let open = |source: &str| State::read(file.clone(), source.to_owned()).expect("a state");
        let mut state = open("a");
        assert_eq!(state.of("t"), Record { source: "a".to_owned(), ..Record::default() });
        state.add("t", &slice(2.5, 7)).expect("a folder");
        state.add("t", &slice(1.5, 6)).expect("a folder");
        drop(state);
        let mut state = open("a");
        let sum = state.of("t");
        assert_eq!(
            (sum.slices, sum.cpu_seconds, sum.clock_seconds, sum.executions, sum.edges),
            (2, 4.0, 8.0, 20, 7)
        );
        state.forget("t");
        assert_eq!(state.of("t").slices, 0);
    }

    #[test]
    fn other_sources_are_another_count() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("state.json");
        let open = |source: &str| State::read(file.clone(), source.to_owned()).expect("a state");
        open("a").add("t", &slice(2.0, 7)).expect("a folder");
        assert_eq!(open("b").of("t").slices, 0);
        assert_eq!(open("a").of("t").slices, 1, "reading loses nothing");
        assert_eq!(open("b").add("t", &slice(1.0, 1)).expect("a folder").slices, 1);
    }

    #[test]
    fn a_broken_state_is_told() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("state.json");
        fs::write(&file, "{").expect("a file");
        let why = State::read(file, String::new()).err().expect("a refusal");
        assert!(format!("{why:#}").contains("state.json"), "{why:#}");
    }

    #[test]
    fn the_digest_follows_the_sources() {
        let dir = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        };
        let lock =
            "[[package]]\nname = \"a\"\nversion = \"1\"\n\n[[package]]\nname = \"b\"\nsource = \"x\"\n";
        put("fuzz/Cargo.lock", lock);
        for name in
            ["fuzz/Cargo.toml", "fuzz/fuzz_targets/a.rs", "crates/a/Cargo.toml", "crates/a/src/lib.rs"]
        {
            put(name, "1");
        }
        let digest = || source_digest(dir.path()).expect("a digest");
        let first = digest();
        put("crates/a/tests/t.rs", "2");
        put("fuzz/corpus/a/x", "2");
        put("crates/b/src/lib.rs", "2");
        assert_eq!(digest(), first, "these are not compiled into a target");
        for name in ["fuzz/Cargo.toml", "fuzz/fuzz_targets/a.rs", "crates/a/src/deep/er.rs"] {
            let before = digest();
            put(name, "2");
            assert_ne!(digest(), before, "{name}");
        }
        let before = digest();
        put("fuzz/Cargo.lock", &lock.replace("version = \"1\"", "version = \"2\""));
        assert_ne!(digest(), before, "fuzz/Cargo.lock");
    }

    #[test]
    fn the_table_is_for_the_page() {
        let mut record = Record::default();
        record.add(&slice(90.0, 7));
        let table = table(&BTreeMap::from([("t".to_owned(), record), ("u".to_owned(), Record::default())]));
        assert!(
            table.contains("| `t` | 1.5 | 3.0 | 10 | 0 | 7 | 7 | 0 | none |\n| `u` | 0.0 | 0.0 | 0 | - |"),
            "{table}"
        );
        assert_eq!(table.lines().count(), 4);
    }
}
