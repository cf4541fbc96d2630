//! How often and how fast one may guess.
//!
//! [`Door`] holds the exchanges that are open, in memory, and the pause after a wrong guess; [`Ledger`] keeps the code's
//! tries where a crash cannot refund them. [`Door::judge`] is the one way to a verdict, in this order: the exchange is
//! taken out, whatever follows; a pause refuses and costs nothing; one try is written down as spent; only then is the
//! confirmation compared; a right one gives the try back. The caller runs it under one lock.
//!
//! Numbers are the contract's: 5 tries a code; pauses of 1, 2, 4, 8 s; 16 exchanges, 2 an address, 10 s each.
//! One who may use many addresses can push others' exchanges out. It delays a claim, and wins nothing.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use crate::exchange::{Claim, Confirmation, Open, Proven, Session};

/// Wrong guesses that a code survives, less one.
pub const TRIES: u8 = 5;
/// Exchanges open at a time.
pub const OPEN: usize = 16;
/// Exchanges open at a time from one address.
pub const OPEN_AN_ADDRESS: usize = 2;
/// How long an exchange stays open.
pub const LIFETIME: Duration = Duration::from_secs(10);
/// The longest pause after a wrong guess.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(8);

/// The tries that a code has left, kept durably.
pub trait Ledger {
    /// Why it could not be written.
    type Error;
    /// What is left now, 0 to [`TRIES`].
    fn tries(&self) -> u8;
    /// Makes it so, and returns when a crash can no longer undo it.
    ///
    /// # Errors
    /// Whatever the medium says; nothing is compared then.
    fn store(&mut self, tries: u8) -> Result<(), Self::Error>;
}

/// Why there is no proof.
#[derive(Debug, PartialEq, Eq)]
pub enum NoProof<E> {
    /// No such exchange: never opened, used, pushed out or too old.
    UnknownSession,
    /// A pause is running for this long. No try is spent.
    Pause(Duration),
    /// The code's tries are used up.
    Locked,
    /// Wrong. So many tries are left; none means that the door is shut.
    Wrong {
        /// Tries left.
        left: u8,
    },
    /// The ledger could not be written. Nothing was compared.
    Ledger(E),
}

/// The open exchanges and the pause. Times are since any one moment, by a clock that never goes back.
#[derive(Default)]
pub struct Door {
    open: Vec<Entry>,
    failures: u32,
    shut_until: Duration,
}

struct Entry {
    session: Session,
    address: IpAddr,
    since: Duration,
    exchange: Open,
}

impl Door {
    /// Keeps an exchange open. An address that has two loses its older one; where sixteen are open, the oldest of the
    /// address that has the most gives way.
    pub fn admit(&mut self, session: Session, address: IpAddr, exchange: Open, now: Duration) {
        let address = address.to_canonical();
        self.open.retain(|e| now.saturating_sub(e.since) < LIFETIME);
        if self.count(address) >= OPEN_AN_ADDRESS {
            self.evict(address);
        }
        if self.open.len() >= OPEN
            && let Some(fullest) = self.fullest()
        {
            self.evict(fullest);
        }
        self.open.push(Entry { session, address, since: now, exchange });
    }

    /// The verdict on one exchange.
    ///
    /// # Errors
    /// See [`NoProof`].
    pub fn judge<L: Ledger>(
        &mut self,
        session: &Session,
        claim: &Claim<'_>,
        confirmation: &Confirmation,
        ledger: &mut L,
        now: Duration,
    ) -> Result<Proven, NoProof<L::Error>> {
        let at = self
            .open
            .iter()
            .position(|e| e.session == *session && now.saturating_sub(e.since) < LIFETIME)
            .ok_or(NoProof::UnknownSession)?;
        let exchange = self.open.remove(at).exchange;
        if now < self.shut_until {
            return Err(NoProof::Pause(self.shut_until.saturating_sub(now)));
        }
        let before = ledger.tries();
        let left = before.checked_sub(1).ok_or(NoProof::Locked)?;
        ledger.store(left).map_err(NoProof::Ledger)?;
        if let Ok(proven) = exchange.judge(claim, confirmation) {
            ledger.store(before).map_err(NoProof::Ledger)?;
            return Ok(proven);
        }
        self.failures = self.failures.saturating_add(1);
        let pause =
            Duration::from_secs(1u64.checked_shl(self.failures.saturating_sub(1)).unwrap_or(u64::MAX));
        self.shut_until = now.saturating_add(pause.min(LONGEST_PAUSE));
        Err(NoProof::Wrong { left })
    }

    fn count(&self, address: IpAddr) -> usize {
        self.open.iter().filter(|e| e.address == address).count()
    }

    /// The address with the most open exchanges; among equals the one whose exchange is oldest.
    fn fullest(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for entry in &self.open {
            *counts.entry(entry.address).or_default() += 1;
        }
        let most = counts.values().max()?;
        self.open.iter().map(|e| e.address).find(|a| counts.get(a) == Some(most))
    }

    /// Entries are in the order of their coming.
    fn evict(&mut self, address: IpAddr) {
        if let Some(at) = self.open.iter().position(|e| e.address == address) {
            self.open.remove(at);
        }
    }
}

#[cfg(test)]
#[path = "door/tests.rs"]
mod tests;
