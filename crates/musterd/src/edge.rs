//! The edge: TLS and HTTP, no privilege, decides nothing.
