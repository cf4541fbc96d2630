//! Envelope 2: a signed intent, its signatures, parameters and script, in one order:
//! `muster-envelope: 2`, `phase`, `intent-b64`, 1 to 8 `sig-b64`, `params-b64` if any,
//! `script-b64` unless the phase is floor. LF ends every line, one space follows the colon, and
//! nothing else is there; or `muster-envelope: 2`, `phase: probe` and the end.
//!
//! Order: version (4), phase line (4), probe, phase known (5), then the rest (4). The parameters'
//! form is judged by [`Signed::params`] (3), which belongs after the verification.

use super::{MAX_INTENT, MAX_PARAMS, MAX_SCRIPT, MAX_SIGNATURE, MAX_SIGNATURES, decoded};
use crate::{
    Reason, Refusal, base64,
    intent::Intent,
    params::{self, Param},
    sshsig::SshSig,
    wire::shown,
};
use muster_core::Phase;

/// Version and phase word of an envelope 2; nothing else was looked at.
#[derive(Clone, Debug)]
pub struct EnvelopeTwo<'a> {
    phase: &'a [u8],
    rest: &'a [u8],
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
    /// The outer phase; to be compared with the intent's by [`Intent::check_phase`].
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
    pub fn parse(input: &'a [u8]) -> Result<Self, Refusal> {
        super::bounded(input)?;
        let mut rest = input;
        let version = field(&mut rest, "muster-envelope")
            .map_err(|_| Refusal::new(Reason::Version, "the first line is not muster-envelope"))?;
        if version != b"2" {
            return Err(Refusal::new(Reason::Version, format!("muster-envelope {:?}", shown(version))));
        }
        let phase = field(&mut rest, "phase")?;
        Ok(Self { phase, rest })
    }

    /// The phase word as received.
    pub fn phase_word(&self) -> &'a [u8] {
        self.phase
    }

    /// Decodes the rest: phase known (5); outer grammar, base64, bounds, intent grammar, SSHSIG
    /// form (4).
    pub fn request(&self) -> Result<Request, Refusal> {
        let phase = super::phase(self.phase)?;
        let mut rest = self.rest;
        if phase == Phase::Probe {
            at_end(rest)?;
            return Ok(Request::Probe);
        }
        let intent_b64 = field(&mut rest, "intent-b64")?;
        let mut sigs_b64 = vec![field(&mut rest, "sig-b64")?];
        while let Some(sig) = optional(&mut rest, "sig-b64")? {
            if sigs_b64.len() == MAX_SIGNATURES {
                return Err(Refusal::new(
                    Reason::FieldForm,
                    format!("more than {MAX_SIGNATURES} sig-b64 lines"),
                ));
            }
            sigs_b64.push(sig);
        }
        let params_b64 = optional(&mut rest, "params-b64")?;
        let script_b64 = if phase.is_scripted() { Some(field(&mut rest, "script-b64")?) } else { None };
        at_end(rest)?;

        let intent_bytes = decoded("intent-b64", intent_b64, MAX_INTENT)?;
        let params = params_b64.map_or_else(|| Ok(Vec::new()), |b| decoded("params-b64", b, MAX_PARAMS))?;
        let script = script_b64.map(|b| decoded("script-b64", b, MAX_SCRIPT)).transpose()?;
        let intent = Intent::parse(&intent_bytes)
            .map_err(|fault| Refusal::new(Reason::IntentForm, fault.to_string()))?;
        let signatures = (1usize..).zip(sigs_b64).map(|(n, b)| signature(n, b)).collect::<Result<_, _>>()?;
        Ok(Request::Signed(Box::new(Signed { phase, intent_bytes, intent, signatures, script, params })))
    }
}

impl Signed {
    /// Reads the parameters' form (3); [`Intent::check_params`] judges them (6).
    pub fn params(&self) -> Result<Vec<Param>, Refusal> {
        params::parse_v2(&self.params)
    }
}

/// A signature that is not one is 4 here; a signature with an algorithm that is not accepted is 2.
fn signature(n: usize, encoded: &[u8]) -> Result<SshSig, Refusal> {
    let text = decoded("sig-b64", encoded, MAX_SIGNATURE)?;
    SshSig::parse_armored(&text).map_err(|refusal| match refusal.reason {
        Reason::SignatureMalformed | Reason::SignatureMissing => {
            Refusal::new(Reason::SignatureForm, format!("sig-b64 number {n}: {}", refusal.detail))
        }
        _ => refusal,
    })
}

