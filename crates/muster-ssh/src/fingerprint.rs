//! `SHA256:` fingerprints and the kinds of key, as OpenSSH writes them.

use core::fmt;

use aws_lc_rs::digest;
use base64ct::{Base64Unpadded, Encoding as _};

use crate::wire::Reader;

/// The SHA-256 of a public key's wire form, written `SHA256:` and unpadded base64 as `ssh-keygen -l` does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

/// A text that is not a `SHA256:` fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{shown:?} is not a fingerprint of the form SHA256:<43 characters of base64>")]
pub struct BadFingerprint {
    shown: String,
}

impl Fingerprint {
    /// Of a public key in its wire form.
    pub fn of_blob(blob: &[u8]) -> Self {
        let d = digest::digest(&digest::SHA256, blob);
        let mut bytes = [0; 32];
        // SHA-256 has 32 bytes; `zip` keeps a panic out of the path.
        bytes.iter_mut().zip(d.as_ref()).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }

    /// Reads `SHA256:…`.
    pub fn parse(text: &str) -> Result<Self, BadFingerprint> {
        let bad = || BadFingerprint { shown: text.chars().take(80).collect() };
        let base64 = text.strip_prefix("SHA256:").ok_or_else(bad)?;
        let mut bytes = [0; 32];
        match Base64Unpadded::decode(base64.trim_end_matches('='), &mut bytes) {
            Ok(d) if d.len() == 32 => Ok(Self(bytes)),
            _ => Err(bad()),
        }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", Base64Unpadded::encode_string(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl core::str::FromStr for Fingerprint {
    type Err = BadFingerprint;
    fn from_str(s: &str) -> Result<Self, BadFingerprint> {
        Self::parse(s)
    }
}

/// The kinds of key that may identify a host or log in. What is not here (DSA, the `sk-` kinds as
/// host keys) is not offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// `ssh-ed25519`
    Ed25519,
    /// `ecdsa-sha2-nistp256`
    EcdsaP256,
    /// `ecdsa-sha2-nistp384`
    EcdsaP384,
    /// `ecdsa-sha2-nistp521`
    EcdsaP521,
    /// `ssh-rsa`: the kind of key, always used with SHA-2 signatures.
    Rsa,
}

impl KeyKind {
    /// In the order in which they are offered.
    pub const ALL: [Self; 5] = [Self::Ed25519, Self::EcdsaP256, Self::EcdsaP384, Self::EcdsaP521, Self::Rsa];

    /// The name inside a public key's wire form.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ed25519 => "ssh-ed25519",
            Self::EcdsaP256 => "ecdsa-sha2-nistp256",
            Self::EcdsaP384 => "ecdsa-sha2-nistp384",
            Self::EcdsaP521 => "ecdsa-sha2-nistp521",
            Self::Rsa => "ssh-rsa",
        }
    }

    /// By the name inside a public key's wire form.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == name)
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The kind name that a wire form begins with.
pub(crate) fn blob_kind_name(blob: &[u8]) -> Option<&str> {
    Reader::new(blob).text().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_padding() {
        let fp = Fingerprint::of_blob(b"x");
        assert_eq!(Fingerprint::parse(&fp.to_string()), Ok(fp));
        assert_eq!(Fingerprint::parse(&format!("{fp}=")), Ok(fp));
    }

    #[test]
    fn refused() {
        for text in
            ["", "SHA256:", "MD5:00:11", "SHA256:AAAA", "sha256:n4bQgYhMfWWaL+qgxVrQFaO/TxsrC4Is0V1sFbDwCgg"]
        {
            assert!(Fingerprint::parse(text).is_err(), "{text}");
        }
    }
}
