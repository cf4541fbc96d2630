//! A control group (v2) of our own for one run: a second handle on its processes.
//!
//! cgroups(7), Linux Documentation/admin-guide/cgroup-v2.rst. Works on unified and on hybrid
//! hierarchies; where there is no v2 hierarchy that we may write, the caller goes on without.

use crate::SysError;
use crate::procfs::{numbers, small};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// What the name of a group of ours begins with.
const PREFIX: &str = "muster-run-";

/// A group that was made for one run.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes `muster-run-<run>` under the group that this process is in.
    pub fn make(run: &str) -> Result<Self, SysError> {
        let own = own_path()?;
        let make = |at: &Path| {
            let path = at.join(format!("{PREFIX}{run}"));
            match rustix::fs::mkdir(&path, Mode::from_raw_mode(0o755)) {
                Ok(()) => Ok(Self { path }),
                Err(e) => Err(SysError::at("make the group", &path, e)),
            }
        };
        // Where systemd mounts it, before the whole mount table is read. A part of the hierarchy
        // that is mounted there has no folder of our path.
        let usual = USUAL.iter().map(Path::new).find(|p| is_v2(p));
        match usual.map(|point| make(&point.join(&own))) {
            Some(Ok(group)) => Ok(group),
            _ => make(&mounted(&own)?),
        }
    }

    /// Takes up a group again that [`Cgroup::make`] made for `run`, from its recorded path.
    /// `None` when it is gone or the path is not of that form.
    pub fn reopen(path: &Path, run: &str) -> Option<Self> {
        let plain = path.is_absolute()
            && path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
        let named = path.file_name().and_then(|n| n.to_str()) == Some(&format!("{PREFIX}{run}"));
        let is_group = path.join("cgroup.procs").is_file();
        (plain && named && is_group).then(|| Self { path: path.to_owned() })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The folder, for a child that is to be born in it.
    pub(crate) fn folder(&self) -> Result<OwnedFd, SysError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(&self.path, flags, Mode::empty())
            .map_err(|e| SysError::at("open the group", &self.path, e))
    }

    /// `cgroup.procs`, open for writing, for a child that is to enter by itself.
    pub(crate) fn entrance(&self) -> Result<OwnedFd, SysError> {
        let path = self.path.join("cgroup.procs");
        rustix::fs::open(&path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| SysError::at("open", &path, e))
    }

    /// Processes in it now, zombies not counted, groups below it included.
    pub fn pids(&self) -> Vec<i32> {
        let mut out = Vec::new();
        collect(&self.path, &mut out, 0);
        out
    }

    /// Whether no living process is in it or in a group below it: the kernel's own word
    /// (`populated` of `cgroup.events`), and the lists where it does not say.
    pub fn is_empty(&self) -> bool {
        let events = small(self.path.join("cgroup.events")).unwrap_or_default();
        match events.split(|&b| b == b'\n').find_map(|l| l.strip_prefix(b"populated ")) {
            Some(word) => word == b"0",
            None => self.pids().is_empty(),
        }
    }

    /// Kills all that is in it at once (Linux 5.14); `false` where the kernel has no such file.
    pub fn kill(&self) -> bool {
        fs::write(self.path.join("cgroup.kill"), "1").is_ok()
    }

    /// Removes it. Dead processes leave a moment after their end, hence a few tries; a group with
    /// living processes stays.
    pub fn remove(&self) -> Result<(), SysError> {
        let mut last = Errno::BUSY;
        for _ in 0..20 {
            match rustix::fs::rmdir(&self.path) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(e) => last = e,
            }
            if !self.is_empty() {
                break;
            }
            remove_below(&self.path, 0);
            std::thread::sleep(Duration::from_millis(2));
        }
        Err(SysError::at("remove the group", &self.path, last))
    }
}

/// Groups below ours that are looked into, at most.
const MAX_DEPTH: usize = 16;

