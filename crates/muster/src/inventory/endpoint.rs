//! One place that is logged in to: address, user, how its host key is known, what to log in with.

use crate::codes::Own;
use crate::signer;
use crate::yaml::walk::Walk;
use crate::yaml::{Kind, Node};
use std::path::{Path, PathBuf};

/// A host or bastion, as SSH sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// The name in the inventory.
    pub name: String,
    /// Host name or IP address; IPv6 without brackets.
    pub address: String,
    /// Port.
    pub port: u16,
    /// Login.
    pub user: String,
    /// Keys written in the inventory.
    pub host_keys: Vec<HostKey>,
    /// Host certificate authorities, as public key lines.
    pub host_cas: Vec<String>,
    /// What a host certificate must name; the address when empty.
    pub host_principals: Vec<String>,
    /// Bastions, first hop first.
    pub via: Vec<String>,
    /// What to log in with, in order.
    pub identities: Vec<Identity>,
    /// Its line.
    pub line: usize,
}

/// An administrator's login on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Admin {
    /// Login; the operator's own choice with `--admin-user` when none.
    pub user: Option<String>,
    /// What to log in with.
    pub identities: Vec<Identity>,
}

/// A host key as it can be written down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKey {
    /// `SHA256:…`, from a console or a support desk.
    Fingerprint(String),
    /// Type and base64, as in a known_hosts line.
    Key(String),
}

impl HostKey {
    /// Reads a `SHA256:` fingerprint, a public key line, or a known_hosts line.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.starts_with("SHA256:") {
            let good = muster_signing::key::is_fingerprint(text);
            return good.then(|| Self::Fingerprint(text.to_owned()));
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        // A marker such as @revoked or @cert-authority says something else than "this is the key".
        if text.starts_with('@') || text.starts_with('#') {
            return None;
        }
        for start in 0..=1 {
            let line = format!("{} {}", words.get(start)?, words.get(start + 1)?);
            if let Some(key) = signer::parse_public(&line) {
                return Some(Self::Key(key.line()));
            }
        }
        None
    }

    /// The fingerprint.
    pub fn fingerprint(&self) -> String {
        match self {
            Self::Fingerprint(f) => f.clone(),
            Self::Key(line) => signer::parse_public(line).map(|k| k.fingerprint()).unwrap_or_default(),
        }
    }

    /// As it is written down.
    pub fn text(&self) -> &str {
        match self {
            Self::Fingerprint(t) | Self::Key(t) => t,
        }
    }
}

/// What to log in with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A private key file, perhaps with a certificate.
    File {
        /// The key.
        key: PathBuf,
        /// Its certificate.
        certificate: Option<PathBuf>,
    },
    /// A key of the SSH agent; any of them when none is named.
    Agent(Option<String>),
}

/// The keys that an `ssh:` mapping or a bastion takes.
pub(super) const KEYS: [&str; 8] =
    ["address", "port", "user", "host-key", "host-ca", "host-principals", "via", "identities"];

/// What stands in `defaults.ssh`.
#[derive(Clone, Debug, Default)]
pub(super) struct Defaults {
    pub(super) port: Option<u16>,
    pub(super) user: Option<String>,
    pub(super) host_cas: Vec<String>,
    pub(super) via: Vec<String>,
    pub(super) identities: Vec<Identity>,
}

/// What paths are relative to.
#[derive(Clone, Copy)]
pub(super) struct Base<'b> {
    pub(super) folder: &'b Path,
    pub(super) home: Option<&'b Path>,
}

impl Base<'_> {
    pub(super) fn path(&self, text: &str) -> PathBuf {
        match (text.strip_prefix("~/"), self.home) {
            (Some(rest), Some(home)) => home.join(rest),
            // Alone, `-` would mean standard input; in a file it is a file.
            _ if text == "-" => self.folder.join("./-"),
            _ => self.folder.join(text),
        }
    }
}

pub(super) fn read_defaults(walk: &mut Walk<'_>, node: &Node, base: Base<'_>) -> Defaults {
    let at = "defaults.ssh";
    let Some(f) = walk.fields(node, at, &["port", "user", "host-ca", "via", "identities"]) else {
        return Defaults::default();
    };
    Defaults {
        port: f.get("port").and_then(|n| port(walk, n, &f.at("port"))),
        user: f.get("user").and_then(|n| user(walk, n, &f.at("user"))),
        host_cas: f.get("host-ca").map(|n| authorities(walk, n, &f.at("host-ca"), base)).unwrap_or_default(),
        via: f.get("via").map(|n| texts(walk, n, &f.at("via"))).unwrap_or_default(),
        identities: f
            .get("identities")
            .map(|n| identities(walk, n, &f.at("identities"), base))
            .unwrap_or_default(),
    }
}

pub(super) fn read_endpoint(
    walk: &mut Walk<'_>,
    node: &Node,
    (name, at): (&str, &str),
    defaults: &Defaults,
    base: Base<'_>,
) -> Option<Endpoint> {
    let f = walk.fields(node, at, &KEYS)?;
    let address = f
        .need(walk, "address", "a host name or IP address")
        .and_then(|n| walk.value(n, &f.at("address"), "a host name or IP address alone", address));
    let own_user = f.get("user").and_then(|n| user(walk, n, &f.at("user")));
    let own_port = f.get("port").and_then(|n| port(walk, n, &f.at("port")));
    let host_keys = f.get("host-key").map(|n| host_keys(walk, n, &f.at("host-key"))).unwrap_or_default();
    let host_cas = match f.get("host-ca") {
        Some(n) => authorities(walk, n, &f.at("host-ca"), base),
        None => defaults.host_cas.clone(),
    };
    let list = |walk: &mut Walk<'_>, key: &str| f.get(key).map(|n| texts(walk, n, &f.at(key)));
    let via = list(walk, "via").unwrap_or_else(|| defaults.via.clone());
    let host_principals = list(walk, "host-principals").unwrap_or_default();
    let identities = match f.get("identities") {
        Some(n) => identities(walk, n, &f.at("identities"), base),
        None => defaults.identities.clone(),
    };
    Some(Endpoint {
        name: name.to_owned(),
        address: address?,
        port: own_port.or(defaults.port).unwrap_or(22),
        user: own_user.or_else(|| defaults.user.clone()).unwrap_or_else(|| "muster".into()),
        host_keys,
        host_cas,
        host_principals,
        via,
        identities,
        line: f.line(),
    })
}

