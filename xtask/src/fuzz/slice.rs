//! One slice of a target's time: libFuzzer is started, ends by itself, and what it used and said is read.
//!
//! libFuzzer measures wall time, and on a busy machine a target at idle priority may stand still for most of it.
//! What counts is therefore the processor time, read from `/proc/PID/stat` (proc(5), fields 14 and 15) after the
//! process has ended and before it is reaped; and an input that took too long by libFuzzer's clock is run again and
//! judged by the processor time that it takes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::run::root;

/// Of one run, AddressSanitizer's own memory included.
const RSS_LIMIT_MB: u32 = 2048;
/// Of one allocation. No parser has a reason to take more than a small multiple of its input.
const MALLOC_LIMIT_MB: u32 = 64;
/// Seconds that one input may take, under AddressSanitizer and beside another job.
const SLOWEST: u32 = 10;
/// An input longer than this is not taken into the kept corpus.
const KEPT_LEN: u64 = 4096;

/// A target and where its files are, below `root`.
pub(super) struct Job {
    pub(super) root: PathBuf,
    pub(super) target: String,
    /// Bytes of the longest input.
    pub(super) max_len: u64,
    /// Takes only time that nobody else wants (SCHED_IDLE, sched(7)).
    pub(super) idle: bool,
}

/// What a slice came to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outcome {
    pub(super) cpu_seconds: f64,
    pub(super) clock_seconds: f64,
    pub(super) runs: u64,
    pub(super) edges: u64,
    pub(super) peak_rss_mb: u64,
    pub(super) slowest: u64,
    /// What libFuzzer said of the input that ended the run.
    pub(super) crash: Option<String>,
}

impl Job {
    pub(super) fn new(target: &str, max_len: u64, idle: bool) -> Result<Self> {
        let job = Self { root: root()?, target: target.to_owned(), max_len, idle };
        for dir in [job.found(), job.artifacts(), job.logs()] {
            fs::create_dir_all(dir)?;
        }
        Ok(job)
    }

    fn found(&self) -> PathBuf {
        self.root.join("target/fuzz/corpus").join(&self.target)
    }

    fn kept(&self) -> PathBuf {
        self.root.join("fuzz/corpus").join(&self.target)
    }

    fn artifacts(&self) -> PathBuf {
        self.root.join("fuzz/artifacts").join(&self.target)
    }

    fn logs(&self) -> PathBuf {
        self.root.join("target/fuzz/logs")
    }

    fn binary(&self) -> Command {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let path = self.root.join("target/fuzz").join(triple).join("release").join(&self.target);
        let mut command = idle(self.idle, &path);
        command.current_dir(&self.root);
        command
    }

    /// Runs the target for `seconds` of wall time.
    pub(super) fn run(&self, seconds: u64) -> Result<Outcome> {
        let log = self.logs().join(format!("{}.log", self.target));
        let mut command = self.binary();
        command
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-max_len={}", self.max_len))
            .arg(format!("-rss_limit_mb={RSS_LIMIT_MB}"))
            .arg(format!("-malloc_limit_mb={MALLOC_LIMIT_MB}"))
            .arg(format!("-timeout={SLOWEST}"))
            .arg(format!("-artifact_prefix={}/", self.artifacts().display()))
            .arg("-print_final_stats=1");
        let dict = self.root.join("fuzz/dict").join(&self.target).with_extension("dict");
        if dict.is_file() {
            command.arg(format!("-dict={}", dict.display()));
        }
        command.arg(self.found()).arg(self.kept()).stderr(File::create(&log)?);
        let begun = Instant::now();
        let (status, cpu_seconds) = metered(&mut command)?;
        let clock_seconds = begun.elapsed().as_secs_f64();
        let mut outcome = read_log(&String::from_utf8_lossy(&fs::read(&log)?));
        (outcome.cpu_seconds, outcome.clock_seconds) = (cpu_seconds, clock_seconds);
        if !status.success() && outcome.crash.is_none() {
            outcome.crash = Some(status.to_string());
        }
        if outcome.crash.as_deref().is_some_and(by_the_clock) && self.was_only_held_up(&log)? {
            outcome.crash = None;
        }
        Ok(outcome)
    }

