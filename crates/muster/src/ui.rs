//! `muster ui`: a dashboard of nodes on the operator's terminal, by keyboard alone.
//!
//! The parts: `model` is all that is known and shown, `update` takes an event and says what is to be done, `view` draws, and all
//! three do nothing else; `work` does what was said and makes events of what comes of it; `screen` has the terminal, and gives it back.
//!
//! Invariants:
//! - whatever comes from a node is cleaned ([`text::tidy`], which is [`crate::printer::clean`]) before it is in a span;
//! - a call is the one that the command makes, with its session, its pins and its words; what ends something is asked for as
//!   [`crate::commands::node::confirm`] does it, with a fresh look at the node, and its name typed;
//! - the terminal is given back however the program ends, but for SIGKILL;
//! - nothing is drawn unless something was typed, came in, or became old.

mod input;
mod keys;
mod model;
mod run;
pub mod screen;
#[cfg(test)]
mod tests;
pub mod text;
mod update;
mod view;
mod work;

pub use run::{Settings, run};
