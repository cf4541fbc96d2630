//! What can be said about a phase script without running it.

mod rules;
mod syntax;
mod token;

pub use rules::{Finding, Rule, Severity, is_carried, read_names, script};
