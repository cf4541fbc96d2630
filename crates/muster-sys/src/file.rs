//! Reading files that decide what runs as root.
//!
//! The path is walked from a root folder one part at a time. Every folder on the way must belong
//! to a trusted owner and must not be writable by group or others; a symbolic link among the
//! parents is followed by hand, so that the folders behind it are judged as well. The last part
//! is opened once with `O_NOFOLLOW`, judged through its descriptor, and read through the same
//! descriptor, bounded. (POSIX ACLs that let others write show as group bits, because the mask
//! does: acl(5).)

use crate::SysError;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Links among the parents that are followed before giving up.
const MAX_LINKS: usize = 16;

/// Nobody but the owner may write: the rule for what is trusted.
pub const NOT_WRITABLE_BY_OTHERS: u32 = 0o022;
/// Nobody but the owner may do anything: the rule for state and secrets.
pub const PRIVATE: u32 = 0o077;

/// What is wrong with a file or a folder above it.
#[derive(Debug)]
pub enum Fault {
    /// It is not there.
    Missing,
    /// It is a symbolic link.
    Symlink,
    /// It is not a regular file.
    NotRegular,
    /// It is not a folder.
    NotDirectory,
    /// It belongs to somebody who is not trusted; the user id.
    Owner(u32),
    /// Its mode allows too much; mode and the bits that are not allowed.
    Mode(u32, u32),
    /// It is longer than the bound, in bytes.
    TooLarge(u64),
    /// The path is relative, or has `..` or more links than are followed.
    Path,
    /// The system said no.
    Io(std::io::Error),
}

/// A file that may not be trusted, and why. `path` is the part of the path that is at fault.
#[derive(Debug)]
pub struct Unsafe {
    /// The file or folder at fault.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

impl Unsafe {
    fn new(path: &Path, fault: Fault) -> Self {
        Self { path: path.to_owned(), fault }
    }

    fn io(path: &Path, e: Errno) -> Self {
        let fault = match e {
            Errno::NOENT => Fault::Missing,
            Errno::LOOP => Fault::Symlink,
            Errno::NOTDIR => Fault::NotDirectory,
            e => Fault::Io(e.into()),
        };
        Self::new(path, fault)
    }

    /// Whether the fault is that it is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self.fault, Fault::Missing)
    }
}

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.path.display())?;
        match &self.fault {
            Fault::Missing => f.write_str("does not exist"),
            Fault::Symlink => f.write_str("is a symbolic link"),
            Fault::NotRegular => f.write_str("is not a regular file"),
            Fault::NotDirectory => f.write_str("is not a folder"),
            Fault::Owner(uid) => write!(f, "belongs to user {uid}"),
            Fault::Mode(mode, bad) => write!(f, "has mode {mode:04o}, of which {bad:04o} is not allowed"),
            Fault::TooLarge(max) => write!(f, "is longer than {max} bytes"),
            Fault::Path => f.write_str("is not a plain absolute path"),
            Fault::Io(e) => write!(f, "cannot be read: {e}"),
        }
    }
}

impl std::error::Error for Unsafe {}

/// Where absolute paths start and whose files are trusted below it.
#[derive(Debug)]
pub struct Root {
    dir: OwnedFd,
    owners: [u32; 2],
}

