//! SSH signatures (`PROTOCOL.sshsig`): armour and blob.

use crate::{Reason, Refusal};

/// A blob or an armoured text over this many bytes is not looked at.
pub const MAX_BYTES: usize = 64 * 1024;

/// A well-formed SSH signature. Well-formed is not trusted: see [`crate::verify::verify`].
#[derive(Clone, Debug)]
pub struct SshSig {
    namespace: String,
    signer_blob: Vec<u8>,
    fingerprint: String,
    certificate: bool,
}

impl SshSig {
    /// Reads the armoured form, `-----BEGIN SSH SIGNATURE-----` at byte 0.
    pub fn parse_armored(text: &[u8]) -> Result<Self, Refusal> {
        if text.is_empty() {
            return Err(Refusal::new(Reason::SignatureMissing, "the signature is empty"));
        }
        Err(Refusal::new(Reason::SignatureMalformed, "signatures are not read yet"))
    }

    /// The namespace that was signed; never empty.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// `SHA256:` and unpadded base64 of the signing key (for a certificate, of the key in it).
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// The public key, or certificate, as it stands in the signature.
    pub fn signer_blob(&self) -> &[u8] {
        &self.signer_blob
    }

    /// Whether the signer shows an OpenSSH certificate.
    pub fn is_certificate(&self) -> bool {
        self.certificate
    }
}
