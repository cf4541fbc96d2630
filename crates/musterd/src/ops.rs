//! What the node does when it is asked: one function for each operation, behind the core's judgement.
//!
//! When an operation is called here, the caller is known, its role suffices, the state of the node allows it, and its audit
//! record is as durable as its row wants. What is left is the work, and what only the work can find out.

mod access;
mod ca;
mod config;
pub mod lifecycle;
pub mod logs;
pub mod reset;
mod services;
mod state;
#[cfg(test)]
mod testing;
mod tools;
pub mod upgrade;
mod works;

use std::io::Write;

use muster_api::Fault;
use muster_core::Role;

use crate::core::owner::Owner;
use crate::places::Places;
use crate::wire::Ask;
pub use access::relabel as relabel_keys;
pub use works::Works;

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its certificate's name (CN).
    pub name: String,
    /// What its certificate lets it do.
    pub role: Role,
    /// Where from, as the edge says.
    pub address: String,
    /// [`Owner::trusts`] by which it was let in.
    pub judged_by: u64,
}

/// What is asked.
pub struct Request<'r> {
    /// Where everything is.
    pub places: &'r Places,
    /// Who owns the node.
    pub owner: &'r std::sync::Arc<Owner>,
    /// What is going on between the calls: one for the whole core.
    pub works: &'r Works,
    /// By whom.
    pub caller: &'r Caller,
    /// For what.
    pub ask: &'r Ask,
    /// The body, as it came.
    pub body: &'r [u8],
    /// Where to tell what becomes of what it begins and does not wait for.
    pub ended: Ended,
}

/// Writes down how something ended that a call began: whether it worked, and in words.
pub type Ended = std::sync::Arc<dyn Fn(bool, &str) + Send + Sync>;

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
        Ask::Health => Done::json(&muster_api::node::Health {
            status: "ok".to_owned(),
            role: request.caller.role.organisation().to_owned(),
        }),
        Ask::NodeState => state::read(request),
        Ask::Services => services::list(request),
        Ask::ServiceRestart { unit } => services::restart(request, unit),
        Ask::Logs { unit, lines, since, follow } => {
            logs::open(request, unit.as_deref(), *lines, *since, *follow)
        }
        Ask::SshKeys => access::list(request),
        Ask::SshKeyAdd => access::add(request),
        Ask::SshKeyRemove { fingerprint } => access::remove(request, fingerprint),
        Ask::UpgradeStage => upgrade::stage(request),
        Ask::UpgradeApply => upgrade::apply(request),
        Ask::UpgradeRollback { drop_staged } => upgrade::rollback(request, *drop_staged),
        Ask::Reboot => lifecycle::reboot(request),
        Ask::Shutdown => lifecycle::shutdown(request),
        Ask::Reset => reset::begin(request),
        Ask::EtcdState
        | Ask::Cordon
        | Ask::Uncordon
        | Ask::Drain
        | Ask::Kubeconfig { .. }
        | Ask::JoinToken { .. } => Err(not_in_a_cluster()),
        Ask::ConfigApply => config::apply(request),
        Ask::CaRotate => ca::rotate(request),
        Ask::CrlUpload => ca::take_list(request),
        Ask::AuditRead { .. } | Ask::ProofNonce => Err(not_built(request)),
    }
}

/// The node takes part in no cluster, or in none that this build can steer.
fn not_in_a_cluster() -> Fault {
    let why = muster_core::operation::Forbidden::NotAMember;
    Fault::state(why.reason(), "this node is in no cluster that it could act on").fix(why.fix())
}

fn not_built(request: &Request<'_>) -> Fault {
    let name = request.ask.operation().row().name;
    Fault::failed("not-built", format!("this build cannot do `{name}`"))
}

/// The body of a request as JSON. The words of serde may quote what was sent, so only kind and place are told.
fn body<T: serde::de::DeserializeOwned>(request: &Request<'_>) -> Result<T, Fault> {
    serde_json::from_slice(request.body).map_err(|e| {
        Fault::bad(
            "body",
            format!(
                "the body is not the JSON that belongs here: {:?} at line {}, column {}",
                e.classify(),
                e.line(),
                e.column()
            ),
        )
    })
}
