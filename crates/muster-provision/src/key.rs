//! Public keys that may log in, and from where.
//!
//! Formats: AUTHORIZED_KEYS FILE FORMAT in sshd(8); `from=` patterns as in PATTERNS of
//! ssh_config(5), of which only addresses and CIDR blocks are taken: a host name there would
//! depend on `UseDNS` and on whoever answers DNS.

use crate::spec::SpecFault;
use core::fmt;
use muster_core::Phase;
use ssh_key::{HashAlg, PublicKey};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// One public key line, `type base64 [comment]`, checked.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKeyLine {
    line: String,
    fingerprint: String,
}

impl PublicKeyLine {
    /// Reads one line of a `.pub` file. Options in front of the key are not taken, certificates
    /// and DSA are refused, and so is RSA below 3072 bits.
    pub fn parse(text: &str) -> Result<Self, SpecFault> {
        let fault = |why: String| SpecFault::new("controller key", why);
        let trimmed = text.trim_end_matches(['\n', '\r']);
        if trimmed.len() > 16_384
            || trimmed.chars().any(|c| c == '\n' || c == '\t' || crate::text::is_hidden(c))
        {
            return Err(fault(
                "one line of at most 16 KiB without control or invisible characters is needed".into(),
            ));
        }
        let key = PublicKey::from_openssh(trimmed).map_err(|e| {
            fault(format!("not an OpenSSH public key line ({e}): give the text of a .pub file"))
        })?;
        check_algorithm(&key).map_err(fault)?;
        let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
        let line = key.to_openssh().map_err(|e| fault(e.to_string()))?;
        Ok(Self { line, fingerprint })
    }

    /// `type base64 [comment]`, as written to `authorized_keys`.
    pub fn line(&self) -> &str {
        &self.line
    }

    /// `SHA256:` and the unpadded base64 of the digest, as `ssh-keygen -l` prints it.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// `type base64` without the comment.
    pub fn without_comment(&self) -> String {
        self.line.split(' ').take(2).collect::<Vec<_>>().join(" ")
    }
}

impl fmt::Debug for PublicKeyLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKeyLine({})", self.fingerprint)
    }
}

fn check_algorithm(key: &PublicKey) -> Result<(), String> {
    use ssh_key::public::KeyData;
    match key.key_data() {
        KeyData::Ed25519(_) | KeyData::Ecdsa(_) | KeyData::SkEd25519(_) | KeyData::SkEcdsaSha2NistP256(_) => {
            Ok(())
        }
        KeyData::Rsa(rsa) => {
            let bits = modulus_bits(rsa.n().as_bytes());
            if bits < 3072 {
                return Err(format!("an RSA key of {bits} bits; 3072 is the least, Ed25519 is better"));
            }
            Ok(())
        }
        other => Err(format!("keys of type {} are not taken; use Ed25519", other.algorithm())),
    }
}

/// Bits of a big-endian positive integer that may have a leading zero byte.
fn modulus_bits(n: &[u8]) -> usize {
    let significant: Vec<u8> = n.iter().copied().skip_while(|&b| b == 0).collect();
    significant.first().map_or(0, |&top| significant.len() * 8 - top.leading_zeros() as usize)
}

/// An address or CIDR block that a key may come from; `!` in front excludes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FromPattern(String);

