//! A private folder of state: read, replaced whole, appended to with a bound.
//!
//! Replacing is write to a temporary name in the same folder, fsync, rename, fsync of the folder
//! (open(2), rename(2), fsync(2)): after it returns, a crash leaves the new content, and a crash
//! before leaves the old one. Callers that may run at the same time hold a [`crate::lock::Lock`].

use crate::SysError;
use crate::file::{self, NOT_WRITABLE_BY_OTHERS, PRIVATE, Root, Unsafe};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Whether a change must survive a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// fsync of file and folder before it returns.
    Durable,
    /// Whole or not at all for other processes, gone with the power.
    Volatile,
}

/// An open folder that nobody but its owner may enter; or, where it says so, one whose files others may read by name.
#[derive(Debug)]
pub struct StateDir {
    root: Root,
    dir: OwnedFd,
    path: PathBuf,
    sight: Sight,
}

/// Who may look into a folder of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// Its owner: folder 0700, files 0600.
    Owner,
    /// Everybody who knows a name, and nobody may list: folder 0711, files 0644.
    ByName,
    /// Everybody may enter and list, the files are its owner's: folder 0755, files 0600.
    Entered,
}

impl Sight {
    const fn forbidden(self) -> u32 {
        match self {
            Self::Owner => PRIVATE,
            Self::ByName | Self::Entered => NOT_WRITABLE_BY_OTHERS,
        }
    }

    /// The same of its files.
    const fn forbidden_of_files(self) -> u32 {
        match self {
            Self::Owner | Self::Entered => PRIVATE,
            Self::ByName => NOT_WRITABLE_BY_OTHERS,
        }
    }

    const fn folder(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::ByName => 0o711,
            Self::Entered => 0o755,
        }
    }

    const fn file(self) -> Mode {
        match self {
            Self::Owner | Self::Entered => Mode::from_raw_mode(0o600),
            Self::ByName => Mode::from_raw_mode(0o644),
        }
    }
}

impl StateDir {
    /// Opens a folder that must be there, with every parent judged as [`Root`] does it.
    pub fn open(root: Root, path: &Path) -> Result<Self, Unsafe> {
        Self::open_for(root, path, Sight::Owner)
    }

    fn open_for(root: Root, path: &Path, sight: Sight) -> Result<Self, Unsafe> {
        let dir = root.open_dir(path, sight.forbidden())?;
        Ok(Self { root, dir, path: path.to_owned(), sight })
    }

    /// [`StateDir::open`], making the folder (0700) and its direct parent (0755) when missing.
    pub fn open_or_make(root: Root, path: &Path) -> Result<Self, Unsafe> {
        Self::open_or_make_for(root, path, Sight::Owner)
    }

    /// [`StateDir::open_or_make`] for a folder (0711) of files (0644) that others may read by name, and only its owner changes.
    pub fn open_or_make_by_name(root: Root, path: &Path) -> Result<Self, Unsafe> {
        Self::open_or_make_for(root, path, Sight::ByName)
    }

    fn open_or_make_for(root: Root, path: &Path, sight: Sight) -> Result<Self, Unsafe> {
        match root.open_dir(path, sight.forbidden()) {
            Err(e) if e.is_missing() => {}
            Err(e) => return Err(e),
            Ok(dir) => return Ok(Self { root, dir, path: path.to_owned(), sight }),
        }
        if let Some(parent) = path.parent().filter(|p| p.parent().is_some()) {
            make_dir(&root, parent, 0o755)?;
        }
        make_dir(&root, path, sight.folder())?;
        Self::open_for(root, path, sight)
    }

    /// Opens a folder that others may enter and nobody but its owner may write to, making it (0755) when missing. What is private
    /// in it is so by the mode of the file.
    pub fn open_or_make_shared(root: Root, path: &Path) -> Result<Self, Unsafe> {
        Self::open_or_make_for(root, path, Sight::Entered)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.dir
    }

    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Reads a file of at most `max` bytes, which must be as closed as the folder is to be.
    pub fn read(&self, name: &str, max: u64) -> Result<Vec<u8>, Unsafe> {
        self.root.read_in(
            &self.dir,
            OsStr::new(name),
            &self.path.join(name),
            max,
            self.sight.forbidden_of_files(),
        )
    }

    /// Reads a file of at most `max` bytes that others may read and must not be able to write.
    pub fn read_shared(&self, name: &str, max: u64) -> Result<Vec<u8>, Unsafe> {
        let shown = self.path.join(name);
        self.root.read_in(&self.dir, OsStr::new(name), &shown, max, file::NOT_WRITABLE_BY_OTHERS)
    }

