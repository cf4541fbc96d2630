//! Room that is kept on the disk for what must go on where there is none: a reset, and a change of the authority.
//!
//! The record of what they do has room of its own (`audit/files.rs`). What they write themselves (phases, a pending change, the document
//! that a reset gives back) has this: a file of nothing, taken away before they begin and made again afterwards. Whoever fills the disk
//! in that very moment can still have it; the operation is then refused, and what it had begun is gone on with.

use muster_sys::state::keep_room;

use super::disk::Disk;
use crate::say;

const FILE: &str = "room";
/// The longest document, twice in the worst of moments.
const SIZE: u64 = 2 << 20;

/// Less is of no use.
const LEAST: u64 = 64 << 10;

/// Keeps it, or as much as there is. A file system that keeps no room for a file (ZFS) keeps none for this one.
pub(crate) fn keep(disk: &Disk) {
    let kept = disk.state.open_growing(FILE).and_then(|file| {
        let mut size = SIZE;
        loop {
            match keep_room(&file, size) {
                Err(_) if size > LEAST => size /= 2,
                kept => return kept,
            }
        }
    });
    if let Err(e) = kept {
        give(disk);
        say::warning(&format!("no room is kept for a reset on a full disk: {}", e.line()));
    }
}

/// Gives it to whatever is written next.
pub(crate) fn give(disk: &Disk) {
    if let Err(e) = disk.state.remove(FILE) {
        say::warning(&format!("the room that was kept for this cannot be had: {}", e.line()));
    }
}
