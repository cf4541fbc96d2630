//! The node's document: where it was found, and what it says.
//!
//! The search is [`muster_document::sources`]'; here are the files. A document that `muster.config=` names by a URL is fetched once a
//! boot, by the core's start ([`fetch_pointed`]), and lies below [`VOLATILE`](crate::places::VOLATILE) from then on: whoever looks in
//! this boot finds that one, the bootstrap too. One that could not be fetched ends the search with a fault, since to go on would let another
//! document answer for it; so does one that will not do, which is not kept, so that the next start asks again.

use std::path::Path;

use muster_core::UtcTime;
use muster_document::sources::{self, Pointer, Source};
use muster_document::{Document, read, read_embedded};
use muster_sys::clock;
use muster_sys::file::Root;
use muster_sys::state::Durability;
use muster_tls::OperatorCa;
use serde::{Deserialize, Serialize};

use super::disk::{self, Disk, text_of};
use super::fetching::{Bounds, Fetched, fetch};
use super::owner::Patience;
use super::source::shown;
use super::waiting;

/// Longest document, in bytes.
pub const MAX: u64 = 1 << 20;
/// The same of one that is fetched.
const MAX_FETCHED: u32 = 1 << 20;
/// The document of this boot that was fetched.
const FETCHED: &str = "document.json";
/// The kernel's own bound of a command line is far below.
const MAX_COMMAND_LINE: u64 = 64 * 1024;

/// A document and where it was found.
pub struct Found {
    /// For messages.
    pub from: String,
    /// What it says.
    pub document: Document,
}

/// How strictly an authority in a document is judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Judged {
    /// As one that is to be obeyed from now on: it must not have ended.
    Now(UtcTime),
    /// As one that a node with an owner passes over: its end is no reason not to read the document.
    Read,
}

impl Judged {
    fn check(self, pem: &str) -> Result<(), String> {
        let judged = match self {
            Self::Now(now) => OperatorCa::from_pem(pem, now),
            Self::Read => muster_tls::one_certificate(pem).and_then(OperatorCa::from_der),
        };
        judged.map(drop).map_err(|e| e.to_string())
    }
}

/// Reads one text as a document.
///
/// # Errors
/// Every fault, in one line.
pub fn parse(text: &str, shown: &str, judged: Judged) -> Result<Option<Document>, String> {
    told(read(text, &|pem| judged.check(pem)), shown)
}

fn told<T>(read: Result<T, Vec<muster_document::yaml::Fault>>, shown: &str) -> Result<T, String> {
    read.map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        format!("{shown}: {}", faults.join("; "))
    })
}

/// The first document in the order of the search; `None` where no source has one.
///
/// # Errors
/// One line: the first source that fails for another reason than absence.
pub fn find(disk: &Disk, judged: Judged) -> Result<Option<Found>, String> {
    let root = disk.root()?;
    for source in Source::ALL {
        if let Some(found) = look(disk, &root, source, judged)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn look(disk: &Disk, root: &Root, source: Source, judged: Judged) -> Result<Option<Found>, String> {
    let path = match source {
        Source::File => Source::FILE.to_owned(),
        Source::CloudInit => Source::CLOUD_INIT.to_owned(),
        Source::Image => Source::IMAGE.to_owned(),
        Source::KernelCommandLine => match pointed_at(root)? {
            None => return Ok(None),
            Some(Pointer::File(path)) => path,
            Some(Pointer::Url(url)) => return kept(disk, &url, judged),
        },
    };
    let text = match text(root, &path, MAX)? {
        Some(text) => text,
        None if source == Source::KernelCommandLine => {
            return Err(format!("{source} names {path}, which does not exist"));
        }
        None => return Ok(None),
    };
    let document = if source.is_embedded_only() {
        told(read_embedded(&text, &|pem| judged.check(pem)), &path)?
    } else {
        parse(&text, &path, judged)?
    };
    Ok(document.map(|document| Found { from: path, document }))
}

fn pointed_at(root: &Root) -> Result<Option<Pointer>, String> {
    let Some(line) = text(root, "/proc/cmdline", MAX_COMMAND_LINE)? else { return Ok(None) };
    sources::pointer(&line)
}

/// What was fetched in this boot, and from where.
#[derive(Serialize, Deserialize)]
struct Kept {
    url: String,
    /// In which boot; of none, where an older version wrote it. Nobody but the core can tell: the kernel's id of a boot is not the same to each unit of a container.
    #[serde(default)]
    boot: String,
    text: String,
}

impl Kept {
    fn read(disk: &Disk, url: &str) -> Result<Option<Self>, String> {
        let kept: Option<Self> = disk::read_json(&disk.run, FETCHED)?;
        Ok(kept.filter(|kept| kept.url == url))
    }
}

fn kept(disk: &Disk, url: &str, judged: Judged) -> Result<Option<Found>, String> {
    let source = Source::KernelCommandLine;
    match Kept::read(disk, url)? {
        Some(kept) => {
            let document = parse(&kept.text, shown(url), judged)?;
            Ok(document.map(|document| Found { from: shown(url).to_owned(), document }))
        }
        None => Err(format!(
            "{source} names {}, which was not fetched in this boot; musterd-core fetches it when it starts",
            shown(url)
        )),
    }
}

/// Fetches the document that `muster.config=` names by a URL, where the search comes to it and it was not fetched in this boot. `false`:
/// told to end meanwhile.
///
/// # Errors
/// One line. The search has the same fault then, or a better one.
pub fn fetch_pointed(disk: &Disk, judged: Judged, patience: Patience<'_>) -> Result<bool, String> {
    let root = disk.root()?;
    for source in [Source::File, Source::CloudInit] {
        if look(disk, &root, source, judged)?.is_some() {
            return Ok(true);
        }
    }
    let Some(Pointer::Url(url)) = pointed_at(&root)? else { return Ok(true) };
    let named = |why: &str| format!("{}: {}: {why}", Source::KernelCommandLine, shown(&url));
    // It may hold what is not to be on a disk, and the bootstrap, which cannot tell of which boot it is, finds it there.
    if !disk.is_volatile()? {
        return Err(named(
            "it is kept in /run for this boot, which is not in memory here; mount a tmpfs there",
        ));
    }
    let boot = clock::this_boot().map_err(|e| named(&e.line()))?;
    match Kept::read(disk, &url)? {
        Some(kept) if kept.boot == boot => return Ok(true),
        // Memory can outlive a boot: of a container that is started anew with the same mount.
        Some(_) => disk.run.remove(FETCHED).map_err(|e| named(&e.line()))?,
        None => {}
    }
    waiting::tell(&format!("fetches the node's document from {}", shown(&url)));
    let bounds = Bounds { bearer: None, max: MAX_FETCHED, longest: None };
    let bytes = match fetch(disk, &url, &bounds, patience) {
        Fetched::Got(bytes) => bytes,
        Fetched::Not { why, .. } => return Err(named(&why)),
        Fetched::Late => return Err(named("nobody answered")),
        Fetched::Ended => return Ok(false),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| named("it answers no text (UTF-8)"))?.to_owned();
    parse(&text, shown(&url), judged)?;
    disk::write_json(&disk.run, FETCHED, &Kept { url, boot, text }, Durability::Volatile)?;
    Ok(true)
}

/// A trusted text file, if it is there.
///
/// # Errors
/// One line.
pub fn text(root: &Root, path: &str, max: u64) -> Result<Option<String>, String> {
    text_of(root.read(Path::new(path), max), path)
}
