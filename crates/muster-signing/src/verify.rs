//! Is this signature, over these bytes, by somebody whom this file lists?
//!
//! Invariant: a [`Verified`] exists only where every check passed: algorithm, namespace, a line of
//! `allowed_signers` for the key or its authority, dates, certificate, revocation, and the
//! signature itself over the received bytes. All checks use one `now`.

use crate::{
    Reason, Refusal, UtcTime,
    allowed_signers::{AllowedSigners, Entry},
    certificate::Certificate,
    key::{self, PublicKey},
    revoked::RevokedSigners,
    sshsig::{SignerKey, SshSig},
};

/// Who a signer is, for counting: the blob of a plain key, or of the authority whose certificate
/// signed. All certificates of one authority are one signer, and a key that is listed twice is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignerId(Vec<u8>);

impl SignerId {
    pub(crate) fn of(key: &PublicKey) -> Self {
        Self(key.blob().to_vec())
    }

    /// The public key blob (RFC 4253 wire form).
    pub fn blob(&self) -> &[u8] {
        &self.0
    }

    /// `SHA256:` fingerprint of the blob.
    pub fn fingerprint(&self) -> String {
        key::fingerprint(&self.0)
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
///
/// ```compile_fail,E0451
/// use muster_signing::{key::PublicKey, verify::{SignerId, Verified}};
/// fn forge(signer: SignerId) -> Verified {
///     Verified { signer, fingerprint: String::new(), authority: None, certificate: None, line: 1 }
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Verified {
    signer: SignerId,
    fingerprint: String,
    authority: Option<String>,
    certificate: Option<(String, u64)>,
    line: usize,
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

    /// The certificate's key id and serial, when a certificate signed. Text of the issuer's.
    pub fn certificate(&self) -> Option<(&str, u64)> {
        self.certificate.as_ref().map(|(id, serial)| (id.as_str(), *serial))
    }

    /// The line of `allowed_signers` that vouches.
    pub fn line(&self) -> usize {
        self.line
    }
}

/// Verifies one signature.
///
/// Refuses, in this order, with `algorithm`; `namespace`; `key-unknown`, `principal`, `namespace`
/// (of the line), `key-not-yet-valid`, `key-expired` or `certificate`; `revoked`; `bytes-differ`,
/// whose detail has the SHA-256 of the received bytes.
pub fn verify(check: &Check<'_>) -> Result<Verified, Refusal> {
    let sig = check.signature;
    sig.check_algorithm()?;
    check_namespace(sig, check.namespace)?;
    let entry = find_entry(check)?;
    check_revoked(sig.signer(), check.revoked)?;
    sig.check_bytes(check.message)?;
    let by_authority = entry.is_authority();
    let certificate = sig.signer().certificate();
    let identity = match certificate {
        Some(cert) if by_authority => cert.authority(),
        _ => sig.signer().key(),
    };
    Ok(Verified {
        signer: SignerId::of(identity),
        fingerprint: sig.fingerprint(),
        authority: certificate.map(|c| c.authority().fingerprint()),
        certificate: certificate.map(|c| (c.key_id().to_owned(), c.serial())),
        line: entry.line(),
    })
}

/// How many distinct signers these are, at the least.
///
/// Signatures that share an identity are one signer, and so are signatures that were made by one
/// key: else somebody whose key is listed plainly and is also in a certificate of a listed
/// authority would be two people. Both kinds of sameness are followed through
/// (docs/decisions/0010-one-key-is-one-signer.md).
pub fn distinct(verified: &[Verified]) -> usize {
    let mut groups: Vec<Vec<&Verified>> = Vec::new();
    for v in verified {
        let same = |w: &&Verified| w.signer == v.signer || w.fingerprint == v.fingerprint;
        let (joined, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(|g| g.iter().any(same));
        groups = apart;
        groups.push(joined.into_iter().flatten().chain([v]).collect());
    }
    groups.len()
}

pub(crate) fn check_namespace(sig: &SshSig, wanted: &str) -> Result<(), Refusal> {
    if sig.namespace() == wanted {
        return Ok(());
    }
    let got = crate::wire::shown(sig.namespace().as_bytes());
    Err(Refusal::new(Reason::Namespace, format!("it was made for {got:?}, wanted {wanted:?}")))
}

fn check_revoked(signer: &SignerKey, list: Option<&RevokedSigners>) -> Result<(), Refusal> {
    match list.and_then(|list| list.why_revoked(signer)) {
        Some(why) => Err(Refusal::new(Reason::Revoked, why)),
        None => Ok(()),
    }
}

/// The first line that vouches for the signer. When none does, the refusal is that of the line
/// that came furthest.
fn find_entry<'a>(check: &Check<'a>) -> Result<&'a Entry, Refusal> {
    let signer = check.signature.signer();
    let mut best: Option<(u8, Refusal)> = None;
    for entry in check.allowed.entries() {
        let Some(way) = way(entry, signer) else { continue };
        match judge(check, entry, way) {
            Ok(()) => return Ok(entry),
            Err((rank, refusal)) => {
                if best.as_ref().is_none_or(|(r, _)| rank > *r) {
                    best = Some((rank, refusal));
                }
            }
        }
    }
    Err(best.map_or_else(|| unknown(signer), |(_, refusal)| refusal))
}

fn unknown(signer: &SignerKey) -> Refusal {
    let fp = signer.key().fingerprint();
    let detail = match signer.certificate() {
        None => format!("key {fp}"),
        Some(cert) => format!("certificate of key {fp} by authority {}", cert.authority().fingerprint()),
    };
    Refusal::new(Reason::KeyUnknown, detail)
}

/// In which way a line is about a signer at all.
#[derive(Clone, Copy)]
pub(crate) enum Way<'a> {
    /// The line lists the signer's own blob.
    Exact,
    /// The line lists the authority of the signer's certificate.
    Authority(&'a Certificate),
}

pub(crate) fn way<'a>(entry: &Entry, signer: &'a SignerKey) -> Option<Way<'a>> {
    if !entry.is_authority() {
        return (entry.key().blob() == signer.blob()).then_some(Way::Exact);
    }
    let cert = signer.certificate()?;
    (entry.key().blob() == cert.authority().blob()).then_some(Way::Authority(cert))
}

