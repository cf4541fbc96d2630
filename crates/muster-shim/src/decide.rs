//! From bytes on standard input to an order that may be carried out, or to a refusal.
//!
//! The order of checks is contract: see docs/shim.md. All of them use one `now`.

use crate::policy::{Loaded, Policy};
use crate::record::Facts;
use crate::trust::{self, Trust};
use crate::verified::{EnoughSigners, VerifiedScript, named};
use crate::{called::CalledAs, clock, floors};
use muster_core::{Phase, ProfileName, Reason, UtcTime};
use muster_signing::Refusal;
use muster_signing::envelope::{Version, sniff, v1, v2};
use muster_signing::intent::{Intent, OnDisconnect};
use muster_signing::params::Param;
use muster_signing::sshsig::SshSig;
use muster_signing::verify::Check;
use std::time::Duration;

/// What the checks look at beside the input.
#[derive(Debug)]
pub struct Ground<'a> {
    /// The name that the shim was called by.
    pub called: CalledAs,
    /// The policy.
    pub loaded: &'a Loaded,
    /// The trust files, or why they cannot be used.
    pub trust: &'a Result<Trust, Refusal>,
    /// The one time of all checks.
    pub now: UtcTime,
    /// When the shim was built.
    pub build: UtcTime,
}

/// What is asked for.
#[derive(Debug)]
pub enum Asked {
    /// Facts, in the form of this envelope.
    Probe(Version),
    /// A phase that every check before the lock allows.
    Run(Box<Order>),
}

/// What may be carried out, and within which limits. Only [`decide`] makes one.
#[derive(Debug)]
pub struct Order {
    /// The phase.
    pub(crate) phase: Phase,
    /// `None` for `floor` alone.
    pub(crate) script: Option<VerifiedScript>,
    /// Signed constants and parameters.
    pub(crate) params: Vec<Param>,
    /// How long the run may take.
    pub(crate) deadline: Duration,
    /// What happens when the peer goes away.
    pub(crate) on_disconnect: OnDisconnect,
    /// What the floor is judged by; `None` on envelope 1.
    pub(crate) epoch: Option<Epoch>,
}

/// The parts of an intent that floors are made of.
#[derive(Clone, Debug)]
pub(crate) struct Epoch {
    pub(crate) profile: ProfileName,
    pub(crate) epoch: u32,
    pub(crate) not_before: UtcTime,
}

/// Checks everything that can be checked before the lock is held. `facts` learns what became known
/// on the way, for the record of a refusal too.
pub fn decide(ground: &Ground<'_>, input: &[u8], facts: &mut Facts) -> Result<Asked, Refusal> {
    match sniff(input)? {
        Version::One => {
            facts.envelope = Some(1);
            one(ground, input, facts)
        }
        Version::Two => {
            facts.envelope = Some(2);
            two(ground, input, facts)
        }
    }
}

fn one(ground: &Ground<'_>, input: &[u8], facts: &mut Facts) -> Result<Asked, Refusal> {
    let envelope = v1::EnvelopeOne::parse(input);
    if !ground.loaded.takes_envelope_one(ground.called) {
        // A version that nobody takes is that fault first.
        return Err(match envelope {
            Err(e) if e.reason == Reason::Version => e,
            _ => Refusal::new(Reason::EnvelopeOneOff, ""),
        });
    }
    let mut signed = match envelope?.request()? {
        v1::Request::Probe => return Ok(Asked::Probe(Version::One)),
        v1::Request::Signed(signed) => signed,
    };
    facts.phase = Some(signed.phase);
    let plain = Default::default();
    let rules = ground.loaded.policy.as_ref().map_or(&plain, |p: &Policy| &p.envelope_one);
    let trust = ground.trust.as_ref().map_err(Clone::clone)?;
    let signature = SshSig::parse_armored(&signed.signature)?;
    let check = Check {
        message: &[],
        signature: &signature,
        namespace: &rules.namespace,
        principal: &rules.principal,
        allowed: &trust.allowed,
        revoked: trust.revoked.as_ref(),
        now: ground.now,
    };
    let (script, verified) = VerifiedScript::by_signature(std::mem::take(&mut signed.script), &check)?;
    facts.signers = vec![named(&verified)];
    facts.script = Some(script.digest());
    clock::check(ground.now, ground.build, UtcTime::from_unix(0))?;
    let params = signed.params()?;
    facts.name_params(params.iter().map(|(name, _)| name.as_str()));
    can_be_passed(&params)?;
    Ok(Asked::Run(Box::new(Order {
        phase: signed.phase,
        script: Some(script),
        params,
        deadline: Duration::from_secs(rules.deadline(signed.phase).into()),
        on_disconnect: rules.on_disconnect,
        epoch: None,
    })))
}