    /// Runs the input of a report again that speaks of time, and says whether the input is innocent.
    fn was_only_held_up(&self, log: &Path) -> Result<bool> {
        let text = fs::read(log)?;
        let text = String::from_utf8_lossy(&text);
        let written = text.lines().find_map(|l| l.split_once("Test unit written to ").map(|(_, path)| path));
        let Some(input) = written.map(|path| PathBuf::from(path.trim())) else { return Ok(false) };
        let again = self.logs().join(format!("{}-again.log", self.target));
        let mut command = self.binary();
        command.arg("-timeout=0").arg(&input).stderr(File::create(again)?);
        let (status, cpu_seconds) = metered(&mut command)?;
        let innocent = status.success() && cpu_seconds < f64::from(SLOWEST);
        if innocent {
            fs::remove_file(&input)?;
        }
        Ok(innocent)
    }

    /// Copies into the kept corpus what reaches code that it did not reach, and says how many files that were.
    /// Edges alone count: counting how often each is taken would keep hundreds of inputs.
    pub(super) fn keep(&self) -> Result<usize> {
        let short = self.root.join("target/fuzz/short").join(&self.target);
        if short.exists() {
            fs::remove_dir_all(&short)?;
        }
        fs::create_dir_all(&short)?;
        for entry in fs::read_dir(self.found())? {
            let entry = entry?;
            if entry.metadata()?.len() <= KEPT_LEN {
                fs::copy(entry.path(), short.join(entry.file_name()))?;
            }
        }
        let before = fs::read_dir(self.kept())?.count();
        let log = self.logs().join(format!("{}-merge.log", self.target));
        let status = self
            .binary()
            .args(["-merge=1", "-use_counters=0", "-use_value_profile=0"])
            .arg(format!("-max_len={}", self.max_len))
            .arg(self.kept())
            .arg(&short)
            .stderr(File::create(&log)?)
            .status()?;
        if !status.success() {
            bail!("taking over the corpus: {status}, see {}", log.display());
        }
        Ok(fs::read_dir(self.kept())?.count() - before)
    }
}

/// `program`, at idle priority if wanted.
pub(super) fn idle(idle: bool, program: &Path) -> Command {
    if !idle {
        return Command::new(program);
    }
    let mut command = Command::new("/usr/bin/chrt");
    command.args(["--idle", "0"]).arg(program);
    command
}

/// Whether a report is about time, which libFuzzer takes from the clock on the wall.
fn by_the_clock(crash: &str) -> bool {
    crash.starts_with("ALARM:") || crash.contains("libFuzzer: timeout")
}

/// Runs `command` to its end and says how many seconds of a processor it took.
fn metered(command: &mut Command) -> Result<(ExitStatus, f64)> {
    let mut child = command.spawn().with_context(|| format!("cannot start {command:?}"))?;
    let used = used_at_end(&child);
    let status = child.wait()?;
    Ok((status, used?))
}

/// Waits for the end of `child`, which stays to be reaped.
fn used_at_end(child: &Child) -> Result<f64> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process id")?;
    loop {
        match waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Err(rustix::io::Errno::INTR) => {}
            other => break other.map(|_| ()),
        }
    }?;
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id()))?;
    cpu_seconds(&stat, rustix::param::clock_ticks_per_second()).context("/proc/PID/stat is not as in proc(5)")
}

/// User and system time. The second field is the program's name and may hold anything.
fn cpu_seconds(stat: &str, ticks_per_second: u64) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11).map(str::parse::<u32>);
    let (user, system) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some((f64::from(user) + f64::from(system)) / f64::from(u32::try_from(ticks_per_second).ok()?))
}

