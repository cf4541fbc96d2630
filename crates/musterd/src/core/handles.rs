//! Clients that the core judged, and the names by which the edge calls for them.
//!
//! A handle is 128 random bits, of one link, for one connection of one client. Who it is, was decided once, here, by evidence; the
//! edge can choose among handles and cannot say who one is. A handle ends with its connection, with its link, with its
//! certificate, and when the trust changes and its client would not be let in again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use muster_core::UtcTime;
use muster_tls::Client;

/// More connections than the edge takes.
pub const MAX_HANDLES: usize = 1024;

/// See the module.
pub struct Handle {
    /// 32 hex digits.
    pub id: String,
    /// Who it is.
    pub client: Client,
    /// Its certificate, DER: for a judgement anew, and for what it signs.
    pub certificate: Vec<u8>,
    /// Where from, as the edge says.
    pub address: String,
    /// The state of trust that it was last judged under.
    pub judged_by: AtomicU64,
    dead: AtomicBool,
}

impl Handle {
    /// A client that was judged under this state of trust.
    ///
    /// # Errors
    /// The system gave no random numbers.
    pub fn new(
        client: Client,
        certificate: Vec<u8>,
        address: String,
        judged_by: u64,
    ) -> Result<Self, muster_sys::SysError> {
        let id = muster_sys::system::random_128()?.iter().map(|b| format!("{b:02x}")).collect();
        let (judged_by, dead) = (AtomicU64::new(judged_by), AtomicBool::new(false));
        Ok(Self { id, client, certificate, address, judged_by, dead })
    }

    /// Whether it may be used no more; also by what it began.
    pub fn is_dead(&self, now: UtcTime) -> bool {
        self.dead.load(Ordering::Acquire) || self.client.not_after < now
    }

    fn end(&self) {
        self.dead.store(true, Ordering::Release);
    }
}

/// The handles of one link.
#[derive(Default)]
pub struct Handles {
    all: Mutex<HashMap<String, Arc<Handle>>>,
}

impl Handles {
    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Handle>>> {
        // Each change is one call of the map's.
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one in, unless there are too many.
    pub fn put(&self, handle: Arc<Handle>) -> bool {
        let mut all = self.all();
        let room = all.len() < MAX_HANDLES;
        if room {
            all.insert(handle.id.clone(), handle);
        }
        room
    }

    /// The one of this name.
    pub fn get(&self, id: &str) -> Option<Arc<Handle>> {
        self.all().get(id).cloned()
    }

    /// Ends one.
    pub fn end(&self, id: &str) -> bool {
        let handle = self.all().remove(id);
        handle.is_some_and(|h| {
            h.end();
            true
        })
    }

    /// Ends all.
    pub fn end_all(&self) {
        self.all().drain().for_each(|(_, h)| h.end());
    }

    /// All of them now.
    pub fn list(&self) -> Vec<Arc<Handle>> {
        self.all().values().cloned().collect()
    }
}

impl Drop for Handles {
    fn drop(&mut self) {
        self.end_all();
    }
}
