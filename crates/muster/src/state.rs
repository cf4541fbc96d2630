//! Files of the state folder: what this program believes (pins of nodes and hosts, heads of records) and what it remembers.
//!
//! Invariants: a file is opened once, without waiting and without following a link, and judged through what was opened: regular, of
//! whoever runs this or of root, writable by nobody else, in a folder that is no different, and bounded. That is the rule of ssh(1)
//! for its own files. Only what is not there (ENOENT) is none; whatever else cannot be read is a fault, so that nothing is ever
//! written over it. What is above the folder was named by whoever runs this and is not judged. One at a time writes, under a lock
//! beside the file, and so what a writer that was killed left behind is written over by the next one.

use crate::codes::Own;
use crate::fault::Fault;
use crate::files;
use crate::locks::{self, Held};
use muster_sys::file::{Fault as Wrong, Root, Unsafe};
use std::path::{Path, PathBuf};
use std::time::Duration;

const MODE: u32 = 0o600;
/// A lock is empty.
const MAX_LOCK: usize = 4096;

/// What this file says; `None` where it is not there.
pub fn read(folder: &Path, name: &str, max: usize) -> Result<Option<String>, Fault> {
    let Some(root) = opened(folder)? else { return Ok(None) };
    let bytes = match root.read(&Path::new("/").join(name), u64::try_from(max).unwrap_or(u64::MAX)) {
        Ok(bytes) => bytes,
        Err(e) if e.is_missing() => return Ok(None),
        Err(e) => return Err(told(folder, &e)),
    };
    files::text(bytes, &folder.join(name)).map(Some)
}

/// The folder, where it is there.
fn opened(folder: &Path) -> Result<Option<Root>, Fault> {
    match Root::below(folder) {
        Ok(root) => Ok(Some(root)),
        Err(e) if e.is_missing() && files::is_absent(folder) => Ok(None),
        Err(e) => Err(Fault::io(folder, "open", e.io())),
    }
}

/// Why a file cannot be believed, and what to do: what others can change proves nothing.
fn told(folder: &Path, wrong: &Unsafe) -> Fault {
    let path: PathBuf = match wrong.path.strip_prefix("/") {
        Ok(rest) if rest.as_os_str().is_empty() => folder.to_owned(),
        Ok(rest) => folder.join(rest),
        Err(_) => wrong.path.clone(),
    };
    let path = path.display();
    match &wrong.fault {
        Wrong::Mode(mode, _) => {
            Fault::new(Own::StateUnsafe, format!("others than you may write to {path} (mode {mode:04o})"))
                .why("so what it says is not believed")
                .fix(format!("Look at what is in it, then: chmod go-w {path}"))
        }
        Wrong::Owner(uid) => {
            Fault::new(Own::StateUnsafe, format!("{path} belongs to user {uid}, who is neither you nor root"))
                .why("so what it says is not believed")
                .fix(format!(
                    "Run this as that user; or look at what is in it, then: chown \"$(id -u)\" {path}"
                ))
        }
        Wrong::TooLarge(max) => Fault::new(Own::FileTooLarge, format!("{path} is over {max} bytes")),
        Wrong::Io(e) => Fault::io(Path::new(&path.to_string()), "read", e),
        other => {
            let what = match other {
                Wrong::Symlink => "a symbolic link",
                _ => "no regular file",
            };
            Fault::new(Own::StateUnusable, format!("{path} is {what}"))
                .fix("Move it away, or put a file in its place.")
        }
    }
}

/// Keeps others from writing this file, for at most so long as it is waited for them.
pub fn hold(folder: &Path, name: &str, patience: Duration) -> Result<Held, Fault> {
    files::make_folder(folder, 0o700)?;
    let lock = format!("{name}.lock");
    let held = locks::take(&folder.join(&lock), Some(patience), "")?;
    // It says nothing: what is judged is whether somebody else could have put another one there.
    read(folder, &lock, MAX_LOCK)?;
    Ok(held)
}

/// Puts this in the place of the file: the old one or the new one is there at every moment.
pub fn write(_held: &Held, folder: &Path, name: &str, bytes: &[u8]) -> Result<(), Fault> {
    let (new, path) = (new(folder, name), folder.join(name));
    begin(&new, bytes)?;
    if let Err(e) = std::fs::rename(&new, &path) {
        let _ = std::fs::remove_file(&new);
        return Err(Fault::io(&path, "rename", &e));
    }
    files::sync_folder(folder)
}

/// Whether so many bytes could be written now: they are, to the disk, and taken away again.
pub fn try_write(_held: &Held, folder: &Path, name: &str, bytes: usize) -> Result<(), Fault> {
    let new = new(folder, name);
    begin(&new, &vec![b'\n'; bytes])?;
    std::fs::remove_file(&new).map_err(|e| Fault::io(&new, "remove", &e))
}

/// One name for all: who holds the lock is alone, and what is there is of one who was killed.
fn new(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!(".{name}.new"))
}

