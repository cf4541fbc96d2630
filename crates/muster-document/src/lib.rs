//! The `muster:` document: what a node shall be, and whom it shall obey.
//!
//! Pure: texts in, values and faults out. No file is opened here, no clock read, nothing fetched. Every fault of a document
//! is told at once, each on its line; none quotes what may be a secret. An unknown key is a fault, since a key that is
//! passed over in silence is a setting that somebody believes in.
//!
//! - [`Document`] is what is read; [`Mode`] what follows from its `api:` block.
//! - [`keys`] is the one table of what may stand in it; the reader and [`schema()`] are both made of it.
//! - [`sources`] says where a document may come from, and in which order.
#![forbid(unsafe_code)]

mod document;
pub mod keys;
mod read;
mod schema;
pub mod secret;
pub mod sources;
pub mod values;
pub mod walk;
pub mod yaml;

pub use document::{
    Api, Cluster, Document, Effect, Join, Mode, Network, NodeSettings, OperatorCa, Role, Taint,
};
pub use read::{AuthorityCheck, BLOCK, read, read_embedded};
pub use schema::schema;
pub use secret::Secret;
