//! Binary key revocation lists (OpenSSH `PROTOCOL.krl`), reading only.
//!
//! Not taken: signed KRLs (OpenSSH never finished them, and 9.2 cannot make one), SHA-1
//! fingerprints (write `sha256:` lines instead), unknown sections, critical extensions.

use crate::{
    certificate::Certificate,
    wire::{Reader, WireFault},
};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

/// "SSHKRL\n\0"
pub(super) const MAGIC: &[u8] = b"SSHKRL\n\0";
const FORMAT: u32 = 1;

const CERTIFICATES: u8 = 1;
const EXPLICIT_KEY: u8 = 2;
const FINGERPRINT_SHA1: u8 = 3;
const SIGNATURE: u8 = 4;
const FINGERPRINT_SHA256: u8 = 5;
const EXTENSION: u8 = 255;

const SERIAL_LIST: u8 = 0x20;
const SERIAL_RANGE: u8 = 0x21;
const SERIAL_BITMAP: u8 = 0x22;
const KEY_ID: u8 = 0x23;
const CERT_EXTENSION: u8 = 0x39;

/// A whole KRL.
#[derive(Clone, Debug, Default)]
pub(super) struct Krl {
    digests: BTreeSet<[u8; 32]>,
    authorities: Vec<Revocations>,
}

/// What is revoked of one authority's certificates.
#[derive(Clone, Debug, Default)]
struct Revocations {
    /// Key blob; empty stands for every authority.
    authority: Vec<u8>,
    /// First and last.
    ranges: Vec<(u64, u64)>,
    /// Serial of the lowest bit, and the bits, most significant byte first. Kept as they came: spread
    /// out, a list could take a hundred times its size.
    bitmaps: Vec<(u64, Vec<u8>)>,
    key_ids: BTreeSet<String>,
}

impl Krl {
    pub(super) fn is_empty(&self) -> bool {
        self.digests.is_empty() && self.authorities.iter().all(Revocations::is_empty)
    }

    /// Whether a plain key is listed, explicitly or by its fingerprint.
    pub(super) fn lists_key(&self, blob: &[u8]) -> bool {
        self.digests.contains(&<[u8; 32]>::from(Sha256::digest(blob)))
    }

    /// Whether a certificate is listed by key id or serial. Serial 0 means that the issuer gave
    /// none and is never listed by number, as in OpenSSH.
    pub(super) fn lists_certificate(&self, cert: &Certificate) -> bool {
        self.authorities
            .iter()
            .filter(|r| r.authority.is_empty() || r.authority == cert.authority().blob())
            .any(|r| r.key_ids.contains(cert.key_id()) || (cert.serial() != 0 && r.lists(cert.serial())))
    }
}

impl Revocations {
    fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.bitmaps.is_empty() && self.key_ids.is_empty()
    }

    fn lists(&self, serial: u64) -> bool {
        self.ranges.iter().any(|(low, high)| (*low..=*high).contains(&serial))
            || self
                .bitmaps
                .iter()
                .any(|(offset, bits)| serial.checked_sub(*offset).and_then(|n| bit(bits, n)).unwrap_or(false))
    }
}

fn bit(bits: &[u8], n: u64) -> Option<bool> {
    let byte = usize::try_from(n / 8).ok()?;
    let at = bits.len().checked_sub(byte)?.checked_sub(1)?;
    Some(bits.get(at)? >> (n % 8) & 1 == 1)
}

pub(super) fn parse(file: &[u8]) -> Result<Krl, String> {
    let early = |_: WireFault| "ends early".to_owned();
    let mut r = Reader::new(file);
    r.take(MAGIC.len()).map_err(early)?;
    let format = r.u32().map_err(early)?;
    if format != FORMAT {
        return Err(format!("has format {format}; only {FORMAT} is known"));
    }
    // version, generated date, flags: they order lists, and there is only this one
    r.take(24).map_err(early)?;
    r.string().map_err(early)?; // reserved
    r.string().map_err(early)?; // comment
    let mut krl = Krl::default();
    while !r.is_empty() {
        let kind = r.u8().map_err(early)?;
        let body = r.string().map_err(early)?;
        section(&mut krl, kind, body)?;
    }
    Ok(krl)
}

fn section(krl: &mut Krl, kind: u8, body: &[u8]) -> Result<(), String> {
    let early = |_: WireFault| format!("has a section {kind} that ends early");
    let mut r = Reader::new(body);
    match kind {
        CERTIFICATES => krl.authorities.push(certificates(&mut r)?),
        EXPLICIT_KEY => {
            while !r.is_empty() {
                krl.digests.insert(Sha256::digest(r.string().map_err(early)?).into());
            }
        }
        FINGERPRINT_SHA256 => {
            while !r.is_empty() {
                let digest = r.string().map_err(early)?;
                krl.digests
                    .insert(digest.try_into().map_err(|_| "has a SHA-256 that is not 32 bytes".to_owned())?);
            }
        }
        FINGERPRINT_SHA1 => return Err("lists SHA-1 fingerprints; list SHA-256 ones instead".to_owned()),
        SIGNATURE => return Err("is signed, which is not supported".to_owned()),
        EXTENSION => extension(&mut r).map_err(early)?.then_some(()).ok_or("has a critical extension")?,
        other => return Err(format!("has a section of unknown type {other}")),
    }
    Ok(())
}

/// Whether an extension may be passed over.
fn extension(r: &mut Reader<'_>) -> Result<bool, WireFault> {
    r.string()?; // name
    let critical = r.u8()? != 0;
    r.string()?;
    if r.is_empty() { Ok(!critical) } else { Err(WireFault) }
}

fn certificates(r: &mut Reader<'_>) -> Result<Revocations, String> {
    let early = |_: WireFault| "has a certificate section that ends early".to_owned();
    let mut out = Revocations { authority: r.string().map_err(early)?.to_vec(), ..Revocations::default() };
    r.string().map_err(early)?; // reserved
    while !r.is_empty() {
        let kind = r.u8().map_err(early)?;
        let mut body = Reader::new(r.string().map_err(early)?);
        match kind {
            SERIAL_LIST => {
                while !body.is_empty() {
                    let serial = body.u64().map_err(early)?;
                    out.ranges.push((serial, serial));
                }
            }
            SERIAL_RANGE => {
                let range = (body.u64().map_err(early)?, body.u64().map_err(early)?);
                if range.0 > range.1 {
                    return Err("has a serial range that ends before it begins".to_owned());
                }
                out.ranges.push(range);
            }
            SERIAL_BITMAP => {
                let offset = body.u64().map_err(early)?;
                let bits = body.string().map_err(early)?;
                if bits.first().is_some_and(|b| b & 0x80 != 0) {
                    return Err("has a negative serial bitmap".to_owned());
                }
                out.bitmaps.push((offset, bits.to_vec()));
            }
            KEY_ID => {
                while !body.is_empty() {
                    out.key_ids.insert(body.text().map_err(early)?.to_owned());
                }
            }
            CERT_EXTENSION => {
                extension(&mut body).map_err(early)?.then_some(()).ok_or("has a critical extension")?
            }
            other => return Err(format!("has a certificate section of unknown type {other}")),
        }
        if !body.is_empty() {
            return Err("has bytes after the end of a certificate section".to_owned());
        }
    }
    Ok(out)
}
