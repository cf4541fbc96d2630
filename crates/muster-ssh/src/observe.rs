//! Reading along with the part of a handshake that is in the clear, before the SSH library does.
//!
//! Up to the server's NEWKEYS every byte it sends is readable (RFC 4253 sections 4.2, 6 and 7). This
//! observer frames it, keeps what an error message or a check needs, and refuses what the library
//! must not see: packets that are too large, keys and certificates that are malformed or nested,
//! signatures with SHA-1, and algorithm lists without a safe choice. Nothing is trusted here: the
//! library verifies the signature, and the handler judges the key.
//!
//! A rekey later on is encrypted and not seen. By then the host has proven who it is.

use crate::algorithms;
use crate::certificate::{Certificate, MAX_BLOB, certificate_kind, printable};
use crate::error::Cause;
use crate::fingerprint::KeyKind;
use crate::trust::known_kind;
use crate::wire::{Malformed, Reader};

/// The largest packet of a handshake: a reply with a certificate of the largest size, and some room.
const MAX_PACKET: usize = MAX_BLOB + 8 * 1024;
/// RFC 4253 4.2 lets a server talk before its version. No more than this.
const MAX_BANNER: usize = 8 * 1024;
/// Packets before NEWKEYS: KEXINIT, a reply, and a few IGNOREs.
const MAX_PACKETS: usize = 32;

const DISCONNECT: u8 = 1;
const KEXINIT: u8 = 20;
const NEWKEYS: u8 = 21;
const KEX_REPLY: u8 = 31;

/// What was seen of a handshake.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// `SSH-2.0-…`
    pub(crate) version: Option<String>,
    /// The first bytes that are no version.
    pub(crate) said: Vec<u8>,
    /// The key exchange list of the server's KEXINIT.
    pub(crate) kex: Option<String>,
    /// Its host key list.
    pub(crate) host_keys: Vec<String>,
    /// The host's key or certificate, as it came.
    pub(crate) host_key: Option<Vec<u8>>,
    /// Its words at parting.
    pub(crate) parting: Option<String>,
    /// What it did that ends this.
    pub(crate) violation: Option<Cause>,
    /// It closed its side.
    pub(crate) eof: bool,
}

enum Phase {
    Version,
    /// Collecting a packet: the length field first.
    Packets(usize),
    Over,
}

/// The state of one handshake.
pub(crate) struct Observer {
    phase: Phase,
    buffer: Vec<u8>,
    banner: usize,
}

impl Observer {
    pub(crate) fn new() -> Self {
        Self { phase: Phase::Version, buffer: Vec::new(), banner: 0 }
    }

