//! Taking the node apart.

use muster_api::Fault;

use super::{Done, Request, not_built};

pub(super) fn begin(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}

/// Whether the node is being taken apart: the file of [`crate::places::RESETTING`] is there.
pub fn underway(places: &crate::places::Places) -> bool {
    // Also what cannot be looked at counts as there: a node that may be half apart takes on nothing new.
    std::fs::symlink_metadata(places.at(crate::places::RESETTING))
        .map_or_else(|e| e.kind() != std::io::ErrorKind::NotFound, |_| true)
}
