//! The folder of an operators' authority.
//!
//! | file | what |
//! |---|---|
//! | `operator-ca.pem` | the certificate; public, goes to nodes |
//! | `operator-ca.key` | its key, PKCS#8, encrypted unless asked otherwise |
//! | `issued/SERIAL.pem` | every certificate that was issued; written before the client gets it, so that none is forgotten |
//! | `clients/NAME.pem`, `clients/NAME.key` | a client's halves, to be handed over |
//! | `revoked.json` | what is revoked, and the number of the last list |
//! | `operator-ca.crl` | the list as nodes take it |

pub mod keyfile;

use crate::codes::Own;
use crate::fault::Fault;
use crate::files;
use crate::locks::{self, Held};
use crate::printer;
use crate::terminal::Passphrases;
use muster_core::UtcTime;
use muster_tls::{Authority, Client, OperatorCa, Revoked};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Longest file of the folder but the revocations.
const MAX_PEM: usize = 64 * 1024;
const MAX_REVOKED: usize = 8 * 1024 * 1024;

/// An authority's folder.
#[derive(Debug)]
pub struct Folder<'f>(pub &'f Path);

/// `revoked.json`
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocations {
    /// The number of the last list that was signed; 0 is none.
    pub number: u64,
    /// Serial number (hex) and since when (seconds since 1970).
    pub revoked: BTreeMap<String, u64>,
}

impl Revocations {
    /// Reads the file's text; every serial number is hex as it is written here.
    pub fn parse(text: &str) -> Result<Self, String> {
        let read: Self = serde_json::from_str(text).map_err(|e| shown(&e))?;
        let plain = |s: &str| {
            (2..=40).contains(&s.len())
                && s.len().is_multiple_of(2)
                && s.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        match read.revoked.keys().find(|s| !plain(s) || s.starts_with("00")) {
            Some(bad) => Err(format!("{bad:?} is no serial number")),
            None => Ok(read),
        }
    }

    /// The file's text.
    pub fn render(&self) -> String {
        // A map of texts to numbers is JSON whatever is in it.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// As the authority signs them.
    pub fn all(&self) -> Vec<Revoked> {
        let one =
            |(serial, at): (&String, &u64)| Revoked { serial: serial.clone(), at: UtcTime::from_unix(*at) };
        self.revoked.iter().map(one).collect()
    }
}

/// serde's words, which quote a member that it does not know: as long as it is, and raw.
fn shown(error: &serde_json::Error) -> String {
    const MOST: usize = 120;
    let text = error.to_string();
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short = format!("{short}… at line {} column {}", error.line(), error.column());
    }
    printer::clean(&short)
}

/// A fault of a certificate in a file.
pub fn bad(path: &Path, fault: &muster_tls::Fault) -> Fault {
    Fault::new(Own::PkiFile, format!("{} will not do", path.display())).why(fault.to_string())
}

impl Folder<'_> {
    /// The path of one of its files.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Waits until nobody else changes the list, and keeps others from it.
    pub fn hold(&self) -> Result<Held, Fault> {
        locks::take(&self.path("revoked.lock"), None, "Ctrl-C ends the waiting, and nothing was signed.")
    }

    /// The public half.
    pub fn ca(&self) -> Result<OperatorCa, Fault> {
        let path = self.path("operator-ca.pem");
        // What ended is told when something is signed with it; a list can still be read.
        OperatorCa::from_pem(&self.text(&path)?, UtcTime::from_unix(0)).map_err(|f| bad(&path, &f))
    }

    /// Both halves.
    pub fn authority(&self, passphrases: &Passphrases) -> Result<Authority, Fault> {
        let (certificate, key) = (self.path("operator-ca.pem"), self.path("operator-ca.key"));
        let text = self.text(&certificate)?;
        let key = keyfile::open(&key, passphrases)?;
        Authority::open(&text, &key).map_err(|f| bad(&certificate, &f))
    }

    fn text(&self, path: &Path) -> Result<String, Fault> {
        files::read_text(path, MAX_PEM).map_err(|fault| match fault.code {
            code if code == Own::FileMissing.into() => {
                fault.fix("Make an authority with `muster pki init`, or name its folder with --pki.")
            }
            _ => fault,
        })
    }

    /// What is revoked.
    pub fn revocations(&self) -> Result<Revocations, Fault> {
        let path = self.path("revoked.json");
        // A link that leads nowhere is not the same as nobody revoked.
        if files::is_absent(&path) {
            return Ok(Revocations::default());
        }
        let text = files::read_text(&path, MAX_REVOKED)?;
        Revocations::parse(&text).map_err(|why| {
            Fault::new(Own::PkiFile, format!("{} is not what `muster pki revoke` wrote", path.display()))
                .why(why)
                .fix("Restore it: without it a new list would forget who was revoked.")
        })
    }

    /// Every certificate that was issued, judged by the authority at its own time; ascending by name and end.
    pub fn issued(&self, ca: &OperatorCa) -> Result<Vec<Client>, Fault> {
        let folder = self.path("issued");
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Fault::io(&folder, "read", &e)),
        };
        let mut all = Vec::new();
        for entry in entries {
            let path = entry.map_err(|e| Fault::io(&folder, "read", &e))?.path();
            if path.extension().is_none_or(|e| e != "pem") {
                continue;
            }
            let text = files::read_text(&path, MAX_PEM)?;
            all.push(ca.described(&text).map_err(|f| bad(&path, &f))?);
        }
        all.sort_by(|a, b| (&a.name, a.not_after, &a.serial).cmp(&(&b.name, b.not_after, &b.serial)));
        Ok(all)
    }
}
