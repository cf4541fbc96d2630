//! The change of owner, on disk.
//!
//! `operator-ca.pem` is the owner: its rename is the commit. What belongs to it (how it came about, and the document that came along)
//! lies in `pending.json` before, so that a crash leaves either the old state whole, or what the next start completes:
//!
//! ```text
//! pending.json ──▶ operator-ca.pem (commit) ──▶ document to its place ──▶ claim.json ──▶ pending.json removed
//! ```
//!
//! A pending change whose authority is not the pinned one never happened, and is removed. So a document that came with a claim takes
//! its place only when the claim holds: a document without an `api:` block would else release a node that nobody owns.

use muster_core::UtcTime;
use muster_sys::state::Durability;
use muster_tls::{OperatorCa, to_pem};
use serde::{Deserialize, Serialize};

use super::disk::{self, Disk};
use super::{documents, hold, step};
use crate::say;

const AUTHORITY: &str = "operator-ca.pem";
/// The one before, for people at the console only; never trusted.
const PREVIOUS: &str = "operator-ca.prev.pem";
const RECORD: &str = "claim.json";
const PENDING: &str = "pending.json";
/// The machine's document as it was before anybody wrote one through us; empty where there was none.
const BEFORE: &str = "config.before.yaml";
const DOCUMENT: &str = "config.yaml";
/// Longest authority, in bytes.
const MAX_AUTHORITY: u64 = 64 * 1024;

/// How an owner came to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Method {
    /// A document named it.
    Configuration,
    /// It knew the code.
    PairingCode,
    /// It came first.
    Open,
    /// The owner before, or root at the console, made it the owner.
    Rotation,
}

impl Method {
    /// As it is written.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::PairingCode => "pairing-code",
            Self::Open => "open",
            Self::Rotation => "rotation",
        }
    }
}

/// How the node came to its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// How.
    pub method: Method,
    /// When, `YYYY-MM-DDThh:mm:ssZ`.
    pub at: String,
    /// Whoever came first got it, this owner or one before: only a reset clears it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tainted: bool,
}

impl Record {
    /// A record of now, after another.
    pub(super) fn new(method: Method, at: UtcTime, before: Option<&Self>) -> Self {
        let tainted = method == Method::Open || before.is_some_and(|b| b.tainted);
        Self { method, at: at.to_string(), tainted }
    }
}

#[derive(Serialize, Deserialize)]
struct Pending {
    /// Fingerprint of the owner to be.
    authority: String,
    record: Record,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    document: Option<String>,
}

/// The pinned authority.
///
/// # Errors
/// One line: it is there and cannot be used.
pub(super) fn authority(disk: &Disk) -> Result<Option<OperatorCa>, String> {
    let shown = disk.api.path().join(AUTHORITY);
    let text = match disk.api.read_shared(AUTHORITY, MAX_AUTHORITY) {
        Ok(text) => text,
        Err(e) if e.is_missing() => return Ok(None),
        Err(e) => return Err(e.to_string()),
    };
    let bad =
        |e: String| format!("{}: {e}; put the owner's certificate there again, as root", shown.display());
    let text = String::from_utf8(text).map_err(|_| bad("it is no text".to_owned()))?;
    let ca = muster_tls::one_certificate(&text).and_then(OperatorCa::from_der);
    ca.map(Some).map_err(|e| bad(e.to_string()))
}

/// How the pinned authority came to be; `None` where nobody wrote it down, or where that cannot be read.
pub(super) fn record(disk: &Disk) -> Option<Record> {
    let text = disk.api.read_shared(RECORD, MAX_AUTHORITY).ok()?;
    serde_json::from_slice(&text).ok()
}

/// Makes `ca` the owner, and says what went wrong after that was done.
///
/// # Errors
/// One line; the owner is as it was.
pub(super) fn commit(
    disk: &Disk,
    ca: &OperatorCa,
    record: Record,
    document: Option<String>,
) -> Result<Vec<String>, String> {
    let pending = Pending { authority: ca.fingerprint().to_string(), record, document };
    disk::write_json(&disk.api, PENDING, &pending, Durability::Durable)?;
    step::reached("pending");
    let pem = to_pem("CERTIFICATE", ca.der());
    if let Err(e) = disk.api.replace_shared(AUTHORITY, pem.as_bytes(), Durability::Durable) {
        // The rename may be done and only its fsync refused: what the disk shows decides.
        if !authority(disk).is_ok_and(|now| now.as_ref() == Some(ca)) {
            // It is passed over at the next start, too.
            let _ = disk.api.remove(PENDING);
            return Err(e.line());
        }
        say::warning(&format!("the owner is pinned, but perhaps not durably: {}", e.line()));
    }
    step::reached("pinned");
    Ok(finish(disk, &pending))
}

