//! The files that are lists, as sets that can be compared.
//!
//! Formats: AUTHORIZED_KEYS FILE FORMAT in sshd(8), ALLOWED SIGNERS in ssh-keygen(1), PROTOCOL.krl of OpenSSH.

use super::{Key, fingerprint};
use crate::key::PublicKeyLine;
use std::collections::{BTreeMap, BTreeSet};

/// Options of a key's line that `restrict`, the forced command and the sshd block make void, or that allow something.
const OF_NO_WEIGHT: &[&str] = &[
    "restrict",
    "command",
    "pty",
    "port-forwarding",
    "agent-forwarding",
    "x11-forwarding",
    "user-rc",
    "environment",
    "tunnel",
    "permitopen",
    "permitlisten",
    "cert-authority",
    "principals",
];

/// The keys of a login by fingerprint; `phases` says what the policy lets each of them ask for.
pub(super) fn login_keys(
    file: &[u8],
    phases: impl Fn(&str) -> Option<BTreeSet<String>>,
) -> Result<BTreeMap<String, Key>, String> {
    let text = core::str::from_utf8(file).map_err(|_| "the login's keys are not UTF-8".to_owned())?;
    let mut out = BTreeMap::new();
    for (n, line) in (1usize..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (options, name) = match fingerprint(line) {
            Some(name) => (Vec::new(), name),
            None => {
                let (options, rest) = options_of(line);
                let key = PublicKeyLine::parse(rest);
                let key = key.map_err(|e| format!("line {n} of the login's keys: {}", e.why))?;
                (options, key.fingerprint().to_owned())
            }
        };
        let mut key = Key { phases: phases(&name), ..Key::default() };
        for option in options {
            let (word, value) = option.split_once('=').unwrap_or((option.as_str(), ""));
            let word = word.to_ascii_lowercase();
            if word == "from" {
                key.from.extend(value.trim_matches('"').split(',').map(|p| p.trim().to_owned()));
            } else if !word.starts_with("no-") && !OF_NO_WEIGHT.contains(&word.as_str()) {
                key.options.insert(option);
            }
        }
        out.insert(name, key);
    }
    Ok(out)
}

/// The options in front of a key, and the rest. Blanks and commas in quotes belong to a value.
fn options_of(line: &str) -> (Vec<String>, &str) {
    let mut options = Vec::new();
    let mut one = String::new();
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in line.char_indices() {
        match c {
            '"' if !escaped => quoted = !quoted,
            ',' if !quoted => {
                options.push(core::mem::take(&mut one));
                continue;
            }
            ' ' | '\t' if !quoted => {
                options.push(one);
                return (options, line.get(at..).unwrap_or_default().trim_start());
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        one.push(c);
    }
    (options, "")
}

/// The lines of an `allowed_signers` file, each key as its fingerprint.
pub(super) fn signers(file: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(file);
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    lines.map(signer).collect()
}

fn signer(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    for (at, pair) in words.windows(2).enumerate() {
        let name = ssh_key::PublicKey::from_openssh(&pair.join(" "));
        if let Ok(key) = name {
            let head = words.iter().take(at + 1).copied().collect::<Vec<_>>().join(" ");
            return format!("{head} {}", key.fingerprint(ssh_key::HashAlg::Sha256));
        }
    }
    line.to_owned()
}

/// A revocation list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Revoked {
    /// Fingerprints; a line that is none as it stands.
    Text(BTreeSet<String>),
    /// A binary list, of which the number and the digest are compared.
    Krl(u64, String),
}

impl Default for Revoked {
    fn default() -> Self {
        Self::Text(BTreeSet::new())
    }
}

impl Revoked {
    pub(super) fn read(file: &[u8]) -> Self {
        // Eight bytes of magic, four of the format's version, eight of the list's own.
        if file.starts_with(b"SSHKRL\n\0") {
            let number = file.get(12..20).and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes);
            return Self::Krl(number, crate::spec::sha256_hex(file));
        }
        let text = String::from_utf8_lossy(file);
        let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
        Self::Text(
            lines
                .map(|line| {
                    let key = ssh_key::PublicKey::from_openssh(line).ok();
                    let first = line.split_whitespace().next().unwrap_or_default();
                    key.map_or_else(
                        || first.to_owned(),
                        |k| k.fingerprint(ssh_key::HashAlg::Sha256).to_string(),
                    )
                })
                .collect(),
        )
    }

    /// What is different in `now`, and whether somebody may count again.
    pub(super) fn becomes(&self, now: &Self) -> Option<(String, bool)> {
        match (self, now) {
            (was, now) if was == now => None,
            (Self::Text(was), Self::Text(now)) => {
                let gone: Vec<&String> = was.difference(now).collect();
                let new = now.difference(was).count();
                let some = gone.iter().take(3).map(|g| g.as_str()).collect::<Vec<_>>().join(", ");
                let text = match gone.len() {
                    0 => format!("revoked: {new} more"),
                    n => format!(
                        "revoked: {n} no longer ({some}{}), {new} more",
                        if n > 3 { ", …" } else { "" }
                    ),
                };
                Some((text, !gone.is_empty()))
            }
            (Self::Krl(was, _), Self::Krl(now, _)) => {
                Some((format!("revoked: list number {was} -> {now}"), now < was))
            }
            (Self::Text(was), Self::Krl(now, _)) => {
                Some((format!("revoked: {} entries -> binary list number {now}", was.len()), !was.is_empty()))
            }
            (Self::Krl(was, _), Self::Text(now)) => {
                Some((format!("revoked: binary list number {was} -> {} entries", now.len()), true))
            }
        }
    }
}
