//! What sshd says about the login: evidence, because the login's own account can write it.
//!
//! `SSH_USER_AUTH` names a file (sshd_config(5), `ExposeAuthInfo`) that belongs to the account and
//! that the account may rewrite; the variable itself is the account's to set. So the name must be
//! of sshd's form, and the file is opened with the account's file-system identity
//! (setfsuid(2)): a link or a name that points at somebody else's file then opens nothing that
//! the account could not read by itself.

use crate::SysError;
use crate::file::read_bounded;
use crate::procfs::Stat;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What sshd calls the file, before six random letters or digits.
const AUTH_PREFIX: &[u8] = b"/tmp/sshauth.";
/// Longest file that is read.
const AUTH_MAX: u64 = 64 * 1024;
/// Ancestors that are looked at, at most.
const MAX_ANCESTORS: usize = 64;

/// Reads the file that `SSH_USER_AUTH` names, as `uid` would.
pub fn read_user_auth(path: &OsStr, uid: u32) -> Result<Vec<u8>, SysError> {
    let refuse = |why: &str| {
        SysError::at("read what sshd says of the login in", Path::new(path), io::Error::other(why))
    };
    let tail =
        path.as_bytes().strip_prefix(AUTH_PREFIX).ok_or_else(|| refuse("not a name that sshd gives"))?;
    if tail.is_empty() || tail.len() > 64 || !tail.iter().all(u8::is_ascii_alphanumeric) {
        return Err(refuse("not a name that sshd gives"));
    }
    let fd = open_as(Path::new(path), uid)?;
    let st = rustix::fs::fstat(&fd).map_err(|e| SysError::at("look at", Path::new(path), e))?;
    if FileType::from_raw_mode(st.st_mode) != FileType::RegularFile {
        return Err(refuse("not a regular file"));
    }
    if st.st_uid != uid {
        return Err(refuse("not the account's file"));
    }
    read_bounded(fd, Path::new(path), AUTH_MAX).map_err(|e| refuse(&e.to_string()))
}

fn open_as(path: &Path, uid: u32) -> Result<OwnedFd, SysError> {
    let before = set_fsuid(uid);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = if fsuid_now() == uid {
        rustix::fs::open(path, flags, Mode::empty()).map_err(|e| SysError::at("open", path, e))
    } else {
        Err(SysError::at("open as the account", path, io::Error::from(io::ErrorKind::PermissionDenied)))
    };
    set_fsuid(before);
    fd
}

/// Sets this thread's file-system user id and returns the one before.
fn set_fsuid(uid: u32) -> u32 {
    // SAFETY: a bare system call on an integer; it never fails loudly and touches no memory. It
    // changes this thread's file access only, and every caller puts it back.
    #[allow(unsafe_code)]
    let before = unsafe { libc::setfsuid(uid) };
    u32::try_from(before).unwrap_or(u32::MAX)
}

fn fsuid_now() -> u32 {
    // An id that nobody may take leaves it as it is and tells it.
    set_fsuid(u32::MAX)
}

/// A handle that is readable when the sshd process of this login ends: the first ancestor whose
/// program belongs to root and whose name begins with `sshd`. `None` when there is none.
pub fn ancestor() -> Option<OwnedFd> {
    let mut at = Stat::of(crate::system::pid())?;
    for _ in 0..MAX_ANCESTORS {
        let up = Stat::of(at.ppid).filter(|_| at.ppid > 1)?;
        if up.comm.starts_with("sshd") {
            let handle = rustix::process::pidfd_open(Pid::from_raw(up.pid)?, PidfdFlags::empty()).ok()?;
            let program = std::fs::metadata(format!("/proc/{}/exe", up.pid)).ok();
            // The same process before and after the handle was taken, so the handle is of it; if
            // it is gone by now, there is nobody to watch for.
            if Stat::of(up.pid)?.start != up.start {
                return None;
            }
            if program.is_some_and(|m| m.uid() == 0) {
                return Some(handle);
            }
        }
        at = up;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{chown, symlink};

    fn me() -> u32 {
        rustix::process::getuid().as_raw()
    }

    struct Gone(String);
    impl Drop for Gone {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    fn name(tag: &str) -> Gone {
        Gone(format!("/tmp/sshauth.{tag}{}", std::process::id()))
    }

    #[test]
    fn s4_the_accounts_own_file_is_read() {
        let n = name("ok");
        fs::write(&n.0, "publickey ssh-ed25519 AAAA\n").unwrap();
        assert_eq!(read_user_auth(OsStr::new(&n.0), me()).unwrap(), b"publickey ssh-ed25519 AAAA\n");
    }

    #[test]
    fn s4_other_names_links_and_types_are_refused() {
        for odd in
            ["/etc/shadow", "/tmp/sshauth.", "/tmp/sshauth.a/../x", "/tmp/sshauth.a\n", "", "sshauth.abc"]
        {
            assert!(read_user_auth(OsStr::new(odd), me()).is_err(), "{odd:?}");
        }
        let n = name("link");
        symlink("/etc/passwd", &n.0).unwrap();
        assert!(read_user_auth(OsStr::new(&n.0), me()).is_err());
        let f = name("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &f.0, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(read_user_auth(OsStr::new(&f.0), me()).is_err());
        let b = name("big");
        fs::write(&b.0, vec![b'a'; 65_537]).unwrap();
        assert!(read_user_auth(OsStr::new(&b.0), me()).is_err());
    }

    #[test]
    fn s4_a_file_that_the_account_does_not_own_or_cannot_read_is_refused() {
        muster_needs::require!(muster_needs::root());
        let n = name("root");
        fs::write(&n.0, "publickey ssh-ed25519 AAAA\n").unwrap();
        // Owned by root, readable by all: the account 65534 did not get it from sshd.
        assert!(read_user_auth(OsStr::new(&n.0), 65_534).is_err());
        // Owned by the account, but not even readable by it: root's rights are not used.
        chown(&n.0, Some(65_534), None).unwrap();
        fs::set_permissions(&n.0, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
        assert!(read_user_auth(OsStr::new(&n.0), 65_534).is_err());
        assert_eq!(fsuid_now(), 0);
    }

    #[test]
    fn no_sshd_above_a_test_is_no_handle_or_a_live_one() {
        if let Some(fd) = ancestor() {
            let mut p = [rustix::event::PollFd::new(&fd, rustix::event::PollFlags::IN)];
            let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
            assert_eq!(rustix::event::poll(&mut p, Some(&now)).unwrap(), 0);
        }
    }
}