const DIR_PATH: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Root {
    /// `/`, and root alone is trusted.
    pub fn system() -> Result<Self, SysError> {
        Self::open(Path::new("/"), [0, 0])
    }

    /// `/`, and root and the user `uid` are trusted: for files of a person.
    pub fn for_user(uid: u32) -> Result<Self, SysError> {
        Self::open(Path::new("/"), [0, uid])
    }

    /// A folder that stands for `/`, named by whoever runs this process, who is trusted below it beside root. What is above the
    /// folder is not judged: it was named, not found.
    pub fn below(dir: &Path) -> Result<Self, SysError> {
        Self::open(dir, [0, rustix::process::geteuid().as_raw()])
    }

    /// A folder that stands for `/`, with `uid` in the place of root.
    #[cfg(any(test, feature = "testing"))]
    pub fn at(dir: &Path, uid: u32) -> Result<Self, SysError> {
        Self::open(dir, [uid, uid])
    }

    fn open(dir: &Path, owners: [u32; 2]) -> Result<Self, SysError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(dir, flags, Mode::empty()).map_err(|e| SysError::at("open", dir, e))?;
        Ok(Self { dir: fd, owners })
    }

    /// Judges an open file or folder: its type is the caller's business, owner and mode are not.
    pub(crate) fn judge(
        &self,
        fd: impl AsFd,
        path: &Path,
        forbidden: u32,
    ) -> Result<rustix::fs::Stat, Unsafe> {
        let st = rustix::fs::fstat(fd).map_err(|e| Unsafe::io(path, e))?;
        self.judge_stat(&st, path, forbidden)?;
        Ok(st)
    }

    fn judge_stat(&self, st: &rustix::fs::Stat, path: &Path, forbidden: u32) -> Result<(), Unsafe> {
        if !self.owners.contains(&st.st_uid) {
            return Err(Unsafe::new(path, Fault::Owner(st.st_uid)));
        }
        let mode = st.st_mode & 0o7777;
        if mode & forbidden != 0 {
            return Err(Unsafe::new(path, Fault::Mode(mode, mode & forbidden)));
        }
        Ok(())
    }

    /// Reads a trusted file: parents and file owned by a trusted owner, not writable by others,
    /// regular, not a link, at most `max` bytes.
    pub fn read(&self, path: &Path, max: u64) -> Result<Vec<u8>, Unsafe> {
        self.read_with(path, max, NOT_WRITABLE_BY_OTHERS)
    }

    /// [`Root::read`] with other mode bits forbidden on the file itself.
    pub fn read_with(&self, path: &Path, max: u64, forbidden: u32) -> Result<Vec<u8>, Unsafe> {
        let (parent, name) = self.parent_of(path)?;
        self.read_in(&parent, &name, path, max, forbidden)
    }

    /// Reads `name` in an open folder by the same rules; `shown` names it in errors.
    pub(crate) fn read_in(
        &self,
        dir: &OwnedFd,
        name: &OsStr,
        shown: &Path,
        max: u64,
        forbidden: u32,
    ) -> Result<Vec<u8>, Unsafe> {
        // NONBLOCK: a FIFO must not hold us before we have seen that it is one.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(dir, name, flags, Mode::empty()).map_err(|e| Unsafe::io(shown, e))?;
        let st = self.judge(&fd, shown, forbidden)?;
        if FileType::from_raw_mode(st.st_mode) != FileType::RegularFile {
            return Err(Unsafe::new(shown, Fault::NotRegular));
        }
        read_bounded(fd, shown, max)
    }

    /// Opens a folder by the same rules, with `forbidden` for the folder itself.
    pub fn open_dir(&self, path: &Path, forbidden: u32) -> Result<OwnedFd, Unsafe> {
        let (parent, name) = self.parent_of(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&parent, &name, flags, Mode::empty()).map_err(|e| Unsafe::io(path, e))?;
        self.judge(&fd, path, forbidden)?;
        Ok(fd)
    }

    /// Walks to the folder of `path`, judging each step; the folder and the last name.
    pub(crate) fn parent_of(&self, path: &Path) -> Result<(OwnedFd, OsString), Unsafe> {
        let bad = || Unsafe::new(path, Fault::Path);
        let mut todo = parts(path).ok_or_else(bad)?;
        let last = match todo.first() {
            Some(Step::Down(_)) => todo.remove(0),
            _ => return Err(bad()),
        };
        let Step::Down(name) = last else { return Err(bad()) };
        let mut walk = Walk { root: self, stack: Vec::new(), shown: PathBuf::from("/"), links: 0 };
        let top = self.dir.try_clone().map_err(|e| Unsafe::new(path, Fault::Io(e)))?;
        self.judge(&top, Path::new("/"), NOT_WRITABLE_BY_OTHERS)?;
        walk.stack.push(top);
        // `todo` is kept last-first, so that a link's target can be pushed on top of it.
        while let Some(step) = todo.pop() {
            walk.step(step, &mut todo)?;
        }
        let dir = walk.stack.pop().ok_or_else(bad)?;
        Ok((dir, name))
    }
}

/// One part of a path still to be walked.
enum Step {
    Down(OsString),
    Up,
    Top,
}

/// The parts of a path, last first; `None` when it is relative or has `..`.
fn parts(path: &Path) -> Option<Vec<Step>> {
    if !path.is_absolute() || path.as_os_str().as_bytes().contains(&0) {
        return None;
    }
    let mut out = Vec::new();
    for c in path.components() {
        match c {
            Component::RootDir => {}
            Component::Normal(n) => out.push(Step::Down(n.to_owned())),
            _ => return None,
        }
    }
    out.reverse();
    Some(out)
}

