//! The SSH client.
