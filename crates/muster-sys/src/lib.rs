//! Careful system calls: the one crate of the workspace with `unsafe` code and process spawning.
//!
//! Linux only, kernel 5.3 or newer (pidfds). What is used when it is there and done without when
//! it is not: `close_range` (5.9), `cgroup.kill` (5.14), `MFD_NOEXEC_SEAL` (6.3), cgroup v2.
//!
//! Invariants that the modules keep:
//! - every descriptor is opened close-on-exec; what a child gets is named one by one;
//! - a file is judged through the descriptor that is then read, never by a second look at its name;
//! - a lock, a sealed file and a spawned child are values: who holds the value holds the thing;
//! - every wait has an end.
//!
//! Each `unsafe` block says why it is sound. Where `rustix` has a safe call it is used instead.

pub mod cgroup;
pub mod child;
pub mod clock;
pub mod command;
pub mod console;
pub mod environment;
pub mod error;
pub mod fds;
pub mod file;
pub mod journal;
pub mod label;
mod limits;
pub mod lock;
pub mod memfd;
pub mod net;
pub mod procfs;
pub mod service;
pub mod signals;
pub mod sshd;
pub mod state;
pub mod system;
pub mod tcp;
pub mod tree;
pub mod watch;

pub use error::SysError;
