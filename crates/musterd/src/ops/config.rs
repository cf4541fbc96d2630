//! What the node shall be, before it is built.

use muster_api::Fault;
use muster_api::ownership::{ConfigAnswer, ConfigRequest};

use super::{Done, Request};

pub(super) fn apply(request: &Request<'_>) -> Result<Done, Fault> {
    let body: ConfigRequest = super::body(request)?;
    let applied = request.owner.apply_document(&body.document)?;
    Done::json(&ConfigAnswer {
        status: "applied".to_owned(),
        path: applied.path,
        role: applied.role.map(str::to_owned),
        api: applied.api,
        released: applied.released,
    })
}
