//! Resource limits (getrlimit(2)) of a process that runs as root for somebody else.
//!
//! What it starts inherits them.

use std::ffi::c_int;

/// Gives this process, as far as it may have them, the limits that root would have: hard limits of
/// this process or of process 1, whichever is higher, and soft limits at the hard ones, but for
/// three where that would hurt: no core files (they would hold secrets), 1024 descriptors
/// (select(2), and programs that close them one by one) and an 8 MiB stack. A script may raise its
/// own soft limits.
pub(crate) fn take_root_limits() {
    for (what, limit) in limits() {
        set_limit(what, &limit);
    }
}

/// Sets one limit of this process. A container may lack the right to
/// raise hard limits: then the soft one moves alone.
fn set_limit(what: c_int, limit: &libc::rlimit) -> bool {
    // SAFETY: system calls on an integer and on live plain old data.
    #[allow(unsafe_code)]
    unsafe {
        if libc::setrlimit(what as _, limit) == 0 {
            return true;
        }
        let mut now: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(what as _, &mut now) != 0 {
            return false;
        }
        now.rlim_cur = limit.rlim_cur.min(now.rlim_max);
        libc::setrlimit(what as _, &now);
        true
    }
}

/// Those that are not so yet.
fn limits() -> Vec<(c_int, libc::rlimit)> {
    let all = [
        libc::RLIMIT_AS,
        libc::RLIMIT_CORE,
        libc::RLIMIT_CPU,
        libc::RLIMIT_DATA,
        libc::RLIMIT_FSIZE,
        libc::RLIMIT_LOCKS,
        libc::RLIMIT_MEMLOCK,
        libc::RLIMIT_MSGQUEUE,
        libc::RLIMIT_NICE,
        libc::RLIMIT_NOFILE,
        libc::RLIMIT_NPROC,
        libc::RLIMIT_RTPRIO,
        libc::RLIMIT_RTTIME,
        libc::RLIMIT_SIGPENDING,
        libc::RLIMIT_STACK,
    ];
    all.into_iter()
        .filter_map(|which| {
            // C libraries differ in the type of these.
            let what = which as c_int;
            let mine = limit_of(0, what)?;
            let hard = match mine.rlim_max {
                libc::RLIM_INFINITY => libc::RLIM_INFINITY,
                max => limit_of(1, what).map_or(max, |first| first.rlim_max.max(max)),
            };
            let soft = match which {
                libc::RLIMIT_CORE => 0,
                libc::RLIMIT_NOFILE => hard.min(1024),
                libc::RLIMIT_STACK => hard.min(8 << 20),
                _ => hard,
            };
            let is_so = (mine.rlim_cur, mine.rlim_max) == (soft, hard);
            (!is_so).then_some((what, libc::rlimit { rlim_cur: soft, rlim_max: hard }))
        })
        .collect()
}

fn limit_of(pid: libc::pid_t, what: c_int) -> Option<libc::rlimit> {
    // SAFETY: prlimit(2) with no new limit only fills in the old one, plain old data.
    #[allow(unsafe_code)]
    unsafe {
        let mut old: libc::rlimit = std::mem::zeroed();
        (libc::prlimit(pid, what as _, std::ptr::null(), &mut old) == 0).then_some(old)
    }
}
