//! Signals as something to poll, and a clean slate.

use crate::SysError;
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use std::ffi::c_int;
use std::io;

/// The end was asked for: what the shim answers by ending the run.
pub const ENDING: [c_int; 3] = [libc::SIGTERM, libc::SIGHUP, libc::SIGINT];

/// Every disposition to its default but SIGPIPE's, and an empty mask. A caller could have left
/// SIGCHLD ignored (then children vanish without a status) or SIGTERM blocked.
pub(crate) fn reset() -> Result<(), SysError> {
    default_all(true);
    if set_mask(libc::SIG_SETMASK, &[]) { Ok(()) } else { Err(failed("set the signal mask")) }
}

/// Default disposition for every signal; SIGPIPE is left alone when `keep_pipe`.
/// Used between fork and exec as well: system calls only.
pub(crate) fn default_all(keep_pipe: bool) {
    for sig in 1..=64 {
        if keep_pipe && sig == libc::SIGPIPE {
            continue;
        }
        // The kernel's own `struct sigaction` (rt_sigaction(2)) with nothing set is SIG_DFL, no
        // flags, empty mask. The C library's call would leave out the two signals it keeps for
        // itself, which a caller can have left ignored all the same.
        let nothing = [0u64; 8];
        // SAFETY: the kernel reads at most 32 bytes of the 64 here, a default disposition installs
        // no handler, and KILL and STOP are refused with EINVAL.
        #[allow(unsafe_code)]
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, sig, nothing.as_ptr(), std::ptr::null_mut::<u64>(), 8usize)
        };
    }
}

/// Empties the mask. Between fork and exec.
pub(crate) fn unblock_all() {
    set_mask(libc::SIG_SETMASK, &[]);
}

fn set_mask(how: c_int, signals: &[c_int]) -> bool {
    // SAFETY: `sigset_t` is plain old data, initialised by sigemptyset before use; the old mask
    // is not asked for. Only the calling thread's mask changes.
    #[allow(unsafe_code)]
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for &s in signals {
            libc::sigaddset(&mut set, s);
        }
        libc::pthread_sigmask(how, &set, std::ptr::null_mut()) == 0
    }
}

fn failed(doing: &'static str) -> SysError {
    SysError::new(doing, io::Error::last_os_error())
}

/// Stops this process, or its whole process group, as SIGTSTP does where nobody handles it: until somebody continues it, and not at all in a
/// group that is orphaned (setpgid(2)), where nobody would. A handler that was set is set again after.
///
/// # Errors
/// The disposition cannot be changed, or the signal cannot be sent.
pub fn stop(whole_group: bool) -> Result<(), SysError> {
    // SAFETY: `sigaction` is plain old data; all zero is SIG_DFL with no flags and an empty mask. What was set before is read into a
    // second one and set again as it was. The signals go to this thread, or to the group that the process is in.
    #[allow(unsafe_code)]
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGTSTP, &default, &mut before) != 0 {
            return Err(failed("stop"));
        }
        let sent = match whole_group {
            true => libc::kill(0, libc::SIGTSTP),
            // To this thread, so that it has stopped when this returns.
            false => libc::raise(libc::SIGTSTP),
        };
        let failure = (sent != 0).then(|| failed("stop"));
        libc::sigaction(libc::SIGTSTP, &before, std::ptr::null_mut());
        failure.map_or(Ok(()), Err)
    }
}

/// [`ENDING`] signals, blocked and readable from a descriptor (signalfd(2)) while this lives.
#[derive(Debug)]
pub struct EndingSignals {
    fd: OwnedFd,
}

impl EndingSignals {
    /// Blocks them for the calling thread and opens the descriptor.
    pub fn catch() -> Result<Self, SysError> {
        if !set_mask(libc::SIG_BLOCK, &ENDING) {
            return Err(failed("block signals"));
        }
        // SAFETY: the set is initialised by sigemptyset before use; -1 asks for a new descriptor,
        // which nobody else owns when it is returned.
        #[allow(unsafe_code)]
        let fd = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut set);
            for &s in &ENDING {
                libc::sigaddset(&mut set, s);
            }
            let raw = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if raw < 0 {
                return Err(failed("open a signal descriptor"));
            }
            OwnedFd::from_raw_fd(raw)
        };
        Ok(Self { fd })
    }

    /// Waits for one, so long at most.
    pub fn wait(&self, longest: std::time::Duration) -> Option<c_int> {
        let time = rustix::time::Timespec {
            tv_sec: i64::try_from(longest.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: longest.subsec_nanos().into(),
        };
        let mut fds = [rustix::event::PollFd::new(&self.fd, rustix::event::PollFlags::IN)];
        // An interruption is answered by looking: there is a signal or there is none.
        let _ = rustix::event::poll(&mut fds, Some(&time));
        self.take()
    }

    /// The number of a signal that came, if one did.
    pub fn take(&self) -> Option<c_int> {
        // signalfd_siginfo is 128 bytes and begins with the number, 32 bits, native order.
        let mut info = [0u8; 128];
        match rustix::io::read(&self.fd, &mut info) {
            Ok(128) => {
                let [a, b, c, d, ..] = info;
                c_int::try_from(u32::from_ne_bytes([a, b, c, d])).ok()
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => None,
            Err(_) => None,
        }
    }
}

impl AsFd for EndingSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// `TERM`, `KILL`, ... for a message; the number when it has no common name.
pub fn name(signal: c_int) -> String {
    let known = match signal {
        libc::SIGHUP => "HUP",
        libc::SIGINT => "INT",
        libc::SIGQUIT => "QUIT",
        libc::SIGILL => "ILL",
        libc::SIGTRAP => "TRAP",
        libc::SIGABRT => "ABRT",
        libc::SIGBUS => "BUS",
        libc::SIGFPE => "FPE",
        libc::SIGKILL => "KILL",
        libc::SIGUSR1 => "USR1",
        libc::SIGSEGV => "SEGV",
        libc::SIGUSR2 => "USR2",
        libc::SIGPIPE => "PIPE",
        libc::SIGALRM => "ALRM",
        libc::SIGTERM => "TERM",
        libc::SIGXCPU => "XCPU",
        libc::SIGXFSZ => "XFSZ",
        libc::SIGSYS => "SYS",
        n => return n.to_string(),
    };
    known.to_owned()
}
