//! The node's serving certificate: minted at the first start, kept through changes of owner, destroyed by a reset.
//!
//! The key is written first. Half a pair, or two halves that do not belong together, is what a crash can leave: both are minted
//! again then, and whoever had pinned the old one has to look at the console.

use muster_core::UtcTime;
use muster_sys::state::{Durability, StateDir};
use muster_sys::system;
use muster_tls::Serving;

use super::disk::{self, Disk};

const KEY: &str = "server.key";
const CERTIFICATE: &str = "server.crt";
/// Longest file of the two.
const MAX: u64 = 64 * 1024;

/// The pair on disk, or a new one. The second is why a pair that was there is not used.
///
/// # Errors
/// One line.
pub(super) fn load_or_mint(disk: &Disk, now: UtcTime) -> Result<(Serving, Option<String>), String> {
    let certificate = disk::text_of(disk.api.read_shared(CERTIFICATE, MAX), CERTIFICATE)?;
    let why = match (certificate, disk::read_text(&disk.api, KEY, MAX)?) {
        (Some(certificate), Some(key)) => match Serving::open(&certificate, &key) {
            Ok(serving) => return Ok((serving, None)),
            Err(e) => Some(format!("{CERTIFICATE} and {KEY} are no pair: {e}")),
        },
        (Some(_), None) => Some(format!("{KEY} is missing")),
        // The key alone is a first start that was cut short.
        (None, _) => None,
    };
    Ok((mint(disk, now)?, why))
}

/// A new pair, over whatever is there.
///
/// # Errors
/// One line; a pair that is no longer whole is minted anew at the next start.
pub(super) fn mint(disk: &Disk, now: UtcTime) -> Result<Serving, String> {
    let serial = system::random_128().map_err(|e| e.line())?;
    let addresses = muster_sys::net::addresses(&disk.places().at("/proc"));
    let serving = Serving::make(&host_name(disk), &addresses, now, serial).map_err(|e| e.to_string())?;
    let (certificate, key) = serving.to_pem();
    let line = |e: muster_sys::SysError| e.line();
    disk.api.remove_durably(CERTIFICATE).map_err(line)?;
    disk.api.replace(KEY, key.as_bytes(), Durability::Durable).map_err(line)?;
    disk.api.replace_shared(CERTIFICATE, certificate.as_bytes(), Durability::Durable).map_err(line)?;
    Ok(serving)
}

/// Removes the pair; the certificate first, so that a crash leaves half.
///
/// # Errors
/// One line.
pub(super) fn remove(api: &StateDir) -> Result<(), String> {
    [CERTIFICATE, KEY].iter().try_for_each(|name| api.remove_durably(name).map_err(|e| e.line()))
}

/// The node's own name, where it has one that says anything (hostname(5)).
pub(super) fn host_name(disk: &Disk) -> String {
    let text = |path: &str| std::fs::read_to_string(disk.places().at(path)).unwrap_or_default();
    [text("/proc/sys/kernel/hostname"), text("/etc/hostname")]
        .iter()
        .map(|t| t.trim().to_owned())
        .find(|t| is_name(t))
        .unwrap_or_else(|| "muster-node".to_owned())
}

fn is_name(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    (1..=64).contains(&text.len())
        && text.bytes().all(plain)
        && !text.starts_with(['-', '.'])
        && !text.ends_with(['-', '.'])
        && !matches!(text, "localhost" | "localhost.localdomain" | "(none)")
}
