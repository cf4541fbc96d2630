//! The node's audit record: one event for each call, in a chain of hashes.
//!
//! The chain is [`muster_core::audit`]'s, in files of the folder `audit`: `chain-N.jsonl`, where N is the number of the first record.
//! A file goes on where the one before ended, so the first record of each names the last hash of the one before.
//!
//! - What is handed out as the newest record is on the disk: a head that a power cut could take back would read as a forgery.
//! - What must be durable first is written and synced at once, and what waited goes with it. The rest waits in memory, for a second
//!   at most, in a ring with a bound; above ten events of one client in a second, only their number is kept.
//! - Room for the intents of destructive operations is kept on the disk, and nothing else may use it. Reads and refusals can fill a
//!   disk; they cannot keep a node from being reset.
//! - A record whose writing was cut off is cut away at the next start, by a record that says so. Nothing else is ever cut
//!   away, but the oldest file when there are too many.
//!
//! What a chain cannot do stands in `muster_core::audit`: who is root here can make up what comes after the last head that somebody
//! saw. So heads go out with every answer, and to the journal every hour.

mod event;
mod files;
mod read;
mod spool;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_core::UtcTime;
use muster_core::audit::{Chain, Head};
use muster_sys::state::StateDir;
use muster_sys::{SysError, clock, journal};

use crate::places::{AUDIT, Places};
pub use event::{Decision, Event, Who};
use files::Files;
pub use files::Room;
pub use read::Cursor;
use spool::Spool;

/// What waits is written after so long at most.
const WAITS: Duration = Duration::from_secs(1);
/// The newest head goes to the journal so often.
const HEADS: Duration = Duration::from_secs(3600);

/// Why an event could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// The disk.
    #[error("the audit record cannot be written: {0}")]
    Disk(String),
    /// A record that is no record, which is a fault of ours.
    #[error("the audit record cannot take this: {0}")]
    Form(#[from] muster_core::audit::Refused),
}

impl From<SysError> for NotKept {
    fn from(e: SysError) -> Self {
        Self::Disk(e.line())
    }
}

/// The writer. Shared by all threads.
pub struct Audit {
    inner: Mutex<Inner>,
    /// Something waits, or there is a new head.
    news: Condvar,
    boot: String,
    journal: PathBuf,
}

struct Inner {
    files: Files,
    chain: Chain,
    spool: Spool,
    told: Head,
    told_at: Instant,
    /// The disk took nothing the last time, so that it is said once.
    stuck: bool,
}

