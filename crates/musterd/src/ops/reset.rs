//! Taking the node apart.

use muster_api::Fault;

use super::{Done, Request, not_built};

pub(super) fn begin(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}

/// How far a reset is, where one is under way.
pub(super) fn state(_places: &crate::places::Places) -> Option<muster_api::node::ResetState> {
    None
}
