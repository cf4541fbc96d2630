//! Bytes that cannot change any more: a sealed memory file.
//!
//! What is hashed is read back from the descriptor after sealing, so that what was hashed is
//! what runs (memfd_create(2), `F_ADD_SEALS` in fcntl(2)).

use crate::SysError;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

/// A sealed memory file: nobody can write, grow, shrink or unseal it.
#[derive(Debug)]
pub struct Sealed {
    fd: OwnedFd,
    len: u64,
}

/// `MFD_NOEXEC_SEAL` of linux/memfd.h, Linux 6.3; older kernels say `EINVAL`.
const NOEXEC_SEAL: MemfdFlags = MemfdFlags::from_bits_retain(0x8);

impl Sealed {
    /// Copies `bytes` into a new memory file called `name` and seals it.
    pub fn new(name: &str, bytes: &[u8]) -> Result<Self, SysError> {
        let err = |e: Errno| SysError::new("make a sealed memory file", e);
        let base = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = match rustix::fs::memfd_create(name, base | NOEXEC_SEAL) {
            Err(Errno::INVAL) => rustix::fs::memfd_create(name, base),
            other => other,
        }
        .map_err(err)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::write(&fd, rest) {
                Ok(0) => return Err(err(Errno::IO)),
                Ok(n) => rest = rest.get(n..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(e) => return Err(err(e)),
            }
        }
        let seals = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(err)?;
        let got = rustix::fs::fcntl_get_seals(&fd).map_err(err)?;
        if !got.contains(seals) {
            return Err(err(Errno::PERM));
        }
        Ok(Self { fd, len: bytes.len() as u64 })
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Hands the content, read from the descriptor, to `sink` piece by piece.
    pub fn read_through(&self, mut sink: impl FnMut(&[u8])) -> Result<(), SysError> {
        let mut at = 0u64;
        let mut buf = [0u8; 4096];
        loop {
            match rustix::io::pread(&self.fd, &mut buf, at) {
                Ok(0) => break,
                Ok(n) => {
                    sink(buf.get(..n).unwrap_or_default());
                    at += n as u64;
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(SysError::new("read the sealed memory file", e)),
            }
        }
        if at == self.len { Ok(()) } else { Err(SysError::new("read the sealed memory file", Errno::IO)) }
    }

    /// The whole content, read from the descriptor.
    pub fn bytes(&self) -> Result<Vec<u8>, SysError> {
        let mut out = Vec::with_capacity(usize::try_from(self.len).unwrap_or(0));
        self.read_through(|piece| out.extend_from_slice(piece))?;
        Ok(out)
    }
}

impl AsFd for Sealed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;

    #[test]
    fn n3_sealed_bytes_cannot_change() {
        let s = Sealed::new("t", b"#!/bin/bash\necho hi\n").unwrap();
        assert_eq!(rustix::io::pwrite(&s, b"x", 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&s, 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&s, 100), Err(Errno::PERM));
        assert!(rustix::fs::fcntl_add_seals(&s, SealFlags::FUTURE_WRITE).is_err());
        let again =
            std::fs::OpenOptions::new().write(true).open(format!("/proc/self/fd/{}", s.as_fd().as_raw_fd()));
        if let Ok(f) = again {
            assert_eq!(rustix::io::write(&f, b"x"), Err(Errno::PERM));
        }
        assert_eq!(s.bytes().unwrap(), b"#!/bin/bash\necho hi\n");
        assert_eq!(s.len(), 20);
        assert!(!s.is_empty());
    }
}