fn groups_below(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

fn collect(dir: &Path, out: &mut Vec<i32>, depth: usize) {
    if let Ok(text) = small(dir.join("cgroup.procs")) {
        out.extend(numbers(&text));
    }
    if depth < MAX_DEPTH {
        for d in groups_below(dir) {
            collect(&d, out, depth + 1);
        }
    }
}

/// A script that runs containers or `systemd-nspawn` may have made groups below ours.
fn remove_below(dir: &Path, depth: usize) {
    if depth >= MAX_DEPTH {
        return;
    }
    for d in groups_below(dir) {
        remove_below(&d, depth + 1);
        let _ = rustix::fs::rmdir(&d);
    }
}

/// Where the v2 hierarchy is, with and without v1 controllers beside it.
const USUAL: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// `CGROUP2_SUPER_MAGIC` of linux/magic.h.
const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;

fn is_v2(dir: &Path) -> bool {
    rustix::fs::statfs(dir).is_ok_and(|s| u64::try_from(s.f_type) == Ok(CGROUP2_SUPER_MAGIC))
}

fn none(what: &str) -> SysError {
    SysError::new("find this process's v2 control group", io::Error::other(what.to_owned()))
}

/// Our v2 group, relative to the root of the hierarchy.
fn own_path() -> Result<PathBuf, SysError> {
    let groups = small("/proc/self/cgroup").map_err(|e| SysError::at("read", "/proc/self/cgroup", e))?;
    let text = String::from_utf8_lossy(&groups);
    let path = text.lines().find_map(|l| l.strip_prefix("0::/")).ok_or_else(|| none("not in a v2 group"))?;
    let below = Path::new(path);
    if below.components().any(|c| !matches!(c, Component::Normal(_))) {
        return Err(none("our group lies outside the mounted part"));
    }
    Ok(below.to_owned())
}

/// The folder of our group by the mount table, which may show a part of the hierarchy only.
fn mounted(own: &Path) -> Result<PathBuf, SysError> {
    let mounts =
        small("/proc/self/mountinfo").map_err(|e| SysError::at("read", "/proc/self/mountinfo", e))?;
    let (point, root) = v2_mount(&String::from_utf8_lossy(&mounts))
        .ok_or_else(|| none("no cgroup2 file system is mounted"))?;
    let full = Path::new("/").join(own);
    let below = full.strip_prefix(&root).map_err(|_| none("our group lies outside the mounted part"))?;
    Ok(point.join(below))
}

/// Which hierarchies there are: `v2`, `hybrid`, `v1` or `none`, for a person to read.
pub fn layout() -> &'static str {
    let Ok(mounts) = small("/proc/self/mountinfo") else { return "none" };
    let mounts = String::from_utf8_lossy(&mounts);
    let has = |fs: &str| mounts.lines().any(|l| l.contains(&format!(" - {fs} ")));
    match (has("cgroup2"), has("cgroup")) {
        (true, false) => "v2",
        (true, true) => "hybrid",
        (false, true) => "v1",
        (false, false) => "none",
    }
}

/// Mount point and root of the cgroup2 file system in a mountinfo text (proc_pid_mountinfo(5)).
pub fn v2_mount(mountinfo: &str) -> Option<(PathBuf, PathBuf)> {
    mountinfo.lines().find_map(|l| {
        let (left, right) = l.split_once(" - ")?;
        if right.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut f = left.split(' ').skip(3);
        let (root, point) = (f.next()?, f.next()?);
        // Escaped blanks (\040) mean a mount point that nobody has for cgroups: not ours to guess.
        (!root.contains('\\') && !point.contains('\\')).then(|| (PathBuf::from(point), PathBuf::from(root)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_of_both_layouts() {
        let hybrid = "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      31 25 0:27 / /sys/fs/cgroup/unified rw,nosuid shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(v2_mount(hybrid), Some((PathBuf::from("/sys/fs/cgroup/unified"), PathBuf::from("/"))));
        assert_eq!(v2_mount("31 25 0:27 / /sys rw - sysfs sysfs rw\n"), None);
    }

    #[test]
    fn reopen_takes_only_its_own_form() {
        assert!(Cgroup::reopen(Path::new("/tmp/muster-run-1/../x"), "x").is_none());
        assert!(Cgroup::reopen(Path::new("muster-run-1"), "1").is_none());
        assert!(Cgroup::reopen(Path::new("/tmp"), "1").is_none());
    }
}
