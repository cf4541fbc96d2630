//! Tests on real nodes: one binary, one module per theme. Each test makes its own bed.
#![allow(clippy::disallowed_methods, reason = "tests spawn ssh and read the clock")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod api;
mod cable;
mod dropin;
mod faults;
mod heartbeat;
mod host;
mod hosts;
mod intents;
mod keepalive;
mod provision;
mod run_cgroup;
mod skeleton;
mod testbed;
