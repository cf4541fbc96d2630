//! The client of the node API.
//!
//! A node is known by the fingerprint of its certificate, never by a name that some authority vouches for. Invariants:
//!
//! - nothing is sent to a node whose certificate is not the pinned one; there is no switch that turns this off. The one exception is
//!   [`claim`], which learns the certificate by the pairing code;
//! - TLS 1.3 alone, and no session is resumed, so each connection shows the certificate and proves the client anew;
//! - a call is sent once. It is sent again only where the connection gave it back unsent;
//! - what a node answers is bounded before it is read, and judged before it is believed.
//!
//! Nothing here opens a file, asks anybody, or writes to a terminal.
#![forbid(unsafe_code)]

mod call;
pub mod claim;
mod connection;
mod endpoint;
mod error;
mod identity;
mod lines;
mod node;
mod operations;
mod pin;
#[cfg(feature = "testing")]
pub mod testing;

pub use call::{Answer, Call};
pub use connection::{Target, Trust};
pub use endpoint::{DEFAULT_PORT, Endpoint};
pub use error::{Error, Turned};
pub use identity::{BadIdentity, Identity, Keeper};
pub use lines::{Lines, MAX_LINE, Stream};
pub use node::Node;
pub use operations::Logs;
