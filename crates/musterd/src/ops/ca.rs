//! Whom the node obeys, and whom of them no longer.

use std::sync::Arc;

use muster_api::Fault;
use muster_api::ownership::{ListAnswer, RotateAnswer, RotateRequest, RotationSignature};

use super::{Done, Request};
use crate::core::owner::Revocation;
use crate::core::rotation::Rotation;

pub(super) fn rotate(request: &Request<'_>) -> Result<Done, Fault> {
    let body: RotateRequest = super::body(request)?;
    let malformed = || {
        Fault::bad(
            "bad-signature",
            "signature: not SCHEME SIGNATURE, four hex digits, a space and lower-case hex",
        )
    };
    let signature = body.signature.as_deref().map(|s| RotationSignature::parse(s).ok_or_else(malformed));
    let signature = signature.transpose()?;
    let new = request.owner.rotate(&Rotation {
        authority: &body.operator_ca,
        proof: &body.proof,
        judged_by: request.caller.judged_by,
        signature: signature.as_ref().map(|s| (s.scheme, s.signature.as_slice())),
    })?;
    let done = Done::json(&RotateAnswer {
        status: "rotated".to_owned(),
        operator_ca: new.fingerprint().to_string(),
        note: "clients of the authority before are let in no longer".to_owned(),
    })?;
    // It may cut the very connection that asked.
    let owner = Arc::clone(request.owner);
    Ok(done.and_then(move || owner.announce()))
}

pub(super) fn take_list(request: &Request<'_>) -> Result<Done, Fault> {
    let Revocation::List { number, revoked, next_update, .. } = request.owner.take_list(request.body)? else {
        return Err(Fault::failed("internal", "the list was taken and is not there"));
    };
    let done = Done::json(&ListAnswer {
        status: "taken".to_owned(),
        number,
        revoked,
        next_update: next_update.map(|t| t.to_string()),
    })?;
    let owner = Arc::clone(request.owner);
    Ok(done.and_then(move || owner.announce()))
}