fn two(ground: &Ground<'_>, input: &[u8], facts: &mut Facts) -> Result<Asked, Refusal> {
    let envelope = v2::EnvelopeTwo::parse(input)?;
    let policy = ground.loaded.policy.as_ref().filter(|p| p.profiles.is_some());
    let signed = match envelope.request() {
        Ok(v2::Request::Probe) => return Ok(Asked::Probe(Version::Two)),
        // What the host lacks is said before what the envelope lacks.
        other if policy.is_none() => {
            drop(other);
            return Err(Refusal::new(Reason::NoPolicy, ""));
        }
        other => match other? {
            v2::Request::Signed(signed) => signed,
            v2::Request::Probe => return Ok(Asked::Probe(Version::Two)),
        },
    };
    let policy = policy.ok_or_else(|| Refusal::new(Reason::NoPolicy, ""))?;
    let intent = &signed.intent;
    learn(facts, &signed);
    let trust = ground.trust.as_ref().map_err(Clone::clone)?;
    let checks = signed.signatures.iter().map(|signature| Check {
        message: &signed.intent_bytes,
        signature,
        namespace: trust::NAMESPACE,
        principal: trust::PRINCIPAL,
        allowed: &trust.allowed,
        revoked: trust.revoked.as_ref(),
        now: ground.now,
    });
    let proof = EnoughSigners::prove(intent, checks, policy.signers_needed)?;
    facts.signers = proof.fingerprints();
    let script = match &signed.script {
        Some(bytes) => Some(VerifiedScript::by_intent(bytes, intent, &proof)?),
        None => {
            intent.check_script(None)?;
            None
        }
    };
    facts.script = script.as_ref().map(VerifiedScript::digest);
    here_and_now(ground, policy, &signed, facts)?;
    let params = signed.params()?;
    facts.name_params(params.iter().map(|(name, _)| name.as_str()));
    let environment = intent.check_params(&params)?;
    can_be_passed(&environment)?;
    Ok(Asked::Run(Box::new(Order {
        phase: signed.phase,
        script,
        params: environment,
        deadline: Duration::from_secs(intent.deadline().into()),
        on_disconnect: intent.on_disconnect(),
        epoch: Some(Epoch {
            profile: intent.profile().clone(),
            epoch: intent.epoch(),
            not_before: intent.not_before(),
        }),
    })))
}

/// The longest `NAME=value` that Linux hands to a program (`MAX_ARG_STRLEN` of execve(2), with 4 KiB
/// pages, less the NUL).
const MAX_VARIABLE: usize = 131_071;

/// Refuses what would only fail when bash is started: with a start record and a raised floor behind
/// it, and as often as the sender likes.
fn can_be_passed(environment: &[Param]) -> Result<(), Refusal> {
    let too_long = |(name, value): &&Param| name.len() + 1 + value.len() > MAX_VARIABLE;
    match environment.iter().find(too_long) {
        None => Ok(()),
        Some((name, _)) => {
            let name = name.get(..128).unwrap_or(name);
            let why =
                format!("parameter {name}: no program takes more than {MAX_VARIABLE} bytes in a variable");
            Err(Refusal::new(Reason::TooLarge, why))
        }
    }
}

/// Phase, profile, target, clock, validity, deadline: all 6.
fn here_and_now(
    ground: &Ground<'_>,
    policy: &Policy,
    signed: &v2::Signed,
    facts: &mut Facts,
) -> Result<(), Refusal> {
    let intent = &signed.intent;
    intent.check_phase(signed.phase)?;
    if policy.profile(intent.profile()).is_none() {
        return Err(Refusal::new(Reason::Profile, intent.profile().to_string()));
    }
    facts.target = Some(intent.check_target(policy.host.as_ref(), &policy.pools)?.to_string());
    let time_floor = floors::read(&floors::state_dir()?)?.time_floor;
    clock::check(ground.now, ground.build, time_floor)?;
    intent.check_validity(ground.now).map_err(|mut r| {
        r.detail.push_str(clock::sync_note());
        r
    })?;
    intent.check_deadline(policy.max_deadline)
}

fn learn(facts: &mut Facts, signed: &v2::Signed) {
    let intent: &Intent = &signed.intent;
    facts.phase = Some(signed.phase);
    facts.intent = Some(*intent.digest());
    facts.profile = Some(intent.profile().to_string());
    facts.epoch = Some(intent.epoch());
}
