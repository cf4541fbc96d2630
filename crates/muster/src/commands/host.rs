//! `muster host …`

pub mod add;
pub mod admin;
pub mod clones;
pub mod doctor;
pub mod fleet;
pub mod floor;
pub mod list;
pub mod phase;
pub mod prepare;
pub mod probe;
pub mod provision;
pub mod reach;
pub mod report;
pub mod rotate;
pub mod spec;
pub mod values;
pub mod view;
