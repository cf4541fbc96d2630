//! The services of the node.

use muster_api::Fault;

use super::{Done, Request, not_built};

pub(super) fn list(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}

pub(super) fn restart(request: &Request<'_>, _unit: &str) -> Result<Done, Fault> {
    Err(not_built(request))
}
