//! Nodes and their API, from this side: which there are, whom they are known by, who calls them.

pub mod choose;
pub mod contexts;
pub mod fault;
pub mod heads;
pub mod identity;
pub mod pins;
pub mod session;