impl FromPattern {
    /// Checks `[!]ADDRESS[/BITS]`. Host bits must be zero: sshd refuses the whole line otherwise.
    pub fn new(text: &str) -> Result<Self, SpecFault> {
        let fault = |why: &str| SpecFault::new("from", format!("{text:?}: {why}"));
        let body = text.strip_prefix('!').unwrap_or(text);
        let (addr, bits) = match body.split_once('/') {
            Some((a, b)) => (a, Some(b)),
            None => (body, None),
        };
        let addr: IpAddr =
            addr.parse().map_err(|_| fault("an IPv4 or IPv6 address or CIDR block is needed"))?;
        if let Some(bits) = bits {
            let width: u32 = if addr.is_ipv4() { 32 } else { 128 };
            let n: u32 = bits
                .parse()
                .ok()
                .filter(|n| *n <= width && bits == format!("{n}"))
                .ok_or_else(|| fault("the prefix length does not fit the address"))?;
            let (value, shift) = match addr {
                IpAddr::V4(v4) => (u128::from(u32::from(v4)) << 96, 128 - n),
                IpAddr::V6(v6) => (u128::from(v6), 128 - n),
            };
            // A shift by 128 would overflow; /0 must then be the zero address.
            let host_bits = if shift >= 128 { value } else { value & ((1u128 << shift) - 1) };
            if host_bits != 0 {
                return Err(fault("bits beyond the prefix are set; sshd calls that an inconsistent mask"));
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// The pattern as it was checked.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn excludes(&self) -> bool {
        self.0.starts_with('!')
    }
}

/// A key that may open the pool login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerKey {
    key: PublicKeyLine,
    from: Vec<FromPattern>,
    phases: Option<BTreeSet<Phase>>,
}

impl ControllerKey {
    /// A key that may come from anywhere and ask for every phase.
    pub fn new(key: PublicKeyLine) -> Self {
        Self { key, from: Vec::new(), phases: None }
    }

    /// Limits where the key may come from. Only exclusions would match nobody, so at least one
    /// pattern must include.
    pub fn with_from(mut self, from: Vec<FromPattern>) -> Result<Self, SpecFault> {
        if !from.is_empty() && from.iter().all(FromPattern::excludes) {
            return Err(SpecFault::new("from", "only exclusions are given, so nobody could log in".into()));
        }
        self.from = from;
        Ok(self)
    }

    /// Limits the phases that the key may ask for. `probe` is always among them: it is unsigned,
    /// reads only, and is how a login is proven.
    pub fn with_phases(mut self, phases: impl IntoIterator<Item = Phase>) -> Self {
        let mut set: BTreeSet<Phase> = phases.into_iter().collect();
        set.insert(Phase::Probe);
        self.phases = Some(set);
        self
    }

    /// The key.
    pub fn key(&self) -> &PublicKeyLine {
        &self.key
    }

    /// Where it may come from; empty is anywhere.
    pub fn from(&self) -> &[FromPattern] {
        &self.from
    }

    /// What it may ask for; `None` is every phase.
    pub fn phases(&self) -> Option<&BTreeSet<Phase>> {
        self.phases.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ED: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH+Xc1Z7q6gPjBdbGJ7yKTqrRMLrcHyA8VTZ2lTzB0cF a comment";

    #[test]
    fn public_key_lines() {
        let k = PublicKeyLine::parse(&format!("{ED}\n")).unwrap();
        assert_eq!(k.line(), ED);
        assert!(k.fingerprint().starts_with("SHA256:") && !k.fingerprint().ends_with('='));
        assert!(
            k.without_comment().starts_with("ssh-ed25519 AAAA") && !k.without_comment().contains("comment")
        );
        for bad in [
            "",
            "ssh-ed25519",
            "restrict ssh-ed25519 AAAA",
            "ssh-dss AAAAB3NzaC1kc3M=",
            &format!("{ED}\n{ED}"),
        ] {
            assert!(PublicKeyLine::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn from_patterns() {
        for good in
            ["10.0.0.0/8", "10.1.2.3", "!10.1.0.0/16", "::1", "fd00::/8", "0.0.0.0/0", "::/0", "10.0.0.1/32"]
        {
            assert!(FromPattern::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "10.0.0.1/8",
            "10.0.0.0/33",
            "10.0.0.0/08",
            "host.example",
            "10.0.0.*",
            "a\"b",
            "fd00::1/8",
            "10.0.0.0/",
            "!",
        ] {
            assert!(FromPattern::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_exclusions_are_refused() {
        let k = ControllerKey::new(PublicKeyLine::parse(ED).unwrap());
        assert!(k.clone().with_from(vec![FromPattern::new("!10.0.0.0/8").unwrap()]).is_err());
        assert!(k.with_from(vec![]).is_ok());
    }
}
