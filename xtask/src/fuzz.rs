//! `cargo xtask fuzz`: builds the fuzz targets on the stable toolchain and runs each for a while.
//!
//! What a target does is in `crates/muster-fuzz`; the kept corpora are in `fuzz/corpus`. A run
//! collects what it finds under `target/fuzz/corpus`, so that it never dirties the repository;
//! `--keep` takes over what reaches new code. Minutes are minutes of a processor, spent in slices;
//! after each slice the sums are written, and `--resume` goes on from them. docs/fuzzing.md says more.

mod slice;
mod state;

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::run::{cargo, root, run as spawn};
use crate::setup;
use slice::Job;
use state::{Record, State};

/// The version whose options and paths this file knows.
const CARGO_FUZZ: &str = "0.13.2";
/// Seconds on the wall of one slice: what a killed run loses at most.
const SLICE: u64 = 60;
/// Seconds of the shortest slice.
const SHORTEST: u64 = 10;
/// A target that waits for a processor most of the time is left after this many times its minutes on the wall.
const PATIENCE: u64 = 6;

/// What the command line asks for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Minutes for each target, of processor time.
    #[arg(long, default_value_t = 1)]
    minutes: u32,
    /// Targets that run at a time.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=8))]
    jobs: u32,
    /// Minutes are minutes by the clock.
    #[arg(long)]
    clock: bool,
    /// Goes on from what earlier runs on the same sources have had.
    #[arg(long)]
    resume: bool,
    /// Takes only processor time that nobody else wants.
    #[arg(long)]
    idle: bool,
    /// Takes over into fuzz/corpus what reached new code.
    #[arg(long)]
    keep: bool,
    /// In this order; all when none is named.
    targets: Vec<String>,
}

/// Builds, runs, prints the table, and fails if any target crashed or did not get its time.
pub(crate) fn run(options: &Options) -> Result<()> {
    let chosen = choose(&options.targets, &targets()?)?;
    build(options, &chosen)?;
    let dir = root()?.join("target/fuzz");
    let mut state = State::read(dir.join("state.json"), state::source_digest(&root()?)?)?;
    if !options.resume {
        chosen.iter().for_each(|(target, _)| state.forget(target));
    }
    let state = Mutex::new(state);
    let queue = Mutex::new(chosen.iter());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                loop {
                    let next = held(&queue).next();
                    let Some((target, len)) = next else { break };
                    if let Err(e) = fuzz(target, *len, options, &state) {
                        held(&failed).push(format!("{target}: {e:#}"));
                    }
                }
            });
        }
    });
    let state = held(&state);
    let records: BTreeMap<_, _> = chosen.iter().map(|(t, _)| (t.clone(), state.of(t))).collect();
    print!("\n{}\n", state::table(&records));
    let failed = held(&failed);
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("; ")) }
}

/// What another thread left behind when it panicked is still whole: each change is one call.
fn held<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The targets that are named, in that order, each with the length of its longest input.
fn choose(names: &[String], known: &BTreeMap<String, u64>) -> Result<Vec<(String, u64)>> {
    if names.is_empty() {
        return Ok(known.iter().map(|(name, len)| (name.clone(), *len)).collect());
    }
    let mut chosen: Vec<(String, u64)> = Vec::new();
    for name in names {
        let there_are = || known.keys().cloned().collect::<Vec<_>>().join(" ");
        let len = known.get(name).with_context(|| format!("no target {name}; there are: {}", there_are()))?;
        if chosen.iter().all(|(other, _)| other != name) {
            chosen.push((name.clone(), *len));
        }
    }
    Ok(chosen)
}

fn build(options: &Options, chosen: &[(String, u64)]) -> Result<()> {
    let tool = setup::cargo_tool("cargo-fuzz", CARGO_FUZZ)?;
    // The same versions as in what ships; cargo drops what is not used here and adds libfuzzer-sys.
    fs::copy(root()?.join("Cargo.lock"), root()?.join("fuzz/Cargo.lock"))?;
    let mut build = slice::idle(options.idle, &tool);
    build.current_dir(root()?).env("RUSTC_BOOTSTRAP", "1").args([
        "build",
        "--fuzz-dir",
        "fuzz",
        "--target-dir",
        "target/fuzz",
    ]);
    if let [(one, _)] = chosen {
        build.arg(one);
    }
    spawn(&mut build)
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

/// Runs one target, slice by slice, until it has had its time.
fn fuzz(target: &str, max_len: u64, options: &Options, state: &Mutex<State>) -> Result<()> {
    let job = Job::new(target, max_len, options.idle)?;
    let wanted = f64::from(options.minutes) * 60.0;
    let patience = u64::from(options.minutes) * 60 * PATIENCE;
    let begun = Instant::now();
    let time = |had: &Record| if options.clock { had.clock_seconds } else { had.cpu_seconds };
    let mut had = held(state).of(target);
    while had.finding.is_none() && time(&had) < wanted {
        if begun.elapsed().as_secs() >= patience {
            bail!(
                "{:.1} of {} minutes: the machine is too busy; go on with --resume",
                time(&had) / 60.0,
                options.minutes
            );
        }
        let outcome = job.run(slice_seconds(wanted - time(&had)))?;
        had = held(state).add(target, &outcome)?;
        println!(
            "{target}: {:.1} of {} min, {} executions, {} edges",
            time(&had) / 60.0,
            options.minutes,
            had.executions,
            had.edges
        );
    }
    if let Some(finding) = had.finding {
        bail!(
            "crashed: {finding}; the input is under fuzz/artifacts/{target}, the log is target/fuzz/logs/{target}.log"
        );
    }
    if options.keep {
        println!("{target}: {} inputs kept", job.keep()?);
    }
    Ok(())
}

/// How long the next slice is, for so many seconds that are still missing. On a busy machine it brings less, and each begins
/// with reading the corpus: many short ones would do little else.
fn slice_seconds(missing: f64) -> u64 {
    (SHORTEST..SLICE).find(|n| missing <= *n as f64).unwrap_or(SLICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_a_length() {
        assert!(!targets().expect("the targets").is_empty());
    }

    #[test]
    fn targets_keep_their_order_and_an_unknown_one_is_told() {
        let known = BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]);
        let choose =
            |names: &[&str]| choose(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>(), &known);
        assert_eq!(choose(&["b", "a", "b"]).expect("both"), [("b".to_owned(), 2), ("a".to_owned(), 1)]);
        assert_eq!(choose(&[]).expect("all").len(), 2);
        let why = choose(&["c"]).expect_err("no such target").to_string();
        assert_eq!(why, "no target c; there are: a b");
    }

    #[test]
    fn the_last_slice_is_short() {
        assert_eq!([0.2, 10.0, 10.5, 59.0, 600.0].map(slice_seconds), [10, 10, 11, 59, 60]);
    }
}
