//! The node API as it is on the wire: routes, bodies, faults. Version 1.
//!
//! Pure types. JSON both ways, names in camelCase as in the seed of this API; what is unknown is left out, never a
//! placeholder. A body with a member that we do not know is refused by the node and passed over by a client, so that an older
//! client can read a newer node.
//!
//! Sources: RFC 9110 (methods, codes), RFC 8259 (JSON).
#![forbid(unsafe_code)]

pub mod access;
mod fault;
pub mod lifecycle;
pub mod logs;
pub mod node;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod ownership;
mod proof;
mod routes;
pub mod services;
pub mod upgrade;

pub use fault::{Fault, Kind};
pub use ownership::rotation_text;
pub use proof::{Nonce, ProofHeader, proof_text};
pub use routes::{Answer, Found, MAX_SMALL, Method, ROUTES, Route, find};

/// The one route of a node that nobody has claimed.
pub const ENROLL: &str = "/v1/enroll";
/// Answers carry the newest record of the audit chain: `SEQ:HASH`.
pub const AUDIT_HEADER: &str = "muster-audit";
/// A request's own signature, where the node demands one.
pub const PROOF_HEADER: &str = "muster-proof";
/// A stream of JSON values, one on a line.
pub const NDJSON: &str = "application/x-ndjson";
