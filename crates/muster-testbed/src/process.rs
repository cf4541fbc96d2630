//! Runs a program to its end with a deadline and keeps all that it printed.
//!
//! Output goes to unnamed files, not to pipes: a background child that holds the pipe open would hang the reader.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// How long a helper command may take unless its caller says otherwise.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// What a program printed and how it ended.
#[derive(Debug, Clone)]
pub struct Output {
    /// Exit status as the kernel gave it.
    pub status: ExitStatus,
    /// All of standard output.
    pub stdout: Vec<u8>,
    /// All of standard error.
    pub stderr: Vec<u8>,
    /// Wall time from spawn to exit.
    pub took: Duration,
}

impl Output {
    /// Exit code; `None` when a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Signal that ended it, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Exit code 0.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.status.success()
    }

    /// Standard output as text; bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard error as text; bytes that are no UTF-8 are replaced.
    #[must_use]
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Runs a command of this machine, with standard input and a deadline.
    pub fn of(command: &mut Command, stdin: &[u8], deadline: Duration) -> Result<Self> {
        run(command, stdin, deadline)
    }

    /// Itself if the exit code is 0, else an error that shows both outputs.
    pub fn check(self) -> Result<Self> {
        if self.ok() {
            return Ok(self);
        }
        bail!(
            "ended with {}\n--- stdout\n{}\n--- stderr\n{}",
            self.status,
            self.stdout_text(),
            self.stderr_text()
        )
    }
}

/// Runs `command` with `stdin` to its end, or kills it at the deadline.
pub(crate) fn run(command: &mut Command, stdin: &[u8], deadline: Duration) -> Result<Output> {
    let name = format!("{command:?}");
    let (mut out, mut err, mut input) = (tempfile::tempfile()?, tempfile::tempfile()?, tempfile::tempfile()?);
    input.write_all(stdin)?;
    input.rewind()?;
    let started = Instant::now();
    let mut child = command
        .stdin(Stdio::from(input))
        .stdout(Stdio::from(out.try_clone()?))
        .stderr(Stdio::from(err.try_clone()?))
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let mut nap = Duration::from_micros(500);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if started.elapsed() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            let text = String::from_utf8_lossy(&read_all(&mut out)?).into_owned();
            let errors = String::from_utf8_lossy(&read_all(&mut err)?).into_owned();
            bail!("{name} did not end within {deadline:?}\n--- stdout\n{text}\n--- stderr\n{errors}");
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(10));
    };
    Ok(Output { status, stdout: read_all(&mut out)?, stderr: read_all(&mut err)?, took: started.elapsed() })
}

fn read_all(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Runs `program` with `args` and fails unless it exits 0.
pub(crate) fn call(program: &str, args: &[&str]) -> Result<Output> {
    run(Command::new(program).args(args), b"", DEADLINE)?
        .check()
        .with_context(|| format!("{program} {}", args.join(" ")))
}

/// As [`call`], but a failure is nothing to report: for removing what may not be there.
pub(crate) fn try_call(program: &str, args: &[&str]) {
    let _ = call(program, args);
}

/// How long something may take that comes by itself. It only ends a hang: what comes is seen at once, also on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Looks again and again, less often with time, until there is something; `what` names it in the error.
pub fn until<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let started = Instant::now();
    let mut nap = Duration::from_millis(5);
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if started.elapsed() > limit {
            bail!("{what}: not within {limit:?}");
        }
        std::thread::sleep(nap);
        nap = (nap * 2).min(Duration::from_millis(200));
    }
}

/// The same of what is so or not.
pub fn wait_until(what: &str, limit: Duration, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    until(what, limit, || Ok(ready()?.then_some(())))
}
