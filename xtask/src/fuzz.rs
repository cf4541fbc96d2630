//! `cargo xtask fuzz`: builds the fuzz targets on the stable toolchain and runs each for a while.
//!
//! What a target does is in `crates/muster-fuzz`; the kept corpora are in `fuzz/corpus`. A run
//! collects what it finds under `target/fuzz/corpus`, so that it never dirties the repository;
//! `--keep` takes over what reaches new code. docs/fuzzing.md says more.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::{iter, thread};

use anyhow::{Context, Result, bail};

use crate::run::{cargo, root, run as spawn};
use crate::setup;

/// The version whose options and paths this file knows.
const CARGO_FUZZ: &str = "0.13.2";
/// Of one run, AddressSanitizer's own memory included.
const RSS_LIMIT_MB: u32 = 2048;
/// Of one allocation. No parser has a reason to take more than a small multiple of its input.
const MALLOC_LIMIT_MB: u32 = 64;
/// Seconds that one input may take, under AddressSanitizer and beside another job.
const SLOWEST: u32 = 10;
/// An input longer than this is not taken into the kept corpus.
const KEPT_LEN: u64 = 4096;

/// What the command line asks for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Minutes for each target.
    #[arg(long, default_value_t = 1)]
    minutes: u32,
    /// Targets that run at a time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    jobs: u32,
    /// Takes over into fuzz/corpus what reached new code.
    #[arg(long)]
    keep: bool,
    /// All when none is named.
    targets: Vec<String>,
}

/// One line of the table.
struct Outcome {
    target: String,
    runs: u64,
    per_second: u64,
    edges: u64,
    peak_rss_mb: u64,
    slowest: u64,
    /// What libFuzzer said of the input that ended the run.
    crash: Option<String>,
}

/// Builds, runs, prints the table, and fails if any target crashed.
pub(crate) fn run(options: &Options) -> Result<()> {
    let tool = setup::cargo_tool("cargo-fuzz", CARGO_FUZZ)?;
    let known = targets()?;
    let chosen: Vec<(String, u64)> = match options.targets.as_slice() {
        [] => known.into_iter().collect(),
        names => names
            .iter()
            .map(|name| {
                let known_names = || known.keys().cloned().collect::<Vec<_>>().join(" ");
                let len = known
                    .get(name)
                    .with_context(|| format!("no target {name}; there are: {}", known_names()))?;
                Ok((name.clone(), *len))
            })
            .collect::<Result<_>>()?,
    };
    // The same versions as in what ships; cargo drops what is not used here and adds libfuzzer-sys.
    fs::copy(root()?.join("Cargo.lock"), root()?.join("fuzz/Cargo.lock"))?;
    let mut build = Command::new(tool);
    build.current_dir(root()?).env("RUSTC_BOOTSTRAP", "1").args([
        "build",
        "--fuzz-dir",
        "fuzz",
        "--target-dir",
        "target/fuzz",
    ]);
    if let [one] = chosen.as_slice() {
        build.arg(&one.0);
    }
    spawn(&mut build)?;

    let queue = Mutex::new(chosen.iter());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut q| q.next());
                    let Some((target, len)) = next else { break };
                    println!("{target}: {} min", options.minutes);
                    let outcome = fuzz(target, *len, options).with_context(|| target.clone());
                    if let Ok(mut done) = done.lock() {
                        done.push(outcome);
                    }
                }
            });
        }
    });
    let mut outcomes = done.into_inner().unwrap_or_default().into_iter().collect::<Result<Vec<_>>>()?;
    outcomes.sort_by(|a, b| a.target.cmp(&b.target));
    table(&outcomes);
    let crashed: Vec<&str> =
        outcomes.iter().filter(|o| o.crash.is_some()).map(|o| o.target.as_str()).collect();
    if crashed.is_empty() {
        return Ok(());
    }
    bail!(
        "crashed: {}; the inputs are under fuzz/artifacts, the logs under target/fuzz/logs",
        crashed.join(" ")
    )
}

