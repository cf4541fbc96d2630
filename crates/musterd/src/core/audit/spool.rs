//! What waits to be written: a ring with a bound, and a count of what came too fast.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use muster_core::UtcTime;

use super::event::{Decision, Event};

/// Events of one client that are kept one by one in a second.
const EACH: u32 = 10;
/// Of all clients together: addresses cost nothing.
const ALL: u32 = 200;
/// Kinds of events that are counted apart from each other.
const KINDS: usize = 256;
/// Events that wait. Beyond, they are counted only.
const RING: usize = 1024;
/// Events that are written at once: well below the length of a file.
const BATCH: usize = 256;
/// The second.
const WINDOW: Duration = Duration::from_secs(1);

type Key = (String, Option<&'static str>, Option<Decision>, Option<String>);

/// See the module.
#[derive(Default)]
pub(super) struct Spool {
    ring: VecDeque<(Event, UtcTime)>,
    since: Option<Instant>,
    seen: HashMap<String, u32>,
    all: u32,
    over: HashMap<Key, (Event, UtcTime, u64)>,
    /// Events that nothing more is known of.
    lost: u64,
}

impl Spool {
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.over.is_empty() && self.lost == 0
    }

    pub(super) fn push(&mut self, event: Event, time: UtcTime, at: Instant) {
        self.close(at);
        self.since.get_or_insert(at);
        // Beyond the bound for all, nobody new is remembered either.
        if self.all < ALL && self.ring.len() < RING {
            let seen = self.seen.entry(event.identity()).or_default();
            if *seen < EACH {
                *seen += 1;
                self.all += 1;
                self.ring.push_back((event, time));
                return;
            }
        }
        let kinds = self.over.len();
        match self.over.get_mut(&event.key()) {
            Some((_, _, count)) => *count = count.saturating_add(1),
            None if kinds < KINDS => drop(self.over.insert(event.key(), (event.alike(), time, 1))),
            None => self.lost = self.lost.saturating_add(1),
        }
    }

    /// Ends the second, if it is over: what was counted becomes events.
    pub(super) fn close(&mut self, at: Instant) {
        let over = self.since.is_some_and(|since| at.saturating_duration_since(since) >= WINDOW);
        if !over {
            return;
        }
        self.since = None;
        self.all = 0;
        // As many as fit; the others go on being counted. The map of identities is emptied whatever happens.
        self.seen.clear();
        if self.ring.len() + self.over.len() <= RING {
            let counted = self.over.drain().map(|(_, (event, time, count))| (event.count(count), time));
            self.ring.extend(counted);
            if self.lost > 0 {
                let event =
                    Event::new("uncounted").detail("too many kinds of events in a second").count(self.lost);
                let time = self.ring.back().map_or(UtcTime::from_unix(0), |(_, time)| *time);
                self.ring.push_back((event, time));
                self.lost = 0;
            }
        }
    }

    /// What waits, as records, oldest first: as many as are written at once.
    pub(super) fn waiting(&self, boot: &str) -> Vec<String> {
        self.ring.iter().take(BATCH).map(|(event, time)| event.members(boot, *time)).collect()
    }

    /// The oldest so many are on the disk.
    pub(super) fn written(&mut self, count: usize) {
        self.ring.drain(..count.min(self.ring.len()));
    }
}

#[cfg(test)]
impl Spool {
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Everything that came, one by one or counted.
    pub(super) fn sum(&self) -> u64 {
        let counted = |event: &Event| event.counted().unwrap_or(1);
        let over: u64 = self.over.values().map(|(_, _, n)| n).sum();
        self.ring.iter().map(|(event, _)| counted(event)).sum::<u64>() + over + self.lost
    }
}
