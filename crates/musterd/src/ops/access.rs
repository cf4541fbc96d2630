//! SSH keys that are let in as accounts that there are.

use muster_api::Fault;

use super::{Done, Request, not_built};

pub(super) fn list(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}

pub(super) fn add(request: &Request<'_>) -> Result<Done, Fault> {
    let _key: muster_api::access::SshKeyRequest = super::body(request)?;
    Err(not_built(request))
}

pub(super) fn remove(request: &Request<'_>, _fingerprint: &str) -> Result<Done, Fault> {
    Err(not_built(request))
}
