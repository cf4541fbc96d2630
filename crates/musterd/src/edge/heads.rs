//! What HTTP leaves open about a request, and hyper mends: how it names the node, what is behind a `#`, how long its body is.
//!
//! hyper cuts a fragment off a request line, and drops a `Content-Length` that has a `Transfer-Encoding` beside it, before a request is
//! shown to us. So [`Heads`] reads along, on HTTP/1.1, and tells of each head what was taken out of it; it decides nothing about where a
//! message ends, for that is hyper's: where it loses its way, as on a line with more blanks than it keeps, it sees nothing more, and no request
//! after that is taken. Sources: RFC 9112
//! (2.2, 3.2, 6.1, 6.3, 7.1), RFC 9113 (8.3.1), RFC 3986 (3.2.2, 3.2.3).
//!
//! Pure: bytes in, words out.

use core::net::Ipv6Addr;

/// Of a line, what is kept of it: enough for a name that is looked for, and a number.
const KEPT: usize = 64;

/// What of a head nobody behind hyper would see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing.
    Nothing,
    /// A fragment, or a `#` in the method.
    Fragment,
    /// A length beside a transfer coding.
    Length,
    /// It is not known: a line before was longer than any that means well.
    Lost,
}

/// Reads along with the requests of one connection of HTTP/1.1.
#[derive(Debug, Default)]
pub struct Heads {
    at: At,
    /// The beginning of the line that is being read.
    line: Vec<u8>,
    length: Option<u64>,
    chunked: bool,
    fragment: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    /// A request line, or one of the empty lines that may stand before it.
    #[default]
    Request,
    /// A line of a head.
    Field,
    /// So many bytes of a body.
    Body(u64),
    /// The line that says how long a chunk is.
    Chunk,
    /// So many bytes of a chunk.
    Data(u64),
    /// A line behind the last chunk.
    Trailer,
    Lost,
}

impl Heads {
    /// One that has lost its way.
    #[must_use]
    pub fn lost() -> Self {
        Self { at: At::Lost, ..Self::default() }
    }

    /// Takes the next bytes; `each` gets a word for each head that ends in them.
    pub fn see(&mut self, mut bytes: &[u8], mut each: impl FnMut(Taken)) {
        while !bytes.is_empty() {
            match &mut self.at {
                At::Lost => return,
                At::Body(left) | At::Data(left) => {
                    let some = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                    *left -= some as u64;
                    bytes = bytes.get(some..).unwrap_or_default();
                    self.at = match self.at {
                        At::Body(0) => At::Request,
                        At::Data(0) => At::Chunk,
                        at => at,
                    };
                }
                At::Request | At::Field | At::Chunk | At::Trailer => {
                    let end = bytes.iter().position(|b| *b == b'\n');
                    let (line, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
                    self.fragment |= self.at == At::Request && line.contains(&b'#');
                    let room = KEPT.saturating_sub(self.line.len()).min(line.len());
                    self.line.extend_from_slice(line.get(..room).unwrap_or_default());
                    bytes = rest.get(1..).unwrap_or_default();
                    if end.is_some() {
                        self.ended(&mut each);
                        self.line.clear();
                    }
                }
            }
        }
    }

    /// A line is whole.
    fn ended(&mut self, each: &mut impl FnMut(Taken)) {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let empty = line.is_empty();
        self.at = match self.at {
            At::Request if empty => At::Request,
            At::Request => At::Field,
            At::Field if empty => {
                each(match (self.fragment, self.chunked && self.length.is_some()) {
                    (true, _) => Taken::Fragment,
                    (false, true) => Taken::Length,
                    (false, false) => Taken::Nothing,
                });
                self.fragment = false;
                match (core::mem::take(&mut self.chunked), self.length.take().unwrap_or(0)) {
                    (true, _) => At::Chunk,
                    (false, 0) => At::Request,
                    (false, length) => At::Body(length),
                }
            }
            At::Field => {
                let (name, value) = field(line);
                if name.eq_ignore_ascii_case(b"content-length") {
                    if line.len() >= KEPT - 1 {
                        // A number behind so many blanks may go on behind what is kept.
                        self.at = At::Lost;
                        return;
                    }
                    self.length = Some(number(value, 10).unwrap_or(0));
                }
                self.chunked |= name.eq_ignore_ascii_case(b"transfer-encoding");
                At::Field
            }
            At::Chunk if line.len() >= KEPT - 1 => At::Lost,
            At::Chunk => match number(line, 16).map(|size| (size, size.checked_add(2))) {
                Some((0, _)) => At::Trailer,
                // With the end of its line.
                Some((_, Some(more))) => At::Data(more),
                _ => At::Lost,
            },
            At::Trailer if empty => At::Request,
            at => at,
        };
    }
}

/// Name and value of a line.
fn field(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|b| *b == b':') {
        Some(at) => (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default().trim_ascii()),
        None => (line, &[]),
    }
}

