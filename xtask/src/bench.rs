//! `cargo xtask bench`: us and the other side, side by side in one run; writes `docs/benchmarks.md`.
//!
//! The machines that run this are noisy, so contenders take turns in small batches and the report
//! quotes medians and ratios. Nothing here is a test: no number makes anything fail.

mod report;
mod shim;
mod sshsig;

use anyhow::{Result, bail};

use report::Section;

/// A benchmark: runs, and says what it saw.
type Part = fn() -> Result<Section>;

/// The parts, in the order of the report.
const PARTS: &[(&str, Part)] = &[("shim", shim::run), ("sshsig", sshsig::run)];

/// Runs the named parts, or all, and rewrites their sections of the report.
pub(crate) fn run(wanted: &[String]) -> Result<()> {
    for name in wanted {
        if !PARTS.iter().any(|(n, _)| n == name) {
            let known: Vec<&str> = PARTS.iter().map(|(n, _)| *n).collect();
            bail!("there is no benchmark {name:?}; there are: {}", known.join(", "));
        }
    }
    for (name, part) in PARTS {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            println!("benchmark {name}");
            let section = part()?;
            println!("{}", section.body);
            report::write(name, &section)?;
        }
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
