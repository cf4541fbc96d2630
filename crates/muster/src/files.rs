//! Reading within bounds and writing whole or not at all, in folders that belong to the operator.

use crate::codes::Own;
use crate::fault::Fault;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Reads a file of at most `max` bytes; `-` is standard input.
pub fn read(path: &Path, max: usize) -> Result<Vec<u8>, Fault> {
    if path == Path::new("-") {
        return bounded(&mut std::io::stdin().lock(), path, max);
    }
    let mut file = File::open(path).map_err(|e| Fault::io(path, "read", &e))?;
    let meta = file.metadata().map_err(|e| Fault::io(path, "read", &e))?;
    if meta.is_dir() {
        return Err(Fault::new(Own::FileUnreadable, format!("{} is a folder", path.display()))
            .fix("Name a file in it."));
    }
    bounded(&mut file, path, max)
}

fn bounded(from: &mut dyn Read, path: &Path, max: usize) -> Result<Vec<u8>, Fault> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    from.take(limit).read_to_end(&mut bytes).map_err(|e| Fault::io(path, "read", &e))?;
    if bytes.len() > max {
        return Err(Fault::new(Own::FileTooLarge, format!("{} is over {max} bytes", path.display())));
    }
    Ok(bytes)
}

/// Reads a file that belongs to `folder`, of at most `max` bytes: a path that stays in it, links included, to a regular file.
///
/// A folder can come from anybody, and what it names may be signed and published: it must not reach what lies beside it.
pub fn read_within(folder: &Path, name: &Path, max: usize) -> Result<Vec<u8>, Fault> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
    let path = folder.join(name);
    let fault = |e: rustix::io::Errno| match e {
        rustix::io::Errno::XDEV => {
            Fault::new(Own::FileUnreadable, format!("{} is outside of {}", name.display(), folder.display()))
                .fix("Copy the file into the folder; links may only lead to files in it.")
        }
        e => Fault::io(&path, "read", &e.into()),
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let dir = openat(CWD, folder, flags | OFlags::DIRECTORY, Mode::empty()).map_err(&fault)?;
    // Without O_NONBLOCK, opening a FIFO waits for a writer.
    let how = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let fd =
        openat2(&dir, name, flags | OFlags::NONBLOCK | OFlags::NOCTTY, Mode::empty(), how).map_err(&fault)?;
    let mut file = File::from(fd);
    if !file.metadata().map_err(|e| Fault::io(&path, "read", &e))?.is_file() {
        return Err(Fault::new(Own::FileUnreadable, format!("{} is not a regular file", path.display()))
            .fix("Name a file."));
    }
    bounded(&mut file, &path, max)
}

/// Whether nothing is of this name: a link that leads nowhere is something, and what cannot be looked at may be something.
pub fn is_absent(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

/// Reads a text file of at most `max` bytes.
pub fn read_text(path: &Path, max: usize) -> Result<String, Fault> {
    text(read(path, max)?, path)
}

/// Bytes of a file that are to be text.
pub fn text(bytes: Vec<u8>, path: &Path) -> Result<String, Fault> {
    String::from_utf8(bytes).map_err(|e| {
        let line =
            1 + e.as_bytes().iter().take(e.utf8_error().valid_up_to()).filter(|b| **b == b'\n').count();
        Fault::new(Own::FileUnreadable, "bytes that are not UTF-8").at(path, line).fix("Save it as UTF-8.")
    })
}

/// Writes a file that must not exist yet.
pub fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Fault> {
    let made = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    let mut file = made.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            Fault::new(Own::Exists, format!("{} is there already", path.display()))
        }
        _ => Fault::io(path, "create", &e),
    })?;
    let done = file
        .set_permissions(std::fs::Permissions::from_mode(mode))
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| file.sync_all());
    done.map_err(|e| {
        // Half a file is worse than none; that it could not be taken away either changes nothing in what is said.
        let _ = std::fs::remove_file(path);
        Fault::io(path, "write", &e)
    })
}

/// Replaces a file's content: the old one or the new one is there at every moment.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> Result<(), Fault> {
    let temp = beside(path, "new");
    let _ = std::fs::remove_file(&temp);
    write_new(&temp, bytes, mode)?;
    if let Err(e) = std::fs::rename(&temp, path) {
        let _ = std::fs::remove_file(&temp);
        return Err(Fault::io(path, "rename", &e));
    }
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes a folder and those above it, all with `mode`.
pub fn make_folder(path: &Path, mode: u32) -> Result<(), Fault> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(path)
        .map_err(|e| Fault::io(path, "create", &e))
}

