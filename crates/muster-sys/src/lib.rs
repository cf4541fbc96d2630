//! Careful system calls.
