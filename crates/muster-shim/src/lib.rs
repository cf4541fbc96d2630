//! Under construction.
pub mod probe;
