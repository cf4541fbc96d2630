//! Envelope 1, the published format of the bash shim that ours replaces.

use crate::{Reason, Refusal, params::Param};
use muster_core::Phase;

/// Version and phase word of an envelope 1; nothing else was looked at.
#[derive(Clone, Debug)]
pub struct EnvelopeOne<'a> {
    phase: &'a [u8],
}

/// What an envelope 1 asks for.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    /// Facts; unsigned.
    Probe,
    /// A signed phase.
    Signed(Signed<'a>),
}

/// A signed phase, decoded; nothing in it is verified.
#[derive(Clone, Debug)]
pub struct Signed<'a> {
    /// Install, join, leave or uninstall.
    pub phase: Phase,
    /// The exact bytes to verify and run.
    pub script: Vec<u8>,
    /// The armoured signature.
    pub signature: Vec<u8>,
    params_b64: Option<&'a [u8]>,
}

impl<'a> EnvelopeOne<'a> {
    /// Reads the fields; the version must be 1 and the phase there and not empty.
    pub fn parse(_input: &'a [u8]) -> Result<Self, Refusal> {
        Err(Refusal::new(Reason::Version, "envelope 1 is not read yet"))
    }

    /// The phase word as received.
    pub fn phase_word(&self) -> &'a [u8] {
        self.phase
    }

    /// Decodes script and signature of a signed phase.
    pub fn request(&self) -> Result<Request<'a>, Refusal> {
        Err(Refusal::new(Reason::FieldMissing, "envelope 1 is not read yet"))
    }
}

impl Signed<'_> {
    /// Decodes and reads the parameters: to be called only after the signature was verified.
    pub fn params(&self) -> Result<Vec<Param>, Refusal> {
        self.params_b64.map_or_else(|| Ok(Vec::new()), crate::params::parse_v1)
    }
}

/// What [`build`] makes an envelope of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// Install, join, leave or uninstall.
    pub phase: Phase,
    /// The exact bytes that were signed; not empty.
    pub script: &'a [u8],
    /// The armoured signature; not empty.
    pub signature: &'a [u8],
    /// Names `KPSSH_[A-Za-z0-9_]+`, values without LF.
    pub params: &'a [Param],
}

/// Builds a signed envelope 1.
pub fn build(_parts: &Parts<'_>) -> Result<Vec<u8>, Refusal> {
    Err(Refusal::new(Reason::FieldMissing, "envelope 1 is not built yet"))
}

/// Builds the probe.
pub fn build_probe() -> Vec<u8> {
    b"kpssh-envelope: 1\nphase: probe\n".to_vec()
}
