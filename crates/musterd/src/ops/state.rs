//! What the node says of itself.

use muster_api::Fault;

use super::{Done, Request, not_built};

pub(super) fn read(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}
