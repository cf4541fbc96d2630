//! The core: root, no network, decides.

pub mod owner;
