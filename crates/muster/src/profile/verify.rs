//! Judging what was signed, as a host will: the same crate, the same order of checks.

use super::folder::Script;
use super::signed::{self, SignedPhase, V1_NAME};
use crate::codes::Own;
use crate::fault::Fault;
use crate::files;
use muster_core::{HostName, PoolName, Reason, UtcTime};
use muster_signing::Refusal;
use muster_signing::allowed_signers::{self, AllowedSigners, LocalTime, ZuluOnly};
use muster_signing::intent::Target;
use muster_signing::revoked::{self, RevokedSigners};
use muster_signing::sshsig::SshSig;
use muster_signing::verify::{self, Check, Verified};
use std::path::{Path, PathBuf};

/// A trust root, read and understood.
#[derive(Debug)]
pub struct Root {
    /// The file it came from.
    pub file: PathBuf,
    allowed: AllowedSigners,
    revoked: Option<RevokedSigners>,
    needed: usize,
}

/// Local times as the operator's own tools have them, `TZ` included. Only for the published envelope and `ssh-keygen`'s part.
pub struct CallerTime;

impl LocalTime for CallerTime {
    fn to_utc(&self, y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<UtcTime> {
        muster_sys::clock::caller_local_to_unix(y, mo, d, h, mi, s).map(UtcTime::from_unix)
    }
}

impl Root {
    /// Reads the files. `needed` distinct signers must be possible at all (M13).
    /// Envelope 2 wants every time with a `Z` (S1); envelope 1 reads local times as OpenSSH does.
    pub fn read(allowed: &Path, list: Option<&Path>, needed: u32, envelope_one: bool) -> Result<Self, Fault> {
        let fault =
            |file: &Path, f: muster_signing::FileFault| Fault::new(Own::TrustFile, f.why).at(file, f.line);
        let local: &dyn LocalTime = if envelope_one { &CallerTime } else { &ZuluOnly };
        let signers = AllowedSigners::parse(&files::read(allowed, allowed_signers::MAX_BYTES)?, local)
            .map_err(|f| fault(allowed, f))?;
        let list = match list {
            Some(file) => Some(
                RevokedSigners::parse(&files::read(file, revoked::MAX_BYTES)?).map_err(|f| fault(file, f))?,
            ),
            None => None,
        };
        let needed = usize::try_from(needed.max(1)).unwrap_or(1);
        let able = signers.identities(signed::PRINCIPAL, signed::NAMESPACE).len();
        if able < needed && needed > 1 {
            let what = format!("{needed} signers are needed and the file can give {able}");
            return Err(Fault::new(Own::TrustFile, what)
                .at(allowed, 0)
                .fix("List more signers, or need fewer."));
        }
        Ok(Self { file: allowed.to_owned(), allowed: signers, revoked: list, needed })
    }

    fn one(
        &self,
        message: &[u8],
        signature: &SshSig,
        name: (&str, &str),
        now: UtcTime,
    ) -> Result<Verified, Refusal> {
        verify::verify(&Check {
            message,
            signature,
            namespace: name.0,
            principal: name.1,
            allowed: &self.allowed,
            revoked: self.revoked.as_ref(),
            now,
        })
    }

    /// Every signature, the threshold, and the script's digest.
    pub fn judge(
        &self,
        phase: &SignedPhase,
        script: Option<&Script>,
        now: UtcTime,
    ) -> Result<Vec<Verified>, Refusal> {
        let mut verified = Vec::new();
        for s in &phase.signatures {
            verified.push(self.one(
                &phase.bytes,
                &s.signature,
                (signed::NAMESPACE, signed::PRINCIPAL),
                now,
            )?);
        }
        let distinct = verify::distinct(&verified);
        if distinct < self.needed {
            let detail = format!("{distinct} of {}", self.needed);
            return Err(Refusal::new(Reason::Threshold, detail));
        }
        phase.intent.check_script(script.map(|s| &s.sha256))?;
        Ok(verified)
    }

    /// A script's signature for envelope 1.
    pub fn judge_v1(&self, script: &Script, signature: &SshSig, now: UtcTime) -> Result<Verified, Refusal> {
        self.one(&script.bytes, signature, (V1_NAME, V1_NAME), now)
    }
}

/// Whether it is for this host, now.
pub fn fits<'p>(
    phase: &'p SignedPhase,
    host: Option<(&HostName, &[PoolName])>,
    now: UtcTime,
) -> Result<Option<&'p Target>, Refusal> {
    let target = match host {
        Some((name, pools)) => Some(phase.intent.check_target(Some(name), pools)?),
        None => None,
    };
    phase.intent.check_validity(now)?;
    Ok(target)
}
