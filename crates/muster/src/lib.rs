//! The operator's command line.
#![forbid(unsafe_code)]

pub mod codes;
pub mod exit;
pub mod fault;
pub mod files;
pub mod inventory;
pub mod printer;
pub mod profile;
pub mod secret;
pub mod shell;
pub mod signer;
pub mod yaml;
