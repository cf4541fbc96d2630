//! From the inventory to the hosts: adapters between what the operator wrote and the libraries that reach hosts.
//!
//! One place turns a host into a route ([`login`]), one holds its connection ([`session`]), one sends a phase ([`phase`]).
//! Nothing here prints; nothing here decides what a command does.

pub mod answer;
pub mod attacker;
pub mod fault;
pub mod load;
pub mod login;
pub mod lost;
pub mod output;
pub mod phase;
pub mod pins;
pub mod probe;
pub mod prover;
pub mod raw;
pub mod session;
pub mod shell;