    /// Whether there is something of this name.
    pub fn has(&self, name: &str) -> Result<bool, SysError> {
        match rustix::fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(e) => Err(SysError::at("look for", self.path.join(name), e)),
        }
    }

    /// Reads at most the last `max` bytes of a file, however long it is.
    pub fn read_tail(&self, name: &str, max: u64) -> Result<Vec<u8>, SysError> {
        let shown = self.path.join(name);
        let err = |e: Errno| SysError::at("read", &shown, e);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, name, flags, Mode::empty()).map_err(err)?;
        let st = rustix::fs::fstat(&fd).map_err(err)?;
        if FileType::from_raw_mode(st.st_mode) != FileType::RegularFile {
            return Err(err(Errno::INVAL));
        }
        let len = u64::try_from(st.st_size).unwrap_or(0);
        rustix::fs::seek(&fd, rustix::fs::SeekFrom::Start(len.saturating_sub(max))).map_err(err)?;
        let mut out = Vec::new();
        // It may have grown since it was measured: what is over `max` is then not read, and no fault.
        let read = std::fs::File::from(fd).take(max).read_to_end(&mut out);
        read.map_err(|e| SysError::new("read the end of a log", e))?;
        Ok(out)
    }

    /// Replaces `name` with `bytes`, mode 0600, or 0644 in a folder that is read by name.
    pub fn replace(&self, name: &str, bytes: &[u8], durability: Durability) -> Result<(), SysError> {
        self.replace_with(name, bytes, self.sight.file(), durability)
    }

    /// Replaces `name` with `bytes`, mode 0644: for what others may read.
    pub fn replace_shared(&self, name: &str, bytes: &[u8], durability: Durability) -> Result<(), SysError> {
        self.replace_with(name, bytes, Mode::from_raw_mode(0o644), durability)
    }

    fn replace_with(&self, name: &str, bytes: &[u8], mode: Mode, d: Durability) -> Result<(), SysError> {
        let tmp = format!(".{name}.tmp");
        let done = self.replace_through(&tmp, name, bytes, mode, d);
        if done.is_err() {
            // The temporary file is nobody's state; what matters is the error that is returned.
            let _ = rustix::fs::unlinkat(&self.dir, &tmp, AtFlags::empty());
        }
        done
    }

    fn replace_through(
        &self,
        tmp: &str,
        name: &str,
        bytes: &[u8],
        mode: Mode,
        d: Durability,
    ) -> Result<(), SysError> {
        let shown = self.path.join(name);
        // A temporary file that a killed writer left is of no use to anybody.
        match rustix::fs::unlinkat(&self.dir, tmp, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(e) => return Err(SysError::at("replace", shown, e)),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, tmp, flags, mode)
            .map_err(|e| SysError::at("create a temporary file for", &shown, e))?;
        // Not what the umask made of it.
        rustix::fs::fchmod(&fd, mode)
            .map_err(|e| SysError::at("set the mode of a temporary file for", &shown, e))?;
        write_all(&fd, bytes).map_err(|e| SysError::at("write", &shown, e))?;
        if d == Durability::Durable {
            rustix::fs::fsync(&fd).map_err(|e| SysError::at("fsync", &shown, e))?;
        }
        rustix::fs::renameat(&self.dir, tmp, &self.dir, name)
            .map_err(|e| SysError::at("rename a temporary file to", &shown, e))?;
        if d == Durability::Durable {
            self.sync()?;
        }
        Ok(())
    }

    /// Removes `name`, and returns when a crash can no longer bring it back; it is no error when it is not there.
    pub fn remove_durably(&self, name: &str) -> Result<(), SysError> {
        self.remove(name)?;
        self.sync()
    }

    /// Removes `name`; it is no error when it is not there.
    pub fn remove(&self, name: &str) -> Result<(), SysError> {
        match rustix::fs::unlinkat(&self.dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(e) => Err(SysError::at("remove", self.path.join(name), e)),
        }
    }

    /// Appends one line, and with [`Durability::Durable`] waits until it and all before it is on the disk. A file that would grow over
    /// `rotate_at` bytes is renamed to `name.1` first, over what was there. A line that did not
    /// fit whole is taken back, and a torn last line of a crash is ended before the new one.
    pub fn append_line(
        &self,
        name: &str,
        line: &str,
        rotate_at: u64,
        durability: Durability,
    ) -> Result<(), SysError> {
        let shown = self.path.join(name);
        let err = |doing, e: Errno| SysError::at(doing, &shown, e);
        let (mut fd, mut len, mut made) = self.open_log(name)?;
        if len > 0 && len.saturating_add(line.len() as u64 + 1) > rotate_at {
            rustix::fs::renameat(&self.dir, name, &self.dir, format!("{name}.1"))
                .map_err(|e| err("rotate", e))?;
            (fd, len, made) = self.open_log(name)?;
        }
        let mut text = String::with_capacity(line.len() + 2);
        if len > 0 {
            let mut last = [0u8; 1];
            let n = rustix::io::pread(&fd, &mut last, len - 1).map_err(|e| err("read", e))?;
            if n == 1 && last != *b"\n" {
                text.push('\n');
            }
        }
        text.push_str(line);
        text.push('\n');
        let durable = durability == Durability::Durable;
        let written = write_all(&fd, text.as_bytes())
            .and_then(|()| if durable { rustix::fs::fdatasync(&fd) } else { Ok(()) })
            // The name of a new file is made durable at once, whoever waits for its first line.
            .and_then(|()| if made { rustix::fs::fsync(&self.dir) } else { Ok(()) });
        written.map_err(|e| {
            // Half a line would be read as a record; the error stands whether or not this works.
            let _ = rustix::fs::ftruncate(&fd, len);
            err("append to", e)
        })
    }

    /// Opens a file that grows, for reading and for writing at its end, made private where it is not there. Whoever made it makes its
    /// name durable with [`StateDir::sync`].
    pub fn open_growing(&self, name: &str) -> Result<std::fs::File, SysError> {
        self.open_log(name).map(|(fd, _, _)| std::fs::File::from(fd))
    }

    /// Opens a file of the folder for reading: a regular one, and no link.
    pub fn open_file(&self, name: &str) -> Result<std::fs::File, SysError> {
        let shown = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(&self.dir, name, flags, Mode::empty())
            .map_err(|e| SysError::at("open", &shown, e))?;
        let st = rustix::fs::fstat(&fd).map_err(|e| SysError::at("look at", &shown, e))?;
        if FileType::from_raw_mode(st.st_mode) != FileType::RegularFile {
            return Err(SysError::at("read what is not a regular file:", &shown, Errno::INVAL));
        }
        Ok(std::fs::File::from(fd))
    }

    /// The names in the folder, in no order.
    pub fn names(&self) -> Result<Vec<String>, SysError> {
        let err = |e: Errno| SysError::at("list", &self.path, e);
        let mut out = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir).map_err(err)? {
            let entry = entry.map_err(err)?;
            // What is not UTF-8 is no name of ours.
            if let Ok(name) = entry.file_name().to_str() {
                out.push(name.to_owned());
            }
        }
        Ok(out)
    }

    /// Takes a file out of the way under another name of the folder.
    pub fn rename(&self, from: &str, to: &str) -> Result<(), SysError> {
        rustix::fs::renameat(&self.dir, from, &self.dir, to)
            .map_err(|e| SysError::at("rename", self.path.join(from), e))
    }

    fn open_log(&self, name: &str) -> Result<(OwnedFd, u64, bool), SysError> {
        let shown = self.path.join(name);
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        let (fd, made) = match rustix::fs::openat(&self.dir, name, flags, mode) {
            Ok(fd) => (fd, false),
            Err(Errno::NOENT) => {
                let flags = flags | OFlags::CREATE | OFlags::EXCL;
                let fd = rustix::fs::openat(&self.dir, name, flags, mode)
                    .map_err(|e| SysError::at("create", &shown, e))?;
                (fd, true)
            }
            Err(e) => return Err(SysError::at("open", &shown, e)),
        };
        let st = rustix::fs::fstat(&fd).map_err(|e| SysError::at("look at", &shown, e))?;
        if FileType::from_raw_mode(st.st_mode) != FileType::RegularFile {
            return Err(SysError::at("append to what is not a regular file:", &shown, Errno::INVAL));
        }
        Ok((fd, u64::try_from(st.st_size).unwrap_or(0), made))
    }

    /// fsync of the folder: names that were made, changed or removed stay so.
    pub fn sync(&self) -> Result<(), SysError> {
        rustix::fs::fsync(&self.dir).map_err(|e| SysError::at("fsync", &self.path, e))
    }
}

