//! A core that is to fetch, its fetchers, and real HTTPS servers.
#![allow(clippy::disallowed_methods, reason = "tests start programs")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod answers;
mod documents;
mod hostile;
mod server;
mod support;
