//! `docs/benchmarks.md`: one section a benchmark, each with its date and machine.

use std::fs;

use anyhow::Result;

use crate::run::root;

/// One benchmark's part of the report.
pub(crate) struct Section {
    /// Heading.
    pub(crate) title: &'static str,
    /// Markdown below the heading.
    pub(crate) body: String,
}

const HEAD: &str = "# Benchmarks\n\n\
    Written by `cargo xtask bench` (as root). Us and the other side run in turns, in one run, on one machine; the numbers\n\
    are medians of batches. Absolute numbers are of the machine that is named; trust the ratios more.\n";

/// The load before a benchmark: above the number of cores, others were at work too.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}

/// Replaces the section `name`, or adds it.
pub(crate) fn write(name: &str, section: &Section, load: &str) -> Result<()> {
    let path = root()?.join("docs/benchmarks.md");
    let old = fs::read_to_string(&path).unwrap_or_else(|_| HEAD.to_owned());
    let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
    let text =
        format!("{open}\n## {}\n\n{}\n\n{}\n{close}", section.title, machine(load)?, section.body.trim());
    let new = match (old.find(&open), old.find(&close)) {
        (Some(from), Some(to)) if from < to => {
            let head = old.get(..from).unwrap_or_default();
            let tail = old.get(to + close.len()..).unwrap_or_default();
            format!("{head}{text}{tail}")
        }
        _ => format!("{}\n{text}\n", old.trim_end_matches('\n').to_owned() + "\n"),
    };
    fs::write(path, new)?;
    Ok(())
}

/// Date, processor, cores, memory, kernel, load.
fn machine(load: &str) -> Result<String> {
    let of = |file: &str, key: &str| -> String {
        let text = fs::read_to_string(file).unwrap_or_default();
        text.lines()
            .find_map(|l| l.strip_prefix(key)?.trim_start().strip_prefix(':'))
            .map_or_else(|| "?".to_owned(), |v| v.trim().to_owned())
    };
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let os = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let os =
        os.lines().find_map(|l| l.strip_prefix("PRETTY_NAME=")).unwrap_or("?").trim_matches('"').to_owned();
    let cores = std::thread::available_parallelism()?.get();
    let memory = of("/proc/meminfo", "MemTotal");
    let date = std::process::Command::new("date").args(["-u", "+%Y-%m-%d"]).output()?;
    Ok(format!(
        "{}; {} ({cores} cores), {memory} of memory, {os}, kernel {}.\n\
         Load average of the minute before: {load}.",
        String::from_utf8_lossy(&date.stdout).trim(),
        of("/proc/cpuinfo", "model name"),
        kernel.trim()
    ))
}
