//! The operator's command line.
#![forbid(unsafe_code)]

pub mod app;
pub mod args;
pub mod codes;
pub mod commands;
pub mod exit;
pub mod fault;
pub mod files;
pub mod inventory;
pub mod keygen;
pub mod locks;
pub mod nodes;
pub mod pages;
pub mod pki;
pub mod printer;
pub mod profile;
pub mod remote;
pub mod secret;
pub mod settings;
pub mod shell;
pub mod signer;
pub mod state;
mod stops;
pub mod terminal;
pub mod ui;
pub mod yaml;
