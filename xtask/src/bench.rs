//! `cargo xtask bench`: us and the other side, side by side in one run; writes `docs/benchmarks.md`.
//!
//! The machines that run this are noisy, so contenders take turns in small batches and the report
//! quotes medians and ratios. Nothing here is a test: no number makes anything fail.

mod fleet;
mod node;
mod report;
mod shim;
mod sshsig;

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::setup;
use report::Section;

/// A benchmark: runs, and says what it saw.
type Part = fn() -> Result<Section>;

/// The parts, in the order of the report.
const PARTS: &[(&str, Part)] =
    &[("shim", shim::run), ("sshsig", sshsig::run), ("fleet", fleet::run), ("node", node::run)];

/// Runs the named parts, or all, and rewrites their sections of the report.
pub(crate) fn run(wanted: &[String]) -> Result<()> {
    for name in wanted {
        if !PARTS.iter().any(|(n, _)| n == name) {
            let known: Vec<&str> = PARTS.iter().map(|(n, _)| *n).collect();
            bail!("there is no benchmark {name:?}; there are: {}", known.join(", "));
        }
    }
    if !setup::is_root() {
        bail!("the benchmarks need root, for the nodes of the test bed: run them with sudo");
    }
    setup::packages()?;
    survive_interrupts()?;
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            println!("benchmark {name}");
            stopped()?;
            let load = report::load();
            let section = part()?;
            println!("{}", section.body);
            report::write(name, &section, &load)?;
        }
    }
    Ok(())
}

/// Somebody asked for the end.
static STOP: AtomicBool = AtomicBool::new(false);

/// Asked to end, this process goes on until [`stopped`] is looked at, so that what was made is removed on the way out. Unlike
/// an ignored signal, one that is handled keeps its meaning in the programs that are started.
fn survive_interrupts() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime.block_on(async {
            let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
            let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = kinds.map(signal) else { return };
            let _ = ready.send(());
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
                STOP.store(true, Ordering::Relaxed);
                eprintln!("stopping: what was made is removed");
            }
        });
    });
    is_ready.recv().context("cannot listen for signals")
}

/// An error once somebody asked for the end.
fn stopped() -> Result<()> {
    if STOP.load(Ordering::Relaxed) {
        bail!("stopped");
    }
    Ok(())
}

/// The middle value of some numbers; of an even count the lower of the two.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// Smallest and largest, to show how noisy a row is.
fn spread(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &v| (lo.min(v), hi.max(v)))
}

/// The first line that a program says of its version.
fn version(program: &str, option: &str) -> Result<String> {
    let out = std::process::Command::new(program).arg(option).output()?;
    let text = [out.stdout, out.stderr].concat();
    Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or("?").to_owned())
}
