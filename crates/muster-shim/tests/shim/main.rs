//! The built shim, run as root in a machine of its own for each test.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test stops at what it did not expect"
)]
#![allow(clippy::disallowed_methods, reason = "tests start real processes")]

mod allowed;
mod dropin;
mod records;
#[path = "../dropin/rows.rs"]
mod rows;
mod run;
mod sudo;
mod world;