/// Completes or removes a change that a crash cut short.
///
/// # Errors
/// One line.
pub(super) fn recover(disk: &Disk, authority: Option<&OperatorCa>) -> Result<(), String> {
    let pending: Option<Pending> = match disk::read_json(&disk.api, PENDING) {
        Ok(pending) => pending,
        Err(e) => {
            say::warning(&format!("a change of owner that was cut short is passed over: {e}"));
            None
        }
    };
    match pending {
        Some(p) if authority.is_some_and(|ca| ca.fingerprint().to_string() == p.authority) => {
            finish(disk, &p).iter().for_each(|w| say::warning(w));
            Ok(())
        }
        _ => {
            disk.api.remove_durably(PENDING).map_err(|e| e.line())?;
            // A record without an owner is of one that was forgotten halfway.
            if authority.is_none() { disk.api.remove_durably(RECORD).map_err(|e| e.line()) } else { Ok(()) }
        }
    }
}

/// Whether a change is not complete: the document that came with it may not be in its place, and nothing is to be built by another.
pub(super) fn is_pending(disk: &Disk) -> bool {
    disk.api.has(PENDING).unwrap_or(true)
}

fn finish(disk: &Disk, pending: &Pending) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(document) = &pending.document
        && let Err(e) = place_document(disk, document)
    {
        warnings.push(format!("the document could not be put in its place, the next start tries again: {e}"));
    }
    step::reached("document");
    let text = serde_json::to_vec(&pending.record).unwrap_or_default();
    if let Err(e) = disk.api.replace_shared(RECORD, &text, Durability::Durable) {
        warnings.push(format!("how the node was claimed could not be written down: {}", e.line()));
    }
    step::reached("record");
    if warnings.is_empty()
        && let Err(e) = disk.api.remove_durably(PENDING)
    {
        warnings.push(e.line());
    }
    step::reached("finished");
    warnings
}

/// Writes the machine's document, and says so for this boot. What was there before us is kept, for a reset.
///
/// # Errors
/// One line.
pub(super) fn place_document(disk: &Disk, document: &str) -> Result<(), String> {
    if !disk.api.has(BEFORE).map_err(|e| e.line())? {
        let before = documents::text(&disk.root()?, crate::places::DOCUMENT, documents::MAX)?;
        let before = before.unwrap_or_default();
        disk.api.replace(BEFORE, before.as_bytes(), Durability::Durable).map_err(|e| e.line())?;
    }
    disk.etc.replace(DOCUMENT, document.as_bytes(), Durability::Durable).map_err(|e| e.line())?;
    hold::describe(disk)
}

/// Keeps the owner before for people at the console.
///
/// # Errors
/// One line.
pub(super) fn keep_previous(disk: &Disk, ca: &OperatorCa) -> Result<(), String> {
    let pem = to_pem("CERTIFICATE", ca.der());
    disk.api.replace_shared(PREVIOUS, pem.as_bytes(), Durability::Durable).map_err(|e| e.line())
}

/// Forgets the owner, and gives the machine the document that it had before it had one. Right when it is done again.
///
/// # Errors
/// One line; doing it again goes on.
pub(super) fn forget(disk: &Disk) -> Result<(), String> {
    let remove = |name| disk.api.remove_durably(name).map_err(|e| e.line());
    remove(PENDING)?;
    if let Some(before) = disk::read_text(&disk.api, BEFORE, documents::MAX)? {
        if before.is_empty() {
            disk.etc.remove_durably(DOCUMENT).map_err(|e| e.line())?;
        } else {
            let bytes = before.as_bytes();
            disk.etc.replace(DOCUMENT, bytes, Durability::Durable).map_err(|e| e.line())?;
        }
    }
    remove(AUTHORITY)?;
    step::reached("unowned");
    remove(RECORD)?;
    remove(PREVIOUS)?;
    remove(BEFORE)
}