/// The number that stands at the beginning.
fn number(text: &[u8], radix: u32) -> Option<u64> {
    let digits = text.iter().take_while(|b| char::from(**b).is_digit(radix)).count();
    let digits = core::str::from_utf8(text.get(..digits)?).ok()?;
    u64::from_str_radix(digits, radix).ok()
}

/// Whether this names a host, and a port where it names one: `uri-host [ ":" port ]`, without a user, and not empty.
#[must_use]
pub fn is_authority(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            if address.parse::<Ipv6Addr>().is_err() {
                return false;
            }
            match (port, port.strip_prefix(':')) {
                ("", _) => return true,
                (_, Some(port)) => ("x", port),
                _ => return false,
            }
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = port.bytes().all(|b| b.is_ascii_digit()) && (port.is_empty() || port.parse::<u16>().is_ok());
    port && !host.is_empty()
        && host.len() <= 255
        && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Vec<Taken> {
        let (mut whole, mut pieces) = (Vec::new(), Vec::new());
        Heads::default().see(text.as_bytes(), |t| whole.push(t));
        let mut heads = Heads::default();
        for byte in text.as_bytes() {
            heads.see(&[*byte], |t| pieces.push(t));
        }
        assert_eq!(whole, pieces, "{text}");
        whole
    }

    #[test]
    fn m15_what_hyper_takes_out_of_a_head_is_told_of_each() {
        use Taken::{Fragment, Length, Nothing};
        let get = "GET /v1/node HTTP/1.1\r\nhost: x\r\n\r\n";
        assert_eq!(seen(get), [Nothing]);
        assert_eq!(seen(&format!("\r\n\n{get}{get}")), [Nothing, Nothing]);
        assert_eq!(seen(&get.replace("node", "node#x")), [Fragment]);
        assert_eq!(seen(&get.replace("node", &format!("{}#", "n".repeat(200)))), [Fragment]);
        assert_eq!(seen(&get.replace("\r\n", "\n")), [Nothing], "an end of a line without its CR");
        assert_eq!(seen(&get.replace("host: x", "x: #")), [Nothing], "a `#` elsewhere");
        // A body is no head, whatever stands in it.
        let inner = get.replace("node", "node#x");
        let length = inner.len();
        let post = format!("POST /v1/config HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{inner}");
        assert_eq!(seen(&format!("{post}{get}{inner}")), [Nothing, Nothing, Fragment]);
        let chunks = format!("{length:x};ext=\"1\"\r\n{inner}\r\n0\r\ntrailer: 1\r\n\r\n");
        let post = format!("POST /v1/config HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        assert_eq!(seen(&format!("{post}{inner}{get}")), [Nothing, Fragment, Nothing]);
        for both in [
            "content-length: 2\r\nTRANSFER-encoding:chunked",
            "transfer-encoding: chunked\r\ncontent-length: 2",
        ] {
            let head = format!("POST /v1/config HTTP/1.1\r\n{both}\r\n\r\n{chunks}");
            assert_eq!(seen(&format!("{head}{get}")), [Length, Nothing], "{both}");
        }
        // No length that is none leads anywhere.
        let far = format!("POST / HTTP/1.1\r\ncontent-length:{}9\r\n\r\n{inner}", " ".repeat(80));
        assert_eq!(seen(&far), []);
        let odd = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(seen(&format!("{odd}{}5\r\nhello\r\n0\r\n\r\n{inner}", "0".repeat(80))), [Nothing]);
        assert_eq!(seen(&format!("{odd}x\r\n{get}")), [Nothing]);
        assert_eq!(seen(&format!("{odd}ffffffffffffffff\r\n{get}")), [Nothing]);
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_a_port() {
        for good in
            ["x", "edge-1:7443", "192.0.2.7", "192.0.2.7:443", "[2001:db8::1]", "[::1]:7443", "a_b.example:"]
        {
            assert!(is_authority(good), "{good}");
        }
        let long = "a".repeat(256);
        for bad in [
            "",
            ":7443",
            "a b",
            "a@b",
            "user:word@x",
            "x:y",
            "x:70000",
            "x:1:2",
            "::1",
            "[::1",
            "[::1]7443",
            "[x]",
            "[fe80::1%eth0]:7443",
            "[]",
            "x/y",
            "x,y",
            "x\u{202e}",
            "x#",
            "x?y",
            &long,
        ] {
            assert!(!is_authority(bad), "{bad}");
        }
    }
}
