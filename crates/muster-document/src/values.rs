//! Values of a document that have a form of their own.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::net::IpAddr;

/// A network: an address and the length of its prefix; the host's bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

fn bits(address: IpAddr) -> (u128, u8) {
    match address {
        IpAddr::V4(v4) => (u128::from(u32::from(v4)), 32),
        IpAddr::V6(v6) => (u128::from(v6), 128),
    }
}

/// The bits of a prefix, out of `width`.
fn mask(prefix: u8, width: u8) -> u128 {
    let all = u128::MAX.checked_shr(u32::from(128 - width)).unwrap_or(0);
    all & !all.checked_shr(u32::from(prefix)).unwrap_or(0)
}

impl Cidr {
    /// The network's first address.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// Bits that all its addresses share.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether an address lies in it. An IPv4 address that comes in an IPv6 one counts as the IPv4 address that it is.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let ((net, width), (other, other_width)) = (bits(self.address), bits(address));
        width == other_width && other & mask(self.prefix, width) == net
    }

    /// Whether two networks share an address.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.contains(other.address) || other.contains(self.address)
    }
}

impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write ADDRESS/PREFIX, for instance 10.244.0.0/16";
        let (address, prefix) = text.split_once('/').ok_or(form)?;
        let address: IpAddr = address.parse().map_err(|_| form)?;
        if let (IpAddr::V6(_), IpAddr::V4(v4)) = (address, address.to_canonical()) {
            // No address of it would ever be seen: they count as the IPv4 addresses that they are.
            return Err(format!(
                "{address} is the IPv4 address {v4} in another dress; write an IPv4 network"
            ));
        }
        let (value, width) = bits(address);
        let plain = prefix.bytes().all(|b| b.is_ascii_digit()) && (prefix == "0" || !prefix.starts_with('0'));
        let prefix: u8 = prefix.parse().ok().filter(|p| plain && *p <= width).ok_or(form)?;
        let net = value & mask(prefix, width);
        if net != value {
            let net = match address {
                IpAddr::V4(_) => IpAddr::V4(u32::try_from(net).unwrap_or(0).into()),
                IpAddr::V6(_) => IpAddr::V6(net.into()),
            };
            return Err(format!("{address} is an address inside the network; write {net}/{prefix}"));
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Where a secret (or a certificate) is to be had, instead of standing in the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSource {
    /// The place.
    pub place: Place,
    /// How long to wait until it is there; one attempt when absent.
    pub wait_for: Option<Duration>,
    /// The key that it was reached through, for messages: `join.tokenFrom`.
    pub reached_through: &'static str,
}

/// A place of a [`SecretSource`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An https URL, and the file with the bearer token that it wants.
    Url {
        /// The URL.
        url: String,
        /// Absolute path.
        auth_file: Option<String>,
    },
    /// An absolute path.
    File(String),
}

/// Longest wait of a source.
pub const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Why a text is no URL of a source, if it is none: https, a host, no name or password in it, no fragment.
pub fn not_a_url(text: &str) -> Option<&'static str> {
    let Some(rest) = text.strip_prefix("https://") else {
        return Some("only https:// is taken, since what comes decides whom the node obeys");
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Some("a name or password in a URL ends up in logs; put a bearer token into authFile");
    }
    let plain =
        text.len() <= 2048 && text.bytes().all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b));
    if !plain || text.contains('#') || !is_host_and_port(authority) {
        return Some("write https://HOST[:PORT]/PATH, at most 2048 plain characters, without a fragment");
    }
    None
}

/// `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
pub fn is_host_and_port(text: &str) -> bool {
    split_host(text).is_some()
}

/// The host and the port of such a text.
pub fn split_host(text: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = if let Some(inner) = text.strip_prefix('[') {
        let (host, rest) = inner.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        (host, rest)
    } else {
        let end = text.find(':').unwrap_or(text.len());
        let (host, rest) = text.split_at(end);
        (is_host(host)).then_some((host, rest))?
    };
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Some((host, None)),
        None => None,
        Some(port) => {
            let plain = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
            let port = port.parse().ok().filter(|p: &u16| plain && *p > 0)?;
            Some((host, Some(port)))
        }
    }
}

/// A DNS name or an IPv4 address. Names whose last label is a number are IPv4 addresses or nothing.
fn is_host(host: &str) -> bool {
    let labels_are_plain = host.len() <= 253 && host.split('.').all(is_label);
    let last_is_number = host.rsplit('.').next().is_some_and(|l| l.bytes().all(|b| b.is_ascii_digit()));
    labels_are_plain && (!last_is_number || host.parse::<std::net::Ipv4Addr>().is_ok())
}

/// A label of a DNS name, lower or upper case.
fn is_label(label: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    (1..=63).contains(&label.len())
        && label.bytes().all(inner)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// A node's name: one lower-case label (RFC 1123).
pub fn is_node_name(text: &str) -> bool {
    is_label(text) && !text.bytes().any(|b| b.is_ascii_uppercase())
}

/// A host, an address or an IPv6 address without brackets: what a certificate can name.
pub fn is_alt_name(text: &str) -> bool {
    is_host(text) || text.parse::<IpAddr>().is_ok()
}

/// A key of a label or a taint: `[PREFIX/]NAME` (Kubernetes, "Labels and Selectors").
pub fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let prefix_is_plain = prefix.is_none_or(|p| is_host(p) && !p.bytes().any(|b| b.is_ascii_uppercase()));
    prefix_is_plain && !name.is_empty() && is_label_value(name)
}

