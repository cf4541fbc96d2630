//! One `journalctl --follow` for all who follow the same.
//!
//! A follower first takes its place in the feed, then reads the records that are there already, and then goes on with the
//! feed, passing over what it has had: so none is missed and none comes twice. Records are told apart by their cursors. A
//! follower that reads more slowly than records come loses the oldest, and is told how many.
//!
//! The child belongs to the thread that reads it, and both end when the last follower has left.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use muster_api::logs::Record;
use muster_sys::SysError;
use muster_sys::clock::unix_seconds;
use muster_sys::command::{Errors, Got, Tied};

use super::super::tools;
use super::record::{Found, Lines, parse};
use super::{Source, command};
use crate::places::Places;

/// Records that a feed keeps for followers that are behind, and bytes of them.
const KEPT: usize = 8192;
const KEPT_BYTES: usize = 4 << 20;
/// How often a quiet feed looks whether anybody follows.
const TICK: Duration = Duration::from_millis(500);

/// A record that came.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Of its cursor.
    mark: u64,
    /// Of its boot, and microseconds of it.
    moment: Option<(u64, u64)>,
    /// As it is sent, with its line break.
    pub(super) line: Arc<[u8]>,
}

/// A short name of a cursor, or of a boot.
fn mark(cursor: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    cursor.hash(&mut hasher);
    hasher.finish()
}

/// A record as it is sent.
pub(super) fn line(record: &Record) -> Option<Arc<[u8]>> {
    let mut line = serde_json::to_vec(record).ok()?;
    line.push(b'\n');
    Some(line.into())
}

/// All feeds of a core.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Feeds(Arc<Mutex<HashMap<Source, Weak<Feed>>>>);

#[derive(Debug, Default)]
struct Feed {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Item>,
    bytes: usize,
    /// The number of the first of `items`.
    first: u64,
    /// No more will come.
    ended: bool,
}

/// A place in a feed.
#[derive(Debug)]
pub(super) struct Follower {
    feed: Arc<Feed>,
    next: u64,
}

/// What came since the last look.
#[derive(Debug)]
pub(super) struct News {
    /// Records, oldest first.
    pub(super) items: Vec<Item>,
    /// How many before them were lost.
    pub(super) lost: u64,
    /// There will be no more.
    pub(super) ended: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each step leaves it whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Feeds {
    /// A place in the feed of a source, which is begun where nobody follows it yet.
    pub(super) fn follow(&self, places: &Places, source: Source) -> Result<Follower, SysError> {
        let mut feeds = lock(&self.0);
        feeds.retain(|_, feed| feed.strong_count() > 0);
        if let Some(feed) = feeds.get(&source).and_then(Weak::upgrade) {
            let state = lock(&feed.state);
            if !state.ended {
                let next = state.first + state.items.len() as u64;
                drop(state);
                return Ok(Follower { feed, next });
            }
        }
        let feed = Arc::new(Feed::default());
        // From a second ago: what comes until the child has found the journal's end is then not missed.
        let from = unix_seconds().saturating_sub(1);
        let child =
            command(places, source).arg("--follow").arg("--lines=all").arg(format!("--since=@{from}"));
        let child = child.args(of_this_machine(places, source));
        let weak = Arc::downgrade(&feed);
        let (started, start) = std::sync::mpsc::sync_channel(1);
        std::thread::Builder::new()
            .name("follow".to_owned())
            .spawn(move || {
                // By the thread itself, since the child is tied to the thread that starts it.
                match child.start(Errors::Dropped, Tied::ToThread) {
                    Ok(running) => {
                        let _ = started.send(Ok(()));
                        read(running, &weak);
                    }
                    Err(e) => {
                        let _ = started.send(Err(e));
                    }
                }
            })
            .map_err(|e| SysError::new("start a thread", e))?;
        let died = |e| SysError::new("start a thread", std::io::Error::other(e));
        start.recv().map_err(died)??;
        feeds.insert(source, Arc::downgrade(&feed));
        Ok(Follower { feed, next: 0 })
    }

    /// How many children there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0).values().filter(|f| f.strong_count() > 0).count()
    }
}

