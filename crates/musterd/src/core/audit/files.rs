//! The files of the chain: appended to, rotated, kept room for.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

use muster_core::audit::{Head, Report, verify};
use muster_sys::SysError;
use muster_sys::state::{StateDir, keep_room};

use super::NotKept;
use super::event::Event;

/// A file grows to this, and the next one begins.
pub(super) const MAX_FILE: u64 = 8 * 1024 * 1024;
/// So many files are kept: 128 MiB.
const KEPT: usize = 16;
/// What is kept free for the intents of destructive operations.
pub(super) const RESERVE: u64 = 1024 * 1024;
/// Room is taken in steps of this, so that not every record asks for it.
const STEP: u64 = 256 * 1024;
/// What is ever read of one file.
const MAX_READ: u64 = MAX_FILE + 2 * RESERVE;

/// Which room a record may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// What is left before the reserve.
    Ordinary,
    /// The reserve too.
    Reserved,
}

/// What was found on the disk.
pub(super) struct Found {
    pub(super) head: Head,
    pub(super) events: Vec<Event>,
}

/// See the module.
pub(super) struct Files {
    dir: Arc<StateDir>,
    file: Option<File>,
    len: u64,
    /// Room is kept up to here.
    room: u64,
    max: u64,
    /// While a test holds it, the disk does not answer.
    #[cfg(test)]
    pub(super) hangs: Arc<std::sync::Mutex<()>>,
}

pub(super) fn name(first: u64) -> String {
    format!("chain-{first:020}.jsonl")
}

/// The number of the first record of each file, in order.
pub(super) fn firsts(dir: &StateDir) -> Result<Vec<u64>, SysError> {
    let first = |name: &String| -> Option<u64> {
        let digits = name.strip_prefix("chain-")?.strip_suffix(".jsonl")?;
        digits.parse().ok().filter(|n| super::files::name(*n) == *name)
    };
    let mut all: Vec<u64> = dir.names()?.iter().filter_map(first).collect();
    all.sort_unstable();
    Ok(all)
}

impl Files {
    pub(super) fn open(dir: &Arc<StateDir>) -> Result<(Self, Found), NotKept> {
        let mut files = Self {
            dir: Arc::clone(dir),
            file: None,
            len: 0,
            room: 0,
            max: MAX_FILE,
            #[cfg(test)]
            hangs: Arc::default(),
        };
        let mut events = Vec::new();
        while let Some(first) = firsts(dir)?.pop() {
            let name = name(first);
            let text = dir.read(&name, MAX_READ).map_err(|e| NotKept::Disk(e.to_string()))?;
            match judge(&text) {
                Ok(report) if report.first == first => {
                    let found = Found { head: report.head, events: Vec::new() };
                    files.take_up(&name, text.len() as u64, report.torn as u64)?;
                    if report.torn > 0 {
                        let torn = Event::new("torn-tail")
                            .detail("the end of a record was not written; it was cut off");
                        events.insert(0, torn.count(report.torn as u64));
                    }
                    return Ok((files, Found { events, ..found }));
                }
                // Not one whole record: the crash of its first. Any other file without one is evidence, and is kept.
                Ok(report)
                    if report.first == 0
                        && text.len() as u64 == report.torn as u64
                        && report.torn < 64 * 1024 =>
                {
                    dir.remove(&name)?;
                    events.push(Event::new("torn-tail").count(report.torn as u64));
                }
                other => {
                    let why = match other {
                        Err(broken) => broken.to_string(),
                        Ok(_) => "its name is not the number of its first record".to_owned(),
                    };
                    if let Some(head) = last_good(&text) {
                        // The break stays in the chain for everybody to see, and it goes on from the last record.
                        files.take_up(&name, text.len() as u64, after_last(&text))?;
                        events.push(Event::new("broken-chain").detail(&format!("{name}: {why}")));
                        return Ok((files, Found { head, events }));
                    }
                    dir.rename(&name, &format!("broken-{first:020}"))?;
                    events.push(Event::new("broken-chain").detail(&format!("{name}: {why}")));
                }
            }
        }
        Ok((files, Found { head: Head::NONE, events }))
    }

    /// Whether somebody removed the file that is written to. What was in it is lost, and what comes would be lost with it: the
    /// next record begins another file.
    pub(super) fn was_removed(&mut self) -> bool {
        let gone = self.file.as_ref().is_some_and(|f| f.metadata().is_ok_and(|m| m.nlink() == 0));
        if gone {
            (self.file, self.len, self.room) = (None, 0, 0);
        }
        gone
    }