/// Keeps room on the disk for a file up to `to` bytes, beyond its end, which stays where it is (fallocate(2),
/// `FALLOC_FL_KEEP_SIZE`). `false` where the file system cannot.
///
/// # Errors
/// There is no room, or the disk failed.
pub fn keep_room(file: &std::fs::File, to: u64) -> Result<bool, SysError> {
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::KEEP_SIZE, 0, to) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(e) => Err(SysError::new("keep room on the disk", e)),
    }
}

/// Gives the room of a file's first bytes back, up to `to`; its length, and where its writers are, stays. They read as zeros then
/// (fallocate(2), `FALLOC_FL_PUNCH_HOLE`). `false` where the file system cannot.
///
/// # Errors
/// The system's word.
pub fn give_back_head(file: &std::fs::File, to: u64) -> Result<bool, SysError> {
    use rustix::fs::FallocateFlags as F;
    match rustix::fs::fallocate(file, F::PUNCH_HOLE | F::KEEP_SIZE, 0, to) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
        Err(e) => Err(SysError::new("give back the room of a file", e)),
    }
}

/// Where the first bytes of a file are that were not given back, as exactly as its file system knows (lseek(2), `SEEK_DATA`): some
/// zeros may be before them. Moves where the file is read.
pub fn head(file: &std::fs::File) -> u64 {
    // ENXIO: there are none. Whoever begins at 0 then reads nothing, or zeros.
    rustix::fs::seek(file, rustix::fs::SeekFrom::Data(0)).unwrap_or(0)
}

