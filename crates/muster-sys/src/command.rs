//! One way to run a tool: absolute program, arguments as a list, environment built from nothing,
//! bounded output, a deadline that ends what it started, and a typed result.
//!
//! The tool leads a session of its own. When its deadline passes, the members of that session and
//! the tool's descendants are killed; a process that left both (double fork and setsid) is out of
//! reach here, since this process may have other children and is no subreaper. Tools that we
//! call do not do that; scripts are run through [`crate::tree`] instead.

mod running;

pub use running::{Errors, Got, Running, Tied};

use crate::SysError;
use crate::child::{self, Child, Exit, Spec, Stream};
use crate::clock::since_boot;
use crate::procfs;
use crate::watch::Deadline;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `PATH` that a tool gets.
pub const TOOL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How long output that is still in the pipes is waited for once the tool has ended.
const DRAIN: Duration = Duration::from_millis(200);

/// A tool to run. Starts with `PATH`, `LANG=C.UTF-8` and nothing else in its environment, folder
/// `/`, umask 077, an empty standard input, 30 s, and at most 1 MiB of each output kept.
#[must_use = "nothing runs before run()"]
pub struct Command {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    folder: PathBuf,
    umask: u32,
    stdin: Vec<u8>,
    deadline: Duration,
    keep: usize,
}

/// Arguments, environment and input may hold secrets: only their number is shown.
impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &self.env.len())
            .field("stdin", &self.stdin.len())
            .finish_non_exhaustive()
    }
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It returned this code.
    Exited(i32),
    /// This signal ended it.
    Signaled(i32),
    /// The deadline passed and it was ended.
    TimedOut,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "the tool may have failed"]
pub struct Output {
    /// How it ended.
    pub outcome: Outcome,
    /// Standard output, as much as was to be kept.
    pub stdout: Vec<u8>,
    /// Standard error, as much as was to be kept.
    pub stderr: Vec<u8>,
    /// More was written than was kept.
    pub cut: bool,
}

impl Output {
    /// Whether it returned 0.
    pub fn ok(&self) -> bool {
        self.outcome == Outcome::Exited(0)
    }
}

/// A tool's output may hold secrets: only its length is shown.
impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("outcome", &self.outcome)
            .field("stdout", &self.stdout.len())
            .field("stderr", &self.stderr.len())
            .field("cut", &self.cut)
            .finish()
    }
}

impl Command {
    /// The tool at `program`, an absolute path.
    pub fn new(program: impl AsRef<Path>) -> Self {
        Self {
            program: program.as_ref().to_owned(),
            args: Vec::new(),
            env: vec![("PATH".into(), TOOL_PATH.into()), ("LANG".into(), "C.UTF-8".into())],
            folder: PathBuf::from("/"),
            umask: 0o077,
            stdin: Vec::new(),
            deadline: Duration::from_secs(30),
            keep: 1 << 20,
        }
    }

    /// Adds an argument. Put `--` before operands that come from outside. Never a secret: every
    /// user of the machine can read it.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Adds arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// Sets a variable of its environment, over an earlier one of the same name.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let name = name.as_ref();
        self.env.retain(|(n, _)| n != name);
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The folder it starts in.
    pub fn folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.folder = folder.as_ref().to_owned();
        self
    }

    /// Its file mode mask.
    pub fn umask(mut self, umask: u32) -> Self {
        self.umask = umask;
        self
    }

    /// What it reads from standard input.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = bytes.into();
        self
    }

    /// How long it may take.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Bytes of each output that are kept; the rest is read and dropped.
    pub fn keep_output(mut self, bytes: usize) -> Self {
        self.keep = bytes;
        self
    }

    /// Runs it and waits for its end.
    pub fn run(self) -> Result<Output, SysError> {
        let err = |e: Errno| SysError::at("run", &self.program, e);
        if !self.program.is_absolute() {
            return Err(SysError::at("run", &self.program, io::Error::other("not an absolute path")));
        }
        let (in_r, in_w) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(err)?;
        let (out_r, out_w) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(err)?;
        let (err_r, err_w) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(err)?;
        for fd in [&in_w, &out_r, &err_r] {
            rustix::io::ioctl_fionbio(fd, true).map_err(err)?;
        }
        let spec = self.spec(in_r, out_w, err_w)?;
        let child = child::spawn(&spec, None)?;
        // Our copies of the tool's ends: while they are open, its output has no end.
        drop(spec);
        let deadline = Deadline::after(self.deadline)?;
        let mut talk = Talk {
            input: Some(in_w).filter(|_| !self.stdin.is_empty()),
            to_write: &self.stdin,
            out: Side::new(out_r, self.keep),
            err: Side::new(err_r, self.keep),
        };
        let in_time = talk.until_end(&child, &deadline);
        end_session(&child, in_time.as_ref().is_ok_and(|t| *t));
        let exit = wait_for(&child)?;
        let outcome = match (in_time?, exit) {
            (false, _) => Outcome::TimedOut,
            (true, Exit::Code(n)) => Outcome::Exited(n),
            (true, Exit::Signal(n)) => Outcome::Signaled(n),
        };
        talk.drain();
        let cut = talk.out.cut || talk.err.cut;
        Ok(Output { outcome, stdout: talk.out.kept, stderr: talk.err.kept, cut })
    }

    fn spec(&self, stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd) -> Result<Spec, SysError> {
        let c = |s: &OsStr| {
            CString::new(s.as_bytes()).map_err(|_| {
                SysError::at(
                    "run",
                    &self.program,
                    io::Error::other("an argument or variable holds a NUL byte"),
                )
            })
        };
        let mut argv = vec![c(self.program.as_os_str())?];
        for a in &self.args {
            argv.push(c(a)?);
        }
        let mut env = Vec::new();
        for (n, v) in &self.env {
            if n.is_empty() || n.as_bytes().contains(&b'=') {
                return Err(SysError::at(
                    "run",
                    &self.program,
                    io::Error::other("a variable's name is empty or holds `=`"),
                ));
            }
            let mut pair = n.clone();
            pair.push("=");
            pair.push(v);
            env.push(c(&pair)?);
        }
        Ok(Spec {
            program: c(self.program.as_os_str())?,
            argv,
            env,
            cwd: c(self.folder.as_os_str())?,
            umask: self.umask,
            stdin: Stream::Fd(stdin),
            stdout: Stream::Fd(stdout),
            stderr: Stream::Fd(stderr),
            new_session: true,
            die_with_parent: false,
            pass: None,
        })
    }
}

