//! Standard input: bounded in bytes and in time, before anything of it is looked at.

use muster_core::Reason;
use muster_signing::Refusal;
use muster_signing::envelope::MAX_INPUT;
use muster_sys::watch::{ReadFault, read_to_end, standard_streams};
use std::time::Duration;

/// From the first byte to the end; and as long again for the first byte, so that a caller who
/// sends nothing does not park a root process either.
const PATIENCE: Duration = Duration::from_secs(30);

/// Reads all of it. No lock is held meanwhile.
pub fn read() -> Result<Vec<u8>, Refusal> {
    let [stdin, ..] = standard_streams();
    read_to_end(stdin, MAX_INPUT, PATIENCE, PATIENCE).map_err(|e| match e {
        ReadFault::TooLong => {
            Refusal::new(Reason::TooLarge, format!("the envelope is over {MAX_INPUT} bytes"))
        }
        ReadFault::TooSlow => Refusal::new(Reason::InputDeadline, ""),
        ReadFault::Io(e) => Refusal::new(Reason::InternalFault, e.line()),
    })
}
