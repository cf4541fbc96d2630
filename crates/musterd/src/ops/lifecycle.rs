//! Reboot and power off.

use muster_api::Fault;

use super::{Done, Request, not_built};

pub(super) fn reboot(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}

pub(super) fn shutdown(request: &Request<'_>) -> Result<Done, Fault> {
    Err(not_built(request))
}
