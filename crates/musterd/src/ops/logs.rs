//! The journal of a service, and the kernel's.

use muster_api::Fault;

use super::{Done, Request, not_built};

pub(super) fn open(
    request: &Request<'_>,
    _unit: Option<&str>,
    _lines: Option<u32>,
    _since: Option<u64>,
    _follow: bool,
) -> Result<Done, Fault> {
    Err(not_built(request))
}
