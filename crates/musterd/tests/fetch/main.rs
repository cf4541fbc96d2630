//! A core that is to fetch, its fetchers, and real HTTPS servers.
#![allow(clippy::disallowed_methods, reason = "tests start programs")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod answers;
#[allow(dead_code, reason = "nodes are asked by it too")]
mod server;
#[allow(dead_code, reason = "of the harness")]
mod support;