/// One output of the tool.
struct Side {
    fd: Option<OwnedFd>,
    kept: Vec<u8>,
    keep: usize,
    cut: bool,
}

impl Side {
    fn new(fd: OwnedFd, keep: usize) -> Self {
        Self { fd: Some(fd), kept: Vec::new(), keep, cut: false }
    }

    /// Reads what is there now.
    fn take(&mut self) {
        let mut buf = [0u8; 16 * 1024];
        while let Some(fd) = &self.fd {
            match rustix::io::read(fd, &mut buf) {
                Ok(n) if n > 0 => {
                    let room = self.keep.saturating_sub(self.kept.len());
                    self.kept.extend_from_slice(buf.get(..n.min(room)).unwrap_or_default());
                    self.cut |= n > room;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Ok(_) | Err(_) => self.fd = None,
            }
        }
    }
}

/// The three pipes to a running tool.
struct Talk<'a> {
    input: Option<OwnedFd>,
    to_write: &'a [u8],
    out: Side,
    err: Side,
}

impl Talk<'_> {
    /// Serves the pipes until the tool has ended (`true`) or its time is over (`false`).
    fn until_end(&mut self, child: &Child, deadline: &Deadline) -> Result<bool, SysError> {
        loop {
            let mut fds = vec![
                PollFd::from_borrowed_fd(child.pidfd(), PollFlags::IN),
                PollFd::from_borrowed_fd(deadline.as_fd(), PollFlags::IN),
            ];
            fds.extend(self.input.iter().map(|f| PollFd::new(f, PollFlags::OUT)));
            fds.extend(self.out.fd.iter().map(|f| PollFd::new(f, PollFlags::IN)));
            fds.extend(self.err.fd.iter().map(|f| PollFd::new(f, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(SysError::new("wait for a tool", e)),
            }
            let mut first = fds.iter().map(|f| !f.revents().is_empty());
            let (ended, late) = (first.next() == Some(true), first.next() == Some(true));
            self.feed();
            self.out.take();
            self.err.take();
            if ended {
                return Ok(true);
            }
            if late {
                return Ok(false);
            }
        }
    }

    fn feed(&mut self) {
        while let Some(fd) = &self.input {
            match rustix::io::write(fd, self.to_write) {
                Ok(n) => self.to_write = self.to_write.get(n..).unwrap_or_default(),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                // It does not want more; that is its right.
                Err(_) => self.to_write = &[],
            }
            if self.to_write.is_empty() {
                self.input = None;
            }
        }
    }

    /// Reads what the tool left in the pipes.
    fn drain(&mut self) {
        let until = since_boot() + DRAIN;
        loop {
            self.out.take();
            self.err.take();
            if (self.out.fd.is_none() && self.err.fd.is_none()) || since_boot() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Kills what is left of the tool's session; with `ended`, only when the leader has ended (and
/// what is left are helpers that outlived it).
fn end_session(child: &Child, ended: bool) {
    let mut doomed = procfs::descendants(child.pid());
    if !ended {
        doomed.push(child.pid());
    }
    for _ in 0..8 {
        let session = procfs::pids()
            .into_iter()
            .filter_map(procfs::Stat::of)
            .filter(|s| s.session == child.pid() && s.state != 'Z' && (s.pid != child.pid() || !ended))
            .map(|s| s.pid);
        doomed.extend(session);
        if doomed.is_empty() {
            return;
        }
        for p in doomed.drain(..) {
            if let Some(p) = Pid::from_raw(p) {
                let _ = rustix::process::kill_process(p, Signal::KILL);
            }
        }
    }
}

fn wait_for(child: &Child) -> Result<Exit, SysError> {
    let err = |e: Errno| SysError::new("wait for a tool", e);
    let pid = Pid::from_raw(child.pid()).ok_or_else(|| err(Errno::SRCH))?;
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::empty()) {
            Ok(Some((_, status))) => {
                if let Some(e) = Exit::from_wait(status) {
                    return Ok(e);
                }
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(e) => return Err(err(e)),
        }
    }
}

/// Becomes another program: same process, descriptors and streams, an environment of `env` alone.
/// Returns only when it could not.
pub fn become_program<A: AsRef<OsStr>>(program: &Path, args: &[A], env: &[(&str, OsString)]) -> SysError {
    use std::os::unix::process::CommandExt;
    if !program.is_absolute() {
        return SysError::at("become", program, io::Error::other("not an absolute path"));
    }
    #[allow(
        clippy::disallowed_methods,
        reason = "this is the crate that may; exec replaces this process and spawns none"
    )]
    let e = std::process::Command::new(program)
        .args(args)
        .env_clear()
        .envs(env.iter().map(|(n, v)| (n, v)))
        .exec();
    SysError::at("become", program, e)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash(script: &str) -> Command {
        Command::new("/bin/bash").arg("-c").arg(script)
    }

    #[test]
    fn the_three_outcomes_and_both_outputs() {
        let o = bash("echo out; echo err >&2; exit 7").run().unwrap();
        assert_eq!(
            (o.outcome, &o.stdout[..], &o.stderr[..]),
            (Outcome::Exited(7), &b"out\n"[..], &b"err\n"[..])
        );
        assert!(!o.ok());
        assert_eq!(bash("kill -9 $$").run().unwrap().outcome, Outcome::Signaled(9));
        let o = bash("sleep 60 & sleep 60").deadline(Duration::from_millis(100)).run().unwrap();
        assert_eq!(o.outcome, Outcome::TimedOut);
    }

    #[test]
    fn the_environment_is_built_from_nothing() {
        let o = Command::new("/usr/bin/env").env("A", "1").env("A", "2").env("LANG", "C").run().unwrap();
        let mut lines: Vec<_> = std::str::from_utf8(&o.stdout).unwrap().lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["A=2", "LANG=C", &format!("PATH={TOOL_PATH}")]);
    }

    #[test]
    fn input_is_fed_and_output_is_bounded() {
        let big = vec![b'x'; 3 << 20];
        let o = Command::new("/bin/cat").stdin(big.clone()).keep_output(4 << 20).run().unwrap();
        assert!(o.ok() && o.stdout == big && !o.cut);
        let o = Command::new("/bin/cat").stdin(big).keep_output(1000).run().unwrap();
        assert!(o.ok() && o.stdout.len() == 1000 && o.cut);
        // A tool that reads nothing is no error.
        assert!(Command::new("/bin/true").stdin(vec![b'x'; 1 << 20]).run().unwrap().ok());
    }

    #[test]
    fn a_helper_left_behind_is_ended_and_does_not_hold_us() {
        let t0 = since_boot();
        let o = bash("sleep 77.25 & echo $!").run().unwrap();
        assert!(o.ok() && since_boot() - t0 < Duration::from_secs(40));
        let pid: i32 = std::str::from_utf8(&o.stdout).unwrap().trim().parse().unwrap();
        assert!(procfs::Stat::of(pid).is_none_or(|s| s.state == 'Z'), "{:?}", procfs::Stat::of(pid));
    }

    #[test]
    fn no_descriptor_of_ours_reaches_it_and_signals_are_default() {
        let f = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&f, rustix::io::FdFlags::empty()).unwrap();
        let o =
            bash("ls /proc/self/fd | tr '\\n' ' '; grep -E 'Sig(Blk|Ign)' /proc/self/status").run().unwrap();
        let text = String::from_utf8(o.stdout).unwrap();
        // 3 is ls's own look at the folder.
        assert!(text.starts_with("0 1 2 3 "), "{text}");
        assert!(!text.starts_with("0 1 2 3 4"), "{text}");
        assert_eq!(text.matches("0000000000000000").count(), 2, "{text}");
    }

    #[test]
    fn what_cannot_be_run_says_so() {
        assert!(Command::new("bin/true").run().is_err());
        let e = Command::new("/nonexistent/tool").run().unwrap_err();
        assert!(e.is_missing() && e.line().contains("/nonexistent/tool"), "{}", e.line());
        assert!(Command::new("/bin/true").arg("a\0b").run().is_err());
        assert!(Command::new("/bin/true").env("A=B", "c").run().is_err());
        assert!(Command::new("/bin/true").folder("/nonexistent").run().is_err());
    }

    #[test]
    fn debug_shows_no_argument_or_input() {
        let c = bash("s3cret-arg").stdin("s3cret-in").env("X", "s3cret-env");
        assert!(!format!("{c:?}").contains("s3cret"));
    }
}
