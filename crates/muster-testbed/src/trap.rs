//! Stops or kills a process of a node at a step of its own choice: as it makes a certain system call.
//!
//! The program is the one that ships, with nothing compiled into it: strace(1) follows its threads from outside and sends the
//! signal as one of them enters the call. Who is killed has not made it, so that what is on the disk is what was there before it; who is
//! stopped has, and goes no further. A call is told by its kind and by
//! a name among its arguments (`-P`), counted in each thread for itself (`when=`). Children are followed too.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::node::Node;

/// It only ends a hang.
const LIMIT: Duration = Duration::from_secs(60);

/// Which call, of which file, for the how manieth time in its thread.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Names of strace(1), with commas.
    pub calls: &'static str,
    /// As it stands in the call: a name in a folder, mostly.
    pub name: &'static str,
    /// From 1.
    pub nth: u32,
}

impl Step {
    /// A file is put in its place.
    #[must_use]
    pub const fn placed(name: &'static str, nth: u32) -> Self {
        Self { calls: "rename,renameat,renameat2", name, nth }
    }

    /// A file is taken away.
    #[must_use]
    pub const fn removed(name: &'static str, nth: u32) -> Self {
        Self { calls: "unlink,unlinkat", name, nth }
    }
}

/// A process that is watched. Dropping it lets the process go on.
#[derive(Debug)]
pub struct Trap {
    tracer: Child,
    log: PathBuf,
    signal: &'static str,
}

impl Node {
    /// The process of the node, by its number on this machine, whose arguments begin with `argv`.
    pub fn outer_pid(&self, argv: &[&str]) -> Result<u32> {
        let wanted: Vec<u8> = argv.iter().flat_map(|a| [a.as_bytes(), b"\0"].concat()).collect();
        let space = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/pid"));
        let of_node = space(self.leader()?)?;
        let found = fs::read_dir("/proc")?.flatten().find_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            (line.starts_with(&wanted) && space(pid).ok()? == of_node).then_some(pid)
        });
        found.with_context(|| format!("node {} runs no {argv:?}", self.name()))
    }

    /// Sends `signal` (`KILL`, `STOP`) to the process as it comes to `step`.
    pub fn trap(&self, pid: u32, step: Step, signal: &'static str) -> Result<Trap> {
        let log = self.plan().dir.join(format!("trap-{pid}"));
        let tracer = Command::new("strace")
            .args(["-f", "-qq", "-o"])
            .arg(&log)
            .args(["-p", &pid.to_string(), "-P", step.name, "-e", &format!("trace={}", step.calls)])
            .args(["-e", &format!("inject={}:signal={signal}:when={}", step.calls, step.nth)])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start strace")?;
        let trap = Trap { tracer, log, signal };
        let begun = Instant::now();
        while !followed(pid)? {
            if begun.elapsed() > LIMIT {
                bail!("strace does not follow {pid}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(trap)
    }
}

/// Whether every thread of a process has a tracer: proc_pid_status(5).
fn followed(pid: u32) -> Result<bool> {
    for task in fs::read_dir(format!("/proc/{pid}/task"))?.flatten() {
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        if status.lines().any(|l| l == "TracerPid:\t0") {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Trap {
    /// Whether the signal was sent.
    #[must_use]
    pub fn sprung(&self) -> bool {
        let told = fs::read_to_string(&self.log).unwrap_or_default();
        match self.signal {
            "KILL" => told.contains("killed by SIGKILL"),
            other => told.contains(&format!("--- stopped by SIG{other}")),
        }
    }

    /// Waits for it.
    pub fn wait(&self) -> Result<()> {
        let begun = Instant::now();
        while !self.sprung() {
            if begun.elapsed() > LIMIT {
                let told = fs::read_to_string(&self.log).unwrap_or_default();
                bail!("the process never came to the step; its steps:\n{told}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Trap {
    fn drop(&mut self) {
        // The kernel lets go of what a tracer followed: ptrace(2). It does not end on a gentler word at each moment.
        let _ = self.tracer.kill();
        let _ = self.tracer.wait();
    }
}
