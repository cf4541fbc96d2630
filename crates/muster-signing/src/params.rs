//! Parameter blocks: `NAME=value` lines.

use crate::{Reason, Refusal};

/// A parameter: its name, and its value as bytes.
pub type Param = (String, Vec<u8>);

/// Reads the block of envelope 1. Names are `KPSSH_[A-Za-z0-9_]+`; the last of a repeated name wins.
pub fn parse_v1(_block: &[u8]) -> Result<Vec<Param>, Refusal> {
    Err(Refusal::new(Reason::ParamForm, "parameters are not read yet"))
}

/// Reads the block of envelope 2: names strictly ascending, each line ended by LF.
pub fn parse_v2(_block: &[u8]) -> Result<Vec<Param>, Refusal> {
    Err(Refusal::new(Reason::ParamForm, "parameters are not read yet"))
}

/// Writes a block, sorted by name, that [`parse_v1`] or [`parse_v2`] reads back to the same.
pub fn render(_params: &[Param]) -> Result<Vec<u8>, Refusal> {
    Err(Refusal::new(Reason::ParamForm, "parameters are not written yet"))
}