fn begin(new: &Path, bytes: &[u8]) -> Result<(), Fault> {
    match std::fs::remove_file(new) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(Fault::io(new, "remove", &e)),
        _ => {}
    }
    files::write_new(new, bytes, MODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    const NAME: &str = "node-pins";

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            files::make_folder(&dir.path().join("s"), 0o700).unwrap();
            Self { dir }
        }

        fn folder(&self) -> PathBuf {
            self.dir.path().join("s")
        }

        fn file(&self) -> PathBuf {
            self.folder().join(NAME)
        }

        fn read(&self) -> Result<Option<String>, Fault> {
            read(&self.folder(), NAME, 9)
        }

        fn refused(&self, code: Own, says: &str) {
            let fault = self.read().unwrap_err();
            assert!(fault.code == code.into() && fault.to_string().contains(says), "{fault}");
        }
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_may_write_is_not_believed() {
        let p = Place::new();
        std::fs::write(p.file(), "x").unwrap();
        for good in [0o600, 0o644, 0o400] {
            chmod(&p.file(), good);
            assert_eq!(p.read().unwrap().as_deref(), Some("x"));
        }
        for bad in [0o666, 0o620, 0o602] {
            chmod(&p.file(), bad);
            p.refused(Own::StateUnsafe, &format!("chmod go-w {}", p.file().display()));
        }
        chmod(&p.file(), 0o600);
        for bad in [0o777, 0o1777, 0o770] {
            chmod(&p.folder(), bad);
            p.refused(Own::StateUnsafe, &format!("chmod go-w {}", p.folder().display()));
            // Neither is something remembered where others could change it.
            assert_eq!(hold(&p.folder(), NAME, Duration::ZERO).unwrap_err().code, Own::StateUnsafe.into());
        }
        // Where there is no file, somebody else may have taken it away.
        std::fs::remove_file(p.file()).unwrap();
        p.refused(Own::StateUnsafe, "mode 0770");
        chmod(&p.folder(), 0o755);
        assert_eq!(p.read().unwrap(), None);
    }

    #[test]
    fn what_belongs_to_somebody_else_is_not_believed() {
        // Only root gives files away.
        muster_needs::require!(muster_needs::root());
        let p = Place::new();
        std::fs::write(p.file(), "x").unwrap();
        std::os::unix::fs::chown(p.file(), Some(4_000_000), None).unwrap();
        p.refused(Own::StateUnsafe, "belongs to user 4000000");
        std::os::unix::fs::chown(p.file(), Some(0), None).unwrap();
        std::os::unix::fs::chown(p.folder(), Some(4_000_000), None).unwrap();
        p.refused(Own::StateUnsafe, "belongs to user 4000000");
    }

    #[test]
    fn only_what_is_not_there_is_none_and_nothing_is_waited_for() {
        let p = Place::new();
        assert_eq!(p.read().unwrap(), None);
        assert_eq!(read(&p.dir.path().join("none"), NAME, 9).unwrap(), None);
        for target in ["/nowhere/at/all", "/dev/zero", "/proc/self/comm"] {
            symlink(target, p.file()).unwrap();
            p.refused(Own::StateUnusable, "is a symbolic link");
            std::fs::remove_file(p.file()).unwrap();
        }
        let pipe = |path: &Path| {
            rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        };
        pipe(&p.file());
        p.refused(Own::StateUnusable, "is no regular file");
        pipe(&p.folder().join("x.lock"));
        let fault = hold(&p.folder(), "x", Duration::ZERO).unwrap_err();
        assert!(fault.to_string().contains("x.lock is no regular file"), "{fault}");
        std::fs::remove_file(p.file()).unwrap();
        std::fs::create_dir(p.file()).unwrap();
        p.refused(Own::StateUnusable, "is no regular file");
        std::fs::remove_dir(p.file()).unwrap();
        std::fs::write(p.file(), "0123456789").unwrap();
        p.refused(Own::FileTooLarge, "is over 9 bytes");
        symlink("/nowhere/at/all", p.dir.path().join("dangling")).unwrap();
        assert!(read(&p.dir.path().join("dangling"), NAME, 9).is_err());
        symlink("s", p.dir.path().join("link")).unwrap();
        std::fs::write(p.file(), "x").unwrap();
        assert_eq!(read(&p.dir.path().join("link"), NAME, 9).unwrap().as_deref(), Some("x"));
    }

    #[test]
    fn a_lock_that_leads_elsewhere_makes_no_file_there() {
        let p = Place::new();
        let there = p.dir.path().join("there");
        symlink(&there, p.folder().join("x.lock")).unwrap();
        let fault = hold(&p.folder(), "x", Duration::ZERO).unwrap_err();
        assert!(fault.to_string().contains("x.lock is a symbolic link"), "{fault}");
        assert!(!there.exists());
    }

    #[test]
    fn what_a_killed_writer_left_is_written_over() {
        let p = Place::new();
        let held = hold(&p.folder(), NAME, Duration::ZERO).unwrap();
        std::fs::write(p.folder().join(".node-pins.new"), "half").unwrap();
        try_write(&held, &p.folder(), NAME, 100).unwrap();
        std::fs::write(p.folder().join(".node-pins.new"), "half").unwrap();
        write(&held, &p.folder(), NAME, b"new").unwrap();
        assert_eq!(p.read().unwrap().as_deref(), Some("new"));
        let mut names: Vec<_> = std::fs::read_dir(p.folder())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, [NAME, "node-pins.lock"]);
        assert_eq!(std::fs::metadata(p.file()).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
