//! Standard input: bounded in bytes and in time, before anything of it is looked at.

use muster_core::Reason;
use muster_signing::Refusal;
use muster_signing::envelope::MAX_INPUT;
use muster_sys::watch::{ReadFault, Reading, standard_streams};
use std::time::Duration;

/// From the first byte to the end; and as long again for the first byte, so that a caller who
/// sends nothing does not park a root process either.
const PATIENCE: Duration = Duration::from_secs(30);

/// Input that is being read. No lock is held meanwhile.
#[derive(Debug)]
pub struct Input(Reading<'static>);

impl Input {
    /// Begins to read standard input.
    pub fn begin() -> Self {
        let [stdin, ..] = standard_streams();
        Self(Reading::new(stdin, MAX_INPUT, PATIENCE, PATIENCE))
    }

    /// Whether all of it is there already. Nothing is waited for.
    pub fn is_whole(&mut self) -> bool {
        self.0.is_whole()
    }

    /// All of it.
    pub fn finish(self) -> Result<Vec<u8>, Refusal> {
        self.0.finish().map_err(|e| match e {
            ReadFault::TooLong => {
                Refusal::new(Reason::TooLarge, format!("the envelope is over {MAX_INPUT} bytes"))
            }
            ReadFault::TooSlow => Refusal::new(Reason::InputDeadline, ""),
            ReadFault::Io(e) => Refusal::new(Reason::InternalFault, e.line()),
        })
    }
}
