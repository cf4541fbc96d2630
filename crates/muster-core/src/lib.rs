//! Muster's vocabulary, shared by every other crate.
//!
//! Pure: no I/O, no clock, no environment, no async. Everything here is a value with a checked
//! constructor or a total function over such values.
#![forbid(unsafe_code)]

pub mod exit;
pub mod floors;
pub mod name;
pub mod phase;
pub mod reason;
pub mod redact;
pub mod time;
pub mod variable;

pub use exit::ShimExit;
pub use name::{BadName, HostName, PoolName, ProfileName};
pub use phase::Phase;
pub use reason::Reason;
pub use time::UtcTime;
