//! Is this signature, over these bytes, by somebody whom this file lists?

use crate::{
    Reason, Refusal, UtcTime, allowed_signers::AllowedSigners, revoked::RevokedSigners, sshsig::SshSig,
};
use std::collections::BTreeSet;

/// Who a signer is, for counting: the blob of a plain key, or of the CA whose certificate signed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignerId(Vec<u8>);

impl SignerId {
    /// The public key blob (RFC 4253 wire form).
    pub fn blob(&self) -> &[u8] {
        &self.0
    }
}

/// One question to [`verify`].
#[derive(Clone, Copy)]
pub struct Check<'a> {
    /// The bytes that were received, as they were received.
    pub message: &'a [u8],
    /// The signature.
    pub signature: &'a SshSig,
    /// The only namespace that will do.
    pub namespace: &'a str,
    /// The principal that the key must be listed (and certified) for.
    pub principal: &'a str,
    /// The trust root.
    pub allowed: &'a AllowedSigners,
    /// The revocation list, where there is one.
    pub revoked: Option<&'a RevokedSigners>,
    /// The one `now` of this run.
    pub now: UtcTime,
}

/// A signature that was verified. Only [`verify`] makes one.
#[derive(Clone, Debug)]
pub struct Verified {
    signer: SignerId,
    fingerprint: String,
    authority: Option<String>,
}

impl Verified {
    /// Who signed, for counting.
    pub fn signer(&self) -> &SignerId {
        &self.signer
    }

    /// `SHA256:` fingerprint of the signing key (for a certificate, of the key in it).
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// `SHA256:` fingerprint of the certificate authority, when a certificate signed.
    pub fn authority(&self) -> Option<&str> {
        self.authority.as_deref()
    }
}

/// Verifies one signature.
pub fn verify(_check: &Check<'_>) -> Result<Verified, Refusal> {
    Err(Refusal::new(Reason::SignatureMalformed, "signatures are not verified yet"))
}

/// How many distinct signers these are.
pub fn distinct(verified: &[Verified]) -> usize {
    verified.iter().map(Verified::signer).collect::<BTreeSet<_>>().len()
}
