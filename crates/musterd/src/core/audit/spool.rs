//! What waits to be written: a ring with a bound, and a count of what came too fast.
//!
//! Windows are of the monotonic clock, which nobody sets. The time of day is data that goes with an event, whatever it says and
//! however it jumps. What was counted waits for room in the ring no longer than the ring does: it follows as the disk takes what is there.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use muster_core::UtcTime;

use super::event::{Decision, Event};

/// How many events are kept one by one, in how long.
struct Bounds {
    window: Duration,
    /// Of one client.
    each: u32,
    /// Of all clients together: addresses cost nothing.
    all: u32,
    /// Kinds of events that are counted apart from each other.
    kinds: usize,
    /// Not beyond so many that wait.
    ring: usize,
}

/// Of what the core saw itself.
const SEEN: Bounds = Bounds { window: Duration::from_secs(1), each: 10, all: 200, kinds: 256, ring: RING };
/// Of what the edge tells. Much less: strangers cause it, and an edge that fell makes up what it likes. At this pace the record is
/// full of it after days, not after an hour, and it takes no room from what the core saw.
const TOLD: Bounds = Bounds { window: Duration::from_secs(60), each: 10, all: 60, kinds: 64, ring: RING / 2 };
/// Events that wait. Beyond, they are counted only.
pub(super) const RING: usize = 1024;
/// Events that are written at once: well below the length of a file.
pub(super) const BATCH: usize = 256;

type Key = (String, Option<&'static str>, Option<Decision>, Option<String>);

/// Events in the ring, each with its time.
type Ring = VecDeque<(Event, UtcTime)>;

/// See the module.
pub(super) struct Spool {
    ring: Ring,
    seen: Counter,
    told: Counter,
}

/// What came in a window.
struct Counter {
    bounds: Bounds,
    since: Option<Instant>,
    seen: HashMap<String, u32>,
    all: u32,
    over: HashMap<Key, (Event, UtcTime, u64)>,
    /// Events that nothing more is known of than when the first came.
    lost: Option<(UtcTime, u64)>,
    /// What was counted is of a window that has ended, and becomes events as there is room for them.
    due: bool,
}

impl Default for Spool {
    fn default() -> Self {
        Self { ring: Ring::new(), seen: Counter::new(SEEN), told: Counter::new(TOLD) }
    }
}

impl Counter {
    fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            since: None,
            seen: HashMap::new(),
            all: 0,
            over: HashMap::new(),
            lost: None,
            due: false,
        }
    }

    fn is_empty(&self) -> bool {
        self.over.is_empty() && self.lost.is_none()
    }

    fn push(&mut self, ring: &mut Ring, event: Event, time: UtcTime, at: Instant) {
        self.since.get_or_insert(at);
        // Beyond the bound for all, nobody new is remembered either.
        if self.all < self.bounds.all && ring.len() < self.bounds.ring {
            let seen = self.seen.entry(event.identity()).or_default();
            if *seen < self.bounds.each {
                *seen += 1;
                self.all += 1;
                ring.push_back((event, time));
                return;
            }
        }
        let kinds = self.over.len();
        match self.over.get_mut(&event.key()) {
            Some((_, _, count)) => *count = count.saturating_add(1),
            None if kinds < self.bounds.kinds => {
                drop(self.over.insert(event.key(), (event.alike(), time, 1)))
            }
            None => {
                let (_, count) = self.lost.get_or_insert((time, 0));
                *count = count.saturating_add(1);
            }
        }
    }

    fn is_over(&self, at: Instant) -> bool {
        self.since.is_some_and(|since| at.saturating_duration_since(since) >= self.bounds.window)
    }

    /// Ends the window: what was counted becomes events.
    fn end(&mut self, ring: &mut Ring) {
        self.since = None;
        self.all = 0;
        self.seen.clear();
        self.due = true;
        self.tell(ring);
    }

    /// What is due, as much as fits. What does not is due again when the disk has taken something; until then it goes on being counted.
    fn tell(&mut self, ring: &mut Ring) {
        if !self.due || ring.len() + self.over.len() + usize::from(self.lost.is_some()) > RING {
            return;
        }
        self.due = false;
        ring.extend(self.over.drain().map(|(_, (event, time, count))| (event.count(count), time)));
        if let Some((time, count)) = self.lost.take() {
            let event = Event::new("uncounted").detail("too many kinds of events at once").count(count);
            ring.push_back((event, time));
        }
    }
}

impl Spool {
    pub(super) fn is_empty(&self) -> bool {
        self.ring.is_empty() && self.seen.is_empty() && self.told.is_empty()
    }

    pub(super) fn push(&mut self, event: Event, time: UtcTime, at: Instant) {
        self.close(at);
        let counter = if event.is_told() { &mut self.told } else { &mut self.seen };
        counter.push(&mut self.ring, event, time, at);
    }

    /// Ends what is over: what was counted becomes events.
    pub(super) fn close(&mut self, at: Instant) {
        for counter in [&mut self.seen, &mut self.told] {
            if counter.is_over(at) {
                counter.end(&mut self.ring);
            }
            counter.tell(&mut self.ring);
        }
    }

    /// The same before its time, because there will be no later one.
    pub(super) fn settle(&mut self) {
        self.seen.end(&mut self.ring);
        self.told.end(&mut self.ring);
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
    pub(super) fn is_empty_ring(&self) -> bool {
        self.ring.is_empty()
    }

    pub(super) fn told_is_empty(&self) -> bool {
        self.told.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    /// Everything that came, one by one or counted.
    pub(super) fn sum(&self) -> u64 {
        let counted = |event: &Event| event.counted().unwrap_or(1);
        let over =
            |c: &Counter| c.over.values().map(|(_, _, n)| n).sum::<u64>() + c.lost.map_or(0, |(_, n)| n);
        let ring = self.ring.iter().map(|(event, _)| counted(event)).sum::<u64>();
        ring + over(&self.seen) + over(&self.told)
    }
}