/// A follower reads this boot alone unless it is told to take every journal, and which boot that is it asks the kernel: in a container,
/// and below `ProtectKernelTunables=`, that is another than the journal's, and nothing would come. So every journal, of this machine.
fn of_this_machine(places: &Places, source: Source) -> Vec<String> {
    let id = tools::text(places, "/etc/machine-id");
    let id = id.filter(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()));
    match (source, id) {
        // The kernel's records are those of this boot.
        (Source::Kernel, _) | (_, None) => Vec::new(),
        (_, Some(id)) => vec!["--merge".to_owned(), format!("_MACHINE_ID={id}")],
    }
}

/// Reads a child to its end, or until nobody follows.
fn read(mut running: muster_sys::command::Running, feed: &Weak<Feed>) {
    let mut buffer = vec![0; 64 * 1024];
    let mut lines = Lines::default();
    loop {
        let got = running.read(&mut buffer, TICK);
        let Some(feed) = feed.upgrade() else { return };
        match got {
            Ok(Got::Quiet) => {}
            Ok(Got::Some(n)) => {
                let mut new = Vec::new();
                lines.push(buffer.get(..n).unwrap_or_default(), |text, end| {
                    new.extend(parse(text, end).and_then(|found| {
                        let line = line(&found.record)?;
                        Some(Item {
                            mark: found.cursor.as_deref().map_or(0, mark),
                            moment: moment(&found),
                            line,
                        })
                    }));
                });
                if !new.is_empty() {
                    feed.add(new);
                }
            }
            Ok(Got::End) | Err(_) => {
                lock(&feed.state).ended = true;
                feed.changed.notify_all();
                return;
            }
        }
    }
}

impl Feed {
    fn add(&self, new: Vec<Item>) {
        let mut state = lock(&self.state);
        for item in new {
            state.bytes += item.line.len();
            state.items.push_back(item);
        }
        while state.items.len() > KEPT || (state.bytes > KEPT_BYTES && state.items.len() > 1) {
            if let Some(old) = state.items.pop_front() {
                state.bytes -= old.line.len();
                state.first += 1;
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

impl Follower {
    /// What came, waiting at most so long for the first of it. At most `most` records.
    pub(super) fn news(&mut self, patience: Duration, most: usize) -> News {
        let state = lock(&self.feed.state);
        let next = self.next;
        let nothing = |s: &mut State| s.first + (s.items.len() as u64) <= next && !s.ended;
        let waited = self.feed.changed.wait_timeout_while(state, patience, nothing);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let lost = state.first.saturating_sub(self.next);
        let from = usize::try_from((self.next + lost).saturating_sub(state.first)).unwrap_or(usize::MAX);
        let items: Vec<_> = state.items.iter().skip(from).take(most).cloned().collect();
        self.next += lost + items.len() as u64;
        let ended = state.ended && self.next >= state.first + state.items.len() as u64;
        News { items, lost, ended }
    }
}

/// A moment of the journal.
fn moment(found: &Found) -> Option<(u64, u64)> {
    found.moment.as_ref().map(|(boot, micros)| (mark(boot), *micros))
}

/// What a follower has had already, to be passed over when the feed brings it again: and what is older than the last that it
/// had, which it did not ask for.
#[derive(Debug, Default)]
pub(super) struct Had {
    marks: HashSet<u64>,
    last: Option<(u64, u64)>,
}

impl Had {
    /// It had this one.
    pub(super) fn add(&mut self, found: &Found) {
        self.marks.extend(found.cursor.as_deref().map(mark));
        self.last = moment(found).or(self.last);
    }

    /// Whether it is one of these.
    pub(super) fn pass_over(&mut self, item: &Item) -> bool {
        let older = match (self.last, item.moment) {
            (Some((boot, last)), Some((this, micros))) => boot == this && micros < last,
            _ => false,
        };
        self.marks.remove(&item.mark) || older
    }

    /// The feed is past them.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}
