//! The trust files of a host: who may sign, and who no longer.

use crate::{called::CalledAs, paths, policy::Loaded, policy::Revoked};
use muster_core::{Reason, UtcTime};
use muster_signing::Refusal;
use muster_signing::allowed_signers::{AllowedSigners, LocalTime, ZuluOnly};
use muster_signing::revoked::RevokedSigners;
use muster_sys::file::Root;
use std::path::Path;

/// Principal of every signer of an intent.
pub const PRINCIPAL: &str = "muster";
/// SSHSIG namespace of intents.
pub const NAMESPACE: &str = "muster-intent";

/// Both files, read.
#[derive(Debug)]
pub struct Trust {
    /// Who may sign.
    pub allowed: AllowedSigners,
    /// Who may no longer; `None` where a list is not required and not there.
    pub revoked: Option<RevokedSigners>,
}

/// The machine's own time zone, never a caller's.
struct MachineTime;

impl LocalTime for MachineTime {
    fn to_utc(&self, y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<UtcTime> {
        muster_sys::clock::machine_local_to_unix(y, mo, d, h, mi, s).map(UtcTime::from_unix)
    }
}

/// Reads and judges both files.
pub fn load(root: &Root, called: CalledAs, loaded: &Loaded) -> Result<Trust, Refusal> {
    let path = called.trust_file();
    let text = root.read(Path::new(path), paths::TRUST_MAX).map_err(|e| {
        let reason = if e.is_missing() { Reason::TrustFileMissing } else { Reason::TrustFileUnsafe };
        Refusal::new(reason, e.to_string())
    })?;
    // Where intents are taken, a date without `Z` would mean another moment on another host.
    let zulu = loaded.policy.as_ref().is_some_and(|p| p.profiles.is_some() || p.signers_needed > 1);
    let local: &dyn LocalTime = if zulu { &ZuluOnly } else { &MachineTime };
    let allowed = AllowedSigners::parse(&text, local)
        .map_err(|e| Refusal::new(Reason::TrustFileMalformed, format!("{path}: {e}")))?;
    let rule = loaded.policy.as_ref().map_or(Revoked::Optional, |p| p.revoked);
    Ok(Trust { allowed, revoked: revoked(root, rule)? })
}

fn revoked(root: &Root, rule: Revoked) -> Result<Option<RevokedSigners>, Refusal> {
    let text = match root.read(Path::new(paths::REVOKED), paths::REVOKED_MAX) {
        Ok(text) => text,
        Err(e) if e.is_missing() && rule == Revoked::Optional => return Ok(None),
        Err(e) => return Err(Refusal::new(Reason::RevocationUnreadable, e.to_string())),
    };
    let list = RevokedSigners::parse(&text)
        .map_err(|e| Refusal::new(Reason::RevocationUnreadable, format!("{}: {e}", paths::REVOKED)))?;
    Ok(Some(list))
}

/// Whether the trust root can give as many distinct signers as the policy wants.
pub fn check_threshold_can_be_met(loaded: &Loaded, trust: &Trust) -> Result<(), Refusal> {
    let Some(policy) = loaded.policy.as_ref().filter(|p| p.signers_needed > 1) else { return Ok(()) };
    let there = trust.allowed.identities(PRINCIPAL, NAMESPACE).len();
    if u32::try_from(there).is_ok_and(|n| n < policy.signers_needed) {
        let needed = policy.signers_needed;
        return Err(Refusal::new(
            Reason::PolicyInvalid,
            format!("{}: signers-needed is {needed}, allowed_signers can give {there}", paths::POLICY),
        ));
    }
    Ok(())
}
