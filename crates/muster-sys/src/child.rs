//! Starting a process with nothing left to chance.
//!
//! Everything that allocates is prepared before the fork; between fork and exec the child makes
//! system calls only, in a fixed order, and tells the parent over a close-on-exec pipe which of
//! them failed. `spawn` returns after the exec succeeded or failed, never in between.

use crate::cgroup::Cgroup;
use crate::{SysError, fds, signals};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags};
use std::ffi::{CString, c_char, c_int};
use std::fmt;
use std::io;

/// linux/sched.h, Linux 5.7. The C library crate's constant is of a type too narrow for it.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// How a process ended. A signal is never a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    pub(crate) fn from_wait(status: rustix::process::WaitStatus) -> Option<Self> {
        status.exit_status().map(Self::Code).or_else(|| status.terminating_signal().map(Self::Signal))
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(n) => write!(f, "exit {n}"),
            Self::Signal(n) => write!(f, "signal {}", signals::name(*n)),
        }
    }
}

/// What a standard stream of the child is.
#[derive(Debug)]
pub enum Stream {
    /// `/dev/null`.
    Null,
    /// The parent's own.
    Inherit,
    /// This descriptor.
    Fd(OwnedFd),
}

/// What to start, and how.
#[derive(Debug)]
pub struct Spec {
    /// Absolute path.
    pub program: CString,
    /// Arguments with the name that the program sees as its own first.
    pub argv: Vec<CString>,
    /// The whole environment, `NAME=value`.
    pub env: Vec<CString>,
    /// Folder to start in.
    pub cwd: CString,
    /// File mode mask.
    pub umask: u32,
    /// Standard input.
    pub stdin: Stream,
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// A session of its own.
    pub new_session: bool,
    /// KILL when the thread that started it ends.
    pub die_with_parent: bool,
    /// A descriptor to hand over, and the number that it gets in the child.
    pub pass: Option<(OwnedFd, RawFd)>,
}

/// A started process. Not waited for when dropped.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    pidfd: OwnedFd,
    group: Result<(), SysError>,
}

impl Child {
    /// Its process id; stays its own until it is reaped.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Readable when it has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether it is in the group that was asked for.
    pub fn group(&self) -> Result<(), &SysError> {
        self.group.as_ref().copied()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Stage {
    Group = 1,
    Parent,
    Session,
    Stdio,
    Pass,
    Folder,
    Exec,
}

impl Stage {
    fn doing(n: u32) -> &'static str {
        match n {
            n if n == Self::Group as u32 => "enter the run's control group",
            n if n == Self::Parent as u32 => "tie the child to its parent",
            n if n == Self::Session as u32 => "make a session for the child",
            n if n == Self::Stdio as u32 => "set the child's standard streams",
            n if n == Self::Pass as u32 => "hand a descriptor to the child",
            n if n == Self::Folder as u32 => "enter the child's folder",
            _ => "execute",
        }
    }
}

/// Everything the child needs, as plain numbers and pointers into the parent's memory, of which
/// the child has a copy.
struct Ready<'a> {
    spec: &'a Spec,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    stdio: [RawFd; 3],
    entrance: Option<RawFd>,
    report: RawFd,
    parent: libc::pid_t,
}

