//! The operator's command line.
#![forbid(unsafe_code)]

pub mod codes;
pub mod exit;
pub mod fault;
pub mod shell;
pub mod yaml;
