//! What `ssh-keygen -Y` answers beside `verify`: for the front that stands in its place.
//!
//! Read the file with [`crate::allowed_signers::Dialect::OpenSsh`]. `-Y verify` itself is
//! [`crate::verify::verify`], `-O verify-time=` is [`crate::allowed_signers::parse_time`],
//! `-O print-pubkey` is [`SshSig::public_key_line`], `-r` is [`crate::revoked::RevokedSigners`].

use crate::{
    Refusal, UtcTime,
    allowed_signers::AllowedSigners,
    pattern,
    sshsig::SshSig,
    verify::{self, Way},
};

/// `-Y check-novalidate`: whether the signature is by the key in it over these bytes in this
/// namespace. Says nothing about whose key it is.
pub fn check_novalidate(message: &[u8], signature: &SshSig, namespace: &str) -> Result<(), Refusal> {
    signature.check_algorithm()?;
    verify::check_namespace(signature, namespace)?;
    if let Some(cert) = signature.signer().certificate() {
        cert.check_authority()?;
    }
    signature.check_bytes(message)
}

/// `-Y find-principals`: for whom the signer is listed at `now`, from the first line that lists
/// it, one principal (or pattern) an element. Empty: nobody. Namespaces are not looked at, and the
/// signature is not verified, as in OpenSSH.
pub fn find_principals(allowed: &AllowedSigners, signature: &SshSig, now: UtcTime) -> Vec<String> {
    let split = |list: &str| list.split(',').map(str::to_owned).collect::<Vec<_>>();
    for entry in allowed.entries() {
        if verify::check_dates(entry, now).is_err() {
            continue;
        }
        match verify::way(entry, signature.signer()) {
            None => {}
            Some(Way::Exact) => return split(entry.principals()),
            Some(Way::Authority(cert)) => {
                let good = cert.check_authority().is_ok()
                    && cert.check_dates_and_options(now, signature.user_verified()).is_ok();
                let names: Vec<String> = cert
                    .principals()
                    .iter()
                    .filter(|p| pattern::list_matches(p.as_bytes(), entry.principals().as_bytes()))
                    .cloned()
                    .collect();
                if good && !names.is_empty() {
                    return names;
                }
            }
        }
    }
    Vec::new()
}

/// `-Y match-principals`: the principals field of each line that names `principal`, whatever its
/// key and dates. Empty: no line.
pub fn match_principals<'a>(allowed: &'a AllowedSigners, principal: &str) -> Vec<&'a str> {
    allowed.entries().iter().filter(|e| e.names(principal)).map(|e| e.principals()).collect()
}