fn make_dir(root: &Root, path: &Path, mode: u32) -> Result<(), Unsafe> {
    let io = |e: Errno| Unsafe { path: path.to_owned(), fault: file::Fault::Io(e.into()) };
    let (parent, name) = root.parent_of(path)?;
    let mode = Mode::from_raw_mode(mode);
    match rustix::fs::mkdirat(&parent, &name, mode) {
        // Not what the umask made of it. It is judged when it is opened.
        Ok(()) => rustix::fs::chmodat(&parent, &name, mode, AtFlags::empty()).map_err(io),
        Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(io(e)),
    }
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => bytes = bytes.get(n..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_file_is_given_back_and_its_end_stays() {
        let (t, s) = place();
        let file = s.open_growing("log").unwrap();
        assert_eq!(head(&file), 0);
        let fd = OwnedFd::from(file.try_clone().unwrap());
        write_all(&fd, &vec![b'a'; 1 << 20]).unwrap();
        write_all(&fd, b"end").unwrap();
        muster_needs::require!(
            give_back_head(&file, 1 << 20)
                .unwrap()
                .then_some(())
                .ok_or_else(|| format!("the file system of {} cannot punch holes", t.path().display()))
        );
        let now = file.metadata().unwrap();
        assert_eq!(now.len(), (1 << 20) + 3);
        assert!(now.blocks() * 512 < 64 * 1024, "{} blocks", now.blocks());
        assert_eq!(head(&file), 1 << 20);
        write_all(&fd, b"more").unwrap();
        assert_eq!(fs::read(t.path().join("muster/shim/log")).unwrap()[1 << 20..], *b"endmore");
    }
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    fn place() -> (tempfile::TempDir, StateDir) {
        let t = tempfile::tempdir().unwrap();
        let s = StateDir::open_or_make(root(&t), Path::new("/muster/shim")).unwrap();
        (t, s)
    }

    fn root(t: &tempfile::TempDir) -> Root {
        Root::at(t.path(), rustix::process::getuid().as_raw()).unwrap()
    }

    #[test]
    fn t16_the_folder_is_private_and_a_wider_one_is_refused() {
        let (t, _) = place();
        let d = t.path().join("muster/shim");
        assert_eq!(fs::metadata(&d).unwrap().mode() & 0o7777, 0o700);
        fs::set_permissions(&d, fs::Permissions::from_mode(0o750)).unwrap();
        assert!(StateDir::open(root(&t), Path::new("/muster/shim")).is_err());
        assert!(StateDir::open_or_make(root(&t), Path::new("/muster/shim")).is_err());
    }

    #[test]
    fn s8_replace_is_whole_private_and_leaves_no_temporary_file() {
        let (t, s) = place();
        s.replace("floors", b"one", Durability::Durable).unwrap();
        fs::write(t.path().join("muster/shim/.floors.tmp"), "left by a killed writer").unwrap();
        s.replace("floors", b"two", Durability::Durable).unwrap();
        assert_eq!(s.read("floors", 10).unwrap(), b"two");
        let names: Vec<_> =
            fs::read_dir(t.path().join("muster/shim")).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, ["floors"]);
        assert_eq!(fs::metadata(t.path().join("muster/shim/floors")).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_folder_that_is_read_by_name_can_be_passed_and_not_written() {
        let t = tempfile::tempdir().unwrap();
        let open = || StateDir::open_or_make_by_name(root(&t), Path::new("/muster/ssh"));
        open().unwrap().replace("alice", b"key", Durability::Durable).unwrap();
        let mode = |p: &str| fs::metadata(t.path().join(p)).unwrap().mode() & 0o7777;
        assert_eq!((mode("muster/ssh"), mode("muster/ssh/alice")), (0o711, 0o644));
        assert_eq!(open().unwrap().read("alice", 10).unwrap(), b"key");
        fs::set_permissions(t.path().join("muster/ssh/alice"), fs::Permissions::from_mode(0o664)).unwrap();
        assert!(open().unwrap().read("alice", 10).is_err());
        fs::set_permissions(t.path().join("muster/ssh"), fs::Permissions::from_mode(0o731)).unwrap();
        assert!(open().is_err());
    }

    #[test]
    fn s17_a_folder_that_others_may_enter_keeps_its_files_private() {
        let t = tempfile::tempdir().unwrap();
        let s = StateDir::open_or_make_shared(root(&t), Path::new("/run/muster")).unwrap();
        let path = |name: &str| t.path().join("run/muster").join(name);
        let mode = |name: &str| fs::metadata(path(name)).unwrap().mode() & 0o7777;
        s.replace("secret", b"x", Durability::Volatile).unwrap();
        s.replace_shared("told", b"y", Durability::Durable).unwrap();
        assert_eq!((mode(""), mode("secret"), mode("told")), (0o755, 0o600, 0o644));
        assert_eq!(s.read("secret", 9).unwrap(), b"x");
        assert!(s.read("told", 9).is_err(), "what others may read is no secret any more");
        assert_eq!(s.read_shared("told", 9).unwrap(), b"y");
        assert!(s.has("told").unwrap());
        s.remove_durably("told").unwrap();
        s.remove_durably("told").unwrap();
        assert!(!s.has("told").unwrap());
        fs::set_permissions(path(""), fs::Permissions::from_mode(0o775)).unwrap();
        assert!(StateDir::open_or_make_shared(root(&t), Path::new("/run/muster")).is_err());
    }

    #[test]
    fn replace_does_not_write_through_a_link() {
        let (t, s) = place();
        let victim = t.path().join("victim");
        fs::write(&victim, "kept").unwrap();
        symlink(&victim, t.path().join("muster/shim/floors")).unwrap();
        symlink(&victim, t.path().join("muster/shim/.floors.tmp")).unwrap();
        assert!(s.read("floors", 10).is_err());
        s.replace("floors", b"new", Durability::Durable).unwrap();
        assert_eq!(fs::read_to_string(&victim).unwrap(), "kept");
        assert_eq!(s.read("floors", 10).unwrap(), b"new");
    }

    #[test]
    fn s3_the_log_is_bounded_and_rotated_once() {
        let (t, s) = place();
        let d = t.path().join("muster/shim");
        for i in 0..100 {
            s.append_line("runs.log", &format!("line {i:04} {}", "x".repeat(80)), 1024, Durability::Durable)
                .unwrap();
        }
        let mut names: Vec<_> =
            fs::read_dir(&d).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["runs.log", "runs.log.1"]);
        for n in &names {
            assert!(fs::metadata(d.join(n)).unwrap().len() <= 1024, "{n}");
        }
        let tail = s.read_tail("runs.log", 95).unwrap();
        assert!(String::from_utf8(tail).unwrap().contains("line 0099 "));
        assert_eq!(fs::metadata(d.join("runs.log")).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn s3_a_torn_line_is_ended_before_the_next() {
        let (t, s) = place();
        s.append_line("runs.log", "one", 1024, Durability::Durable).unwrap();
        let f = t.path().join("muster/shim/runs.log");
        fs::write(&f, "one\ntorn").unwrap();
        s.append_line("runs.log", "two", 1024, Durability::Durable).unwrap();
        assert_eq!(fs::read_to_string(&f).unwrap(), "one\ntorn\ntwo\n");
    }
}
