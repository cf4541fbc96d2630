//! A script that was verified: the only thing that the executor runs.

use muster_core::Reason;
use muster_signing::Refusal;
use muster_signing::intent::Intent;
use muster_signing::verify::{Check, Verified, verify};
use muster_sys::memfd::Sealed;
use sha2::{Digest, Sha256};

/// Bytes that cannot change any more, and what was proven of them. There is no other way to make
/// one than to verify a signature over what was sealed.
#[derive(Debug)]
pub struct VerifiedScript {
    file: Sealed,
    digest: [u8; 32],
}

fn sealed(script: &[u8]) -> Result<Sealed, Refusal> {
    Sealed::new("muster-script", script).map_err(|e| Refusal::new(Reason::InternalFault, e.line()))
}

fn digest(file: &Sealed) -> Result<[u8; 32], Refusal> {
    let mut hash = Sha256::new();
    file.read_through(|piece| hash.update(piece))
        .map_err(|e| Refusal::new(Reason::InternalFault, e.line()))?;
    Ok(hash.finalize().into())
}

impl VerifiedScript {
    /// By a signature over the script itself (envelope 1). `check.message` is not looked at: what
    /// is verified is what was sealed.
    pub fn by_signature(script: Vec<u8>, check: &Check<'_>) -> Result<(Self, Verified), Refusal> {
        let file = sealed(&script)?;
        // From here on only the sealed bytes count; a second copy would only be memory.
        drop(script);
        let message = file.bytes().map_err(|e| Refusal::new(Reason::InternalFault, e.line()))?;
        let verified = verify(&Check { message: &message, ..*check })?;
        Ok((Self { digest: digest(&file)?, file }, verified))
    }

    /// By the digest in an intent whose signatures were verified and are enough (envelope 2).
    pub fn by_intent(script: &[u8], intent: &Intent, proof: &EnoughSigners) -> Result<Self, Refusal> {
        if proof.intent != *intent.digest() {
            return Err(Refusal::new(Reason::InternalFault, "the proof is of another intent"));
        }
        let file = sealed(script)?;
        let digest = digest(&file)?;
        intent.check_script(Some(&digest))?;
        Ok(Self { file, digest })
    }

    /// The sealed bytes.
    pub fn file(&self) -> &Sealed {
        &self.file
    }

    /// Their SHA-256.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }
}

/// Proof that an intent carries enough distinct signers, and that every signature it carries is
/// good.
#[derive(Debug)]
pub struct EnoughSigners {
    intent: [u8; 32],
    verified: Vec<Verified>,
}

impl EnoughSigners {
    /// Verifies each signature, then counts. One that does not verify refuses all.
    pub fn prove<'a>(
        intent: &Intent,
        checks: impl Iterator<Item = Check<'a>>,
        needed: u32,
    ) -> Result<Self, Refusal> {
        let verified = checks.map(|c| verify(&c)).collect::<Result<Vec<_>, _>>()?;
        let distinct = muster_signing::verify::distinct(&verified);
        if u32::try_from(distinct).is_ok_and(|n| n < needed.max(1)) {
            let detail = format!("{distinct} of {needed}");
            return Err(Refusal::new(Reason::Threshold, detail));
        }
        Ok(Self { intent: *intent.digest(), verified })
    }

    /// Fingerprints of the signing keys, with the authority of a certificate's.
    pub fn fingerprints(&self) -> Vec<String> {
        self.verified.iter().map(named).collect()
    }
}

/// The fingerprint of a signer for a record.
pub fn named(v: &Verified) -> String {
    match v.authority() {
        Some(ca) => format!("{} (authority {ca})", v.fingerprint()),
        None => v.fingerprint().to_owned(),
    }
}