/// Reads libFuzzer's own report.
fn read_log(log: &str) -> Outcome {
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
        cpu_seconds: 0.0,
        clock_seconds: 0.0,
        runs: stat("number_of_executed_units"),
        edges: edges.unwrap_or(0),
        peak_rss_mb: stat("peak_rss_mb"),
        slowest: stat("slowest_unit_time_sec"),
        crash: crash.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: &str = "#2\tINITED cov: 77 ft: 77 corp: 1/1b exec/s: 0 rss: 40Mb\n\
        #1024\tDONE   cov: 812 ft: 1000 corp: 9/1Kb lim: 4096 exec/s: 512 rss: 41Mb\n\
        stat::number_of_executed_units: 1024\nstat::average_exec_per_sec:     512\n\
        stat::new_units_added:          4\nstat::slowest_unit_time_sec:    1\nstat::peak_rss_mb:              41\n";

    #[test]
    fn a_good_end_is_read() {
        let o = read_log(END);
        assert_eq!((o.runs, o.edges, o.peak_rss_mb, o.slowest), (1024, 812, 41, 1));
        assert_eq!(o.crash, None);
    }

    #[test]
    fn a_crash_is_read() {
        let panic = "thread '<unnamed>' (1) panicked at crates/x.rs:1:1:\nwhat was wrong\nstack backtrace:\n";
        assert_eq!(read_log(panic).crash.as_deref(), Some("what was wrong"));
        for line in [
            "==1==ERROR: AddressSanitizer: heap-buffer-overflow on address",
            "==1== ERROR: libFuzzer: out-of-memory (used: 2049Mb; limit: 2048Mb)",
            "ALARM: working on the last Unit for 11 seconds",
        ] {
            let crash = read_log(&format!("{END}{line}\n")).crash;
            assert_eq!(crash.as_deref(), Some(line));
            assert_eq!(by_the_clock(line), line.starts_with("ALARM"));
        }
    }

    #[test]
    fn processor_time_is_read_whatever_the_name() {
        let stat = "7 (a) b 1 2 3) R 1 7 7 0 -1 4194560 99 0 0 0 250 50 9 9 20 0 1 0 1 1 1";
        assert_eq!(cpu_seconds(stat, 100), Some(3.0));
        assert_eq!(cpu_seconds("7 (a) R 1", 100), None);
    }

    #[test]
    fn a_process_is_metered_and_reaped() {
        let mut busy = Command::new("/bin/sh");
        busy.args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 3"]);
        let (status, cpu) = metered(&mut busy).expect("a shell");
        assert_eq!(status.code(), Some(3));
        assert!(cpu > 0.0 && cpu < 60.0, "{cpu}");
        let (_, asleep) = metered(Command::new("/bin/sleep").arg("0.3")).expect("sleep");
        assert!(asleep < 0.3, "waiting is no processor time: {asleep}");
    }

    #[test]
    fn idle_is_idle() {
        let out = idle(true, Path::new("/bin/cat")).arg("/proc/self/stat").output().expect("chrt runs");
        let stat = String::from_utf8(out.stdout).expect("text");
        let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(38));
        assert_eq!(policy, Some("5"), "SCHED_IDLE of sched.h: {stat}");
    }

    /// A stand-in for a target, which reports a time that is too long and then behaves as `again` says.
    fn held_up(again: &str) -> (tempfile::TempDir, Job) {
        let dir = tempfile::tempdir().expect("a folder");
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let bin = dir.path().join("target/fuzz").join(triple).join("release");
        fs::create_dir_all(&bin).expect("a folder");
        let job = Job { root: dir.path().to_owned(), target: "t".to_owned(), max_len: 9, idle: false };
        for d in [job.found(), job.artifacts(), job.logs()] {
            fs::create_dir_all(d).expect("a folder");
        }
        let script = format!(
            "#!/bin/sh\ncase $1 in -timeout=0) {again};; esac\n: >{0}/timeout-1\n\
             echo 'ALARM: working on the last Unit for 11 seconds' >&2\n\
             echo \"artifact_prefix='x'; Test unit written to {0}/timeout-1\" >&2\nexit 70\n",
            job.artifacts().display()
        );
        // By a program: what this process has had open for writing may not be run yet (ETXTBSY) when a test beside forks.
        fs::write(bin.join("text"), script).expect("a script");
        let copied = std::process::Command::new("cp").arg(bin.join("text")).arg(bin.join("t")).status();
        assert!(copied.is_ok_and(|s| s.success()), "a copy");
        fs::set_permissions(bin.join("t"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("a mode");
        (dir, job)
    }

    #[test]
    fn an_input_that_was_held_up_is_no_finding() {
        let (_dir, job) = held_up("exit 0");
        assert_eq!(job.run(1).expect("a run").crash, None);
        assert_eq!(fs::read_dir(job.artifacts()).expect("a folder").count(), 0);
        let (_dir, job) = held_up("exit 1");
        assert!(job.run(1).expect("a run").crash.is_some_and(|c| c.starts_with("ALARM")));
        assert_eq!(fs::read_dir(job.artifacts()).expect("a folder").count(), 1);
    }
}