/// Starts the process, in `group` if that is possible: where it is not, it starts without, and
/// [`Child::group`] says so.
pub fn spawn(spec: &Spec, group: Option<&Cgroup>) -> Result<Child, SysError> {
    let err = |e: Errno| SysError::new("prepare a child process", e);
    let null = rustix::fs::open(
        "/dev/null",
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )
    .map_err(|e| SysError::at("open", "/dev/null", e))?;
    let (report_r, report_w) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(err)?;
    // Out of the way of the number that the passed descriptor gets.
    let floor = spec.pass.as_ref().map_or(3, |(_, n)| n.saturating_add(1));
    let report_w = {
        let low = report_w;
        rustix::io::fcntl_dupfd_cloexec(&low, floor).map_err(err)?
    };
    let entrance = group.map(Cgroup::entrance).transpose();
    let (entrance, mut entered) = match entrance {
        Ok(fd) => (fd, Ok(())),
        Err(e) => (None, Err(e)),
    };
    let pointers = |list: &[CString]| {
        let mut v: Vec<*const c_char> = list.iter().map(|c| c.as_ptr()).collect();
        v.push(std::ptr::null());
        v
    };
    let stream = |s: &Stream, own: RawFd| match s {
        Stream::Null => null.as_raw_fd(),
        Stream::Inherit => own,
        Stream::Fd(fd) => fd.as_raw_fd(),
    };
    let mut ready = Ready {
        spec,
        argv: pointers(&spec.argv),
        envp: pointers(&spec.env),
        stdio: [stream(&spec.stdin, 0), stream(&spec.stdout, 1), stream(&spec.stderr, 2)],
        entrance: entrance.as_ref().map(AsRawFd::as_raw_fd),
        report: report_w.as_raw_fd(),
        parent: rustix::process::getpid().as_raw_nonzero().get(),
    };
    let (pid, pidfd) = start(&mut ready, group)?;
    drop(report_w);
    match started(read_report(report_r), pid, &pidfd)? {
        None => {}
        Some((stage, errno)) if stage == Stage::Group as u32 => {
            entered = Err(SysError::new(Stage::doing(stage), Errno::from_raw_os_error(errno)));
        }
        Some((stage, errno)) => {
            reap_one(pid);
            let path = spec.program.to_string_lossy().into_owned();
            return Err(SysError::at(Stage::doing(stage), path, Errno::from_raw_os_error(errno)));
        }
    }
    Ok(Child { pid, pidfd, group: entered })
}

/// What the child told of its start. A child that cannot be heard may run all the same, and who
/// gets an error from us takes it that nothing runs: so it is ended.
fn started<T>(report: Result<T, SysError>, pid: i32, pidfd: &OwnedFd) -> Result<T, SysError> {
    if report.is_err() {
        let _ = rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL);
        reap_one(pid);
    }
    report
}

/// Forks, and in the child never returns.
fn start(ready: &mut Ready<'_>, group: Option<&Cgroup>) -> Result<(i32, OwnedFd), SysError> {
    let err = |e| SysError::new("fork", e);
    if ready.entrance.is_some()
        && let Some(folder) = group.and_then(|g| g.folder().ok())
    {
        let mut raw_pidfd: c_int = -1;
        // SAFETY: `clone_args` is plain old data, zero means "not asked for"; `pidfd` points at a
        // live integer. With no CLONE_VM the child gets a copy of this address space and of this
        // stack, like fork(2), and runs only `in_child`, which calls no code that locks.
        #[allow(unsafe_code)]
        let pid = unsafe {
            let mut args: libc::clone_args = std::mem::zeroed();
            args.flags = libc::CLONE_PIDFD as u64 | CLONE_INTO_CGROUP;
            args.pidfd = (&raw mut raw_pidfd) as u64;
            args.exit_signal = libc::SIGCHLD as u64;
            args.cgroup = folder.as_raw_fd() as u64;
            libc::syscall(libc::SYS_clone3, &raw mut args, size_of::<libc::clone_args>())
        };
        if pid == 0 {
            ready.entrance = None;
            in_child(ready);
        }
        if let (Ok(pid @ 1..), true) = (i32::try_from(pid), raw_pidfd >= 0) {
            // SAFETY: the kernel made this descriptor for us in the call above; nobody else has it.
            #[allow(unsafe_code)]
            let pidfd = unsafe { OwnedFd::from_raw_fd(raw_pidfd) };
            return Ok((pid, pidfd));
        }
        // Linux before 5.7, a filter, or a group that cannot be born into: enter by writing.
    }
    // SAFETY: the child runs only `in_child`, which makes system calls on prepared memory and
    // never returns, so no lock that another thread held is touched.
    #[allow(unsafe_code)]
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        in_child(ready);
    }
    let handle = Pid::from_raw(pid).filter(|_| pid > 0).ok_or_else(|| err(io::Error::last_os_error()))?;
    match rustix::process::pidfd_open(handle, PidfdFlags::empty()) {
        Ok(fd) => Ok((pid, fd)),
        Err(e) => {
            let _ = rustix::process::kill_process(handle, rustix::process::Signal::KILL);
            reap_one(pid);
            Err(err(e.into()))
        }
    }
}