/// Every target and the length of its longest input.
fn targets() -> Result<BTreeMap<String, u64>> {
    let out = cargo()?
        .args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path", "fuzz/Cargo.toml"])
        .output()?;
    let text = String::from_utf8(out.stdout)?;
    let package: serde_json::Value = serde_json::from_str(&text).context("cargo metadata of fuzz")?;
    let lens = package.pointer("/packages/0/metadata/max-len").and_then(|v| v.as_object());
    let bins = package.pointer("/packages/0/targets").and_then(|v| v.as_array());
    bins.context("fuzz/Cargo.toml has no targets")?
        .iter()
        .map(|bin| {
            let name = bin.get("name").and_then(|n| n.as_str()).context("a target without a name")?;
            let len = lens.and_then(|l| l.get(name)).and_then(serde_json::Value::as_u64);
            Ok((name.to_owned(), len.with_context(|| format!("fuzz/Cargo.toml: {name} has no max-len"))?))
        })
        .collect()
}

/// Runs one target to the end of its time.
fn fuzz(target: &str, max_len: u64, options: &Options) -> Result<Outcome> {
    let found = root()?.join("target/fuzz/corpus").join(target);
    let kept = root()?.join("fuzz/corpus").join(target);
    let artifacts = root()?.join("fuzz/artifacts").join(target);
    let logs = root()?.join("target/fuzz/logs");
    for dir in [&found, &artifacts, &logs] {
        fs::create_dir_all(dir)?;
    }
    let log = logs.join(format!("{target}.log"));
    let mut command = binary(target)?;
    command
        .arg(format!("-max_total_time={}", options.minutes * 60))
        .arg(format!("-max_len={max_len}"))
        .arg(format!("-rss_limit_mb={RSS_LIMIT_MB}"))
        .arg(format!("-malloc_limit_mb={MALLOC_LIMIT_MB}"))
        .arg(format!("-timeout={SLOWEST}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg("-print_final_stats=1");
    let dict = root()?.join("fuzz/dict").join(target).with_extension("dict");
    if dict.is_file() {
        command.arg(format!("-dict={}", dict.display()));
    }
    command.arg(&found).arg(&kept).stderr(File::create(&log)?);
    let status = command.status().with_context(|| format!("cannot start {target}"))?;
    let text = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
    let mut outcome = read_log(target, &text);
    if !status.success() && outcome.crash.is_none() {
        outcome.crash = Some(status.to_string());
    }
    if options.keep && status.success() {
        keep(target, &found, &kept)?;
    }
    Ok(outcome)
}

fn binary(target: &str) -> Result<Command> {
    let dir = root()?.join("target/fuzz");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = Command::new(dir.join(triple).join("release").join(target));
    command.current_dir(root()?);
    Ok(command)
}

/// Copies into the kept corpus what reaches code that it did not reach. Edges alone count: counting
/// how often each is taken would keep hundreds of inputs.
fn keep(target: &str, found: &PathBuf, kept: &PathBuf) -> Result<()> {
    let short = root()?.join("target/fuzz/short").join(target);
    let _ = fs::remove_dir_all(&short);
    fs::create_dir_all(&short)?;
    for entry in fs::read_dir(found)? {
        let entry = entry?;
        if entry.metadata()?.len() <= KEPT_LEN {
            fs::copy(entry.path(), short.join(entry.file_name()))?;
        }
    }
    let log = root()?.join("target/fuzz/logs").join(format!("{target}-merge.log"));
    let status = binary(target)?
        .args(["-merge=1", "-use_counters=0", "-use_value_profile=0"])
        .arg(kept)
        .arg(&short)
        .stderr(File::create(&log)?)
        .status()?;
    if !status.success() {
        bail!("taking over the corpus: {status}, see {}", log.display());
    }
    Ok(())
}

/// Reads libFuzzer's own report.
fn read_log(target: &str, log: &str) -> Outcome {
    let stat = |name: &str| {
        let found =
            log.lines().rev().find_map(|l| l.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':'));
        found.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
    };
    let edges = log.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once(" cov: ")?;
        rest.split(' ').next()?.parse().ok()
    });
    // Of a panic the words are on the line after the place.
    let mut lines = log.lines();
    let crash = lines.by_ref().find(|l| {
        l.contains("ERROR: ")
            || l.contains("panicked at")
            || l.starts_with("ALARM:")
            || l.contains("SUMMARY: ")
    });
    let crash = match crash {
        Some(place) if place.contains("panicked at") => lines.next().or(Some(place)),
        other => other,
    };
    Outcome {
        target: target.to_owned(),
        runs: stat("number_of_executed_units"),
        per_second: stat("average_exec_per_sec"),
        edges: edges.unwrap_or(0),
        peak_rss_mb: stat("peak_rss_mb"),
        slowest: stat("slowest_unit_time_sec"),
        crash: crash.map(str::to_owned),
    }
}

