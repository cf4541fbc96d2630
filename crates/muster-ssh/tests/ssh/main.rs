//! Against real sshd, ssh-agent and ssh-keygen.
#![allow(clippy::disallowed_methods, reason = "tests run the real programs")]

mod basics;
