//! A real `musterd core`, over its real socket, with evidence out of real handshakes. The test plays the edge: also one that fell.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]
#![allow(clippy::disallowed_methods, reason = "a test starts the daemon")]
#![allow(unreachable_pub, reason = "modules of one test")]

mod auditing;
mod calls;
mod claiming;
mod contract;
mod edge_uid;
mod floods;
mod hanging;
mod openssl;
mod proofs;
mod support;
