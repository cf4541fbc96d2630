//! `muster node …`

pub mod access;
pub mod action;
pub mod apply;
pub mod claim;
pub mod confirm;
pub mod known;
pub mod logs;
pub mod pin;
pub mod plan;
pub mod secrets;
pub mod services;
pub mod status;
pub mod upgrade;
pub mod watch;