/// Prints a table that can go into docs/fuzzing.md as it is.
fn table(outcomes: &[Outcome]) {
    let head = ["target", "executions", "exec/s", "edges", "peak RSS MB", "slowest s", "crashes"];
    let rows: Vec<[String; 7]> = outcomes
        .iter()
        .map(|o| {
            [
                o.target.clone(),
                o.runs.to_string(),
                o.per_second.to_string(),
                o.edges.to_string(),
                o.peak_rss_mb.to_string(),
                o.slowest.to_string(),
                o.crash.clone().unwrap_or_else(|| "0".to_owned()),
            ]
        })
        .collect();
    let width = |n: usize| {
        rows.iter()
            .filter_map(|r| r.get(n))
            .map(|c| c.chars().count())
            .chain(head.get(n).map(|h| h.len()))
            .max()
    };
    let widths: Vec<usize> = (0..head.len()).map(|n| width(n).unwrap_or(0)).collect();
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(c, w)| format!("{c:w$}")).collect();
        println!("| {} |", padded.join(" | "));
    };
    println!();
    line(&head.map(str::to_owned));
    line(&iter::zip(head, &widths).map(|(_, w)| "-".repeat(*w)).collect::<Vec<_>>());
    for row in &rows {
        line(row);
    }
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = "#2\tINITED cov: 77 ft: 77 corp: 1/1b exec/s: 0 rss: 40Mb\n\
        #1024\tpulse  cov: 812 ft: 900 corp: 5/9b lim: 4 exec/s: 512 rss: 41Mb\n\
        Done 1024 runs in 2 second(s)\n\
        stat::number_of_executed_units: 1024\nstat::average_exec_per_sec:     512\n\
        stat::new_units_added:          4\nstat::slowest_unit_time_sec:    1\nstat::peak_rss_mb:              41\n";

    #[test]
    fn a_good_end_is_read() {
        let o = read_log("t", END);
        assert_eq!((o.runs, o.per_second, o.edges, o.peak_rss_mb, o.slowest), (1024, 512, 812, 41, 1));
        assert_eq!(o.crash, None);
    }

    #[test]
    fn a_crash_is_read() {
        let panic = "thread '<unnamed>' (1) panicked at crates/x.rs:1:1:\nwhat was wrong\nstack backtrace:\n";
        assert_eq!(read_log("t", panic).crash.as_deref(), Some("what was wrong"));
        for line in [
            "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address",
            "==1== ERROR: libFuzzer: out-of-memory (used: 2049Mb; limit: 2048Mb)",
            "ALARM: working on the last Unit for 11 seconds",
        ] {
            assert_eq!(read_log("t", &format!("{END}{line}\n")).crash.as_deref(), Some(line));
        }
    }

    #[test]
    fn every_target_has_a_length() {
        assert!(!targets().expect("the targets").is_empty());
    }
}
