//! The core: root, no network, decides.
//!
//! Threads that block, each with a bound; no event loop. The edge is believed in nothing but that it is the edge.

pub mod audit;
mod auditing;
mod banner;
mod call;
mod claim;
pub mod control;
mod crew;
pub mod disk;
pub mod documents;
mod enrolling;
mod enrolment;
mod fetching;
pub mod gate;
pub mod handles;
pub mod hold;
mod identity;
mod link;
mod opening;
pub mod owner;
mod proof;
mod record;
mod revocation;
pub(crate) mod room;
pub mod rotation;
mod run;
mod server;
pub mod source;
mod step;
mod stream;
mod units;
mod waiting;

#[cfg(test)]
mod tests;

pub use run::{NOT_WANTED, Options, run};
