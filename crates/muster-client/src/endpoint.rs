//! Where a node's API is.

use core::fmt;
use core::str::FromStr;
use std::net::Ipv6Addr;

/// Where the API listens unless said otherwise.
pub const DEFAULT_PORT: u16 = 7443;

/// Host name or address, and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    host: String,
    port: u16,
}

impl Endpoint {
    /// Of a host (a name, or an address without brackets) and a port.
    pub fn new(host: &str, port: u16) -> Option<Self> {
        (is_host(host) && port != 0).then(|| Self { host: host.to_owned(), port })
    }

    /// The host, an IPv6 address without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl Endpoint {
    /// As a request names it. A zone is this machine's word for a link, and nothing that a URI has (RFC 9110, 7.2).
    pub(crate) fn authority(&self) -> String {
        match self.host.split_once('%') {
            Some((address, _)) => format!("[{address}]:{}", self.port),
            None => self.to_string(),
        }
    }
}

/// A name, an IPv4 address, or an IPv6 address with or without a zone.
fn is_host(host: &str) -> bool {
    if host.contains(':') {
        let (ip, zone) = host.split_once('%').map_or((host, "x"), |(ip, zone)| (ip, zone));
        return ip.parse::<Ipv6Addr>().is_ok() && is_word(zone);
    }
    is_word(host) && host.len() <= 253 && !host.starts_with(['-', '.'])
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

impl FromStr for Endpoint {
    type Err = &'static str;

    /// `HOST`, `HOST:PORT`, `IPV6`, `[IPV6]` or `[IPV6]:PORT`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = "an address is HOST, HOST:PORT, an IPv6 address, or [IPV6]:PORT";
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(form)?;
                if !host.contains(':') {
                    return Err(form);
                }
                (host, if port.is_empty() { None } else { Some(port.strip_prefix(':').ok_or(form)?) })
            }
            None if text.matches(':').count() > 1 => (text, None),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let plain = |p: &str| p.bytes().all(|b| b.is_ascii_digit()) && !p.starts_with('0');
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port.parse().ok().filter(|_| plain(port)).ok_or(form)?,
        };
        Self::new(host, port).ok_or(form)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_names_an_address_without_its_zone() {
        let authority = |text: &str| text.parse::<Endpoint>().expect(text).authority();
        assert_eq!(authority("fe80::1%eth0"), "[fe80::1]:7443");
        assert_eq!(authority("[2001:db8::1]:443"), "[2001:db8::1]:443");
        assert_eq!(authority("edge-1"), "edge-1:7443");
    }

    #[test]
    fn addresses_in_each_form_come_back_as_they_are_written() {
        for (text, shown) in [
            ("edge-1", "edge-1:7443"),
            ("edge-1.example.net:8443", "edge-1.example.net:8443"),
            ("192.0.2.1", "192.0.2.1:7443"),
            ("2001:db8::1", "[2001:db8::1]:7443"),
            ("[2001:db8::1]", "[2001:db8::1]:7443"),
            ("[fe80::1%eth0]:1", "[fe80::1%eth0]:1"),
        ] {
            let one: Endpoint = text.parse().expect(text);
            assert_eq!(one.to_string(), shown);
            assert_eq!(shown.parse(), Ok(one));
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            ":7443",
            "a:",
            "a:0",
            "a:65536",
            "a:+1",
            "a:01",
            "https://a",
            "a/b",
            "u@a",
            "[a]",
            "[::1",
            "[::1]7443",
            "::g",
            "-a",
            "a b",
            "[::1]:",
            "fe80::1%",
        ] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}