    /// Goes on with a file that has so many bytes, of which the last ones are cut off.
    fn take_up(&mut self, name: &str, len: u64, torn: u64) -> Result<(), NotKept> {
        let file = self.dir.open_growing(name)?;
        let failed = |e| SysError::new("mend the audit record", e);
        if torn > 0 {
            file.set_len(len.saturating_sub(torn)).map_err(failed)?;
            file.sync_data().map_err(failed)?;
        }
        (self.file, self.len, self.room) = (Some(file), len.saturating_sub(torn), 0);
        // If there is no room now, the next record asks again; what an earlier run kept is still kept.
        let _ = self.keep(0);
        Ok(())
    }

    /// Appends bytes, durable when it returns, or not at all. `first` is the number of the first record in them.
    pub(super) fn append(&mut self, bytes: &[u8], first: u64, room: Room) -> Result<(), NotKept> {
        let more = bytes.len() as u64;
        if self.file.is_none() || (self.len > 0 && self.len.saturating_add(more) > self.max) {
            self.rotate(first, more, room)?;
        }
        if let Err(e) = self.keep(more)
            && room == Room::Ordinary
        {
            return Err(e.into());
        }
        let Some(file) = &mut self.file else { return Err(NotKept::Disk("there is no file".to_owned())) };
        #[cfg(test)]
        drop(self.hangs.lock());
        let done = file.write_all(bytes).and_then(|()| file.sync_data());
        if let Err(e) = done {
            // Half a record would be a torn tail in the middle; and the room beyond the end goes with it.
            let _ = file.set_len(self.len);
            self.room = 0;
            let _ = self.keep(0);
            return Err(SysError::new("append to the audit record", e).into());
        }
        self.len = self.len.saturating_add(more);
        Ok(())
    }

    /// Keeps room for so many bytes and the reserve behind them.
    fn keep(&mut self, more: u64) -> Result<(), SysError> {
        let wanted = self.len.saturating_add(more).saturating_add(RESERVE);
        let Some(file) = &self.file else { return Ok(()) };
        if self.room >= wanted {
            return Ok(());
        }
        let step = wanted.saturating_add(STEP);
        let (room, kept) = match keep_room(file, step) {
            Ok(kept) => (step, kept),
            // A step has no place any more; this record may.
            Err(_) => (wanted, keep_room(file, wanted)?),
        };
        // A file system that keeps no room has none to keep.
        self.room = if kept { room } else { u64::MAX };
        Ok(())
    }

    /// Begins the next file, unless there is no room for it: then this one goes on.
    fn rotate(&mut self, first: u64, more: u64, room: Room) -> Result<(), NotKept> {
        let name = name(first);
        let made = self.dir.open_growing(&name).and_then(|file| {
            keep_room(&file, more.saturating_add(RESERVE + STEP))?;
            self.dir.sync()?;
            Ok(file)
        });
        match made {
            Ok(file) => {
                (self.file, self.len, self.room) = (Some(file), 0, 0);
                let all = firsts(&self.dir)?;
                for old in all.iter().take(all.len().saturating_sub(KEPT)) {
                    self.dir.remove(&super::files::name(*old))?;
                }
                Ok(())
            }
            Err(e) => {
                let _ = self.dir.remove(&name);
                if self.file.is_some() && room == Room::Reserved { Ok(()) } else { Err(e.into()) }
            }
        }
    }
}

fn judge(text: &[u8]) -> Result<Report, muster_core::audit::Broken> {
    verify(text, None, &[])
}

/// The last record that is one by itself.
fn last_good(text: &[u8]) -> Option<Head> {
    let whole = text.len().saturating_sub(usize::try_from(after_last(text)).unwrap_or(0));
    let lines = text.get(..whole)?.strip_suffix(b"\n")?;
    let start = lines.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    judge(text.get(start..whole)?).ok().filter(|r| r.first > 0).map(|r| r.head)
}

/// Bytes after the last line feed.
fn after_last(text: &[u8]) -> u64 {
    text.iter().rev().take_while(|b| **b != b'\n').count() as u64
}

#[cfg(test)]
impl Files {
    pub(super) fn shorten(&mut self, max: u64) {
        self.max = max;
    }
}
