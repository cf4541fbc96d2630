//! `musterd`: a node's own daemon.
//!
//! Two processes of one binary. The **edge** ends TLS and HTTP, runs as nobody in particular, and has no file but a socket. The
//! **core** is root, has no network, and decides: it judges each client by the evidence of its handshake, each call by its row
//! of the operation table, and writes the audit record. Between them are frames ([`wire`]). An edge that fell can serve lies and
//! deny service, and act as clients that connect to it; it cannot be anybody else. Where a document names a URL, a third one that may
//! nothing else asks there for the core ([`fetch`]).
#![forbid(unsafe_code)]
// They panic where standard output or error is gone, and with them whoever only wanted to tell something.
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod bootstrap;
pub mod console;
pub mod core;
pub mod edge;
pub mod fetch;
pub mod line;
pub mod ops;
pub mod places;
mod say;
mod shares;
pub mod wire;

/// Prints an answer. A reader that went away wanted no more of it; a disk that is full is told.
#[must_use]
pub fn printed(text: &str) -> std::process::ExitCode {
    use std::io::{ErrorKind, Write as _};
    let mut out = std::io::stdout();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::ExitCode::SUCCESS,
        Err(e) => {
            say::ends(&format!("cannot write to standard output: {e}"));
            std::process::ExitCode::FAILURE
        }
    }
}