impl Audit {
    /// Opens the chain, or begins one, and mends what a crash left.
    ///
    /// # Errors
    /// The folder may not be trusted, or cannot be written.
    pub fn open(places: &Places) -> Result<Self, NotKept> {
        let boot = clock::boot_id()?;
        let root = super::disk::trusted(places).map_err(NotKept::Disk)?;
        let dir = StateDir::open_or_make(root, Path::new(AUDIT)).map_err(|e| NotKept::Disk(e.to_string()))?;
        let (files, found) = Files::open(&Arc::new(dir))?;
        let inner = Inner {
            files,
            chain: Chain::after(found.head),
            spool: Spool::default(),
            told: Head::NONE,
            told_at: Instant::now(),
            stuck: false,
        };
        let journal = places.at(journal::SOCKET);
        let audit = Self { inner: Mutex::new(inner), news: Condvar::new(), boot, journal };
        for event in found.events {
            audit.waits(event);
        }
        audit.waits(Event::new("started"));
        // A full disk is no reason not to start: who could make room then?
        let _ = audit.flush();
        Ok(audit)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change of the chain is one assignment after the disk has it, so a panic elsewhere leaves it whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest record that is on the disk.
    pub fn head(&self) -> Head {
        self.lock().chain.head()
    }

    /// Keeps an event, durable when this returns, and all that waited before it if there is room.
    ///
    /// # Errors
    /// It is not kept. Whoever wanted to act may not.
    pub fn first(&self, event: &Event, room: Room) -> Result<Head, NotKept> {
        let members = event.members(&self.boot, now());
        let mut inner = self.lock();
        inner.spool.close(Instant::now());
        let all: Vec<String> = inner.spool.waiting(&self.boot).into_iter().chain([members.clone()]).collect();
        match inner.write(&all, Room::Ordinary) {
            Ok(()) => inner.spool.written(all.len().saturating_sub(1)),
            Err(e) if room == Room::Ordinary => return Err(e),
            // Alone, into the room that is kept for it.
            Err(_) => inner.write(&[members], Room::Reserved)?,
        }
        let head = inner.chain.head();
        drop(inner);
        self.news.notify_all();
        Ok(head)
    }

    /// Keeps an event within a second or so. It cannot fail: what the ring does not take is counted, and the count is kept.
    pub fn waits(&self, event: Event) {
        self.lock().spool.push(event, now(), Instant::now());
        self.news.notify_all();
    }

    /// The journal, for a node whose disk takes nothing.
    ///
    /// # Errors
    /// Nobody listens there either.
    pub fn journal(&self, event: &Event) -> Result<(), NotKept> {
        let members = event.members(&self.boot, now());
        self.tell("audit record that the disk did not take", &[("MUSTER_AUDIT", &format!("{{{members}}}"))])
    }

    fn tell(&self, message: &str, fields: &[(&str, &str)]) -> Result<(), NotKept> {
        let mut entry = journal::Entry::new();
        entry.field("MESSAGE", message).field("PRIORITY", "5").field("SYSLOG_IDENTIFIER", "musterd-audit");
        for (name, value) in fields {
            entry.field(name, value);
        }
        Ok(entry.send_to(&self.journal)?)
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// The disk; it goes on waiting.
    pub fn flush(&self) -> Result<Head, NotKept> {
        let mut inner = self.lock();
        inner.spool.close(Instant::now());
        loop {
            let all = inner.spool.waiting(&self.boot);
            if all.is_empty() {
                break;
            }
            inner.write(&all, Room::Ordinary)?;
            inner.spool.written(all.len());
        }
        let head = inner.chain.head();
        drop(inner);
        self.news.notify_all();
        Ok(head)
    }

    /// The newest head, to the journal: by hand at the end, and every hour by [`Audit::run`].
    pub fn tell_head(&self) {
        let head = {
            let mut inner = self.lock();
            let head = inner.chain.head();
            inner.told_at = Instant::now();
            if head == inner.told {
                return;
            }
            inner.told = head;
            head.to_string()
        };
        // It is told again in an hour, and with every answer.
        let _ = self.tell(&format!("audit chain at {head}"), &[("MUSTER_AUDIT_HEAD", &head)]);
    }

    /// Writes what waits, as long as the process lives.
    pub fn run(&self) {
        loop {
            let mut inner = self.lock();
            while inner.spool.is_empty() {
                let left = HEADS.saturating_sub(inner.told_at.elapsed());
                if left.is_zero() {
                    break;
                }
                inner = self.news.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
            }
            let due = inner.told_at.elapsed() >= HEADS;
            let idle = inner.spool.is_empty();
            drop(inner);
            if due {
                self.tell_head();
            }
            if idle {
                continue;
            }
            // Together with whatever comes meanwhile.
            std::thread::sleep(WAITS);
            let failed = self.flush().err();
            let mut inner = self.lock();
            let news = failed.is_some() != inner.stuck;
            inner.stuck = failed.is_some();
            drop(inner);
            if let Some(e) = failed.filter(|_| news) {
                eprintln!("musterd: {e}; events wait in memory, and calls that change the node are refused");
            }
        }
    }

    /// A reader of the chain, from the record after this number.
    ///
    /// # Errors
    /// The folder.
    pub fn cursor(&self, after: u64) -> Result<Cursor, NotKept> {
        let dir = self.lock().files.dir();
        Ok(Cursor::open(dir, after)?)
    }

    /// Waits until there is a record after this one on the disk, or so long. The newest.
    pub fn wait(&self, after: u64, longest: Duration) -> Head {
        let inner = self.lock();
        let none = |inner: &mut Inner| inner.chain.head().seq <= after;
        let waited = self.news.wait_timeout_while(inner, longest, none);
        waited.unwrap_or_else(PoisonError::into_inner).0.chain.head()
    }
}

impl Inner {
    /// Appends records, durable when it returns, or not at all.
    fn write(&mut self, records: &[String], room: Room) -> Result<(), NotKept> {
        let (mut bytes, mut chain) = (Vec::new(), self.chain.clone());
        for record in records {
            let (line, next) = chain.next(record)?;
            bytes.extend(line);
            chain = next;
        }
        let first = self.chain.head().seq.saturating_add(1);
        self.files.append(&bytes, first, room)?;
        self.chain = chain;
        Ok(())
    }
}

fn now() -> UtcTime {
    UtcTime::from_unix(clock::unix_seconds())
}

#[cfg(test)]
#[path = "audit/tests.rs"]
mod tests;
