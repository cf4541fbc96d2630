//! One run of a program, measured: wall time, processor time of all that it started, memory.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

/// What a run took, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub(super) wall: f64,
    /// User and system time of the program and of everything below it.
    pub(super) cpu: f64,
}

/// Longest run.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs `command` to its end through bash, whose `time` counts what was waited for (bash(1), TIMEFORMAT).
pub(super) fn timed(command: &Command, folder: &Path) -> Result<Took> {
    let mut bash = Command::new("bash");
    bash.args(["-c", "TIMEFORMAT='%R %U %S'; time \"$@\" </dev/null >out 2>err", "timed"]);
    bash.arg(command.get_program()).args(command.get_args()).current_dir(folder).env_clear();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            bash.env(name, value);
        }
    }
    bash.env("TIMEFORMAT", "%R %U %S");
    let times = folder.join("times");
    let mut child = bash.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&times)?).spawn()?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            bail!("{:?} did not end within {LIMIT:?}", command.get_program());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    if !status.success() {
        let said = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
        bail!("{:?}: {status}\n{}{}", command.get_program(), said("out"), said("err"));
    }
    let text = fs::read_to_string(&times)?;
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    match numbers[..] {
        [wall, user, system] => Ok(Took { wall, cpu: user + system }),
        _ => bail!("bash says {text:?} instead of three times"),
    }
}

/// Memory of a process now, in KiB (proc_pid_smaps(5), /proc/PID/smaps_rollup).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    pub(super) rss: f64,
    /// Its share of what it shares with others.
    pub(super) pss: f64,
}

/// Of one process.
pub(super) fn memory(pid: u32) -> Result<Memory> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).context("a process that has ended")?;
    let of = |key: &str| -> Option<f64> {
        text.lines().find_map(|l| l.strip_prefix(key)?.trim().split(' ').next()?.parse().ok())
    };
    match (of("Rss:"), of("Pss:")) {
        (Some(rss), Some(pss)) => Ok(Memory { rss, pss }),
        _ => bail!("no Rss and Pss of {pid}"),
    }
}

/// The living processes whose command line holds all of these words, this one aside.
pub(super) fn processes(words: &[&str]) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let argv: Vec<String> =
            line.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
        if words.iter().all(|w| argv.iter().any(|a| a == w)) {
            found.push(pid);
        }
    }
    Ok(found)
}

/// Starts it, calls `look` while it runs, and waits for a good end.
pub(super) fn watched<T>(mut command: Command, look: impl FnOnce(u32) -> Result<T>) -> Result<T> {
    let log = tempfile::tempfile()?;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::from(log.try_clone()?))
        .stderr(Stdio::from(log))
        .spawn()?;
    let seen = look(child.id());
    if seen.is_err() {
        let _ = child.kill();
    }
    let status = child.wait()?;
    let seen = seen?;
    ensure!(status.success(), "{:?}: {status}", command.get_program());
    Ok(seen)
}
