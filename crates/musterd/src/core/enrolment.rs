//! The pairing code of this boot and its tries, in `places::ENROLMENT`: as durable as the boot, so that neither a crash of the core
//! nor `kill -9` gives a try back.
//!
//! What is missing, damaged, implausible or of another boot is begun afresh; no tries left in a sound file stay none.

use std::net::IpAddr;

use muster_pairing::Code;
use muster_pairing::door::{Ledger, TRIES};
use muster_sys::state::Durability;
use muster_sys::system;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use super::disk::{self, Disk};

/// Its name in [`crate::places::VOLATILE`].
const FILE: &str = "enrolment.json";
/// Addresses that are remembered.
const MAX_SPENT: usize = 8;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    code: String,
    tries: u8,
    boot: String,
    #[serde(default)]
    spent: Vec<IpAddr>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.code.zeroize();
    }
}

/// The code of this boot.
pub(super) struct Session {
    code: Code,
    tries: u8,
    boot: String,
    spent: Vec<IpAddr>,
}

impl Session {
    /// The one on disk, or a new one.
    ///
    /// # Errors
    /// One line: it cannot be written.
    pub(super) fn load_or_mint(disk: &Disk) -> Result<Self, String> {
        let boot = boot()?;
        let kept: Option<Kept> = disk::read_json(&disk.run, FILE).unwrap_or_default();
        let kept = kept.filter(|k| k.boot == boot && k.tries <= TRIES && k.spent.len() <= MAX_SPENT);
        match kept.and_then(|k| Code::parse(&k.code).ok().map(|code| (code, k.tries, k.spent.clone()))) {
            Some((code, tries, spent)) => Ok(Self { code, tries, boot, spent }),
            None => Self::mint(disk),
        }
    }

    /// A new code with all its tries.
    ///
    /// # Errors
    /// One line: it cannot be written.
    pub(super) fn mint(disk: &Disk) -> Result<Self, String> {
        let random = system::random_128().map_err(|e| e.line())?;
        let (head, _) = random.split_first_chunk::<8>().ok_or("eight random bytes")?;
        let session = Self { code: Code::from_random(*head), tries: TRIES, boot: boot()?, spent: Vec::new() };
        session.save(disk)?;
        Ok(session)
    }

    /// The code.
    pub(super) const fn code(&self) -> &Code {
        &self.code
    }

    /// What is left.
    pub(super) const fn tries(&self) -> u8 {
        self.tries
    }

    /// Who spent tries, the newest last.
    pub(super) fn spent(&self) -> &[IpAddr] {
        &self.spent
    }

    /// Remembers who spent one.
    pub(super) fn note(&mut self, address: IpAddr, disk: &Disk) {
        self.spent.retain(|a| *a != address);
        if self.spent.len() >= MAX_SPENT {
            self.spent.remove(0);
        }
        self.spent.push(address);
        // Only for people; the tries were written before.
        let _ = self.save(disk);
    }

    /// The tries as a ledger.
    pub(super) const fn ledger<'l>(&'l mut self, disk: &'l Disk) -> Tries<'l> {
        Tries { session: self, disk }
    }

    fn save(&self, disk: &Disk) -> Result<(), String> {
        let kept = Kept {
            code: self.code.expose(),
            tries: self.tries,
            boot: self.boot.clone(),
            spent: self.spent.clone(),
        };
        // A tmpfs: there is nothing below it that a crash of the machine would leave.
        disk::write_json(&disk.run, FILE, &kept, Durability::Volatile)
    }
}

/// Removes the code of a node that has an owner.
///
/// # Errors
/// One line.
pub(super) fn remove(disk: &Disk) -> Result<(), String> {
    disk.run.remove(FILE).map_err(|e| e.line())
}

fn boot() -> Result<String, String> {
    muster_sys::clock::this_boot().map_err(|e| e.line())
}

/// See [`Session::ledger`].
pub(super) struct Tries<'l> {
    session: &'l mut Session,
    disk: &'l Disk,
}

impl Ledger for Tries<'_> {
    type Error = String;

    fn tries(&self) -> u8 {
        self.session.tries
    }

    fn store(&mut self, tries: u8) -> Result<(), String> {
        let before = std::mem::replace(&mut self.session.tries, tries);
        self.session.save(self.disk).inspect_err(|_| self.session.tries = before)
    }
}
