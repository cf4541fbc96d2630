//! How much of something one client may have at a time, so that none has all of it.
//!
//! A client is a certificate, not a name: a name is what the authority wrote, a team or a fleet of machines may have one, and none of them may use
//! up what the others have. Whoever holds several certificates has as many shares, so four of them can have all calls at once: how many
//! there are is the authority's to bound, a stolen key makes no more of them, and the answer to one that misbehaves is to revoke it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_api::{Fault, Kind};
use muster_tls::Fingerprint;

/// What each client has of something.
#[derive(Debug)]
pub(crate) struct Shares {
    max: usize,
    of: Mutex<HashMap<Fingerprint, usize>>,
}

/// Some of it, until it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    of: Arc<Shares>,
    who: Fingerprint,
    many: usize,
}

impl Shares {
    /// So much for each.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, of: Mutex::default() })
    }

    // Every change is whole before anything can panic.
    fn of(&self) -> MutexGuard<'_, HashMap<Fingerprint, usize>> {
        self.of.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes some, if that is not more than the client's share.
    ///
    /// # Errors
    /// 429, with what it is that there is too much of.
    pub(crate) fn take(self: &Arc<Self>, who: Fingerprint, many: usize, what: &str) -> Result<Share, Fault> {
        let mut of = self.of();
        let has = of.get(&who).copied().unwrap_or_default();
        let sum = has.saturating_add(many);
        if sum > self.max {
            let why = format!("this client has its share of this node already: {what}");
            let mut fault = Fault::new(Kind::TooMany, "share", why).fix(
                "End one of them, or come again when one has ended. Other clients have shares of their own.",
            );
            fault.retry_after = Some(1);
            return Err(fault);
        }
        of.insert(who, sum);
        Ok(Share { of: Arc::clone(self), who, many })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut of = self.of.of();
        if let Some(has) = of.get_mut(&self.who) {
            *has = has.saturating_sub(self.many);
            if *has == 0 {
                of.remove(&self.who);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s17_a_share_is_of_one_client_and_comes_back() {
        let shares = Shares::new(2);
        let (a, b) = (Fingerprint::of(b"a"), Fingerprint::of(b"b"));
        let first = shares.take(a, 1, "x").expect("the first");
        let _second = shares.take(a, 1, "x").expect("the second");
        let fault = shares.take(a, 1, "x").expect_err("the third");
        assert_eq!((fault.kind, fault.reason.as_str(), fault.retry_after), (Kind::TooMany, "share", Some(1)));
        let _other = shares.take(b, 2, "x").expect("another client's");
        drop(first);
        drop(shares.take(a, 1, "x").expect("one came back"));
        drop((_second, _other));
        assert!(shares.of().is_empty(), "nobody who has nothing is remembered");
    }
}
