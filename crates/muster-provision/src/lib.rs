//! What is put on a host.
