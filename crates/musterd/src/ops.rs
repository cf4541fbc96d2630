//! What the node does when it is asked: one function for each operation, behind the core's judgement.
//!
//! When an operation is called here, the caller is known, its role suffices, the state of the node allows it, and its audit
//! record is as durable as its row wants. What is left is the work, and what only the work can find out.

use std::io::Write;

use muster_api::Fault;
use muster_core::Role;

use crate::core::owner::Owner;
use crate::places::Places;
use crate::wire::Ask;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its certificate's name (CN).
    pub name: String,
    /// What its certificate lets it do.
    pub role: Role,
    /// Where from, as the edge says.
    pub address: String,
}

/// What is asked.
pub struct Request<'r> {
    /// Where everything is.
    pub places: &'r Places,
    /// Who owns the node.
    pub owner: &'r Owner,
    /// By whom.
    pub caller: &'r Caller,
    /// For what.
    pub ask: &'r Ask,
    /// The body, as it came.
    pub body: &'r [u8],
}

/// A stream to a client. A write fails when the client has left; so does [`Client::gone`], which a quiet stream asks.
pub trait Client: Write {
    /// Whether the client has left.
    fn gone(&self) -> bool;
}

/// Writes a stream to its end.
pub type Pump = Box<dyn FnOnce(&mut dyn Client) -> std::io::Result<()> + Send>;
/// What is done when the answer is out.
pub type Then = Box<dyn FnOnce() + Send>;

/// What an operation came to.
pub enum Done {
    /// One body.
    Answer {
        /// Status code.
        status: u16,
        /// Media type.
        content: &'static str,
        /// Nobody on the way may keep it.
        no_store: bool,
        /// The body.
        body: Vec<u8>,
        /// Afterwards.
        then: Option<Then>,
    },
    /// A body that comes bit by bit: `application/x-ndjson`, 200.
    Stream(Pump),
}

impl Done {
    /// 200 with a JSON value.
    pub fn json(value: &impl serde::Serialize) -> Result<Self, Fault> {
        Self::status(200, value)
    }

    /// A JSON value with another status.
    pub fn status(status: u16, value: &impl serde::Serialize) -> Result<Self, Fault> {
        let body = serde_json::to_vec(value).map_err(|e| Fault::failed("internal", e.to_string()))?;
        Ok(Self::Answer { status, content: "application/json", no_store: false, body, then: None })
    }

    /// With something to do when the answer is out.
    #[must_use]
    pub fn and_then(mut self, act: impl FnOnce() + Send + 'static) -> Self {
        if let Self::Answer { then, .. } = &mut self {
            *then = Some(Box::new(act));
        }
        self
    }
}

/// Does it.
///
/// # Errors
/// What the client is told.
pub fn perform(request: &Request<'_>) -> Result<Done, Fault> {
    match request.ask {
        Ask::Health => Done::json(&serde_json::json!({
            "status": "ok",
            "role": request.caller.role.organisation(),
        })),
        other => Err(Fault::failed(
            "not-built",
            format!("this build cannot do `{}` yet", other.operation().row().name),
        )),
    }
}
