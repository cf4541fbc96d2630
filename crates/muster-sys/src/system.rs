//! Small facts about this machine and process, and random numbers.

use crate::SysError;
use rustix::rand::GetRandomFlags;
use std::path::Path;

/// 128 random bits from getrandom(2), waiting for the pool to be ready.
pub fn random_128() -> Result<[u8; 16], SysError> {
    let mut out = [0u8; 16];
    let mut have = 0;
    while have < out.len() {
        let rest = out.get_mut(have..).unwrap_or_default();
        match rustix::rand::getrandom(rest, GetRandomFlags::empty()) {
            Ok(n) => have += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(SysError::new("read random bytes", e)),
        }
    }
    Ok(out)
}

/// Real, effective user id of this process.
pub fn user_ids() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::geteuid().as_raw())
}

/// This process.
pub fn pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Folder `/`, files made private: what a process that runs as root starts with.
pub fn neutral_place() -> Result<(), SysError> {
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    rustix::process::chdir("/").map_err(|e| SysError::at("enter", "/", e))
}

/// Bytes of a file system: all, and what may still be used without privilege.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Size in bytes.
    pub total: u64,
    /// Bytes that an unprivileged user may still write.
    pub free: u64,
}

/// Space of the file system that holds `path` (statvfs(3)).
pub fn space(path: &Path) -> Result<Space, SysError> {
    let st = rustix::fs::statvfs(path).map_err(|e| SysError::at("look at the space of", path, e))?;
    Ok(Space {
        total: st.f_blocks.saturating_mul(st.f_frsize),
        free: st.f_bavail.saturating_mul(st.f_frsize),
    })
}

/// Whether the file system that holds `path` is in memory and gone with the power: tmpfs or ramfs (statfs(2)).
pub fn is_volatile(path: &Path) -> Result<bool, SysError> {
    const TMPFS: u32 = 0x0102_1994;
    const RAMFS: u32 = 0x8584_58f6;
    let st = rustix::fs::statfs(path).map_err(|e| SysError::at("look at the file system of", path, e))?;
    // The type has 32 bits, in a number that is as wide as the machine's word, and signed.
    Ok([TMPFS, RAMFS].into_iter().any(|kind| st.f_type as u32 == kind))
}

/// Gives the machine its name until the next boot (sethostname(2)); `/etc/hostname` is the caller's.
pub fn set_host_name(name: &str) -> Result<(), SysError> {
    rustix::system::sethostname(name.as_bytes()).map_err(|e| SysError::new("set the host name", e))
}

/// Kernel release and machine (uname(2)).
pub fn kernel() -> (String, String) {
    let u = rustix::system::uname();
    (u.release().to_string_lossy().into_owned(), u.machine().to_string_lossy().into_owned())
}

/// Processors that this process may run on: what nproc(1) prints. The quota of a control group
/// is not counted in, because it says nothing of what the machine has.
pub fn processors() -> usize {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize).max(1)
}

/// Lets this process have so many files open, as far as its hard limit goes, and says how many it may have now. A limit that
/// is higher already stays (getrlimit(2), RLIMIT_NOFILE).
pub fn open_files(wanted: u64) -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let soft = now.current.unwrap_or(u64::MAX);
    let new = wanted.min(now.maximum.unwrap_or(u64::MAX));
    if soft >= new || setrlimit(Resource::Nofile, Rlimit { current: Some(new), ..now }).is_err() {
        return soft;
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_memory_is_told_from_a_disk() {
        assert!(!is_volatile(Path::new("/proc")).unwrap());
        assert!(is_volatile(Path::new("/nowhere")).is_err());
        let kind = crate::command::Command::new("/usr/bin/stat").args(["-f", "-c", "%T", "/dev/shm"]).run();
        let kind = String::from_utf8(kind.unwrap().stdout).unwrap();
        assert_eq!(
            is_volatile(Path::new("/dev/shm")).unwrap(),
            matches!(kind.trim(), "tmpfs" | "ramfs"),
            "{kind}"
        );
    }

    #[test]
    fn randoms_differ() {
        assert_ne!(random_128().unwrap(), random_128().unwrap());
    }

    #[test]
    fn the_limit_of_open_files_rises_and_never_falls() {
        let before = open_files(0);
        let more = open_files(before + 1);
        // Where soft and hard limit are one there is no more to have.
        assert!(more == before || more == before + 1, "{before} {more}");
        assert_eq!(open_files(0), more);
        assert_eq!(open_files(u64::MAX), open_files(0));
    }

    #[test]
    fn facts_are_sane() {
        let s = space(Path::new("/")).unwrap();
        assert!(s.total > s.free && s.total > 1 << 20);
        assert!(!kernel().0.is_empty());
        let nproc = crate::command::Command::new("/usr/bin/nproc").run().unwrap();
        assert_eq!(processors().to_string(), String::from_utf8(nproc.stdout).unwrap().trim_end());
        assert_eq!(pid(), i32::try_from(std::process::id()).unwrap());
    }
}
