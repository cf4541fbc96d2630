//! The addresses of this machine, as the kernel lists them in `/proc/net`: no socket is needed for it.
//!
//! Formats: `fib_trie` (net/ipv4/fib_trie.c: a line `|-- ADDRESS` above a line with `host LOCAL`) and `if_inet6` (net/ipv6/addrconf.c:
//! 32 hex digits, index, prefix length, scope, flags, name).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// More than any machine has that a person would read.
const MOST: usize = 64;

/// Addresses that others may reach: neither loopback nor link-local; IPv4 first, each once. What cannot be read is left out.
/// `proc` is the folder that is `/proc`.
#[must_use]
pub fn addresses(proc: &Path) -> Vec<IpAddr> {
    let read = |name: &str| std::fs::read(proc.join("net").join(name)).unwrap_or_default();
    let v4 = read("fib_trie");
    let v6 = read("if_inet6");
    let mut out: Vec<IpAddr> = ipv4(&String::from_utf8_lossy(&v4)).map(IpAddr::V4).collect();
    out.extend(ipv6(&String::from_utf8_lossy(&v6)).map(IpAddr::V6));
    let mut seen = Vec::new();
    out.retain(|a| {
        !seen.contains(a) && {
            seen.push(*a);
            true
        }
    });
    out.truncate(MOST);
    out
}

fn ipv4(text: &str) -> impl Iterator<Item = Ipv4Addr> {
    let mut last = None;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(address) = line.strip_prefix("|-- ") {
            last = address.parse::<Ipv4Addr>().ok();
            return None;
        }
        last.filter(|a| line.ends_with("host LOCAL") && !a.is_loopback() && !a.is_link_local())
    })
}

fn ipv6(text: &str) -> impl Iterator<Item = Ipv6Addr> {
    text.lines().filter_map(|line| {
        let digits = line.split_whitespace().next().filter(|d| d.len() == 32)?;
        let address = Ipv6Addr::from(u128::from_str_radix(digits, 16).ok()?);
        (!address.is_loopback() && !address.is_unicast_link_local()).then_some(address)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_once_and_loopback_is_none() {
        let t = tempfile::tempdir().unwrap();
        let net = t.path().join("net");
        std::fs::create_dir(&net).unwrap();
        // As the kernel of a real node wrote them, shortened.
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     +-- 10.0.0.0/24 2 0 2\n        |-- 10.0.0.0\n           /24 link UNICAST\n        |-- 10.0.0.5\n           /32 host LOCAL\n        |-- 10.0.0.255\n           /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\nLocal:\n        |-- 10.0.0.5\n           /32 host LOCAL\n";
        std::fs::write(net.join("fib_trie"), trie).unwrap();
        let v6 = "00000000000000000000000000000001 01 80 10 80       lo\nfd000000000000000000000000000005 02 40 00 80     eth0\nfe800000000000000042acfffe110002 02 40 20 80     eth0\n";
        std::fs::write(net.join("if_inet6"), v6).unwrap();
        let want: Vec<IpAddr> = vec!["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        assert_eq!(addresses(t.path()), want);
        assert_eq!(addresses(&t.path().join("nowhere")), Vec::<IpAddr>::new());
    }

    #[test]
    fn the_kernel_here_is_read() {
        assert!(addresses(Path::new("/proc")).iter().all(|a| !a.is_loopback()));
        let trie = muster_needs::require!(
            std::fs::read_to_string("/proc/net/fib_trie").map_err(|e| format!("/proc/net/fib_trie: {e}"))
        );
        assert!(trie.contains("127.0.0.1"), "the form is the one that is read");
    }
}