    /// Whether everything from here on is encrypted.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Takes what arrived. An error is final.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], seen: &mut Seen) -> Result<(), Cause> {
        while let Some((&b, rest)) = bytes.split_first() {
            match self.phase {
                Phase::Over => return Ok(()),
                Phase::Version => {
                    bytes = rest;
                    self.version(b, seen)?;
                }
                Phase::Packets(count) => {
                    let wanted = self.wanted()?;
                    let missing = wanted.saturating_sub(self.buffer.len()).min(bytes.len());
                    let (now, later) = bytes.split_at(missing);
                    self.buffer.extend_from_slice(now);
                    bytes = later;
                    if self.buffer.len() >= 4 && self.buffer.len() == self.wanted()? {
                        let packet = core::mem::take(&mut self.buffer);
                        self.phase = self.packet(&packet, count, seen)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn version(&mut self, b: u8, seen: &mut Seen) -> Result<(), Cause> {
        self.banner += 1;
        if seen.said.len() < 200 {
            seen.said.push(b);
        }
        if b != b'\n' {
            self.buffer.push(b);
        } else {
            let line = core::mem::take(&mut self.buffer);
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches('\r');
            if line.starts_with("SSH-2.0-") || line.starts_with("SSH-1.99-") {
                seen.version = Some(printable(line));
                self.phase = Phase::Packets(0);
                return Ok(());
            }
            if line.starts_with("SSH-") {
                return Err(Cause::NotSsh { said: printable(line) });
            }
        }
        // 255 is RFC 4253's bound for a line.
        if self.buffer.len() > 255 || self.banner > MAX_BANNER {
            return Err(Cause::NotSsh { said: printable(&String::from_utf8_lossy(&seen.said)) });
        }
        Ok(())
    }

    /// How long the buffer must be for the next step: 4 for the length, then the whole packet.
    fn wanted(&self) -> Result<usize, Cause> {
        let Some(head) = self.buffer.first_chunk::<4>() else { return Ok(4) };
        let length = u32::from_be_bytes(*head) as usize;
        if (2..=MAX_PACKET).contains(&length) {
            Ok(4 + length)
        } else {
            Err(broken(format!("it announced a packet of {length} bytes during the handshake")))
        }
    }

    fn packet(&self, packet: &[u8], count: usize, seen: &mut Seen) -> Result<Phase, Cause> {
        if count >= MAX_PACKETS {
            return Err(broken("it does not come to the point in the handshake".to_owned()));
        }
        let malformed = |_| broken("it sent a malformed packet in the handshake".to_owned());
        let payload = payload(packet).map_err(malformed)?;
        let (&kind, body) = payload.split_first().ok_or_else(|| malformed(Malformed))?;
        match kind {
            KEXINIT => kexinit(body, seen)?,
            KEX_REPLY => kex_reply(body, seen)?,
            DISCONNECT => {
                let mut r = Reader::new(body);
                let _ = r.u32();
                seen.parting = r.text().ok().map(printable);
            }
            NEWKEYS => return Ok(Phase::Over),
            _ => {}
        }
        Ok(Phase::Packets(count + 1))
    }
}

fn broken(why: String) -> Cause {
    Cause::Protocol { why: format!("{why}; this is no working sshd, or somebody meddles") }
}

/// Takes the padding off.
fn payload(packet: &[u8]) -> Result<&[u8], Malformed> {
    let mut r = Reader::new(packet);
    r.u32()?;
    let padding = usize::from(r.byte()?);
    let body = r.rest();
    let length = body.len().checked_sub(padding).ok_or(Malformed)?;
    body.get(..length).ok_or(Malformed)
}

fn kexinit(body: &[u8], seen: &mut Seen) -> Result<(), Cause> {
    let malformed = |_| broken("it sent a malformed list of algorithms".to_owned());
    let mut r = Reader::new(body);
    r.take(16).map_err(malformed)?; // cookie
    let kex = r.text().map_err(malformed)?;
    let host_keys = r.text().map_err(malformed)?;
    let ciphers = r.text().map_err(malformed)?;
    if !algorithms::terrapin_safe(kex, ciphers) {
        return Err(Cause::Protocol {
            why: "it has neither strict key exchange nor AES-GCM, so packets could be cut from the \
                  connection unseen (CVE-2023-48795); update its sshd"
                .to_owned(),
        });
    }
    seen.kex = Some(kex.to_owned());
    seen.host_keys = host_keys.split(',').take(64).map(printable).collect();
    Ok(())
}

fn kex_reply(body: &[u8], seen: &mut Seen) -> Result<(), Cause> {
    let malformed = |_| broken("it sent a malformed key exchange reply".to_owned());
    let mut r = Reader::new(body);
    let host_key = r.string().map_err(malformed)?;
    r.string().map_err(malformed)?; // its half of the exchange
    let signature = r.string().map_err(malformed)?;
    r.end().map_err(malformed)?;
    let kind = if certificate_kind(host_key).is_some() {
        Certificate::parse(host_key).map_err(Cause::HostCertificateRefused)?.kind
    } else {
        known_kind(host_key).map_err(|e| Cause::HostKeyRefused { why: e.to_string() })?
    };
    let algorithm = Reader::new(signature).text().map_err(malformed)?;
    let fits = match kind {
        KeyKind::Rsa => matches!(algorithm, "rsa-sha2-256" | "rsa-sha2-512"),
        other => algorithm == other.name(),
    };
    if !fits {
        return Err(Cause::HostKeyRefused {
            why: format!("it signed with {}, which is not accepted for its key", printable(algorithm)),
        });
    }
    seen.host_key = Some(host_key.to_vec());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(payload: &[u8]) -> Vec<u8> {
        let mut out = (payload.len() as u32 + 5).to_be_bytes().to_vec();
        out.push(4);
        out.extend_from_slice(payload);
        out.extend_from_slice(&[0; 4]);
        out
    }

    fn run(bytes: &[u8], chunk: usize) -> (Seen, Result<(), Cause>) {
        let mut seen = Seen::default();
        let mut observer = Observer::new();
        for part in bytes.chunks(chunk.max(1)) {
            if let Err(cause) = observer.feed(part, &mut seen) {
                return (seen, Err(cause));
            }
        }
        (seen, Ok(()))
    }

    #[test]
    fn st20_giant_packet_is_refused_before_it_is_buffered() {
        for length in [0u32, 1, 80_000, 0x4000_0000, u32::MAX] {
            let mut bytes = b"SSH-2.0-x\r\n".to_vec();
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(&[0; 64]);
            assert!(matches!(run(&bytes, 7).1, Err(Cause::Protocol { .. })), "{length}");
        }
    }

    #[test]
    fn st20_endless_banner_is_refused() {
        let long = vec![b'a'; 300];
        assert!(matches!(run(&long, 11).1, Err(Cause::NotSsh { .. })));
        let many = b"hello\r\n".repeat(2000);
        assert!(matches!(run(&many, 11).1, Err(Cause::NotSsh { .. })));
        assert!(matches!(run(b"SSH-1.5-old\r\n", 3).1, Err(Cause::NotSsh { .. })));
    }

    #[test]
    fn sha1_signature_of_the_exchange_is_refused() {
        let mut key = Vec::new();
        crate::wire::put_string(&mut key, b"ssh-rsa");
        crate::wire::put_string(&mut key, &[1, 0, 1]);
        crate::wire::put_string(&mut key, &[0x7f; 384]);
        for (algorithm, ok) in
            [("ssh-rsa", false), ("rsa-sha2-256", true), ("rsa-sha2-512", true), ("ssh-ed25519", false)]
        {
            let mut signature = Vec::new();
            crate::wire::put_string(&mut signature, algorithm.as_bytes());
            crate::wire::put_string(&mut signature, &[1; 384]);
            let mut reply = vec![KEX_REPLY];
            for part in [&key[..], &[2; 32], &signature] {
                crate::wire::put_string(&mut reply, part);
            }
            let bytes = [b"SSH-2.0-x\r\n".to_vec(), framed(&reply)].concat();
            let (seen, result) = run(&bytes, 13);
            assert_eq!(result.is_ok(), ok, "{algorithm}");
            assert_eq!(seen.host_key.is_some(), ok, "{algorithm}");
        }
    }

    #[test]
    fn encrypted_bytes_after_newkeys_are_not_read() {
        let mut bytes = [b"SSH-2.0-x\r\n".to_vec(), framed(&[NEWKEYS])].concat();
        bytes.extend_from_slice(&[0xff; 100]);
        for chunk in [1, 5, 1000] {
            assert_eq!(run(&bytes, chunk).1, Ok(()));
        }
    }

    proptest! {
        #[test]
        fn never_panics_and_never_hoards(bytes in proptest::collection::vec(any::<u8>(), 0..4096), chunk in 1usize..64) {
            let bytes = [b"SSH-2.0-x\r\n".to_vec(), bytes].concat();
            let (seen, _) = run(&bytes, chunk);
            prop_assert!(seen.said.len() <= 200);
        }
    }
}
