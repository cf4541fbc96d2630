//! Envelope 1, the published format of the bash shim that ours replaces: `name: value` lines in
//! any order, unknown and empty lines ignored, the last of a repeated field wins, CR not stripped,
//! a last line without LF taken.
//!
//! Order: version (4), phase there (4), probe, phase known (5), signature there (4), script there
//! (4), both decoded (4). The parameters are decoded by [`Signed::params`], which belongs after the
//! verification: what a rejected script's parameters look like is nobody's business.

use super::{MAX_SCRIPT, MAX_SIGNATURE, decoded};
use crate::{Reason, Refusal, base64, params, params::Param, wire::shown};
use muster_core::Phase;

/// The fields of an envelope 1 whose version is right and whose phase is not empty; nothing else
/// was looked at.
#[derive(Clone, Debug)]
pub struct EnvelopeOne<'a> {
    phase: &'a [u8],
    sig: &'a [u8],
    script: &'a [u8],
    params: &'a [u8],
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
    params_b64: &'a [u8],
}

impl<'a> EnvelopeOne<'a> {
    /// Reads the fields; the version must be 1 and the phase there and not empty.
    pub fn parse(input: &'a [u8]) -> Result<Self, Refusal> {
        super::bounded(input)?;
        let mut version: &[u8] = b"";
        let mut out = Self { phase: b"", sig: b"", script: b"", params: b"" };
        for line in input.split(|b| *b == b'\n') {
            let field = |name: &[u8]| line.strip_prefix(name);
            if let Some(v) = field(b"kpssh-envelope: ") {
                version = v;
            } else if let Some(v) = field(b"phase: ") {
                out.phase = v;
            } else if let Some(v) = field(b"params-b64: ") {
                out.params = v;
            } else if let Some(v) = field(b"sig-b64: ") {
                out.sig = v;
            } else if let Some(v) = field(b"script-b64: ") {
                out.script = v;
            }
        }
        if version != b"1" {
            return Err(Refusal::new(Reason::Version, format!("kpssh-envelope {:?}", shown(version))));
        }
        if out.phase.is_empty() {
            return Err(Refusal::new(Reason::FieldMissing, "phase"));
        }
        Ok(out)
    }

    /// The phase word as received.
    pub fn phase_word(&self) -> &'a [u8] {
        self.phase
    }

    /// Decodes script and signature of a signed phase.
    pub fn request(&self) -> Result<Request<'a>, Refusal> {
        let phase = super::phase(self.phase)?;
        if phase == Phase::Probe {
            return Ok(Request::Probe);
        }
        if phase == Phase::Floor {
            return Err(Refusal::new(Reason::PhaseUnknown, "\"floor\" exists on envelope 2 only"));
        }
        for (name, field) in [("sig-b64", self.sig), ("script-b64", self.script)] {
            if field.is_empty() {
                return Err(Refusal::new(Reason::FieldMissing, name));
            }
        }
        let script = decoded("script-b64", self.script, MAX_SCRIPT)?;
        let signature = decoded("sig-b64", self.sig, MAX_SIGNATURE)?;
        Ok(Request::Signed(Signed { phase, script, signature, params_b64: self.params }))
    }
}

impl Signed<'_> {
    /// Decodes (4) and reads (3) the parameters: to be called only after the signature was
    /// verified.
    pub fn params(&self) -> Result<Vec<Param>, Refusal> {
        params::parse_v1(&decoded("params-b64", self.params_b64, super::MAX_PARAMS)?)
    }
}

/// What [`build`] makes an envelope of.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// Install, join, leave or uninstall.
    pub phase: Phase,
    /// The exact bytes that were signed; not empty.
    pub script: &'a [u8],
    /// The armoured signature; not empty.
    pub signature: &'a [u8],
    /// Names `KPSSH_[A-Za-z0-9_]+`, values without LF and NUL.
    pub params: &'a [Param],
}

/// Builds a signed envelope 1, its lines in the published order, the parameters ascending.
pub fn build(parts: &Parts<'_>) -> Result<Vec<u8>, Refusal> {
    if !parts.phase.is_scripted() {
        return Err(Refusal::new(
            Reason::PhaseUnknown,
            format!("{} is not a signed phase of envelope 1", parts.phase),
        ));
    }
    let mut out = format!("kpssh-envelope: 1\nphase: {}\n", parts.phase);
    if !parts.params.is_empty() {
        super::push(&mut out, "params-b64", &base64::encode(&params::render_v1(parts.params)?));
    }
    for (name, bytes, max) in
        [("sig-b64", parts.signature, MAX_SIGNATURE), ("script-b64", parts.script, MAX_SCRIPT)]
    {
        super::fits(name, bytes, max)?;
        super::push(&mut out, name, &base64::encode(bytes));
    }
    super::bounded(out.as_bytes())?;
    Ok(out.into_bytes())
}

/// Builds the probe.
pub fn build_probe() -> Vec<u8> {
    b"kpssh-envelope: 1\nphase: probe\n".to_vec()
}
