//! A TCP connection as the kernel's table shows it (proc_net_tcp in proc(5)).
//!
//! Used to notice a cut link: sshd does not see one while a script prints (docs/decisions/0002),
//! the kernel's count of unanswered retransmissions does.

use std::net::{IpAddr, Ipv6Addr};

/// One connection of this machine, by both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    peer: (IpAddr, u16),
    local: (IpAddr, u16),
}

impl Connection {
    /// Reads `SSH_CONNECTION` (ssh(1)): client address and port, server address and port.
    pub fn from_ssh(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut end = || -> Option<(IpAddr, u16)> {
            // A link-local address carries its zone, which the table does not show.
            let address = words.next()?.split('%').next()?.parse().ok()?;
            Some((address, words.next()?.parse().ok()?))
        };
        let (peer, local) = (end()?, end()?);
        words.next().is_none().then_some(Self { peer, local })
    }

    /// Who is at the other end.
    pub fn peer(&self) -> IpAddr {
        self.peer.0
    }

    /// Retransmissions of the connection that nobody has answered yet; `None` when the kernel
    /// shows no such established connection in this network namespace.
    pub fn unanswered(&self) -> Option<u32> {
        ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().find_map(|table| {
            let text = std::fs::read_to_string(table).ok()?;
            text.lines().find_map(|l| self.in_line(l))
        })
    }

    /// Its retransmissions, if a line of the table is about it.
    pub fn in_line(&self, line: &str) -> Option<u32> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
        let same = |shown: &str, end: (IpAddr, u16)| {
            shown == shown_v6(end) || shown_v4(end).is_some_and(|text| shown == text)
        };
        if state != "01" || !same(local, self.local) || !same(remote, self.peer) {
            return None;
        }
        u32::from_str_radix(words.nth(2)?, 16).ok()
    }
}

fn word(bytes: [u8; 4]) -> String {
    format!("{:08X}", u32::from_ne_bytes(bytes))
}

fn shown_v4((address, port): (IpAddr, u16)) -> Option<String> {
    let v4 = match address {
        IpAddr::V4(a) => a,
        IpAddr::V6(a) => a.to_ipv4_mapped()?,
    };
    Some(format!("{}:{port:04X}", word(v4.octets())))
}

fn shown_v6((address, port): (IpAddr, u16)) -> String {
    let v6: Ipv6Addr = match address {
        IpAddr::V4(a) => a.to_ipv6_mapped(),
        IpAddr::V6(a) => a,
    };
    let words: String = v6.octets().chunks_exact(4).filter_map(|c| Some(word(c.try_into().ok()?))).collect();
    format!("{words}:{port:04X}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_real_connection_is_found_over_both_families() {
        for listen in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            let Ok(server) = TcpListener::bind(listen) else { continue };
            let port = server.local_addr().unwrap().port();
            let to = if listen == "[::1]:0" { format!("[::1]:{port}") } else { format!("127.0.0.1:{port}") };
            let client = TcpStream::connect(to).unwrap();
            let (_accepted, _) = server.accept().unwrap();
            let (c, s) = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let text = format!("{} {} {} {}", c.ip(), c.port(), s.ip(), s.port());
            let found = Connection::from_ssh(&text).unwrap();
            assert_eq!(found.unanswered(), Some(0), "{listen} {text}");
            assert_eq!(found.peer(), c.ip());
            let other = format!("{} {} {} {}", c.ip(), c.port().wrapping_add(1), s.ip(), s.port());
            assert_eq!(Connection::from_ssh(&other).unwrap().unanswered(), None);
        }
    }

    #[test]
    fn the_tables_numbers() {
        let c = Connection::from_ssh("10.0.0.2 50000 10.0.0.1 22").unwrap();
        let line =
            "  1: 0100000A:0016 0200000A:C350 01 00000024:00000000 01:00000AB3 00000005     0        0 1 4";
        if cfg!(target_endian = "little") {
            assert_eq!(c.in_line(line), Some(5));
            assert_eq!(c.in_line(&line.replace(" 01 ", " 06 ")), None);
        }
        for bad in [
            "",
            "10.0.0.2 50000 10.0.0.1",
            "10.0.0.2 50000 10.0.0.1 22 x",
            "a 1 b 2",
            "10.0.0.2 70000 10.0.0.1 22",
        ] {
            assert_eq!(Connection::from_ssh(bad), None, "{bad}");
        }
        assert!(Connection::from_ssh("fe80::1%eth0 50000 fe80::2%eth0 22").is_some());
    }
}
