//! The node's audit record: one event for each call, in a chain of hashes.
//!
//! The chain is [`muster_core::audit`]'s, in files of the folder `audit`: `chain-N.jsonl`, where N is the number of the first record.
//! A file goes on where the one before ended, so the first record of each names the last hash of the one before.
//!
//! - What is handed out as the newest record is on the disk: a head that a power cut could take back would read as a forgery.
//! - What must be durable first is written and synced at once, and what waited goes with it. The rest waits in memory, for a second
//!   at most, in a ring with a bound; above ten events of one client in a second, only their number is kept. Of what only the edge says,
//!   it is ten of one client and sixty in all in a minute: strangers cause it, and it must not push out what the core saw.
//! - A disk that does not answer is as one that takes nothing: nobody waits for it for longer than ten seconds (`hand.rs`).
//! - Room for the intents of destructive operations is kept on the disk, and nothing else may use it. Reads and refusals can fill a
//!   disk; they cannot keep a node from being reset, for whose own files there is room too (`room.rs`).
//! - A record whose writing was cut off is cut away at the next start, by a record that says so. Nothing else is ever cut
//!   away, but the oldest file when there are too many.
//!
//! What a chain cannot do stands in `muster_core::audit`: who is root here can make up what comes after the last head that somebody
//! saw. So heads go out with every answer, and to the journal every hour.

mod event;
mod files;
mod hand;
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
use crate::say;
pub use event::{Decision, Event, Who};
use files::Files;
pub use files::Room;
use hand::{Hand, Work};
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
    /// The disk, without a word.
    #[error("the audit record cannot be written: its disk has not answered for {} seconds", hand::LONGEST.as_secs())]
    Hangs,
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
///
/// Three locks, taken in this order: what is written, what waits, what was written. Only the first is held while a disk is waited for, and by
/// one thread ([`Hand`]), so nobody who reads waits for it, and whoever writes does for a while only.
pub struct Audit {
    hand: Arc<Hand>,
    dir: Arc<StateDir>,
    disk: Mutex<Disk>,
    spool: Mutex<Spool>,
    /// Something waits.
    came: Condvar,
    head: Mutex<Head>,
    /// There is a new head.
    news: Condvar,
    /// The last head in the journal.
    told: Mutex<Head>,
    boot: String,
    journal: PathBuf,
}

struct Disk {
    files: Files,
    chain: Chain,
}

impl Audit {
    /// Opens the chain, or begins one, and mends what a crash left.
    ///
    /// # Errors
    /// The folder may not be trusted, or cannot be written.
    pub fn open(places: &Places) -> Result<Self, NotKept> {
        let boot = clock::this_boot()?;
        let root = super::disk::trusted(places).map_err(NotKept::Disk)?;
        let dir = StateDir::open_or_make(root, Path::new(AUDIT)).map_err(|e| NotKept::Disk(e.to_string()))?;
        let dir = Arc::new(dir);
        let (files, found) = Files::open(&dir)?;
        let disk = Disk { files, chain: Chain::after(found.head) };
        let audit = Self {
            hand: Arc::new(Hand::new(hand::LONGEST)),
            dir,
            disk: Mutex::new(disk),
            spool: Mutex::default(),
            came: Condvar::new(),
            head: Mutex::new(found.head),
            news: Condvar::new(),
            told: Mutex::new(Head::NONE),
            boot,
            journal: places.at(journal::SOCKET),
        };
        for event in found.events {
            audit.waits(event);
        }
        audit.waits(Event::new("started"));
        // A full disk is no reason not to start: who could make room then?
        let _ = audit.flush_now();
        Ok(audit)
    }

