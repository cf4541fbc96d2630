//! The edge as a program, against real clients (curl, openssl, rustls) and a core that speaks the frames and judges the evidence
//! as the real one does, but whose answers a test chooses.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test fails by panicking and runs the real tools"
)]

mod client;
mod confined;
mod contract;
mod core;
mod handshake;
mod limits;
mod lives;
mod process;
mod real;
mod reloads;
mod requests;
mod schema;
mod streams;
#[path = "../core/support.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests of the core use the rest")]
mod support;
mod told;
mod unread;
mod windows;
