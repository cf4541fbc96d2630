//! A lock as a value: `flock(2)` on a private file in a private folder.
//!
//! The descriptor is close-on-exec, so the lock ends with the process that holds it and no child
//! keeps it. Mode 0600 in a 0700 folder: flock works on a descriptor opened for reading, so
//! whoever may open the file may take the lock away from everybody else.

use crate::SysError;
use crate::file::PRIVATE;
use crate::state::StateDir;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Holds the lock until it is dropped.
#[derive(Debug)]
#[must_use = "the lock is free again when this is dropped"]
pub struct Lock {
    _fd: OwnedFd,
}

impl Lock {
    /// Takes the lock `name` in `dir`; `None` when somebody else holds it. Never waits.
    pub fn try_take(dir: &StateDir, name: &str) -> Result<Option<Self>, SysError> {
        let shown = dir.path().join(name);
        let err = |e: Errno| SysError::at("lock", &shown, e);
        // A file that was removed between open and lock is locked by nobody else: look again.
        for _ in 0..8 {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(dir.fd(), name, flags, Mode::from_raw_mode(0o600)).map_err(err)?;
            let mine = dir
                .root()
                .judge(&fd, &shown, PRIVATE)
                .map_err(|e| SysError::new("lock", std::io::Error::other(e.to_string())))?;
            match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(e) => return Err(err(e)),
            }
            match rustix::fs::statat(dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(now) if (now.st_dev, now.st_ino) == (mine.st_dev, mine.st_ino) => {
                    return Ok(Some(Self { _fd: fd }));
                }
                Ok(_) | Err(Errno::NOENT) => {}
                Err(e) => return Err(err(e)),
            }
        }
        Err(err(Errno::AGAIN))
    }
}

impl Lock {
    /// Takes the lock on the private folder itself, which writes nothing and needs no file; `None` when
    /// somebody else holds it, or when it cannot be had. Another lock than any in the folder.
    pub fn try_take_folder(dir: &StateDir) -> Option<Self> {
        // An open file of its own: the lock would else be that of every holder of `dir`.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir.fd(), ".", flags, Mode::empty()).ok()?;
        rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { _fd: fd })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Root;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::path::Path;

    #[test]
    fn m9_one_holder_at_a_time_and_the_file_is_private() {
        let t = tempfile::tempdir().unwrap();
        let uid = rustix::process::getuid().as_raw();
        let root = Root::at(t.path(), uid).unwrap();
        let dir = StateDir::open_or_make(root, Path::new("/run/shim")).unwrap();
        let first = Lock::try_take(&dir, "lock").unwrap().unwrap();
        assert!(Lock::try_take(&dir, "lock").unwrap().is_none());
        let f = t.path().join("run/shim/lock");
        assert_eq!(fs::metadata(&f).unwrap().mode() & 0o7777, 0o600);
        drop(first);
        let again = Lock::try_take(&dir, "lock").unwrap();
        assert!(again.is_some());
        // A lock file that others may open is refused: they could hold it for ever.
        drop(again);
        fs::set_permissions(&f, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Lock::try_take(&dir, "lock").is_err());
    }

    #[test]
    fn a_folder_is_a_lock_that_writes_nothing() {
        let t = tempfile::tempdir().unwrap();
        let root = Root::at(t.path(), rustix::process::getuid().as_raw()).unwrap();
        let dir = StateDir::open_or_make(root, Path::new("/run/shim")).unwrap();
        let held = Lock::try_take_folder(&dir).unwrap();
        assert!(Lock::try_take_folder(&dir).is_none());
        assert!(Lock::try_take(&dir, "lock").unwrap().is_some(), "another lock");
        drop(held);
        assert!(Lock::try_take_folder(&dir).is_some());
        assert_eq!(fs::read_dir(t.path().join("run/shim")).unwrap().count(), 1);
    }
}
