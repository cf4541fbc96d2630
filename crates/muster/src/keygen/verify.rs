//! `-Y verify`, `find-principals`, `match-principals`, `check-novalidate`.

use super::options::{Checking, Options};
use super::{NO, NOT_FOUND, Output, need, path};
use crate::files;
use crate::profile::verify::CallerTime;
use crate::settings::World;
use muster_signing::allowed_signers::{AllowedSigners, Dialect};
use muster_signing::keygen;
use muster_signing::revoked::RevokedSigners;
use muster_signing::sshsig::{self, SshSig};
use muster_signing::verify::{self, Check};
use std::ffi::OsString;
use std::path::Path;

/// Longest message taken: it is held in memory.
const MAX_MESSAGE: usize = 1 << 30;
/// Longest trust file taken.
const MAX_TRUST: usize = 64 << 20;

fn more(options: &Options, out: &mut Output) -> Result<Checking, u8> {
    options.checking(&CallerTime).map_err(|why| {
        out.error(&why);
        NO
    })
}

fn signature(file: &OsString, out: &mut Output) -> Result<SshSig, u8> {
    let file = path(file);
    let bytes = files::read(&file, sshsig::MAX_BYTES).map_err(|f| {
        out.error(&format!("Couldn't read signature file: {}", f.why.as_deref().unwrap_or(&f.what)));
        NO
    })?;
    SshSig::parse_armored(&bytes).map_err(|r| {
        out.error(&format!("{}: {r}", file.display()));
        NO
    })
}

fn signers(file: &OsString, out: &mut Output) -> Result<AllowedSigners, u8> {
    let file = path(file);
    let bytes = files::read(&file, MAX_TRUST).map_err(|f| {
        let why = f.why.as_deref().unwrap_or(&f.what).to_owned();
        out.error(&format!("Unable to open allowed keys file \"{}\": {why}", file.display()));
        NO
    })?;
    AllowedSigners::parse_as(Dialect::OpenSsh, &bytes, &CallerTime).map_err(|f| {
        out.error(&format!("{}:{}: {}", file.display(), f.line, f.why));
        NO
    })
}

fn message(out: &mut Output) -> Result<Vec<u8>, u8> {
    files::read(Path::new("-"), MAX_MESSAGE).map_err(|f| {
        out.error(&f.to_string());
        NO
    })
}

fn revoked(file: Option<&OsString>, out: &mut Output) -> Result<Option<RevokedSigners>, u8> {
    let Some(file) = file else { return Ok(None) };
    let file = path(file);
    let bytes = files::read(&file, MAX_TRUST).map_err(|f| {
        out.error(&f.to_string());
        NO
    })?;
    RevokedSigners::parse(&bytes).map(Some).map_err(|f| {
        out.error(&format!("{}:{}: {}", file.display(), f.line, f.why));
        NO
    })
}

fn text(value: &OsString) -> String {
    value.to_string_lossy().into_owned()
}

fn ended(result: Result<u8, u8>) -> u8 {
    result.unwrap_or_else(|code| code)
}

pub(super) fn verify(options: &Options, world: &World, out: &mut Output) -> u8 {
    let result = (|| {
        let namespace = text(need(options.namespace.as_ref(), options, "namespace", out)?);
        let sig_file = need(options.signature.as_ref(), options, "signature file", out)?;
        let file = need(options.file.as_ref(), options, "allowed keys file", out)?;
        let principal = text(need(options.identity.as_ref(), options, "principal identity", out)?);
        let judged = (|| {
            let more = more(options, out)?;
            let signature = signature(sig_file, out)?;
            let (allowed, revoked) = (signers(file, out)?, revoked(options.revoked.as_ref(), out)?);
            let check = Check {
                message: &message(out)?,
                signature: &signature,
                namespace: &namespace,
                principal: &principal,
                allowed: &allowed,
                revoked: revoked.as_ref(),
                now: more.time.unwrap_or(world.now),
            };
            match verify::verify(&check) {
                Ok(_) => Ok((signature, more)),
                Err(refusal) => {
                    out.error(&format!("Couldn't verify signature: {refusal}"));
                    Err(NO)
                }
            }
        })();
        match judged {
            Ok((signature, more)) => {
                let (kind, print) = (signature.short_type(), signature.fingerprint());
                let shown = crate::printer::clean(&principal);
                out.unless_quiet(&format!(
                    "Good \"{namespace}\" signature for {shown} with {kind} key {print}"
                ));
                if more.print_key {
                    out.data(&signature.public_key_line());
                }
                Ok(0)
            }
            Err(code) => {
                out.unless_quiet("Could not verify signature.");
                Err(code)
            }
        }
    })();
    ended(result)
}

pub(super) fn check_novalidate(options: &Options, out: &mut Output) -> u8 {
    let result = (|| {
        let namespace = text(need(options.namespace.as_ref(), options, "namespace", out)?);
        let sig_file = need(options.signature.as_ref(), options, "signature file", out)?;
        let judged = (|| {
            let more = more(options, out)?;
            let signature = signature(sig_file, out)?;
            keygen::check_novalidate(&message(out)?, &signature, &namespace).map_err(|refusal| {
                out.error(&format!("Couldn't verify signature: {refusal}"));
                NO
            })?;
            Ok((signature, more))
        })();
        match judged {
            Ok((signature, more)) => {
                let (kind, print) = (signature.short_type(), signature.fingerprint());
                out.unless_quiet(&format!("Good \"{namespace}\" signature with {kind} key {print}"));
                if more.print_key {
                    out.data(&signature.public_key_line());
                }
                Ok(0)
            }
            Err(code) => {
                out.unless_quiet("Could not verify signature.");
                Err(code)
            }
        }
    })();
    ended(result)
}

pub(super) fn find_principals(options: &Options, world: &World, out: &mut Output) -> u8 {
    let result = (|| {
        let sig_file = need(options.signature.as_ref(), options, "signature file", out)?;
        let file = need(options.file.as_ref(), options, "allowed keys file", out)?;
        let more = more(options, out)?;
        let signature = signature(sig_file, out)?;
        let allowed = signers(file, out)?;
        let found = keygen::find_principals(&allowed, &signature, more.time.unwrap_or(world.now));
        if found.is_empty() {
            out.error("No principal matched.");
            return Err(NO);
        }
        for principal in found {
            out.data(&crate::printer::clean(&principal));
        }
        Ok(0)
    })();
    ended(result)
}

pub(super) fn match_principals(options: &Options, out: &mut Output) -> u8 {
    let result = (|| {
        let file = need(options.file.as_ref(), options, "allowed keys file", out)?;
        let principal = text(need(options.identity.as_ref(), options, "principal ID", out)?);
        let allowed = signers(file, out)?;
        let found = keygen::match_principals(&allowed, &principal);
        if found.is_empty() {
            out.error("No principal matched.");
            return Err(NOT_FOUND);
        }
        for principals in found {
            out.data(&crate::printer::clean(principals));
        }
        Ok(0)
    })();
    ended(result)
}
