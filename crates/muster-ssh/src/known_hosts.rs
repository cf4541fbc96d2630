//! `known_hosts` files (`sshd(8)`, SSH_KNOWN_HOSTS FILE FORMAT), read once and never written.
//!
//! Stricter than OpenSSH, on purpose: a line that cannot be read, or a marker that is not known,
//! refuses the whole file and names the line (OpenSSH skips it, and a skipped `@revoked` line is a
//! key that is trusted again); `[host]:port` is looked up for a port other than 22 and the bare name
//! is not tried after it.

use aws_lc_rs::{constant_time, hmac};
use base64ct::{Base64, Encoding as _};

use crate::fingerprint::{Fingerprint, KeyKind, blob_kind_name};
use crate::route::Address;
use crate::trust::{Authority, HostTrust, TrustFault, decode_blob};

/// A file of a fleet of 10,000 hosts with three keys each is about 6 MiB.
const MAX_FILE: usize = 16 << 20;
const MAX_LINE: usize = 96 * 1024;

/// A line that is not understood, or a file that is too large.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}:{line}: {why}")]
pub struct KnownHostsFault {
    /// What the file was called.
    pub source_name: String,
    /// From 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong.
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    None,
    Authority,
    Revoked,
}

#[derive(Clone, Debug)]
enum Names {
    Patterns(Vec<(bool, String)>),
    Hashed { salt: Vec<u8>, hash: Vec<u8> },
}

#[derive(Clone, Debug)]
struct Entry {
    marker: Marker,
    names: Names,
    blob: Vec<u8>,
}

/// A `known_hosts` file.
#[derive(Clone, Debug)]
pub struct KnownHosts {
    source_name: String,
    entries: Vec<Entry>,
}

impl KnownHosts {
    /// Reads the whole file. `source_name` is for messages.
    pub fn parse(source_name: &str, text: &[u8]) -> Result<Self, KnownHostsFault> {
        let fault = |line, why: &str| KnownHostsFault {
            source_name: source_name.to_owned(),
            line,
            why: why.to_owned(),
        };
        if text.len() > MAX_FILE {
            return Err(fault(0, "the file is larger than 16 MiB"));
        }
        let mut entries = Vec::new();
        for (index, raw) in text.split(|&b| b == b'\n').enumerate() {
            let line = index + 1;
            if raw.len() > MAX_LINE {
                return Err(fault(line, "the line is longer than 96 KiB"));
            }
            let raw = core::str::from_utf8(raw).map_err(|_| fault(line, "the line is not UTF-8"))?;
            let raw = raw.trim_matches(|c| c == ' ' || c == '\t' || c == '\r');
            if raw.is_empty() || raw.starts_with('#') {
                continue;
            }
            entries.push(entry(raw).map_err(|why| fault(line, why))?);
        }
        Ok(Self { source_name: source_name.to_owned(), entries })
    }

    /// What the file pins for a host: `host` for port 22, `[host]:port` for any other. A host that
    /// no line names has no trust, which is an error here and not a prompt.
    pub fn trust(&self, host: &Address, port: u16) -> Result<HostTrust, TrustFault> {
        let bare = host.to_string().to_ascii_lowercase();
        let name = if port == 22 { bare.clone() } else { format!("[{bare}]:{port}") };
        let mut builder = HostTrust::builder();
        for entry in self.entries.iter().filter(|e| e.names.match_name(&name)) {
            builder = match entry.marker {
                Marker::Revoked => builder.revoke(Fingerprint::of_blob(&entry.blob)),
                Marker::Authority => {
                    builder.authority(Authority::from_blob(&entry.blob, vec![bare.clone()])?)
                }
                // A kind that is not offered to hosts cannot be presented: nothing to pin.
                Marker::None if !is_offered(&entry.blob) => builder,
                Marker::None => builder.blob(&entry.blob)?,
            };
        }
        builder.build()
    }

    /// What the file was called.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }
}

fn is_offered(blob: &[u8]) -> bool {
    blob_kind_name(blob).and_then(KeyKind::from_name).is_some()
}

fn entry(line: &str) -> Result<Entry, &'static str> {
    let mut words = line.split_ascii_whitespace();
    let mut first = words.next().unwrap_or_default();
    let marker = match first {
        "@cert-authority" => Marker::Authority,
        "@revoked" => Marker::Revoked,
        m if m.starts_with('@') => return Err("the marker is neither @cert-authority nor @revoked"),
        _ => Marker::None,
    };
    if marker != Marker::None {
        first = words.next().ok_or("the host names are missing")?;
    }
    let kind = words.next().ok_or("the key is missing")?;
    if kind.bytes().all(|b| b.is_ascii_digit()) {
        return Err("this is a key of SSH protocol 1: remove the line");
    }
    let base64 = words.next().ok_or("the key's base64 is missing")?;
    Ok(Entry { marker, names: names(first)?, blob: decode_blob(kind, base64)? })
}

