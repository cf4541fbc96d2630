//! Which beds there are on this machine, who owns them, and what is removed when.
//!
//! `/run/muster-testbed/lock` is taken for every change of the set of beds. Slot N is held by a lock on `N.lock` for as long
//! as its process lives; the kernel lets go of it whatever way that process ends. `N.keep` says that the bed outlives its
//! process on purpose; it names the boot it was made in, since nothing of a bed survives a reboot of this machine.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process::{call, try_call};
use crate::{cgroup, net};

const STATE: &str = "/run/muster-testbed";
const SLOTS: std::ops::RangeInclusive<u8> = 1..=200;

/// A slot that this process holds.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) number: u8,
    /// The lock itself: dropping it gives the slot up.
    _owner: File,
}

/// A bed as [`list`] sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bed {
    /// Its slot, from which all its names follow.
    pub slot: u8,
    /// The name it was prepared with.
    pub name: String,
    /// It stays when its process ends.
    pub kept: bool,
    /// A living process owns it.
    pub owned: bool,
}

fn file(slot: u8, kind: &str) -> PathBuf {
    Path::new(STATE).join(format!("{slot}.{kind}"))
}

/// The bed's own file system (a tmpfs).
pub(crate) fn folder(slot: u8) -> PathBuf {
    Path::new(STATE).join(format!("bed-{slot}"))
}

fn lock() -> Result<File> {
    fs::create_dir_all(STATE).with_context(|| format!("cannot make {STATE}"))?;
    let lock = File::create(Path::new(STATE).join("lock"))?;
    lock.lock().context("cannot lock the list of beds")?;
    Ok(lock)
}

/// Takes the lowest free slot, after removing what killed processes left.
pub(crate) fn take(name: &str) -> Result<Slot> {
    let _held = lock()?;
    collect_locked(|bed| !bed.kept)?;
    prepare_machine()?;
    for number in SLOTS {
        if file(number, "lock").exists() {
            continue;
        }
        let owner = File::create(file(number, "lock"))?;
        owner.lock()?;
        fs::write(file(number, "name"), name)?;
        // A leftover without its lock file: nothing can own it.
        dismantle(number)?;
        let bed = folder(number);
        fs::create_dir_all(&bed)?;
        call(
            "mount",
            &["-t", "tmpfs", "-o", "size=4g,mode=0755", "muster-testbed", &bed.display().to_string()],
        )?;
        net::make_bridge(number)?;
        return Ok(Slot { number, _owner: owner });
    }
    bail!("all {} slots are in use: `cargo xtask testbed --list`", SLOTS.count())
}

/// Lets the bed outlive this process.
pub(crate) fn keep(slot: &Slot) -> Result<()> {
    fs::write(file(slot.number, "keep"), boot_id())?;
    Ok(())
}

/// Removes the bed and gives up its slot.
pub(crate) fn give_back(slot: Slot) -> Result<()> {
    dismantle(slot.number)?;
    let _held = lock()?;
    forget(slot.number);
    drop(slot);
    if beds()?.is_empty() {
        net::unguard_routes();
    }
    Ok(())
}

/// Every bed on this machine.
pub fn list() -> Result<Vec<Bed>> {
    let _held = lock()?;
    beds()
}

/// Removes the beds whose process is gone, except the kept ones. Returns the names of those removed.
pub fn collect_garbage() -> Result<Vec<String>> {
    let _held = lock()?;
    collect_locked(|bed| !bed.kept)
}

/// Removes the beds of this name whose process is gone, kept or not. Returns the names of those removed.
pub fn remove(name: &str) -> Result<Vec<String>> {
    let _held = lock()?;
    let gone = collect_locked(|bed| bed.name == name)?;
    leave_if_empty()?;
    Ok(gone)
}

/// Removes every bed whose process is gone, the kept ones too. Returns the names of those removed.
pub fn remove_all() -> Result<Vec<String>> {
    let _held = lock()?;
    let gone = collect_locked(|_| true)?;
    leave_if_empty()?;
    Ok(gone)
}

/// Undoes what all beds share.
fn leave_if_empty() -> Result<()> {
    if beds()?.is_empty() {
        net::unguard_routes();
        if Path::new(STATE).join("mounted-nspawn").exists() {
            try_call("umount", &["/run/systemd/nspawn"]);
            let _ = fs::remove_file(Path::new(STATE).join("mounted-nspawn"));
        }
    }
    Ok(())
}

fn collect_locked(which: impl Fn(&Bed) -> bool) -> Result<Vec<String>> {
    let mut gone = Vec::new();
    for bed in beds()? {
        if !bed.owned && which(&bed) {
            dismantle(bed.slot)?;
            forget(bed.slot);
            gone.push(bed.name);
        }
    }
    Ok(gone)
}

fn beds() -> Result<Vec<Bed>> {
    let boot = boot_id();
    let mut found = Vec::new();
    for entry in fs::read_dir(STATE)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(slot) = name.strip_suffix(".lock").and_then(|n| n.parse().ok()) else { continue };
        // Opened anew, this is another open file description: it conflicts even with a lock of our own process.
        let owned = match File::open(entry.path())?.try_lock() {
            Ok(()) => false,
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(e)) => return Err(e.into()),
        };
        let kept = fs::read_to_string(file(slot, "keep")).is_ok_and(|b| b == boot);
        let name = fs::read_to_string(file(slot, "name")).unwrap_or_default();
        found.push(Bed { slot, name, kept, owned });
    }
    found.sort_by_key(|b| b.slot);
    Ok(found)
}

fn forget(slot: u8) {
    for kind in ["keep", "name", "lock"] {
        let _ = fs::remove_file(file(slot, kind));
    }
}

/// Takes the bed apart: processes, mounts, network, folders. Safe to repeat, and on a bed that is not there.
fn dismantle(slot: u8) -> Result<()> {
    let path = slot.to_string();
    cgroup::kill(&path)?;
    unmount_below(&folder(slot))?;
    net::remove_slot(slot);
    cgroup::remove(&path);
    if folder(slot).exists() {
        fs::remove_dir_all(folder(slot))
            .with_context(|| format!("cannot remove {}", folder(slot).display()))?;
    }
    Ok(())
}

/// Format of mountinfo: proc_pid_mountinfo(5); the fifth field is the mount point, blanks as `\040` (ours have none).
fn unmount_below(folder: &Path) -> Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let mut points: Vec<&str> = table
        .lines()
        .filter_map(|l| l.split(' ').nth(4))
        .filter(|p| Path::new(p).starts_with(folder))
        .collect();
    points.reverse();
    for point in points {
        call("umount", &["--lazy", point])?;
    }
    Ok(())
}

/// `systemd-nspawn` keeps its unix-export sockets there and insists on a tmpfs (namespaces of mount propagation).
fn prepare_machine() -> Result<()> {
    net::guard_routes();
    // The first `ip netns add` makes /run/netns a mount of its own; two at once would hide each other's work.
    if !Path::new("/run/netns").exists() {
        call("ip", &["netns", "add", "mtb-first"])?;
        call("ip", &["netns", "del", "mtb-first"])?;
    }
    let dir = "/run/systemd/nspawn";
    fs::create_dir_all(dir)?;
    let kind = call("stat", &["--file-system", "--format=%T", dir])?.stdout_text();
    if kind.trim() != "tmpfs" {
        call("mount", &["-t", "tmpfs", "-o", "size=16m,mode=0755", "tmpfs", dir])?;
        fs::write(Path::new(STATE).join("mounted-nspawn"), "")?;
    }
    Ok(())
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}
