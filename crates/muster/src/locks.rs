//! Files that one `muster` at a time may change. Whoever waits for one longer than a moment is told for whom.
//!
//! The locks are flock(2)'s, on a file beside what they are for; who holds one is read from `/proc/locks` (proc_locks(5)). The file is
//! empty and stays: a process that ends lets go of its lock however it ends.

use crate::codes::Own;
use crate::fault::Fault;
use crate::printer::clean;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Held for a few milliseconds by who writes a state file. Who holds one for longer hangs, or was stopped.
pub const STATE: Duration = Duration::from_secs(30);

/// How long is waited before it is said.
const SILENT: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(20);

/// Until it is dropped, nobody else has it.
#[must_use = "the lock is free again when this is dropped"]
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "closing it lets go of the lock")] File);

/// Takes the lock on a file, which is made where it is not there. Waits for `most`, or for as long as it takes; what Ctrl-C does
/// meanwhile is told with the waiting.
pub fn take(path: &Path, most: Option<Duration>, on_interrupt: &str) -> Result<Held, Fault> {
    let file = opened(path)?;
    let begun = Instant::now();
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Held(file)),
            Err(TryLockError::Error(e)) => return Err(Fault::io(path, "lock", &e)),
            Err(TryLockError::WouldBlock) => {}
        }
        let waited = begun.elapsed();
        if most.is_some_and(|most| waited >= most) {
            let what = format!("{} is held by {}", path.display(), holder(&file));
            return Err(
                Fault::new(Own::FileLocked, what).why(format!("it was waited for {} s", waited.as_secs()))
            );
        }
        if waited >= SILENT && !told {
            told = true;
            let until = most.map_or_else(String::new, |m| format!(", for at most {} s", m.as_secs()));
            let line = format!(
                "waiting for {}{until}: {} is held by it. {on_interrupt}",
                holder(&file),
                path.display()
            );
            // Where nobody can be told, it is waited all the same.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        std::thread::sleep(PAUSE);
    }
}

/// Without waiting (a FIFO) and without following a link, behind which a file would be made.
fn opened(path: &Path) -> Result<File, Fault> {
    use rustix::fs::OFlags;
    let what = |is: &str| {
        Fault::new(Own::StateUnusable, format!("{} is {is}", path.display()))
            .fix("Move it away, and run the command again.")
    };
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits()).unwrap_or(0);
    let mut how = OpenOptions::new();
    how.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let file = how.open(path).map_err(|e| match e.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => what("a symbolic link"),
        _ => Fault::io(path, "create", &e),
    })?;
    let meta = file.metadata().map_err(|e| Fault::io(path, "create", &e))?;
    if meta.is_file() { Ok(file) } else { Err(what("no regular file")) }
}

/// Who holds it, as far as the kernel tells us: not on every file system, and not across containers.
fn holder(file: &File) -> String {
    let Some(pid) = file.metadata().ok().and_then(|m| {
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        pid(&locks, (rustix::fs::major(m.dev()), rustix::fs::minor(m.dev()), m.ino()))
    }) else {
        return "another process".to_owned();
    };
    match std::fs::read_to_string(format!("/proc/{pid}/comm")) {
        Ok(name) => format!("process {pid} ({})", clean(name.trim())),
        Err(_) => format!("process {pid}"),
    }
}

/// The holder of the flock on a file: `1: FLOCK  ADVISORY  WRITE 2599 fe:00:10338819 0 EOF`.
fn pid(locks: &str, (major, minor, inode): (u32, u32, u64)) -> Option<u32> {
    let file = format!("{major:02x}:{minor:02x}:{inode}");
    locks.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "FLOCK", _, _, pid, of, ..] if of == file => pid.parse().ok().filter(|p| *p > 0),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_holds_it_is_told_and_who_waits_for_it_is_not() {
        let locks = "1: POSIX  ADVISORY  WRITE 7 fe:00:12 0 EOF\n2: FLOCK  ADVISORY  WRITE 2599 fe:00:12 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 3 fe:00:12 0 EOF\n3: FLOCK  ADVISORY  WRITE -1 08:101:3 0 EOF\n";
        assert_eq!(pid(locks, (0xfe, 0, 12)), Some(2599));
        assert_eq!(pid(locks, (8, 0x101, 3)), None, "a process of another container");
        assert_eq!(pid(locks, (0xfe, 0, 1)), None);
    }

    #[test]
    fn a_lock_that_is_held_ends_the_waiting_with_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = take(&path, Some(Duration::ZERO), "").unwrap();
        let fault = take(&path, Some(Duration::from_millis(50)), "").unwrap_err();
        assert_eq!((fault.code, fault.exit().code()), (Own::FileLocked.into(), 7));
        assert!(fault.to_string().contains(&path.display().to_string()), "{fault}");
        drop(held);
        drop(take(&path, Some(Duration::ZERO), "").unwrap());
    }
}