    // In all three every change is whole before anything can panic, so a panic elsewhere leaves them whole.

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn spool(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest record that is on the disk.
    pub fn head(&self) -> Head {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What waits, as records. Whoever holds the disk is the only one who takes it away.
    fn waiting(&self, disk: &mut Disk) -> Vec<String> {
        if disk.files.was_removed() {
            self.waits(Event::new("broken-chain").detail("its file was removed while it was written to"));
        }
        let mut spool = self.spool();
        spool.close(Instant::now());
        spool.waiting(&self.boot)
    }

    /// Appends records, of which the first so many waited.
    fn write(&self, disk: &mut Disk, records: &[String], waited: usize, room: Room) -> Result<Head, NotKept> {
        let head = disk.write(records, room)?;
        self.spool().written(waited);
        *self.head.lock().unwrap_or_else(PoisonError::into_inner) = head;
        self.news.notify_all();
        Ok(head)
    }

    /// Keeps an event, durable when this returns, and all that waited before it if there is room.
    ///
    /// # Errors
    /// It is not kept. Whoever wanted to act may not.
    pub fn first(self: &Arc<Self>, event: &Event, room: Room) -> Result<Head, NotKept> {
        self.in_time(Work::First(event.members(&self.boot, now()), room))
    }

    fn first_now(&self, members: String, room: Room) -> Result<Head, NotKept> {
        let mut disk = self.disk();
        let mut all = self.waiting(&mut disk);
        let waited = all.len();
        all.push(members.clone());
        match self.write(&mut disk, &all, waited, Room::Ordinary) {
            // Alone, into the room that is kept for it.
            Err(_) if room == Room::Reserved => self.write(&mut disk, &[members], 0, room),
            done => done,
        }
    }

    /// Keeps an event within a second or so. It cannot fail: what the ring does not take is counted, and the count is kept.
    pub fn waits(&self, event: Event) {
        self.spool().push(event, now(), Instant::now());
        self.came.notify_all();
    }

    /// Writes down that it ends, and the numbers of what was only counted until now.
    pub fn ends(self: &Arc<Self>) {
        // First what waits, so that there is room for the last word; then that, also where a crowd comes in between and it is counted.
        for last in [None, Some(Event::new("stopped"))] {
            last.into_iter().for_each(|event| self.waits(event));
            self.spool().settle();
            // Whoever starts next finds what is on the disk.
            let _ = self.flush();
        }
        self.tell_head();
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
    pub fn flush(self: &Arc<Self>) -> Result<Head, NotKept> {
        self.in_time(Work::Flush)
    }

    fn flush_now(&self) -> Result<Head, NotKept> {
        let mut disk = self.disk();
        // No more than what can wait at a time: more may come for ever, faster than a slow disk takes it, and others wait behind this.
        for _ in 0..=spool::RING / spool::BATCH {
            let all = self.waiting(&mut disk);
            if all.is_empty() {
                break;
            }
            self.write(&mut disk, &all, all.len(), Room::Ordinary)?;
        }
        Ok(disk.chain.head())
    }

    /// The newest head, to the journal: by hand at the end, and every hour by [`Audit::run`].
    pub fn tell_head(&self) {
        let head = self.head();
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if head == *told {
                return;
            }
            *told = head;
        }
        let head = head.to_string();
        // It is told again in an hour, and with every answer.
        let _ = self.tell(&format!("audit chain at {head}"), &[("MUSTER_AUDIT_HEAD", &head)]);
    }

    /// Writes what waits, as long as the process lives.
    pub fn run(self: &Arc<Self>) {
        // It took nothing the last time, which is said once.
        let (mut told, mut stuck) = (Instant::now(), false);
        loop {
            let left = HEADS.saturating_sub(told.elapsed());
            let spool = self.came.wait_timeout_while(self.spool(), left, |spool| spool.is_empty());
            let idle = spool.unwrap_or_else(PoisonError::into_inner).0.is_empty();
            if told.elapsed() >= HEADS {
                self.tell_head();
                told = Instant::now();
            }
            if idle {
                continue;
            }
            // Together with whatever comes meanwhile.
            std::thread::sleep(WAITS);
            let failed = self.flush().err();
            let before = std::mem::replace(&mut stuck, failed.is_some());
            if let Some(e) = failed.filter(|_| !before) {
                say::warning(&format!(
                    "{e}; events wait in memory, and calls that change the node are refused"
                ));
            }
        }
    }

    /// A reader of the chain, from the record after this number.
    ///
    /// # Errors
    /// The folder.
    pub fn cursor(&self, after: u64) -> Result<Cursor, NotKept> {
        Ok(Cursor::open(Arc::clone(&self.dir), after)?)
    }

    /// Waits until there is a record after this one on the disk, or so long. The newest.
    pub fn wait(&self, after: u64, longest: Duration) -> Head {
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.news.wait_timeout_while(head, longest, |head| head.seq <= after);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Disk {
    /// Appends records, durable when it returns, or not at all.
    fn write(&mut self, records: &[String], room: Room) -> Result<Head, NotKept> {
        let (mut bytes, mut chain) = (Vec::new(), self.chain.clone());
        for record in records {
            let (line, next) = chain.next(record)?;
            bytes.extend(line);
            chain = next;
        }
        let first = self.chain.head().seq.saturating_add(1);
        self.files.append(&bytes, first, room)?;
        self.chain = chain;
        Ok(self.chain.head())
    }
}

fn now() -> UtcTime {
    UtcTime::from_unix(clock::unix_seconds())
}

#[cfg(test)]
#[path = "audit/tests.rs"]
mod tests;