/// The child's part: system calls on what `Ready` holds, then exec. Never returns.
fn in_child(r: &Ready<'_>) -> ! {
    // SAFETY: every pointer in `r` points into memory that was prepared before the fork and is
    // still mapped; the vectors end in null as execve(2) wants them; all calls here are on the
    // async-signal-safe list of signal-safety(7) or are bare system calls.
    #[allow(unsafe_code)]
    unsafe {
        if let Some(fd) = r.entrance
            && libc::write(fd, b"0".as_ptr().cast(), 1) != 1
        {
            tell(r.report, Stage::Group);
        }
        if r.spec.die_with_parent {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0) != 0 {
                fail(r.report, Stage::Parent);
            }
            // It may have died before the line above: then nothing will tell us any more.
            if libc::getppid() != r.parent {
                libc::_exit(127);
            }
        }
        if r.spec.new_session && libc::setsid() < 0 {
            fail(r.report, Stage::Session);
        }
        streams(r);
        fds::seal_all_on_exec();
        if let Some((fd, to)) = &r.spec.pass
            && libc::dup2(fd.as_raw_fd(), *to) < 0
        {
            fail(r.report, Stage::Pass);
        }
        if libc::chdir(r.spec.cwd.as_ptr()) != 0 {
            fail(r.report, Stage::Folder);
        }
        libc::umask(r.spec.umask as libc::mode_t);
        signals::default_all(false);
        signals::unblock_all();
        libc::execve(r.spec.program.as_ptr(), r.argv.as_ptr(), r.envp.as_ptr());
        fail(r.report, Stage::Exec)
    }
}

/// Puts the three streams in place. A source among 0 to 2 is moved away first, so that placing
/// one stream cannot overwrite the source of another.
fn streams(r: &Ready<'_>) {
    // SAFETY: as in `in_child`: system calls on integers.
    #[allow(unsafe_code)]
    unsafe {
        let mut from = r.stdio;
        for (to, fd) in (0..).zip(&mut from) {
            if *fd <= 2 && *fd != to {
                *fd = libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, 3);
            }
        }
        for (to, fd) in (0..).zip(from) {
            // dup2 onto itself leaves close-on-exec as it is; 0 to 2 never have it.
            if fd < 0 || libc::dup2(fd, to) < 0 {
                fail(r.report, Stage::Stdio);
            }
        }
    }
}

fn tell(fd: RawFd, stage: Stage) {
    let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
    let mut message = [0u8; 8];
    let (a, b) = message.split_at_mut(4);
    a.copy_from_slice(&(stage as u32).to_ne_bytes());
    b.copy_from_slice(&errno.to_ne_bytes());
    // SAFETY: writes eight bytes of a live array to a descriptor.
    #[allow(unsafe_code)]
    unsafe {
        libc::write(fd, message.as_ptr().cast(), message.len())
    };
}

fn fail(fd: RawFd, stage: Stage) -> ! {
    tell(fd, stage);
    // SAFETY: ends this process without running anything of the parent's (exit handlers, buffers).
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(127)
    }
}

/// The last message that the child wrote; none means that the exec went well.
fn read_report(fd: OwnedFd) -> Result<Option<(u32, i32)>, SysError> {
    let mut all = Vec::new();
    io::Read::read_to_end(&mut std::fs::File::from(fd), &mut all)
        .map_err(|e| SysError::new("read the child's report", e))?;
    Ok(all.chunks_exact(8).next_back().and_then(|m| {
        let (stage, errno) = m.split_first_chunk::<4>()?;
        let errno: [u8; 4] = errno.try_into().ok()?;
        Some((u32::from_ne_bytes(*stage), i32::from_ne_bytes(errno)))
    }))
}

fn reap_one(pid: i32) {
    if let Some(p) = Pid::from_raw(pid) {
        while let Err(Errno::INTR) = rustix::process::waitpid(Some(p), rustix::process::WaitOptions::empty())
        {
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_cannot_be_heard_does_not_live_on() {
        let c = |s: &str| CString::new(s).unwrap();
        let spec = Spec {
            program: c("/bin/sleep"),
            argv: vec![c("sleep"), c("60")],
            env: Vec::new(),
            cwd: c("/"),
            umask: 0o077,
            stdin: Stream::Null,
            stdout: Stream::Null,
            stderr: Stream::Null,
            new_session: true,
            die_with_parent: false,
            pass: None,
        };
        let child = spawn(&spec, None).unwrap();
        let fault = SysError::new("read the child's report", Errno::IO);
        assert!(started::<()>(Err(fault), child.pid, &child.pidfd).is_err());
        assert_eq!(crate::procfs::Stat::of(child.pid), None);
    }
}
