//! The list of revoked clients that the node took from its owner (M18).
//!
//! No list is a state of its own: none was issued. Once one was taken under an authority it is required under that authority. On
//! disk: `crl.json` says which list it must be (authority, number, digest) and is written before the list takes effect, so that a
//! number never falls; `crl.der` is the list; `crl.next` is it until the head names it.
//!
//! ```text
//! crl.next ──▶ crl.json (commit) ──▶ crl.der ──▶ crl.next removed
//! ```

use std::sync::Arc;

use muster_api::Fault;
use muster_core::UtcTime;
use muster_sys::state::Durability;
use muster_tls::{OperatorCa, RevocationList};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::disk::{self, Disk};
use super::owner::Revocation;
use super::step;
use crate::say;

const HEAD: &str = "crl.json";
const LIST: &str = "crl.der";
const NEXT: &str = "crl.next";
/// Longest list, in bytes.
const MAX: u64 = 4 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    authority: String,
    number: String,
    sha256: String,
}

/// What the node holds.
#[derive(Clone)]
pub(super) enum Held {
    /// None was ever taken under this authority.
    None,
    /// This one.
    List(Arc<RevocationList>),
    /// One was taken and is not to be had. Why.
    Lost(String),
}

impl Held {
    /// The list to judge by.
    pub(super) fn list(&self) -> Option<Arc<RevocationList>> {
        match self {
            Self::List(list) => Some(Arc::clone(list)),
            Self::None | Self::Lost(_) => None,
        }
    }

    /// Its number, or nothing.
    pub(super) fn number(&self) -> &str {
        match self {
            Self::List(list) => list.number(),
            Self::None | Self::Lost(_) => "",
        }
    }

    /// For the state of the node.
    pub(super) fn told(&self, now: UtcTime) -> Revocation {
        match self {
            Self::None => Revocation::None,
            Self::Lost(why) => Revocation::Lost(why.clone()),
            Self::List(list) => Revocation::List {
                number: list.number().to_owned(),
                revoked: list.revoked(),
                next_update: list.next_update(),
                ended: list.next_update().is_some_and(|end| end <= now),
            },
        }
    }
}

/// What lies on the disk for this authority.
pub(super) fn load(disk: &Disk, ca: &OperatorCa) -> Held {
    match disk::read_json::<Head>(&disk.api, HEAD) {
        Err(why) => Held::Lost(why),
        Ok(None) => match disk.api.has(LIST) {
            Ok(false) => Held::None,
            Ok(true) => Held::Lost(format!("{LIST} is there without {HEAD}")),
            Err(e) => Held::Lost(e.line()),
        },
        // Of an owner before: its lists say nothing of this one's clients.
        Ok(Some(head)) if head.authority != ca.fingerprint().to_string() => Held::None,
        Ok(Some(head)) => found(disk, ca, &head),
    }
}

fn found(disk: &Disk, ca: &OperatorCa, head: &Head) -> Held {
    let read = |name: &str| disk.api.read(name, MAX).ok().filter(|bytes| digest(bytes) == head.sha256);
    let (bytes, next) = match (read(LIST), read(NEXT)) {
        (Some(bytes), _) => (bytes, false),
        (None, Some(bytes)) => (bytes, true),
        (None, None) => {
            return Held::Lost(format!(
                "{LIST} is missing or is not the list {} that was taken last",
                head.number
            ));
        }
    };
    match RevocationList::read(&bytes, ca) {
        Ok(list) => {
            if next {
                // It is good as it lies there; a start after this one does it again.
                let _ = place(disk, &bytes);
            }
            Held::List(Arc::new(list))
        }
        Err(e) => Held::Lost(format!("{LIST}: {e}")),
    }
}

/// Reads a list that this authority signed.
///
/// # Errors
/// 400 `bad-crl`.
pub(super) fn read(ca: &OperatorCa, bytes: &[u8]) -> Result<RevocationList, Fault> {
    RevocationList::read(bytes, ca).map_err(|e| Fault::bad("bad-crl", format!("the revocation list: {e}")))
}

/// Takes a list of this authority, durably, before anybody is judged by it.
///
/// # Errors
/// 409 `crl-number`: it is older than the last one, or another one of its number. 500.
pub(super) fn take(disk: &Disk, ca: &OperatorCa, list: RevocationList) -> Result<Held, Fault> {
    let sha256 = digest(list.der());
    // What cannot be read is no number: then any list of the authority is one more than none.
    let head = disk::read_json::<Head>(&disk.api, HEAD).unwrap_or_default();
    if let Some(head) = head.filter(|h| h.authority == ca.fingerprint().to_string()) {
        let same = list.number() == head.number && sha256 == head.sha256;
        if !same && !list.is_after(&head.number) {
            return Err(older(&list, &head));
        }
    }
    let failed = |e: String| Fault::failed("disk", format!("the revocation list was not taken: {e}"));
    let durable = |name: &str, bytes: &[u8]| {
        disk.api.replace(name, bytes, Durability::Durable).map_err(|e| failed(e.line()))
    };
    durable(NEXT, list.der())?;
    step::reached("crl-next");
    let head = Head { authority: ca.fingerprint().to_string(), number: list.number().to_owned(), sha256 };
    disk::write_json(&disk.api, HEAD, &head, Durability::Durable).map_err(failed)?;
    step::reached("crl-head");
    // The head stands: this list is in force whatever happens to the copy in its place.
    if let Err(e) = place(disk, list.der()) {
        say::warning(&format!("the revocation list is taken and lies in {NEXT}: {e}"));
    }
    Ok(Held::List(Arc::new(list)))
}

fn older(list: &RevocationList, head: &Head) -> Fault {
    let why = if list.number() == head.number {
        format!("list {} was taken already, and this is another one of that number", head.number)
    } else {
        format!("it has number {}, and list {} was taken already", list.number(), head.number)
    };
    Fault::state("crl-number", format!("the revocation list: {why}"))
        .fix("Send the newest list that the authority made; `muster pki revoke` numbers them upwards.")
}

fn place(disk: &Disk, bytes: &[u8]) -> Result<(), String> {
    disk.api.replace(LIST, bytes, Durability::Durable).map_err(|e| e.line())?;
    step::reached("crl-placed");
    disk.api.remove(NEXT).map_err(|e| e.line())
}

/// Drops list and number: the authority is another, or none. The list first, whose head then is the only thing that a crash leaves.
///
/// # Errors
/// One line.
pub(super) fn drop_all(disk: &Disk) -> Result<(), String> {
    [NEXT, LIST, HEAD].iter().try_for_each(|name| disk.api.remove_durably(name).map_err(|e| e.line()))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}
