//! What the node shall be, before it is built.

use std::sync::Arc;

use muster_api::Fault;
use muster_api::ownership::{ConfigAnswer, ConfigRequest};

use super::{Done, Request};

pub(super) fn apply(request: &Request<'_>) -> Result<Done, Fault> {
    let body: ConfigRequest = super::body(request)?;
    let applied = request.owner.apply_document(&body.document, request.caller.judged_by)?;
    let done = Done::json(&ConfigAnswer {
        status: "applied".to_owned(),
        path: applied.path,
        role: applied.role.map(str::to_owned),
        api: applied.api,
        released: applied.released,
    })?;
    // It may listen elsewhere now.
    let owner = Arc::clone(request.owner);
    Ok(done.and_then(move || owner.announce()))
}
