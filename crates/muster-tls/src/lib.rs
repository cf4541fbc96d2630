//! The certificates of the node API.
//!
//! - [`authority`] is what an operator holds: it issues certificates of clients and lists of revoked ones.
//! - [`operator_ca`] is what a node holds of it: the one certificate by which it judges who calls.
//! - [`judge`] is how a node judges one client after another by it.
//! - [`evidence`] is what shows that a client holds its key, to another process than the one that ends TLS.
//! - [`serving`] is a node's own certificate: signed by itself, told by its fingerprint.
//!
//! Time and random numbers are arguments. Nothing here opens a file or a connection.
#![forbid(unsafe_code)]

pub mod authority;
pub mod client_key;
pub mod evidence;
mod fault;
mod fingerprint;
pub mod judge;
mod list;
pub mod operator_ca;
mod pem;
pub mod serving;
mod times;

pub use authority::{Authority, Lifetime, Revoked};
pub use client_key::ClientKey;
pub use evidence::Evidence;
pub use fault::Fault;
pub use fingerprint::Fingerprint;
pub use judge::Judge;
pub use list::RevocationList;
pub use operator_ca::{Client, OperatorCa};
pub use pem::{one_certificate, to_pem};
pub use serving::Serving;
