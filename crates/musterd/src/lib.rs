//! `musterd`: a node's own daemon.
//!
//! Two processes of one binary. The **edge** ends TLS and HTTP, runs as nobody in particular, and has no file but a socket. The
//! **core** is root, has no network, and decides: it judges each client by the evidence of its handshake, each call by its row
//! of the operation table, and writes the audit record. Between them are frames ([`wire`]). An edge that fell can serve lies and
//! deny service, and act as clients that connect to it; it cannot be anybody else. Where a document names a URL, a third one that may
//! nothing else asks there for the core ([`fetch`]).
#![forbid(unsafe_code)]

pub mod bootstrap;
pub mod console;
pub mod core;
pub mod edge;
pub mod fetch;
pub mod ops;
pub mod places;
mod shares;
pub mod wire;