/// A value of a label or a taint: empty, or at most 63 of `[A-Za-z0-9._-]` with a letter or digit at both ends.
pub fn is_label_value(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    let ends = text.bytes().next().zip(text.bytes().last());
    text.len() <= 63
        && text.bytes().all(inner)
        && ends.is_none_or(|(a, z)| a.is_ascii_alphanumeric() && z.is_ascii_alphanumeric())
}

/// A kubeadm bootstrap token.
pub fn is_token(text: &str) -> bool {
    let plain = |part: &str, len| {
        part.len() == len && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    text.split_once('.').is_some_and(|(id, secret)| plain(id, 6) && plain(secret, 16))
}

/// A hash of an authority's public key.
pub fn is_ca_hash(text: &str) -> bool {
    text.strip_prefix("sha256:")
        .is_some_and(|h| h.len() == 64 && h.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_read_as_what_they_are() {
        for good in ["10.244.0.0/16", "0.0.0.0/0", "192.168.1.7/32", "fd00::/8", "::/0", "2001:db8::1/128"] {
            assert_eq!(good.parse::<Cidr>().map(|c| c.to_string()), Ok(good.to_owned()));
        }
        for bad in [
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.0/08",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "fd00::/129",
            "x/8",
            "",
        ] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
        for mapped in ["::ffff:10.0.0.0/104", "::ffff:0:0/96", "::ffff:1.2.3.4/128"] {
            assert!(mapped.parse::<Cidr>().expect_err(mapped).contains("write an IPv4 network"));
        }
        assert!("10.244.3.1/16".parse::<Cidr>().expect_err("host bits").ends_with("write 10.244.0.0/16"));
        assert!("fd00::1/64".parse::<Cidr>().expect_err("host bits").ends_with("write fd00::/64"));
    }

    #[test]
    fn networks_contain_and_overlap() {
        let net = |t: &str| t.parse::<Cidr>().expect(t);
        let ip = |t: &str| t.parse::<IpAddr>().expect(t);
        assert!(net("10.96.0.0/12").contains(ip("10.111.255.255")));
        assert!(!net("10.96.0.0/12").contains(ip("10.112.0.0")));
        assert!(net("0.0.0.0/0").contains(ip("255.1.2.3")));
        assert!(
            net("10.0.0.0/8").contains(ip("::ffff:10.1.2.3")),
            "the same machine, as a dual-stack socket sees it"
        );
        assert!(!net("0.0.0.0/0").contains(ip("fd00::1")) && !net("::/0").contains(ip("10.0.0.1")));
        assert!(
            net("10.0.0.0/8").overlaps(&net("10.96.0.0/12"))
                && net("10.96.0.0/12").overlaps(&net("10.0.0.0/8"))
        );
        assert!(!net("10.96.0.0/12").overlaps(&net("10.244.0.0/16")));
        assert!(!net("::/0").overlaps(&net("0.0.0.0/0")));
    }

    #[test]
    fn urls_that_are_taken() {
        for good in [
            "https://pki.example.com/ca.pem",
            "https://10.0.0.1:8443/a?b=c",
            "https://[fd00::1]:443/x",
            "https://h",
        ] {
            assert_eq!(not_a_url(good), None, "{good}");
        }
        for bad in [
            "http://h/x",
            "https://",
            "https:///x",
            "https://u:p@h/x",
            "https://h/a b",
            "https://h/x#y",
            "https://h:0/",
            "https://h:99999/",
            "ftp://h",
            "https://fd00::1/",
            "HTTPS://h",
            "https://h\n/",
        ] {
            assert!(not_a_url(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn hosts_names_labels_and_tokens() {
        assert_eq!(split_host("api.example:6443"), Some(("api.example", Some(6443))));
        assert_eq!(split_host("[fd00::1]"), Some(("fd00::1", None)));
        assert_eq!(split_host("[fd00::1]:6443"), Some(("fd00::1", Some(6443))));
        for bad in [
            "",
            ":6443",
            "host:",
            "host:06443",
            "host:0",
            "fd00::1",
            "[h]:1",
            "[fd00::1]x",
            "-h",
            "h-",
            "10.0.0.256",
            "1.2.3",
        ] {
            assert_eq!(split_host(bad), None, "{bad}");
        }
        assert!(
            is_node_name("edge-1")
                && !is_node_name("Edge")
                && !is_node_name("a.b")
                && !is_node_name(&"a".repeat(64))
        );
        assert!(
            is_label_key("example.com/role")
                && is_label_key("Role_1")
                && !is_label_key("/x")
                && !is_label_key("a/")
                && !is_label_key("A.b/c")
        );
        assert!(
            is_label_value("")
                && is_label_value("a.b-c_D")
                && !is_label_value("-a")
                && !is_label_value("a b")
        );
        assert!(
            is_token("abcdef.0123456789abcdef")
                && !is_token("abcdef.0123456789abcde")
                && !is_token("ABCDEF.0123456789abcdef")
        );
        assert!(
            is_ca_hash(&format!("sha256:{}", "0a".repeat(32)))
                && !is_ca_hash(&format!("sha256:{}", "0A".repeat(32)))
        );
        assert!(
            is_alt_name("fd00::1")
                && is_alt_name("10.0.0.1")
                && is_alt_name("k8s.example")
                && !is_alt_name("a b")
        );
    }
}
