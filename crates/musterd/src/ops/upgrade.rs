//! Images: stage, apply, roll back.

use muster_api::Fault;

use super::{Done, Request, not_built};

pub(super) fn stage(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}

pub(super) fn apply(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}

pub(super) fn rollback(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}
