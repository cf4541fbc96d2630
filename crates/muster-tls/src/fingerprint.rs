//! The fingerprint of a certificate, as people compare it.

use base64ct::{Base64Unpadded, Encoding};
use core::fmt;
use core::str::FromStr;

/// SHA-256 over a certificate's DER. Shown as `SHA256:` and unpadded base64, as OpenSSH shows those of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Of a certificate's DER.
    pub fn of(der: &[u8]) -> Self {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
        let mut bytes = [0; 32];
        // SHA-256 has 32 bytes.
        bytes.iter_mut().zip(digest.as_ref()).for_each(|(to, from)| *to = *from);
        Self(bytes)
    }

    /// The bytes.
    pub const fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA256:{}", Base64Unpadded::encode_string(&self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let form = "a fingerprint is SHA256: and 43 characters of base64";
        let base64 = text.strip_prefix("SHA256:").ok_or(form)?;
        let mut bytes = [0; 32];
        match Base64Unpadded::decode(base64, &mut bytes) {
            Ok(all) if all.len() == 32 => Ok(Self(bytes)),
            _ => Err(form),
        }
    }
}
