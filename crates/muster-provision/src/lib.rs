//! What is put on a pool host and how it is proven.
//!
//! A [`HostSpec`] says what a host shall be. [`Plan::provision`] turns it into ordered [`Step`]s:
//! each has words, a check, an apply and an exact undo, and nothing has happened yet. The plan can
//! be printed, or rendered as a shell script, as
//! cloud-config or as an Ansible playbook ([`render`]). [`run::provision`] carries it out over a [`HostShell`], which is all that this
//! crate knows of a transport: no SSH client and no async runtime are in its graph.
//!
//! Invariants:
//! - Whatever is touched is saved first, on the host, in a folder of root's. A failure at any step
//!   puts back exactly what was there: bytes, modes, owners, absence.
//! - sshd is reloaded only after `sshd -t`, sudoers is replaced only after `visudo -cf`, and both
//!   stay only after a second login was proven while the first one is still open. A timer on the
//!   host puts everything back when that proof does not arrive.
//! - No secret is on a command line: scripts, files and the sudo password travel on standard input.
//!
//! Out of scope: running phases (the sender's work), and anything that opens a network connection.
#![forbid(unsafe_code)]

pub mod change;
pub mod doctor;
pub mod elevate;
pub mod facts;
pub mod files;
pub mod floors;
pub mod key;
pub mod plan;
mod policy;
pub mod preflight;
pub mod render;
pub mod rotate;
pub mod run;
pub mod sh;
pub mod shell;
pub mod spec;
pub mod text;
mod transaction;
pub mod trust;

pub use change::{Change, Limit};
pub use key::{ControllerKey, FromPattern, PublicKeyLine};
pub use plan::{Plan, Step, StepId};
pub use shell::{HostShell, ProofFailure, Prover, ShellError, ShellOutput};
pub use spec::{AccountName, DropIn, EnvelopeOne, HostSpec, ShimBinary, SpecFault};
