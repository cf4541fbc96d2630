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
    /// Held while files of SSH keys are read or changed.
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
/// than whoever reads it once.
#[derive(Debug)]
pub(super) struct Kept<T>(Arc<Mutex<Option<(Duration, T)>>>);

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<T: Clone> Kept<T> {
    /// What was found no longer ago than `longest`, or what is found now. Others wait meanwhile.
    pub(super) fn get(&self, longest: Duration, find: impl FnOnce() -> T) -> T {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, value)) = kept.as_ref()
            && since_boot().saturating_sub(*at) < longest
        {
            return value.clone();
        }
        let value = find();
        *kept = Some((since_boot(), value.clone()));
        value
    }

    /// It may be another now.
    pub(super) fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

#[cfg(test)]
mod tests {
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
}