/// Makes a rename in a folder durable.
pub fn sync_folder(path: &Path) -> Result<(), Fault> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path).and_then(|f| f.sync_all()).map_err(|e| Fault::io(path, "write", &e))
}

/// Puts the folder `new` in the place of `path`, which may exist; what was there is removed after.
pub fn swap_folder(new: &Path, path: &Path) -> Result<(), Fault> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let parent = path.parent().unwrap_or(Path::new("."));
    if !path.exists() {
        std::fs::rename(new, path).map_err(|e| Fault::io(path, "rename", &e))?;
        return sync_folder(parent);
    }
    match renameat_with(CWD, new, CWD, path, RenameFlags::EXCHANGE) {
        Ok(()) => {
            sync_folder(parent)?;
            std::fs::remove_dir_all(new).map_err(|e| Fault::io(new, "remove", &e))
        }
        Err(_) => {
            // A file system without exchange: the old one waits under a name that says what it is.
            let old = beside(path, "old");
            let _ = std::fs::remove_dir_all(&old);
            std::fs::rename(path, &old).map_err(|e| Fault::io(path, "rename", &e))?;
            if let Err(e) = std::fs::rename(new, path) {
                let _ = std::fs::rename(&old, path);
                return Err(Fault::io(path, "rename", &e));
            }
            sync_folder(parent)?;
            std::fs::remove_dir_all(&old).map_err(|e| Fault::io(&old, "remove", &e))
        }
    }
}

/// A hidden name beside `path`, of this process alone.
pub fn beside(path: &Path, word: &str) -> PathBuf {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    path.with_file_name(format!(".{name}.{word}.{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_modes_and_no_overwrite() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        write_new(&path, b"12345", 0o600).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(write_new(&path, b"x", 0o600).unwrap_err().code, Own::Exists.into());
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert_eq!(read(&path, 4).unwrap_err().code, Own::FileTooLarge.into());
        assert_eq!(read(&dir.path().join("b"), 4).unwrap_err().code, Own::FileMissing.into());
        assert_eq!(read(dir.path(), 4).unwrap_err().code, Own::FileUnreadable.into());
        std::fs::write(&path, b"a\n\xff").unwrap();
        let fault = read_text(&path, 9).unwrap_err();
        assert_eq!(fault.place.clone().unwrap().line, 2);
    }

    #[test]
    fn what_belongs_to_a_folder_is_read_from_it_alone() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (folder, outside) = (dir.path().join("profile"), dir.path().join("id_ed25519"));
        std::fs::create_dir_all(folder.join("sub")).unwrap();
        std::fs::write(&outside, "secret").unwrap();
        std::fs::write(folder.join("sub/ca.pem"), "pem").unwrap();
        symlink("sub/ca.pem", folder.join("inside")).unwrap();
        symlink("../../id_ed25519", folder.join("sub/up")).unwrap();
        symlink(&outside, folder.join("absolute")).unwrap();
        symlink("/proc/self/fd/0", folder.join("magic")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("pipe"), rustix::fs::Mode::RUSR).unwrap();
        for good in ["sub/ca.pem", "./sub/ca.pem", "inside", "sub/../sub/ca.pem"] {
            assert_eq!(read_within(&folder, Path::new(good), 3).unwrap(), b"pem", "{good}");
        }
        let absolute = outside.to_str().unwrap();
        for bad in [
            "../id_ed25519",
            absolute,
            "sub/up",
            "absolute",
            "magic",
            "/dev/stdin",
            "-",
            "pipe",
            "sub",
            "no",
            "",
        ] {
            let fault = read_within(&folder, Path::new(bad), 99).unwrap_err();
            assert!(!fault.to_string().contains("secret"), "{bad}: {fault}");
        }
        assert_eq!(read_within(&folder, Path::new("inside"), 2).unwrap_err().code, Own::FileTooLarge.into());
    }

    #[test]
    fn a_folder_is_swapped_whole() {
        let dir = tempfile::tempdir().unwrap();
        let (new, place) = (dir.path().join("n"), dir.path().join("p"));
        for word in ["one", "two"] {
            std::fs::create_dir(&new).unwrap();
            std::fs::write(new.join("f"), word).unwrap();
            swap_folder(&new, &place).unwrap();
            assert_eq!(std::fs::read_to_string(place.join("f")).unwrap(), word);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        }
    }
}
