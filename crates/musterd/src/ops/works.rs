//! What goes on between the calls, and what need not be asked again at each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use muster_sys::clock::since_boot;

use super::logs::Feeds;
use super::state::Units;
use super::upgrade::{Images, Slot};

/// Journals that are followed, an image that is being pulled, what was found a moment ago: shared by every call. Clones are the
/// same.
#[derive(Clone, Debug, Default)]
pub struct Works {
    pub(super) pull: Slot,
    pub(super) feeds: Feeds,
    /// Held while files of SSH keys are changed.
    pub(super) keys: Arc<Mutex<()>>,
    /// Held by whoever takes the node apart.
    reset: Arc<Mutex<()>>,
    pub(super) images: Kept<Images>,
    pub(super) units: Kept<Units>,
    pub(super) kubelet: Kept<Option<String>>,
}

impl Works {
    /// To take the node apart, unless somebody does.
    pub(super) fn sole_reset(&self) -> Option<MutexGuard<'_, ()>> {
        match self.reset.try_lock() {
            Ok(held) => Some(held),
            // Whoever panicked with it does no more; what is to be done is on disk.
            Err(TryLockError::Poisoned(held)) => Some(held.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// A value that is asked for by many at once and found by one: whoever reads a node's state often starts no more programs
/// than whoever reads it once. Who asks often does not wait for it either: one that has just become old is handed out while it is found
/// anew.
#[derive(Debug)]
pub(super) struct Kept<T>(Arc<Cell<T>>);

#[derive(Debug)]
struct Cell<T> {
    known: Mutex<Known<T>>,
    /// Held by who finds one while the others wait for it.
    finds: Mutex<()>,
}

#[derive(Debug)]
struct Known<T> {
    value: Option<(Duration, T)>,
    /// It is being found anew while the old one is handed out.
    anew: bool,
    /// How often it was forgotten: what was being found meanwhile is not kept.
    forgotten: u64,
}

/// Of what is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Good,
    Old,
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        let known = Mutex::new(Known { value: None, anew: false, forgotten: 0 });
        Self(Arc::new(Cell { known, finds: Mutex::default() }))
    }
}

impl<T: Clone + Send + 'static> Kept<T> {
    fn known(&self) -> MutexGuard<'_, Known<T>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was found no longer ago than `longest`, or up to twice as long while it is being found anew, or what is found now.
    /// It is found no more often than once in `longest`.
    pub(super) fn get(&self, longest: Duration, find: impl FnOnce() -> T + Send + 'static) -> T {
        self.get_by(since_boot, longest, find)
    }

    fn get_by(
        &self,
        now: fn() -> Duration,
        longest: Duration,
        find: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (mut handed, mut finds) = (self.fresh(now(), longest), None);
        if handed.is_none() {
            finds = Some(self.0.finds.lock().unwrap_or_else(PoisonError::into_inner));
            // Found, perhaps, by who had the lock before.
            handed = self.fresh(now(), longest);
        }
        match handed {
            Some((value, Age::Good)) => value,
            Some((value, Age::Old)) => {
                drop(finds);
                let (here, forgotten) = (self.clone(), self.known().forgotten);
                let work = move || here.put(forgotten, now, &find());
                if std::thread::Builder::new().name("finds".to_owned()).spawn(work).is_err() {
                    // Whoever asks next tries again, or finds it himself when it is too old to be handed out.
                    self.known().anew = false;
                }
                value
            }
            None => {
                let forgotten = self.known().forgotten;
                let value = find();
                self.put(forgotten, now, &value);
                value
            }
        }
    }

    /// What may be handed out. It is [`Age::Old`] for one who asks, who then finds it anew.
    fn fresh(&self, now: Duration, longest: Duration) -> Option<(T, Age)> {
        let mut known = self.known();
        let (at, value) = known.value.as_ref()?;
        let (age, value) = (now.saturating_sub(*at), value.clone());
        if age < longest || known.anew && age < longest.saturating_mul(2) {
            return Some((value, Age::Good));
        }
        (age < longest.saturating_mul(2)).then(|| {
            known.anew = true;
            (value, Age::Old)
        })
    }

    fn put(&self, forgotten: u64, now: fn() -> Duration, value: &T) {
        let mut known = self.known();
        if known.forgotten == forgotten {
            known.value = Some((now(), value.clone()));
            known.anew = false;
        }
    }

    /// It may be another now.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        known.value = None;
        known.anew = false;
        known.forgotten = known.forgotten.wrapping_add(1);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn it_is_found_once_and_again_when_it_is_old_or_forgotten() {
        let kept = Kept::default();
        let long = Duration::from_secs(3600);
        assert_eq!((kept.get(long, || 1), kept.get(long, || 2)), (1, 1));
        assert_eq!(kept.get(Duration::ZERO, || 3), 3);
        kept.clone().forget();
        assert_eq!(kept.get(long, || 4), 4);
    }

    static CLOCK: AtomicU64 = AtomicU64::new(1000);

    fn clock() -> Duration {
        Duration::from_secs(CLOCK.load(Ordering::SeqCst))
    }

    #[test]
    fn who_asks_often_does_not_wait_while_it_is_found_anew_and_gets_nothing_that_is_too_old() {
        let kept = Kept::default();
        let ask = |found: u32| kept.get_by(clock, Duration::from_secs(10), move || found);
        let pass = |secs| CLOCK.fetch_add(secs, Ordering::SeqCst);
        assert_eq!(ask(1), 1);
        pass(9);
        assert_eq!(ask(2), 1, "not old yet");
        pass(1);
        // Old: handed out to all while one thread finds it, and by nobody a second time.
        let (open, door) = sync_channel::<()>(0);
        let slow = move || {
            let _ = door.recv();
            3
        };
        assert_eq!(kept.get_by(clock, Duration::from_secs(10), slow), 1);
        for _ in 0..3 {
            assert_eq!(ask(4), 1);
        }
        open.send(()).expect("it waits");
        let until = std::time::Instant::now() + Duration::from_secs(20);
        while ask(4) != 3 {
            assert!(std::time::Instant::now() < until, "it is not found");
            std::thread::yield_now();
        }
        // Too old: found now, by who asks.
        pass(20);
        assert_eq!(ask(5), 5);
        // What is being found while it is forgotten is not kept.
        pass(10);
        let (open, door) = sync_channel::<()>(0);
        let (tell, told) = sync_channel::<()>(1);
        let slow = move || {
            let _ = door.recv();
            tell.send(()).expect("heard");
            6
        };
        assert_eq!(kept.get_by(clock, Duration::from_secs(10), slow), 5);
        kept.forget();
        assert_eq!(ask(7), 7);
        open.send(()).expect("it waits");
        told.recv().expect("found");
        for _ in 0..100 {
            assert_eq!(ask(8), 7);
            std::thread::yield_now();
        }
    }
}
