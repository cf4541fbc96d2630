//! `muster host …`

pub mod fleet;
pub mod list;
pub mod phase;
pub mod prepare;
pub mod probe;
pub mod reach;
pub mod report;
pub mod values;
pub mod view;
