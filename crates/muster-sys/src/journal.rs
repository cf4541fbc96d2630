//! One record to journald over its native datagram socket.
//!
//! Format: systemd's "Native Journal Protocol" page (systemd.io/JOURNAL_NATIVE_PROTOCOL). A field
//! is `NAME=value\n`; a value with a line break is `NAME\n`, its length as 64 bits little-endian,
//! the bytes, `\n`. Names are `[A-Z0-9_]`, do not begin with a digit or underscore, at most 64.

use crate::SysError;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

/// Where journald listens.
pub const SOCKET: &str = "/run/systemd/journal/socket";

/// A record that is being put together.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    bytes: Vec<u8>,
}

impl Entry {
    /// An entry without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field. A name outside the allowed form is a programming error and is left out in
    /// release builds, because a record that journald drops whole would be worse.
    pub fn field(&mut self, name: &str, value: &str) -> &mut Self {
        let ok = (1..=64).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_uppercase())
            && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        debug_assert!(ok, "journal field name {name:?}");
        if !ok {
            return self;
        }
        self.bytes.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            self.bytes.push(b'\n');
            self.bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            self.bytes.push(b'=');
        }
        self.bytes.extend_from_slice(value.as_bytes());
        self.bytes.push(b'\n');
        self
    }

    /// Hands it to journald; an error when nobody listens, or when journald does not take it at
    /// once: a stuck journal must not hold up what is recorded.
    pub fn send(&self) -> Result<(), SysError> {
        self.send_to(Path::new(SOCKET))
    }

    /// [`Entry::send`] to another socket.
    pub fn send_to(&self, path: &Path) -> Result<(), SysError> {
        let err = |e: Errno| SysError::at("write to the journal at", path, e);
        static OURS: OnceLock<OwnedFd> = OnceLock::new();
        let fd = match OURS.get() {
            Some(fd) => fd,
            None => {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                let new = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
                let new = new.map_err(err)?;
                OURS.get_or_init(|| new)
            }
        };
        let to = SocketAddrUnix::new(path).map_err(err)?;
        let sent = rustix::net::sendto(fd, &self.bytes, SendFlags::NOSIGNAL, &to).map_err(err)?;
        if sent == self.bytes.len() {
            Ok(())
        } else {
            Err(SysError::at("write to the journal at", path, io::Error::from(io::ErrorKind::WriteZero)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_record_arrives_as_the_protocol_has_it() {
        let t = tempfile::tempdir().unwrap();
        let path = t.path().join("socket");
        let server = UnixDatagram::bind(&path).unwrap();
        let mut e = Entry::new();
        e.field("MESSAGE", "one line").field("MUSTER_TEXT", "two\nlines");
        e.send_to(&path).unwrap();
        let mut buf = [0u8; 256];
        let n = server.recv(&mut buf).unwrap();
        let mut want = b"MESSAGE=one line\nMUSTER_TEXT\n".to_vec();
        want.extend_from_slice(&9u64.to_le_bytes());
        want.extend_from_slice(b"two\nlines\n");
        assert_eq!(&buf[..n], &want[..]);
    }

    #[test]
    fn s3_nobody_listening_and_a_stuck_journal_are_errors() {
        let t = tempfile::tempdir().unwrap();
        let path = t.path().join("socket");
        let mut e = Entry::new();
        e.field("MESSAGE", &"x".repeat(4096));
        assert!(e.send_to(&path).unwrap_err().is_missing());
        let _server = UnixDatagram::bind(&path).unwrap();
        let full = (0..10_000).find_map(|_| e.send_to(&path).err());
        assert_eq!(full.unwrap().io().kind(), io::ErrorKind::WouldBlock);
    }
}
