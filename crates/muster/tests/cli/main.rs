//! The built binary, as an operator or a script meets it. One test binary, modules by theme.
#![allow(clippy::disallowed_methods, reason = "tests run the built binary and the system's ssh-keygen")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets the unexpected should stop"
)]

mod add;
mod bench;
mod documents;
mod failures;
mod generated;
mod hosts;
mod keygen;
mod logins;
mod nodes;
mod options;
mod pki;
mod plans;
mod profiles;
mod run;
mod terminal;
mod ui;
