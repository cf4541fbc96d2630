//! The core: root, no network, decides.
