//! How a process that runs as root for somebody else begins: with nothing of theirs.

use crate::{SysError, fds, signals, system};
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

static STARTED: AtomicBool = AtomicBool::new(false);

/// The first thing that `main` calls, once: takes a copy of the variables `names`, then forgets
/// what the caller left us, in this order: descriptors above 2, signal dispositions and mask,
/// resource limits (those that root would have: a file-size limit of the caller's would decide what
/// can be recorded), folder and umask (`/`, 077), and the whole environment.
///
/// SIGPIPE stays ignored here (a write says EPIPE instead); children get the default.
/// Refused when called twice or with more than one thread, because then somebody else could own
/// a descriptor or be reading the environment.
pub fn start<const N: usize>(names: [&str; N]) -> Result<[Option<OsString>; N], SysError> {
    let refuse = |why: &str| Err(SysError::new("begin with nothing of the caller's", io::Error::other(why)));
    if STARTED.swap(true, Ordering::SeqCst) {
        return refuse("begun already");
    }
    let threads = std::fs::read_dir("/proc/self/task")
        .map_err(|e| SysError::at("count the threads in", "/proc/self/task", e))?
        .count();
    if threads != 1 {
        return refuse("the process has more than one thread");
    }
    let taken = names.map(std::env::var_os);
    fds::close_inherited();
    signals::reset()?;
    crate::limits::take_root_limits();
    system::neutral_place()?;
    // SAFETY: this is the only thread of the process, so nothing reads or writes the environment
    // while it is emptied; the copies above own their bytes.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::clearenv() };
    if failed != 0 {
        return refuse("clearenv failed");
    }
    Ok(taken)
}