pub(super) fn address(text: &str) -> Option<String> {
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    if bare.contains(':') {
        // An IPv6 address may carry a zone: fe80::1%eth0.
        let (ip, zone) = bare.split_once('%').map_or((bare, None), |(a, z)| (a, Some(z)));
        let zone_good = zone.is_none_or(|z| {
            !z.is_empty() && z.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        });
        return (ip.parse::<std::net::Ipv6Addr>().is_ok() && zone_good).then(|| bare.to_owned());
    }
    let good = !bare.is_empty()
        && bare.len() <= 253
        && !bare.starts_with(['-', '.'])
        && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    (good && bare == text).then(|| bare.to_owned())
}

pub(super) fn port(walk: &mut Walk<'_>, node: &Node, at: &str) -> Option<u16> {
    walk.value(node, at, "a port from 1 to 65535", |t| t.parse().ok().filter(|p| *p != 0))
}

pub(super) fn login(text: &str) -> bool {
    let first = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && text.len() <= 32 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

pub(super) fn user(walk: &mut Walk<'_>, node: &Node, at: &str) -> Option<String> {
    walk.value(node, at, "a login name", |t| login(t).then(|| t.to_owned()))
}

pub(super) fn texts(walk: &mut Walk<'_>, node: &Node, at: &str) -> Vec<String> {
    let items = walk.many(node);
    items.iter().filter_map(|i| walk.text(i, at)).collect()
}

fn host_keys(walk: &mut Walk<'_>, node: &Node, at: &str) -> Vec<HostKey> {
    let form = "SHA256:… , a public key, or a known_hosts line";
    let items = walk.many(node);
    items.iter().filter_map(|i| walk.value(i, at, form, HostKey::parse)).collect()
}

fn authorities(walk: &mut Walk<'_>, node: &Node, at: &str, base: Base<'_>) -> Vec<String> {
    let form = "a public key, or the path of a .pub file";
    let items = walk.many(node);
    let read = |t: &str| {
        let key = signer::parse_public(t).or_else(|| signer::read_public(&base.path(t)).ok());
        key.map(|k| k.line())
    };
    items.iter().filter_map(|i| walk.value(i, at, form, read)).collect()
}

pub(super) fn identities(walk: &mut Walk<'_>, node: &Node, at: &str, base: Base<'_>) -> Vec<Identity> {
    let items = walk.many(node);
    items.iter().filter_map(|i| identity(walk, i, at, base)).collect()
}

fn identity(walk: &mut Walk<'_>, node: &Node, at: &str, base: Base<'_>) -> Option<Identity> {
    if !matches!(node.kind, Kind::Map(_)) {
        let text = walk.text(node, at)?;
        return Some(match text.as_str() {
            "agent" => Identity::Agent(None),
            path => Identity::File { key: base.path(path), certificate: None },
        });
    }
    let f = walk.fields(node, at, &["key", "certificate", "agent"])?;
    let text = |walk: &mut Walk<'_>, key: &str| f.get(key).and_then(|n| walk.text(n, &f.at(key)));
    match (text(walk, "key"), text(walk, "agent"), text(walk, "certificate")) {
        (Some(key), None, certificate) => {
            Some(Identity::File { key: base.path(&key), certificate: certificate.map(|c| base.path(&c)) })
        }
        (None, Some(which), None) => Some(Identity::Agent(Some(which))),
        _ => {
            let fix = "Write a path, `agent`, {key: PATH, certificate: PATH} or {agent: SHA256:…}.";
            walk.fault(Own::ConfigValue, f.line(), format!("{at} names no one identity"), Some(fix.into()));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for good in ["10.0.0.1", "edge-1.example.net", "::1", "fe80::1%eth0", "node_1"] {
            assert_eq!(address(good).as_deref(), Some(good));
        }
        assert_eq!(address("[2001:db8::1]").as_deref(), Some("2001:db8::1"));
        for bad in ["", "root@a", "a b", "-oProxyCommand=x", "a:22", "::g", "[a]", "fe80::1%", "a/b"] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }

    #[test]
    fn host_keys_in_each_form() {
        let line = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
        for text in [
            line.to_owned(),
            format!("{line} a comment"),
            format!("host,10.0.0.1 {line}"),
            format!("|1|abc=|def= {line}"),
        ] {
            assert_eq!(HostKey::parse(&text), Some(HostKey::Key(line.into())), "{text}");
        }
        let print = HostKey::parse(line).unwrap().fingerprint();
        assert_eq!(HostKey::parse(&print), Some(HostKey::Fingerprint(print.clone())));
        // One that no key can have: stray bits in the last character.
        let stray = format!("SHA256:{}B", "A".repeat(42));
        for bad in [
            "",
            "SHA256:abc",
            &stray,
            "MD5:aa",
            &format!("@revoked * {line}"),
            &format!("@cert-authority * {line}"),
            "# x y z",
        ] {
            assert_eq!(HostKey::parse(bad), None, "{bad}");
        }
    }
}
