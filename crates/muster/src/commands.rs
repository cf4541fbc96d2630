//! The commands: each takes plain settings, does its work, and writes through the printer.

pub mod audit;
pub mod context;
pub mod explain;
pub mod generate;
pub mod host;
pub mod init;
pub mod node;
pub mod pki;
pub mod script;
