//! Envelope 2: a signed intent, its signatures, parameters and script.

use crate::{Reason, Refusal, intent::Intent, params::Param, sshsig::SshSig};
use muster_core::Phase;

/// Version and phase word of an envelope 2; nothing else was looked at.
#[derive(Clone, Debug)]
pub struct EnvelopeTwo<'a> {
    phase: &'a [u8],
}

/// What an envelope 2 asks for.
#[derive(Clone, Debug)]
pub enum Request {
    /// Facts; unsigned.
    Probe,
    /// A signed phase.
    Signed(Box<Signed>),
}

/// A signed phase, decoded; nothing in it is verified.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The outer phase; to be compared with the intent's.
    pub phase: Phase,
    /// The bytes that the signatures are over.
    pub intent_bytes: Vec<u8>,
    /// The same, read.
    pub intent: Intent,
    /// 1 to 8.
    pub signatures: Vec<SshSig>,
    /// The exact bytes to run; `None` for `floor` alone.
    pub script: Option<Vec<u8>>,
    params: Vec<u8>,
}

impl<'a> EnvelopeTwo<'a> {
    /// Reads the version line and the phase line.
    pub fn parse(_input: &'a [u8]) -> Result<Self, Refusal> {
        Err(Refusal::new(Reason::Version, "envelope 2 is not read yet"))
    }

    /// The phase word as received.
    pub fn phase_word(&self) -> &'a [u8] {
        self.phase
    }

    /// Decodes the rest: phase known, outer grammar, base64, bounds, intent grammar, SSHSIG form.
    pub fn request(&self) -> Result<Request, Refusal> {
        Err(Refusal::new(Reason::FieldMissing, "envelope 2 is not read yet"))
    }
}

impl Signed {
    /// Reads the parameters' form (3); [`Intent::check_params`] judges them (6).
    pub fn params(&self) -> Result<Vec<Param>, Refusal> {
        if self.params.is_empty() { Ok(Vec::new()) } else { crate::params::parse_v2(&self.params) }
    }
}

/// What [`build`] makes an envelope of.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The intent's phase.
    pub phase: Phase,
    /// The bytes that were signed.
    pub intent: &'a [u8],
    /// Armoured signatures, 1 to 8.
    pub signatures: &'a [String],
    /// Sorted by the builder.
    pub params: &'a [Param],
    /// `None` for `floor` alone.
    pub script: Option<&'a [u8]>,
}

/// Builds a signed envelope 2. What the shim would refuse for its form is refused here.
pub fn build(_parts: &Parts<'_>) -> Result<Vec<u8>, Refusal> {
    Err(Refusal::new(Reason::FieldMissing, "envelope 2 is not built yet"))
}

/// Builds the probe.
pub fn build_probe() -> Vec<u8> {
    b"muster-envelope: 2\nphase: probe\n".to_vec()
}