/// The parts of a link's target, last first. Here `..` is allowed: it goes back over folders
/// that were judged on the way down.
fn link_parts(target: &Path) -> Vec<Step> {
    let mut out: Vec<Step> = target
        .components()
        .filter_map(|c| match c {
            Component::RootDir => Some(Step::Top),
            Component::Normal(n) => Some(Step::Down(n.to_owned())),
            Component::ParentDir => Some(Step::Up),
            _ => None,
        })
        .collect();
    out.reverse();
    out
}

struct Walk<'a> {
    root: &'a Root,
    stack: Vec<OwnedFd>,
    shown: PathBuf,
    links: usize,
}

impl Walk<'_> {
    fn step(&mut self, step: Step, todo: &mut Vec<Step>) -> Result<(), Unsafe> {
        match step {
            Step::Top => {
                self.stack.truncate(1);
                self.shown = PathBuf::from("/");
            }
            Step::Up => {
                if self.stack.len() > 1 {
                    self.stack.pop();
                    self.shown.pop();
                }
            }
            Step::Down(name) => return self.down(&name, todo),
        }
        Ok(())
    }

    fn down(&mut self, name: &OsStr, todo: &mut Vec<Step>) -> Result<(), Unsafe> {
        let shown = self.shown.join(name);
        let Some(here) = self.stack.last() else { return Err(Unsafe::new(&shown, Fault::Path)) };
        let fd =
            rustix::fs::openat(here, name, DIR_PATH, Mode::empty()).map_err(|e| Unsafe::io(&shown, e))?;
        let st = rustix::fs::fstat(&fd).map_err(|e| Unsafe::io(&shown, e))?;
        match FileType::from_raw_mode(st.st_mode) {
            FileType::Directory => {
                self.root.judge_stat(&st, &shown, NOT_WRITABLE_BY_OTHERS)?;
                self.stack.push(fd);
                self.shown = shown;
                Ok(())
            }
            FileType::Symlink => {
                self.links += 1;
                if self.links > MAX_LINKS {
                    return Err(Unsafe::new(&shown, Fault::Path));
                }
                // Who may change the link is decided by the folder it is in, judged already.
                let target =
                    rustix::fs::readlinkat(&fd, "", Vec::new()).map_err(|e| Unsafe::io(&shown, e))?;
                todo.extend(link_parts(Path::new(OsStr::from_bytes(target.as_bytes()))));
                Ok(())
            }
            _ => Err(Unsafe::new(&shown, Fault::NotDirectory)),
        }
    }
}

