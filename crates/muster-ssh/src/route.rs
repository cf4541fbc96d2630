//! Where to go, through whom, and how long each step may take.

use core::fmt;
use core::time::Duration;
use std::net::IpAddr;

use crate::identity::Identity;
use crate::trust::HostTrust;

/// A host's address: a literal or a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An IPv4 or IPv6 literal.
    Ip(IpAddr),
    /// A name, or a literal with a zone (`fe80::1%eth0`).
    Name(String),
}

/// A text that is neither a literal nor a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shown:?} is not a host address: {why}")]
pub struct BadAddress {
    shown: String,
    why: &'static str,
}

impl Address {
    /// Reads `10.0.0.5`, `::1`, `[::1]`, `fe80::1%eth0` or a name. A port does not belong here.
    pub fn parse(text: &str) -> Result<Self, BadAddress> {
        let bad = |why| BadAddress { shown: text.chars().take(80).collect(), why };
        let bare = match text.strip_prefix('[') {
            Some(rest) => rest.strip_suffix(']').ok_or_else(|| bad("the bracket is not closed"))?,
            None => text,
        };
        if let Ok(ip) = bare.parse::<IpAddr>() {
            return Ok(Self::Ip(ip));
        }
        if let Some((ip, zone)) = bare.split_once('%') {
            let word =
                !zone.is_empty() && zone.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
            return match ip.parse::<IpAddr>() {
                Ok(IpAddr::V6(_)) if word => Ok(Self::Name(bare.to_owned())),
                _ => Err(bad("a zone belongs behind an IPv6 literal")),
            };
        }
        if bare.contains(':') {
            return Err(bad("a port does not belong here, and this is no IPv6 literal"));
        }
        let name = !bare.is_empty()
            && bare.len() <= 253
            && !bare.starts_with('-')
            && bare.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if name {
            Ok(Self::Name(bare.to_ascii_lowercase()))
        } else {
            Err(bad("a name has letters, digits, dots and hyphens"))
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => fmt::Display::fmt(ip, f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// Which of a name's addresses are tried, and in which order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Family {
    /// As the resolver orders them (RFC 6724).
    #[default]
    System,
    /// IPv6 first.
    V6First,
    /// IPv4 first.
    V4First,
    /// IPv6 alone.
    V6Only,
    /// IPv4 alone.
    V4Only,
}

/// When a silent peer is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Keepalive {
    /// A question is sent to a peer that has been silent this long.
    pub interval: Duration,
    /// The peer is given up after `interval * max` of silence.
    pub max: u32,
}

/// How often a flake on the way is tried again. A refusal never is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryPolicy {
    /// Tries in all, for each hop; 1 = never again.
    pub attempts: u32,
    /// Before the second try; doubles, with jitter of half of it to the whole of it.
    pub first_delay: Duration,
    /// The delay stops growing here.
    pub max_delay: Duration,
    /// No try begins later than this after the hop's first.
    pub within: Duration,
}

/// The deadlines of one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// Resolving the name and connecting, or the bastion's connecting.
    pub connect: Duration,
    /// From the first byte to a proven host key.
    pub handshake: Duration,
    /// Logging in, with whatever an agent asks its user.
    pub auth: Duration,
    /// Opening a channel on the connection.
    pub channel: Duration,
    /// Liveness after login.
    pub keepalive: Keepalive,
    /// Flakes.
    pub retry: RetryPolicy,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(15),
            handshake: Duration::from_secs(15),
            auth: Duration::from_secs(60),
            channel: Duration::from_secs(15),
            keepalive: Keepalive { interval: Duration::from_secs(5), max: 3 },
            retry: RetryPolicy {
                attempts: 3,
                first_delay: Duration::from_millis(250),
                max_delay: Duration::from_secs(2),
                within: Duration::from_secs(20),
            },
        }
    }
}

/// One host on the way, or the one at its end.
#[derive(Clone, Debug)]
pub struct Hop {
    pub(crate) name: String,
    pub(crate) address: Address,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) trust: HostTrust,
    pub(crate) identities: Vec<Identity>,
    pub(crate) timing: Timing,
    pub(crate) family: Family,
}

impl Hop {
    /// `name` is what messages call it (an inventory name); `address` is where it is.
    pub fn new(name: impl Into<String>, address: Address, user: impl Into<String>, trust: HostTrust) -> Self {
        Self {
            name: name.into(),
            address,
            port: 22,
            user: user.into(),
            trust,
            identities: Vec::new(),
            timing: Timing::default(),
            family: Family::default(),
        }
    }

    /// Other than 22.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// One more identity; they are tried in the order given.
    #[must_use]
    pub fn identity(mut self, identity: Identity) -> Self {
        self.identities.push(identity);
        self
    }

    /// Other deadlines.
    #[must_use]
    pub fn timing(mut self, timing: Timing) -> Self {
        self.timing = timing;
        self
    }

    /// Which addresses of a name. A name behind a bastion is resolved by the bastion.
    #[must_use]
    pub fn family(mut self, family: Family) -> Self {
        self.family = family;
        self
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// `address:port`, with brackets where a literal needs them.
    pub fn endpoint(&self) -> String {
        endpoint(&self.address, self.port)
    }
}

pub(crate) fn endpoint(address: &Address, port: u16) -> String {
    let text = address.to_string();
    if text.contains(':') { format!("[{text}]:{port}") } else { format!("{text}:{port}") }
}

/// The bastions in order, then the host.
#[derive(Clone, Debug)]
pub struct Route {
    pub(crate) bastions: Vec<Hop>,
    pub(crate) target: Hop,
}

impl Route {
    /// Straight there.
    pub fn direct(target: Hop) -> Self {
        Self { bastions: Vec::new(), target }
    }

    /// Through `bastions`, the first of which is reached from here.
    pub fn via(bastions: Vec<Hop>, target: Hop) -> Self {
        Self { bastions, target }
    }

    /// The host at the end.
    pub fn target(&self) -> &Hop {
        &self.target
    }

    /// All hops in order, the target last.
    pub fn hops(&self) -> impl Iterator<Item = &Hop> {
        self.bastions.iter().chain(core::iter::once(&self.target))
    }

    /// How many hops, at least 1.
    pub fn len(&self) -> usize {
        self.bastions.len() + 1
    }

    /// Never: there is always a target.
    pub fn is_empty(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for (text, shown) in [
            ("10.0.0.5", "10.0.0.5:22"),
            ("::1", "[::1]:22"),
            ("[2001:db8::5]", "[2001:db8::5]:22"),
            ("fe80::1%eth0", "[fe80::1%eth0]:22"),
            ("Edge-1.example", "edge-1.example:22"),
        ] {
            assert_eq!(endpoint(&Address::parse(text).unwrap(), 22), shown);
        }
        for text in
            ["", "[::1", "host:22", "10.0.0.5:22", "-oProxyCommand=x", "a b", "edge%eth0", "fe80::1%", "ü"]
        {
            assert!(Address::parse(text).is_err(), "{text}");
        }
    }
}
