//! `muster host …` as an operator runs it, against real hosts: the built binary, real sshd, sudo, systemd.

pub(crate) mod forms;
mod kept;
mod life;
mod migration;
mod operator;
pub(crate) mod pages;
mod plans;
mod secrets;
mod troubles;
