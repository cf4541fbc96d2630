//! The node's document: where it was found, and what it says.
//!
//! The search is [`muster_document::sources`]'; here are the files. Nothing is fetched from a network: the core has none. A pointer to
//! a URL ends the search with a fault that says so, since to go on would let another document answer for it.

use std::path::Path;

use muster_core::UtcTime;
use muster_document::sources::{self, Pointer, Source};
use muster_document::{Document, read, read_embedded};
use muster_sys::file::Root;
use muster_tls::OperatorCa;

use super::disk::{Disk, text_of, trusted};
use crate::places::Places;

/// Longest document, in bytes.
pub const MAX: u64 = 1 << 20;
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
    find_in(disk.places(), judged)
}

/// The same for whoever has no state open.
///
/// # Errors
/// As [`find`].
pub fn find_in(places: &Places, judged: Judged) -> Result<Option<Found>, String> {
    let root = trusted(places)?;
    for source in Source::ALL {
        if let Some(found) = look(&root, source, judged)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn look(root: &Root, source: Source, judged: Judged) -> Result<Option<Found>, String> {
    let path = match source {
        Source::File => Source::FILE.to_owned(),
        Source::CloudInit => Source::CLOUD_INIT.to_owned(),
        Source::Image => Source::IMAGE.to_owned(),
        Source::KernelCommandLine => match pointed_at(root)? {
            None => return Ok(None),
            Some(path) => path,
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

fn pointed_at(root: &Root) -> Result<Option<String>, String> {
    let Some(line) = text(root, "/proc/cmdline", MAX_COMMAND_LINE)? else { return Ok(None) };
    match sources::pointer(&line)? {
        None => Ok(None),
        Some(Pointer::File(path)) => Ok(Some(path)),
        Some(Pointer::Url(_)) => Err(format!(
            "{} names a URL, and this build fetches no document; put it on the machine and name its path",
            Source::KernelCommandLine
        )),
    }
}

/// A trusted text file, if it is there.
///
/// # Errors
/// One line.
pub fn text(root: &Root, path: &str, max: u64) -> Result<Option<String>, String> {
    text_of(root.read(Path::new(path), max), path)
}
