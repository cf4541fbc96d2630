//! Trust files are read before they are sent, and what lies on the host is read before a shim that
//! would refuse it takes the place of one that did not.

use crate::spec::{HostSpec, SpecFault};
use crate::text::why_hidden;
use muster_core::UtcTime;
use muster_signing::allowed_signers::{AllowedSigners, LocalTime, ZuluOnly};
use muster_signing::revoked::RevokedSigners;
use muster_signing::{FileFault, allowed_signers, revoked};

/// Principal and namespace of envelope 2.
const PRINCIPAL: &str = "muster";
const NAMESPACE: &str = "muster-intent";

/// Takes any civil time as UTC: good for finding out whether a line can be read, never for a verdict.
#[derive(Debug)]
struct AnyZone;

impl LocalTime for AnyZone {
    fn to_utc(&self, y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<UtcTime> {
        UtcTime::from_civil(y, mo, d, h, mi, s)
    }
}

/// The faults of the two trust files that a spec carries. Times must end in `Z` (S1): a time that
/// the caller's zone could move is not written.
pub(crate) fn check_spec(spec: &HostSpec, faults: &mut Vec<SpecFault>) {
    // The shim's own bounds (S10).
    for (part, bytes, most) in [
        ("allowed_signers", &spec.allowed_signers, allowed_signers::MAX_BYTES),
        ("revoked_signers", &spec.revoked_signers, revoked::MAX_BYTES),
    ] {
        if bytes.len() > most {
            let why = format!("{} bytes; the shim reads {} MiB at most", bytes.len(), most >> 20);
            faults.push(SpecFault::new(part, why));
        }
        // A binary revocation list (KRL) has no lines to read.
        if let Some(why) =
            core::str::from_utf8(bytes).ok().filter(|t| !t.starts_with("SSHKRL")).and_then(why_hidden)
        {
            faults.push(SpecFault::new(part, why));
        }
    }
    match AllowedSigners::parse(&spec.allowed_signers, &ZuluOnly) {
        Err(e) => faults.push(SpecFault::new("allowed_signers", e.to_string())),
        Ok(signers) => {
            let able = signers.identities(PRINCIPAL, NAMESPACE).len();
            if !spec.profiles.is_empty() && able < spec.signers_needed as usize {
                let why = format!(
                    "{able} distinct signers can sign as {PRINCIPAL} in namespace {NAMESPACE}, and signers-needed is {}: list more keys",
                    spec.signers_needed
                );
                faults.push(SpecFault::new("allowed_signers", why));
            }
        }
    }
    if let Err(e) = RevokedSigners::parse(&crate::files::revoked_signers(spec)) {
        faults.push(SpecFault::new("revoked_signers", e.to_string()));
    }
}

/// Reads an `allowed_signers` file that is already on a host. Times in the host's own zone are
/// taken where `zulu` is false.
pub fn check_allowed_signers(file: &[u8], zulu: bool) -> Result<(), FileFault> {
    let local: &dyn LocalTime = if zulu { &ZuluOnly } else { &AnyZone };
    AllowedSigners::parse(file, local).map(|_| ())
}

/// Reads a revocation list that is already on a host.
pub fn check_revoked_signers(file: &[u8]) -> Result<(), FileFault> {
    RevokedSigners::parse(file).map(|_| ())
}
