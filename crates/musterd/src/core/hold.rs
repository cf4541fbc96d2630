//! What the bootstrap waits for.
//!
//! The bootstrap is another process, a oneshot behind `muster-claimed.target`. Membership is what its markers say, read anew each
//! time; the lock `LOCK` keeps a new document and the start of a bootstrap apart.

use muster_core::machine::Membership;
use muster_sys::clock;
use muster_sys::lock::Lock;
use muster_sys::procfs::Stat;
use muster_sys::state::Durability;
use serde::{Deserialize, Serialize};
use std::time::Duration;

use super::disk::{self, Disk};

/// Held while a document is written, and while a bootstrap reads it and says that it has begun.
const LOCK: &str = "hold.lock";
const BUILDING: &str = "building";
const DESCRIBED: &str = "described";
const BOOTSTRAPPED: &str = "bootstrapped";
const RESET: &str = "reset.json";
const NODE: &str = "node.json";

#[derive(Serialize, Deserialize)]
struct Builder {
    pid: i32,
    start_time: u64,
}

/// Whether the node is in a cluster, by its markers.
///
/// # Errors
/// One line; nothing may then be concluded.
pub fn membership(disk: &Disk) -> Result<Membership, String> {
    let has = |dir: &muster_sys::state::StateDir, name| dir.has(name).map_err(|e| e.line());
    if has(&disk.state, RESET)? {
        return Ok(Membership::Leaving);
    }
    if has(&disk.state, BOOTSTRAPPED)? {
        return Ok(Membership::Member);
    }
    // A bootstrap that was killed has left its word behind; it counts as long as its process lives.
    let builder: Option<Builder> = disk::read_json(&disk.run, BUILDING).unwrap_or_default();
    let lives = builder.is_some_and(|b| Stat::of(b.pid).is_some_and(|s| s.start == b.start_time));
    Ok(if lives { Membership::Building } else { Membership::None })
}

/// Says that this process builds the node.
///
/// # Errors
/// One line.
pub fn begin_building(disk: &Disk) -> Result<(), String> {
    let pid = muster_sys::system::pid();
    let start_time = Stat::of(pid).ok_or("/proc does not show this process")?.start;
    disk::write_json(&disk.run, BUILDING, &Builder { pid, start_time }, Durability::Volatile)?;
    super::step::reached("building");
    Ok(())
}

/// Says that it no longer does.
pub fn end_building(disk: &Disk) {
    // Whoever reads it asks whether the process lives.
    let _ = disk.run.remove(BUILDING);
}

/// Forgets, at the start of the core, what was said in another boot: `/run` may outlive one, as that of a container does which is started
/// anew with the same mount. Only the core can tell: the kernel's id of a boot is not the same to each unit of a container.
///
/// # Errors
/// One line.
pub fn forget_other_boots(disk: &Disk) -> Result<(), String> {
    let Ok(now) = clock::this_boot() else { return Ok(()) };
    match disk::read_text(&disk.run, DESCRIBED, 256) {
        Ok(None) => Ok(()),
        Ok(Some(boot)) if boot == now => Ok(()),
        // Of another boot, or nothing that we wrote.
        Ok(Some(_)) | Err(_) => disk.run.remove(DESCRIBED).map_err(|e| e.line()),
    }
}

/// Whether somebody said in this boot what the node shall be.
pub fn is_described(disk: &Disk) -> bool {
    disk.run.has(DESCRIBED).unwrap_or(false)
}

/// Somebody did.
///
/// # Errors
/// One line.
pub fn describe(disk: &Disk) -> Result<(), String> {
    let boot = clock::this_boot().map_err(|e| e.line())?;
    disk.run.replace(DESCRIBED, boot.as_bytes(), Durability::Volatile).map_err(|e| e.line())
}

/// The lock, waiting a little.
///
/// # Errors
/// Somebody else has it for longer than its holders need, or it cannot be taken.
pub fn lock(disk: &Disk) -> Result<Lock, String> {
    for _ in 0..50 {
        if let Some(lock) = Lock::try_take(&disk.run, LOCK).map_err(|e| e.line())? {
            return Ok(lock);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Err("a bootstrap is just beginning; try again in a moment".to_owned())
}

/// Takes away what says that the node is in a cluster. Before its owner is forgotten, never after.
///
/// # Errors
/// One line.
pub fn forget(disk: &Disk) -> Result<(), String> {
    [BOOTSTRAPPED, NODE].iter().try_for_each(|name| disk.state.remove_durably(name).map_err(|e| e.line()))
}
