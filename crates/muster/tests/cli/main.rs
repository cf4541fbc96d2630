//! The built binary, as an operator or a script meets it. One test binary, modules by theme.
#![allow(clippy::disallowed_methods, reason = "tests run the built binary and the system's ssh-keygen")]

mod failures;
mod generated;
mod keygen;
mod profiles;
mod run;
