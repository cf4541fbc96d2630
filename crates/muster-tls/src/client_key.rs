//! A client's key that an SSH agent keeps: the same key as SSH, X.509 and TLS write it down.
//!
//! An agent signs what it is given and never lets the key out. What it signs with Ed25519, and with ECDSA on P-256 and P-384, is what
//! TLS 1.3 wants of such a key, in another spelling. RSA is not among them: agents sign in PKCS #1 v1.5, which TLS 1.3 does not take; and keys
//! in security tokens (`sk-`) sign more than the text.
//!
//! Sources: RFC 5656 (ECDSA in SSH), RFC 8709 (Ed25519 in SSH), RFC 5480 and RFC 8410 (their X.509), RFC 8446, 4.2.3 (schemes), RFC 3279, 2.2.3
//! (an ECDSA signature in DER).

use crate::fault::Fault;
use crate::operator_ca::parsed;
use crate::pem::one_certificate;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Ed25519,
    P256,
    P384,
}

const KINDS: [Kind; 3] = [Kind::Ed25519, Kind::P256, Kind::P384];

impl Kind {
    /// The type and, for ECDSA, the curve.
    const fn ssh(self) -> (&'static [u8], Option<&'static [u8]>) {
        match self {
            Self::Ed25519 => (b"ssh-ed25519", None),
            Self::P256 => (b"ecdsa-sha2-nistp256", Some(b"nistp256")),
            Self::P384 => (b"ecdsa-sha2-nistp384", Some(b"nistp384")),
        }
    }