/// Whether a line that is about the signer vouches for it here and now; the number says how far
/// it came.
fn judge(check: &Check<'_>, entry: &Entry, way: Way<'_>) -> Result<(), (u8, Refusal)> {
    let line = entry.line();
    if !entry.names(check.principal) {
        let detail = format!("line {line} lists it, but not for principal {:?}", check.principal);
        return Err((1, Refusal::new(Reason::Principal, detail)));
    }
    if !entry.allows_namespace(check.namespace) {
        let detail = format!("line {line} does not allow it in namespace {:?}", check.namespace);
        return Err((2, Refusal::new(Reason::Namespace, detail)));
    }
    check_dates(entry, check.now).map_err(|r| (3, r))?;
    match way {
        Way::Exact => match check.signature.signer().certificate() {
            Some(cert) => cert.check_authority().map_err(|r| (4, r)),
            None => Ok(()),
        },
        Way::Authority(cert) => {
            cert.check_authority().map_err(|r| (4, r))?;
            cert.check_dates_and_options(check.now, check.signature.user_verified()).map_err(|r| (5, r))?;
            cert.check_principal(check.principal).map_err(|r| (6, r))
        }
    }
}

/// `valid-after <= now <= valid-before` of a line.
pub(crate) fn check_dates(entry: &Entry, now: UtcTime) -> Result<(), Refusal> {
    let line = entry.line();
    if let Some(after) = entry.valid_after().filter(|after| now < *after) {
        return Err(Refusal::new(
            Reason::KeyNotYetValid,
            format!("line {line}: valid from {after}; now {now}"),
        ));
    }
    if let Some(before) = entry.valid_before().filter(|before| now > *before) {
        return Err(Refusal::new(
            Reason::KeyExpired,
            format!("line {line}: valid until {before}; now {now}"),
        ));
    }
    Ok(())
}
