//! Descriptors that nobody asked for.

use rustix::fd::RawFd;
use std::ffi::c_uint;

/// `CLOSE_RANGE_CLOEXEC` of linux/close_range.h (Linux 5.11).
const CLOSE_RANGE_CLOEXEC: c_uint = 4;
/// Where the search ends on a kernel without close_range(2).
const SEARCH_TO: RawFd = 65_536;

/// Marks every descriptor above 2 close-on-exec. Also used between fork and exec: system calls only.
pub(crate) fn seal_all_on_exec() {
    if close_range(3, CLOSE_RANGE_CLOEXEC) {
        return;
    }
    for fd in 3..SEARCH_TO {
        // SAFETY: fcntl with F_SETFD touches no memory; an unused number gives EBADF.
        #[allow(unsafe_code)]
        unsafe {
            libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC)
        };
    }
}

/// Closes every descriptor above 2. Only for the first moments of a process: see
/// [`crate::environment::start`], its one caller.
pub(crate) fn close_inherited() {
    if close_range(3, 0) {
        return;
    }
    for fd in 3..SEARCH_TO {
        // SAFETY: as in `close_range` below; a number that is not open gives EBADF.
        #[allow(unsafe_code)]
        unsafe {
            libc::close(fd)
        };
    }
}

fn close_range(first: c_uint, flags: c_uint) -> bool {
    // SAFETY: the call takes three integers and touches no memory. With CLOSE_RANGE_CLOEXEC no
    // descriptor is closed; without it the one caller runs before any value owns a descriptor.
    #[allow(unsafe_code)]
    let r = unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, flags) };
    r == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::FdFlags;

    #[test]
    fn s2_inherited_descriptors_end_at_exec() {
        let f = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&f, FdFlags::empty()).unwrap();
        seal_all_on_exec();
        assert_eq!(rustix::io::fcntl_getfd(&f).unwrap(), FdFlags::CLOEXEC);
    }
}