/// Reads at most `max` bytes; one more is too large.
pub(crate) fn read_bounded(fd: OwnedFd, shown: &Path, max: u64) -> Result<Vec<u8>, Unsafe> {
    // What it says it is, and a little: then it takes one read, and one to see the end.
    let size = rustix::fs::fstat(&fd).map_or(0, |st| u64::try_from(st.st_size).unwrap_or(0));
    let mut out = Vec::with_capacity(usize::try_from(size.min(max)).unwrap_or(0) + 64);
    std::fs::File::from(fd)
        .take(max.saturating_add(1))
        .read_to_end(&mut out)
        .map_err(|e| Unsafe::new(shown, Fault::Io(e)))?;
    if out.len() as u64 > max {
        return Err(Unsafe::new(shown, Fault::TooLarge(max)));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Place {
        dir: tempfile::TempDir,
        root: Root,
    }

    fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let uid = rustix::process::getuid().as_raw();
        let root = Root::at(dir.path(), uid).unwrap();
        fs::create_dir_all(dir.path().join("etc/muster")).unwrap();
        chmod(&dir.path().join("etc"), 0o755);
        chmod(&dir.path().join("etc/muster"), 0o755);
        let f = dir.path().join("etc/muster/f");
        fs::write(&f, "hello").unwrap();
        chmod(&f, 0o644);
        Place { dir, root }
    }

    fn chmod(p: &Path, mode: u32) {
        fs::set_permissions(p, Permissions::from_mode(mode)).unwrap();
    }

    fn read(p: &Place) -> Result<Vec<u8>, Unsafe> {
        p.root.read(Path::new("/etc/muster/f"), 64)
    }

    #[test]
    fn s10_a_plain_trusted_file_is_read() {
        assert_eq!(read(&place()).unwrap(), b"hello");
    }

    #[test]
    fn s10_writable_file_or_parent_refuses() {
        for (what, mode) in [
            ("etc/muster/f", 0o664),
            ("etc/muster/f", 0o646),
            ("etc/muster", 0o775),
            ("etc", 0o757),
            ("etc", 0o1777),
            ("", 0o775),
        ] {
            let p = place();
            chmod(&p.dir.path().join(what), mode);
            let e = read(&p).unwrap_err();
            assert!(matches!(e.fault, Fault::Mode(m, _) if m == mode), "{what} {mode:o}: {e}");
        }
    }

    #[test]
    fn s10_foreign_owner_refuses() {
        let p = place();
        let other = Root::at(p.dir.path(), 4_000_000).unwrap();
        let e = other.read(Path::new("/etc/muster/f"), 64).unwrap_err();
        assert!(matches!(e.fault, Fault::Owner(_)), "{e}");
    }

    #[test]
    fn s10_last_part_is_never_a_link() {
        let p = place();
        symlink("f", p.dir.path().join("etc/muster/l")).unwrap();
        let e = p.root.read(Path::new("/etc/muster/l"), 64).unwrap_err();
        assert!(matches!(e.fault, Fault::Symlink), "{e}");
    }

    #[test]
    fn s10_a_linked_parent_is_judged_behind_the_link() {
        let p = place();
        let d = p.dir.path();
        fs::create_dir_all(d.join("var/real")).unwrap();
        chmod(&d.join("var"), 0o755);
        chmod(&d.join("var/real"), 0o755);
        fs::write(d.join("var/real/f"), "x").unwrap();
        chmod(&d.join("var/real/f"), 0o600);
        symlink("/var/real", d.join("etc/abs")).unwrap();
        symlink("../var/real", d.join("etc/rel")).unwrap();
        symlink("loop", d.join("etc/loop")).unwrap();
        assert_eq!(p.root.read(Path::new("/etc/abs/f"), 64).unwrap(), b"x");
        assert_eq!(p.root.read(Path::new("/etc/rel/f"), 64).unwrap(), b"x");
        let e = p.root.read(Path::new("/etc/loop/f"), 64).unwrap_err();
        assert!(matches!(e.fault, Fault::Path), "{e}");
        chmod(&d.join("var"), 0o777);
        for via in ["/etc/abs/f", "/etc/rel/f"] {
            let e = p.root.read(Path::new(via), 64).unwrap_err();
            assert_eq!(e.path, Path::new("/var"), "{e}");
        }
    }

    #[test]
    fn s10_bounds_types_and_names() {
        let p = place();
        let d = p.dir.path();
        assert!(matches!(p.root.read(Path::new("/etc/muster/f"), 4).unwrap_err().fault, Fault::TooLarge(4)));
        assert_eq!(p.root.read(Path::new("/etc/muster/f"), 5).unwrap(), b"hello");
        assert!(p.root.read(Path::new("/etc/muster/none"), 64).unwrap_err().is_missing());
        assert!(p.root.read(Path::new("/etc/none/f"), 64).unwrap_err().is_missing());
        assert!(matches!(p.root.read(Path::new("/etc/muster"), 64).unwrap_err().fault, Fault::NotRegular));
        assert!(matches!(
            p.root.read(Path::new("/etc/muster/f/g"), 64).unwrap_err().fault,
            Fault::NotDirectory
        ));
        for odd in ["etc/muster/f", "/etc/../etc/muster/f", "/"] {
            assert!(matches!(p.root.read(Path::new(odd), 64).unwrap_err().fault, Fault::Path), "{odd}");
        }
        let fifo = d.join("etc/muster/fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert!(matches!(
            p.root.read(Path::new("/etc/muster/fifo"), 64).unwrap_err().fault,
            Fault::NotRegular
        ));
    }

    #[test]
    fn s10_swapping_the_name_after_the_open_changes_nothing() {
        // The descriptor is judged and read: a second file under the same name is not looked at.
        let p = place();
        let (dir, name) = p.root.parent_of(Path::new("/etc/muster/f")).unwrap();
        fs::rename(p.dir.path().join("etc/muster"), p.dir.path().join("etc/old")).unwrap();
        fs::create_dir(p.dir.path().join("etc/muster")).unwrap();
        fs::write(p.dir.path().join("etc/muster/f"), "evil").unwrap();
        let got =
            p.root.read_in(&dir, &name, Path::new("/etc/muster/f"), 64, NOT_WRITABLE_BY_OTHERS).unwrap();
        assert_eq!(got, b"hello");
    }
}
