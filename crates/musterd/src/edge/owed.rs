//! What the client of one connection was given, and has not taken.
//!
//! HTTP/2 has windows of its own (RFC 9113, 5.2 and 6.9.1): a client that opens none gets no byte of an answer, and its TCP is not
//! even asked. So each piece counts from when it is there until its last byte is written to the client's connection, or thrown
//! away with its stream. As long as something waits, the client must go on:
//!
//! - in each span of `patience` it takes all that waits, or [`RATE`];
//! - nothing waits longer than [`LONGEST`] times `patience`, whatever else is taken.
//!
//! A stream on which nobody writes has nothing that waits, and may be quiet for as long as it likes.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Bytes a second that a client takes at least, where so much is there.
const RATE: usize = 512;
/// See the module.
const LONGEST: u32 = 10;

/// See the module.
#[derive(Debug)]
pub(crate) struct Owed {
    patience: Duration,
    state: Mutex<State>,
    some: Notify,
}

#[derive(Debug)]
struct State {
    /// When each piece that waits was given; the oldest first.
    pieces: BTreeMap<u64, Instant>,
    next: u64,
    /// Since when the span is that goes on.
    since: Instant,
    /// What was taken in it.
    taken: usize,
}

/// One piece, until all of it is taken or it is dropped.
#[derive(Debug)]
pub(crate) struct Waits {
    owed: Arc<Owed>,
    id: u64,
}

impl Owed {
    pub(crate) fn new(patience: Duration) -> Arc<Self> {
        let state = State { pieces: BTreeMap::new(), next: 0, since: Instant::now(), taken: 0 };
        Arc::new(Self { patience, state: Mutex::new(state), some: Notify::new() })
    }

    // Every change is whole before anything can panic.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is another piece.
    pub(crate) fn add(self: &Arc<Self>) -> Waits {
        let mut state = self.state();
        let now = Instant::now();
        if state.pieces.is_empty() {
            (state.since, state.taken) = (now, 0);
            self.some.notify_one();
        }
        let id = state.next;
        state.next += 1;
        state.pieces.insert(id, now);
        Waits { owed: Arc::clone(self), id }
    }

    /// Returns when the client has not taken what it must.
    pub(crate) async fn stalls(&self) {
        loop {
            match self.due() {
                Some(at) if at <= Instant::now() => return,
                Some(at) => sleep_until(at).await,
                None => self.some.notified().await,
            }
        }
    }

    /// When that will be, if nothing more is taken.
    fn due(&self) -> Option<Instant> {
        let state = self.state();
        let (_, oldest) = state.pieces.first_key_value()?;
        Some((state.since + self.patience).min(*oldest + self.patience * LONGEST))
    }

    fn must(&self) -> u128 {
        self.patience.as_millis() * RATE as u128 / 1000
    }
}

impl Waits {
    /// So many bytes more were taken of it.
    pub(crate) fn took(&self, bytes: usize) {
        let mut state = self.owed.state();
        state.taken = state.taken.saturating_add(bytes);
        if state.taken as u128 >= self.owed.must() {
            (state.since, state.taken) = (Instant::now(), 0);
        }
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.owed.state().pieces.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By a clock that goes on when nobody has anything to do.
    const SPAN: Duration = Duration::from_millis(200);

    async fn stalls_in(owed: &Owed, longest: Duration) -> bool {
        tokio::time::timeout(longest, owed.stalls()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn who_takes_nothing_stalls_and_who_owes_nothing_does_not() {
        let owed = Owed::new(SPAN);
        assert!(!stalls_in(&owed, SPAN * 2).await, "nothing was given");
        let piece = owed.add();
        let begun = Instant::now();
        assert!(stalls_in(&owed, SPAN * 5).await);
        assert!(begun.elapsed() >= SPAN, "it has the whole span");
        drop(piece);
        assert!(!stalls_in(&owed, SPAN * 2).await, "all of it is gone");
        // A span begins with what there is to take, and not with the connection.
        let piece = owed.add();
        assert!(!stalls_in(&owed, SPAN / 2).await);
        drop(piece);
    }

    /// 512 bytes a second are 102 in a span.
    #[tokio::test(start_paused = true)]
    async fn a_trickle_is_not_enough_and_the_rate_is() {
        for (bytes, stalls) in [(1, true), (40, false)] {
            let owed = Owed::new(SPAN);
            let piece = owed.add();
            let takes = async {
                loop {
                    tokio::time::sleep(SPAN / 8).await;
                    piece.took(bytes);
                }
            };
            let stalled = tokio::select! {
                stalled = stalls_in(&owed, SPAN * 5) => stalled,
                () = takes => false,
            };
            assert_eq!(stalled, stalls, "{bytes} bytes at a time");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_left_lying_stalls_in_the_end_whatever_else_is_taken() {
        let owed = Owed::new(SPAN);
        let lies = owed.add();
        let other = owed.add();
        let takes = async {
            loop {
                tokio::time::sleep(SPAN / 8).await;
                other.took(4096);
            }
        };
        let begun = Instant::now();
        tokio::select! {
            () = owed.stalls() => {}
            () = takes => {}
            () = tokio::time::sleep(SPAN * 30) => panic!("it lies there for ever"),
        }
        assert!(begun.elapsed() >= SPAN * 9);
        drop(lies);
    }
}
