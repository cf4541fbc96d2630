//! Muster's vocabulary, shared by every other crate.
//!
//! Pure: no I/O, no clock, no environment, no async. Everything here is a value with a checked
//! constructor or a total function over such values.
#![forbid(unsafe_code)]

pub mod audit;
pub mod exit;
pub mod floors;
pub mod hidden;
pub mod machine;
pub mod name;
pub mod operation;
pub mod phase;
pub mod reason;
pub mod redact;
pub mod role;
pub mod time;
pub mod variable;

pub use exit::ShimExit;
pub use machine::Machine;
pub use name::{BadName, HostName, PoolName, ProfileName};
pub use operation::{Danger, Operation};
pub use phase::Phase;
pub use reason::Reason;
pub use role::Role;
pub use time::UtcTime;