/// Takes the next line, which must be `name: value` with a value that is not empty.
fn field<'a>(rest: &mut &'a [u8], name: &str) -> Result<&'a [u8], Refusal> {
    match optional(rest, name)? {
        Some(value) => Ok(value),
        None => {
            Err(Refusal::new(Reason::FieldMissing, format!("{name} must stand where {} is", found(rest))))
        }
    }
}

/// Takes the next line if its name is this one.
fn optional<'a>(rest: &mut &'a [u8], name: &str) -> Result<Option<&'a [u8]>, Refusal> {
    let Some(tail) = rest.strip_prefix(name.as_bytes()).and_then(|t| t.strip_prefix(b":")) else {
        return Ok(None);
    };
    let form = |why: &str| Refusal::new(Reason::FieldForm, format!("{name}: {why}"));
    let tail = tail.strip_prefix(b" ").ok_or_else(|| form("no space after the colon"))?;
    let end = tail.iter().position(|b| *b == b'\n').ok_or_else(|| form("the line does not end in LF"))?;
    let (value, after) = tail.split_at_checked(end).unwrap_or_default();
    if value.is_empty() {
        return Err(Refusal::new(Reason::FieldMissing, format!("{name} is empty")));
    }
    *rest = after.get(1..).unwrap_or_default();
    Ok(Some(value))
}

fn at_end(rest: &[u8]) -> Result<(), Refusal> {
    if rest.is_empty() {
        return Ok(());
    }
    Err(Refusal::new(Reason::FieldForm, format!("{} is unknown, repeated or out of place", found(rest))))
}

/// What stands at the head of `rest`, by name only where it is one of ours: a sender that wraps
/// its base64 would otherwise find parameters in its error and in the journal.
fn found(rest: &[u8]) -> String {
    let known = ["muster-envelope", "phase", "intent-b64", "sig-b64", "params-b64", "script-b64"];
    let line = rest.split(|b| *b == b'\n').next().unwrap_or_default();
    let name = known.iter().find(|n| line.strip_prefix(n.as_bytes()).is_some_and(|t| t.starts_with(b":")));
    match name {
        Some(name) => format!("{name:?}"),
        None if rest.is_empty() => "the end".to_owned(),
        None => format!("a line of {} bytes that begins with no field of this envelope", line.len()),
    }
}

/// What [`build`] makes an envelope of.
#[derive(Clone, Copy)]
pub struct Parts<'a> {
    /// The intent's phase.
    pub phase: Phase,
    /// The bytes that were signed.
    pub intent: &'a [u8],
    /// Armoured signatures, 1 to 8.
    pub signatures: &'a [String],
    /// Written ascending by name.
    pub params: &'a [Param],
    /// `None` for `floor` alone.
    pub script: Option<&'a [u8]>,
}

/// Builds a signed envelope 2. What the shim would refuse for its form is refused here, with the
/// same reason: the envelope is read back before it is handed out.
pub fn build(parts: &Parts<'_>) -> Result<Vec<u8>, Refusal> {
    super::fits("intent-b64", parts.intent, MAX_INTENT)?;
    let mut out = format!("muster-envelope: 2\nphase: {}\n", parts.phase);
    super::push(&mut out, "intent-b64", &base64::encode(parts.intent));
    for sig in parts.signatures {
        super::push(&mut out, "sig-b64", &base64::encode(sig.as_bytes()));
    }
    if !parts.params.is_empty() {
        super::push(&mut out, "params-b64", &base64::encode(&params::render(parts.params)?));
    }
    if let Some(script) = parts.script {
        super::fits("script-b64", script, MAX_SCRIPT)?;
        super::push(&mut out, "script-b64", &base64::encode(script));
    }
    match EnvelopeTwo::parse(out.as_bytes())?.request()? {
        Request::Probe => return Err(Refusal::new(Reason::PhaseUnknown, "a probe is not signed")),
        Request::Signed(signed) => signed.intent.check_phase(parts.phase)?,
    }
    Ok(out.into_bytes())
}

/// Builds the probe.
pub fn build_probe() -> Vec<u8> {
    b"muster-envelope: 2\nphase: probe\n".to_vec()
}