fn names(field: &str) -> Result<Names, &'static str> {
    if let Some(hashed) = field.strip_prefix("|1|") {
        let (salt, hash) = hashed.split_once('|').ok_or("the hashed name is not |1|salt|hash")?;
        let decode = |s| Base64::decode_vec(s).map_err(|_| "the hashed name is not base64");
        let (salt, hash) = (decode(salt)?, decode(hash)?);
        if salt.len() != 20 || hash.len() != 20 {
            return Err("the hashed name is not of SHA-1's length");
        }
        return Ok(Names::Hashed { salt, hash });
    }
    if field.starts_with('|') {
        return Err("the name is hashed in a way that is not known");
    }
    let mut patterns = Vec::new();
    for pattern in field.split(',').filter(|p| !p.is_empty()) {
        let (negated, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |p| (true, p));
        patterns.push((negated, pattern.to_ascii_lowercase()));
    }
    if patterns.iter().all(|(negated, _)| *negated) {
        return Err("the host names hold no name that could match");
    }
    Ok(Names::Patterns(patterns))
}

impl Names {
    fn match_name(&self, name: &str) -> bool {
        match self {
            Self::Patterns(patterns) => {
                let mut hit = false;
                for (negated, pattern) in patterns {
                    if glob(pattern.as_bytes(), name.as_bytes()) {
                        if *negated {
                            return false;
                        }
                        hit = true;
                    }
                }
                hit
            }
            Self::Hashed { salt, hash } => {
                let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, salt);
                let made = hmac::sign(&key, name.as_bytes());
                constant_time::verify_slices_are_equal(made.as_ref(), hash).is_ok()
            }
        }
    }
}

/// `*` and `?` only, as OpenSSH's `match_pattern`. Linear in the product of the lengths.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (pattern, text);
    let mut star: Option<(&[u8], &[u8])> = None;
    loop {
        match (p.split_first(), t.split_first()) {
            (Some((b'*', rest)), _) => {
                star = Some((rest, t));
                p = rest;
            }
            (Some((&c, p_rest)), Some((&d, t_rest))) if c == b'?' || c == d => {
                (p, t) = (p_rest, t_rest);
            }
            (None, None) => return true,
            _ => match star {
                Some((after, from)) => match from.split_first() {
                    Some((_, from)) => {
                        star = Some((after, from));
                        (p, t) = (after, from);
                    }
                    None => return false,
                },
                None => return false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJk1RdoUDgUPCBUlJqKkHfzLmQ8bHwS4Ue2P6cG1oCMd";

    fn known(text: &str) -> Result<KnownHosts, KnownHostsFault> {
        KnownHosts::parse("kh", text.as_bytes())
    }

    fn trusts(text: &str, host: &str, port: u16) -> bool {
        known(text).unwrap().trust(&Address::parse(host).unwrap(), port).is_ok()
    }

    #[test]
    fn patterns_and_negation() {
        let line = |names: &str| format!("{names} {KEY}\n");
        for (names, host, port, want) in [
            ("edge-1", "edge-1", 22, true),
            ("edge-1", "EDGE-1", 22, true),
            ("edge-1", "edge-1", 2222, false),
            ("[edge-1]:2222", "edge-1", 2222, true),
            ("edge-*", "edge-7", 22, true),
            ("edge-?", "edge-77", 22, false),
            ("edge-*,!edge-7", "edge-7", 22, false),
            ("!edge-7,edge-*", "edge-7", 22, false),
            ("!edge-7,edge-*", "edge-8", 22, true),
            ("10.0.0.*", "10.0.0.5", 22, true),
            ("::1", "::1", 22, true),
            ("[::1]:2222", "::1", 2222, true),
            ("*", "anything", 22, true),
            ("a*b*c", "aXbXbc", 22, true),
            ("a*b*c", "aXbXbd", 22, false),
        ] {
            assert_eq!(trusts(&line(names), host, port), want, "{names} {host} {port}");
        }
    }

    #[test]
    fn a_line_that_is_not_understood_refuses_the_file_and_is_named() {
        for (bad, why) in [
            ("@unknown * ssh-ed25519 AAAA", "marker"),
            ("edge-1", "missing"),
            ("edge-1 ssh-ed25519", "missing"),
            ("edge-1 ssh-rsa AAAAC3NzaC1lZDI1NTE5AAAAIJk1RdoUDgUPCBUlJqKkHfzLmQ8bHwS4Ue2P6cG1oCMd", "kind"),
            ("edge-1 ssh-ed25519 %%%", "base64"),
            ("edge-1 2048 65537 1234", "protocol 1"),
            ("|2|aaaa|bbbb ssh-ed25519 AAAA", "hashed"),
            ("|1|aaaa ssh-ed25519 AAAA", "hashed"),
            ("!edge-1 ssh-ed25519 AAAA", "could match"),
        ] {
            let text = format!("# comment\n\nother {KEY}\n{bad}\n");
            let fault = known(&text).unwrap_err();
            assert_eq!(fault.line, 4, "{bad}");
            assert!(fault.why.contains(why), "{bad}: {}", fault.why);
        }
    }

    #[test]
    fn st8_a_host_that_no_line_names_has_no_trust() {
        let file = known(&format!("other {KEY}\n@revoked edge-1 {KEY}\n")).unwrap();
        assert_eq!(file.trust(&Address::parse("edge-1").unwrap(), 22), Err(TrustFault::Nothing));
        assert_eq!(
            known("").unwrap().trust(&Address::parse("edge-1").unwrap(), 22),
            Err(TrustFault::Nothing)
        );
    }
}