    /// A SubjectPublicKeyInfo up to the key's own bytes.
    const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Ed25519 => &[0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00],
            Self::P256 => &[
                0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08,
                0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
            ],
            Self::P384 => &[
                0x30, 0x76, 0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05,
                0x2b, 0x81, 0x04, 0x00, 0x22, 0x03, 0x62, 0x00,
            ],
        }
    }

    /// Bytes of a public key: a point is uncompressed.
    const fn length(self) -> usize {
        match self {
            Self::Ed25519 => 32,
            Self::P256 => 65,
            Self::P384 => 97,
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKey {
    kind: Kind,
    public: Vec<u8>,
}

impl ClientKey {
    /// Of a public key as SSH writes it; `None` where it is of a kind that does not serve here.
    #[must_use]
    pub fn from_ssh(blob: &[u8]) -> Option<Self> {
        let (name, rest) = string(blob)?;
        let kind = KINDS.into_iter().find(|k| k.ssh().0 == name)?;
        let rest = match kind.ssh().1 {
            None => rest,
            Some(curve) => string(rest).filter(|(c, _)| *c == curve)?.1,
        };
        let (public, rest) = string(rest)?;
        let whole = rest.is_empty() && public.len() == kind.length();
        let plain = kind == Kind::Ed25519 || public.first() == Some(&4);
        (whole && plain).then(|| Self { kind, public: public.to_vec() })
    }

    /// Of a client's certificate, PEM.
    ///
    /// # Errors
    /// It is no certificate, or its key is of a kind that does not serve here.
    pub fn of_certificate(certificate: &str) -> Result<Self, Fault> {
        let der = one_certificate(certificate)?;
        let facts = parsed(&der)?;
        let spki = facts.public_key().raw;
        let kind = KINDS.into_iter().find(|k| spki.starts_with(k.prefix()));
        let public = kind.and_then(|k| Some((k, spki.strip_prefix(k.prefix())?)));
        public
            .filter(|(k, p)| p.len() == k.length())
            .map(|(kind, public)| Self { kind, public: public.to_vec() })
            .ok_or(Fault::Malformed(
                "certificate of a key that an agent can sign with: Ed25519, P-256 or P-384",
            ))
    }

    /// As SSH writes it.
    #[must_use]
    pub fn ssh(&self) -> Vec<u8> {
        let (name, curve) = self.kind.ssh();
        let mut out = Vec::new();
        for part in [Some(name), curve, Some(&self.public)].into_iter().flatten() {
            put(&mut out, part);
        }
        out
    }

    /// As X.509 writes it.
    pub(crate) fn spki(&self) -> Vec<u8> {
        [self.kind.prefix(), &self.public].concat()
    }

    /// The SignatureScheme of what it signs.
    #[must_use]
    pub const fn scheme(&self) -> u16 {
        match self.kind {
            Kind::Ed25519 => 0x0807,
            Kind::P256 => 0x0403,
            Kind::P384 => 0x0503,
        }
    }

    /// A signature as TLS has it, of one as an agent gives it. `None` where it is none of this kind of key.
    #[must_use]
    pub fn signature(&self, ssh: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = string(ssh)?;
        let (raw, rest) = string(rest)?;
        if name != self.kind.ssh().0 || !rest.is_empty() {
            return None;
        }
        if self.kind == Kind::Ed25519 {
            return (raw.len() == 64).then(|| raw.to_vec());
        }
        let (r, tail) = string(raw)?;
        let (s, tail) = string(tail)?;
        let number = |n: &[u8]| {
            // SSH and DER write a positive number alike: the fewest bytes, the first below 0x80.
            let good = match n {
                [] => false,
                [0, next, ..] => *next >= 0x80,
                [0] => false,
                [first, ..] => *first < 0x80,
            };
            good && n.len() <= self.kind.length().div_ceil(2)
        };
        if !tail.is_empty() || !number(r) || !number(s) {
            return None;
        }
        let mut both = Vec::new();
        for n in [r, s] {
            both.extend([2, u8::try_from(n.len()).ok()?]);
            both.extend_from_slice(n);
        }
        // At most 2 * (2 + 49) bytes, so one byte of length is enough.
        Some([&[0x30, u8::try_from(both.len()).ok().filter(|n| *n < 0x80)?], both.as_slice()].concat())
    }
}

/// A string of SSH (RFC 4251, 5), and what follows.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

fn put(out: &mut Vec<u8>, part: &[u8]) {
    // A name, a curve or a key: under a hundred bytes.
    out.extend_from_slice(&u32::try_from(part.len()).unwrap_or_default().to_be_bytes());
    out.extend_from_slice(part);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(parts: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        parts.iter().for_each(|p| put(&mut out, p));
        out
    }

    #[test]
    fn a_key_is_the_same_in_each_spelling() {
        let point = [&[4][..], &[7; 64]].concat();
        let p256 = strings(&[b"ecdsa-sha2-nistp256", b"nistp256", &point]);
        let key = ClientKey::from_ssh(&p256).expect("a key");
        assert_eq!((key.ssh(), key.scheme(), key.spki().len()), (p256.clone(), 0x0403, 91));
        let ed = ClientKey::from_ssh(&strings(&[b"ssh-ed25519", &[1; 32]])).expect("a key");
        assert_eq!((ed.scheme(), ed.spki().len()), (0x0807, 44));
        for bad in [
            vec![],
            strings(&[b"ssh-rsa", b"x", b"y"]),
            strings(&[b"ssh-ed25519", &[1; 31]]),
            strings(&[b"ecdsa-sha2-nistp256", b"nistp384", &point]),
            strings(&[b"ecdsa-sha2-nistp256", b"nistp256", &[[2].as_slice(), &[7; 64]].concat()]),
            [p256.as_slice(), b"x"].concat(),
            p256.get(..p256.len() - 1).expect("shorter").to_vec(),
        ] {
            assert_eq!(ClientKey::from_ssh(&bad), None);
        }
    }

    #[test]
    fn a_signature_of_an_agent_becomes_one_of_tls() {
        let point = [&[4][..], &[7; 64]].concat();
        let key =
            ClientKey::from_ssh(&strings(&[b"ecdsa-sha2-nistp256", b"nistp256", &point])).expect("a key");
        let sign = |r: &[u8], s: &[u8]| key.signature(&strings(&[b"ecdsa-sha2-nistp256", &strings(&[r, s])]));
        assert_eq!(sign(&[1], &[0, 0x80]), Some(vec![0x30, 7, 2, 1, 1, 2, 2, 0, 0x80]));
        for (r, s) in [(&[][..], &[1][..]), (&[0x80], &[1]), (&[0, 1], &[1]), (&[0], &[1]), (&[1; 34], &[1])]
        {
            assert_eq!(sign(r, s), None, "{r:?} {s:?}");
        }
        assert_eq!(key.signature(&strings(&[b"ssh-ed25519", &[1; 64]])), None);
        let ed = ClientKey::from_ssh(&strings(&[b"ssh-ed25519", &[1; 32]])).expect("a key");
        assert_eq!(ed.signature(&strings(&[b"ssh-ed25519", &[1; 64]])), Some(vec![1; 64]));
        assert_eq!(ed.signature(&strings(&[b"ssh-ed25519", &[1; 63]])), None);
    }
}
