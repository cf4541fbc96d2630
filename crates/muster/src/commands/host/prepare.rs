//! What will be sent to whom, checked on this side as the hosts will check it: nothing is connected to before all of it holds
//! for all hosts that were chosen.

use super::values::Given;
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::inventory::{ExecMode, Host, Inventory, Trust};
use crate::profile::folder::{self, Script};
use crate::profile::signed;
use crate::profile::verify::{self, Root};
use crate::remote::load::{Load, Shared, Values, plain};
use crate::secret::Secrets;
use crate::shell::Rule;
use muster_core::{Phase, Reason, UtcTime};
use muster_signing::envelope::v1;
use muster_signing::intent::{OnDisconnect, ParamLine};
use std::path::Path;
use std::sync::Arc;

/// A phase for one host.
pub struct Ready<'h> {
    /// The host.
    pub host: &'h Host,
    /// What it gets.
    pub load: Load,
    /// What must not be shown of its output.
    pub secrets: Arc<Secrets>,
}

/// What was asked for.
pub struct Wanted<'w> {
    /// The phase.
    pub phase: Phase,
    /// The profile's folder.
    pub folder: &'w Path,
    /// Parameters and secrets of the command line.
    pub given: &'w Given,
    /// The one `now`.
    pub now: UtcTime,
}

/// Checks everything; every fault of every host at once.
pub fn prepare<'h>(
    inventory: &Inventory,
    hosts: &[&'h Host],
    wanted: &Wanted<'_>,
) -> Result<Vec<Ready<'h>>, Faults> {
    wanted.given.suits_all(hosts)?;
    let mut two = None;
    let mut one = None;
    let mut raw = None;
    let mut faults = Vec::new();
    let mut ready = Vec::new();
    for &host in hosts {
        let load = match (host.exec_mode, host.envelope) {
            (ExecMode::Raw, _) => cached(&mut raw, || unsigned(wanted)).map(|s| (s, None)),
            (ExecMode::Verified, 1) => cached(&mut one, || published(inventory, wanted)).map(|s| (s, None)),
            (ExecMode::Verified, _) => cached(&mut two, || Intended::read(inventory, wanted))
                .map(|i| (Arc::clone(&i.shared), Some(i))),
        };
        let (shared, intended) = match load {
            Ok(load) => load,
            // Of the profile as a whole: once is enough.
            Err(Some(more)) => {
                faults.extend(more.into_vec());
                continue;
            }
            Err(None) => continue,
        };
        match for_host(host, wanted, &shared, intended.as_deref()) {
            Ok((load, secrets)) => ready.push(Ready { host, load, secrets: Arc::new(secrets) }),
            Err(fault) => faults.push(fault),
        }
    }
    Faults::check(faults)?;
    Ok(ready)
}

/// Reads once; a failure is told once, and `None` after that.
fn cached<T: Clone>(
    slot: &mut Option<Option<T>>,
    read: impl FnOnce() -> Result<T, Faults>,
) -> Result<T, Option<Faults>> {
    if slot.is_none() {
        let got = read();
        *slot = Some(got.as_ref().ok().cloned());
        return got.map_err(Some);
    }
    slot.as_ref().and_then(Clone::clone).ok_or(None)
}

/// A signed phase on envelope 2 that this side has verified.
struct Intended {
    signed: signed::SignedPhase,
    shared: Arc<Shared>,
}

impl Intended {
    fn read(inventory: &Inventory, wanted: &Wanted<'_>) -> Result<Arc<Self>, Faults> {
        let script = if wanted.phase.is_scripted() { Some(script(wanted)?) } else { None };
        let signed = signed::read(wanted.folder, wanted.phase)?;
        let root = root(&inventory.trust, &inventory.file, false)?;
        let _ = root
            .judge(&signed, script.as_ref(), wanted.now)
            .map_err(|r| Fault::new(r.reason, format!("hosts would refuse it: {r}")).at(&signed.file, 0))?;
        let intent = &signed.intent;
        let shared = Shared::Two {
            intent: signed.bytes.clone(),
            signatures: signed.signatures.iter().map(|s| s.armoured.clone()).collect(),
            script: script.map(|s| s.bytes),
            profile: intent.profile().to_string(),
            epoch: intent.epoch(),
            deadline: intent.deadline(),
            finishes: intent.on_disconnect() == OnDisconnect::Finish,
        };
        Ok(Arc::new(Self { signed, shared: Arc::new(shared) }))
    }
}

/// Whom the sender trusts: the same files that hosts were provisioned with.
fn root(trust: &Trust, inventory: &Path, envelope_one: bool) -> Result<Root, Fault> {
    let allowed = trust.allowed_signers.as_deref().ok_or_else(|| {
        Fault::new(Own::ConfigMissing, "the inventory does not say whose signatures count")
            .at(inventory, 0)
            .fix("Write `trust: {allowed-signers: FILE}`, the file that hosts were provisioned with.")
    })?;
    Root::read(allowed, trust.revoked_signers.as_deref(), trust.signers_needed.unwrap_or(1), envelope_one)
}

fn script(wanted: &Wanted<'_>) -> Result<Script, Faults> {
    let scripts = folder::read_scripts(wanted.folder)?;
    let found = scripts.into_iter().find(|s| s.phase == wanted.phase);
    found.ok_or_else(|| {
        let what = format!("{} is not there", folder::script_file(wanted.folder, wanted.phase).display());
        Fault::new(Own::PhaseMissing, what).into()
    })
}

/// Envelope 1: a signature over the script alone.
fn published(inventory: &Inventory, wanted: &Wanted<'_>) -> Result<Arc<Shared>, Faults> {
    only_two(wanted.phase)?;
    let script = script(wanted)?;
    no_template(&script)?;
    let file = signed::v1_signature_file(&script.file);
    if !file.exists() {
        let fix = format!("Sign it with `muster script sign --envelope 1 {}`.", wanted.folder.display());
        return Err(Fault::new(Own::SignedMissing, format!("{} is not there", file.display()))
            .fix(fix)
            .into());
    }
    let signature = signed::read_signature(&file)?;
    let root = root(&inventory.trust, &inventory.file, true)?;
    let _ = root
        .judge_v1(&script, &signature.signature, wanted.now)
        .map_err(|r| Fault::new(r.reason, format!("hosts would refuse it: {r}")).at(&file, 0))?;
    Ok(Arc::new(Shared::One { signature: signature.armoured, script: script.bytes }))
}

fn unsigned(wanted: &Wanted<'_>) -> Result<Arc<Shared>, Faults> {
    only_two(wanted.phase)?;
    let script = script(wanted)?;
    no_template(&script)?;
    Ok(Arc::new(Shared::Raw { script: script.bytes }))
}

fn only_two(phase: Phase) -> Result<(), Fault> {
    if phase != Phase::Floor {
        return Ok(());
    }
    Err(Fault::new(
        Own::ConfigValue,
        "a host that was chosen is raw or takes envelope 1, where there are no floors",
    )
    .fix("Choose hosts on envelope 2."))
}

/// Bytes run as they are: what a renderer should have filled in would run as text.
fn no_template(script: &Script) -> Result<(), Fault> {
    let lines = script.bytes.split(|b| *b == b'\n');
    match (1usize..).zip(lines).find(|(_, l)| l.windows(2).any(|w| w == b"{{")) {
        Some((n, _)) => Err(Fault::new(Rule::Template, Rule::Template.what()).at(&script.file, n)),
        None => Ok(()),
    }
}

/// What a parameter that is not there must look like, for each of them at once.
fn with_missing(fault: Fault, declared: &[ParamLine], load: &Load) -> Fault {
    if fault.code != Reason::ParamMissing.into() {
        return fault;
    }
    let absent =
        declared.iter().filter(|p| !p.optional && load.values.iter().all(|(name, _)| *name != p.name));
    absent.fold(fault, |fault, p| {
        fault.hint(format!("{} is declared, and its value must match as a whole: {}", p.name, p.pattern))
    })
}

fn for_host(
    host: &Host,
    wanted: &Wanted<'_>,
    shared: &Arc<Shared>,
    intended: Option<&Intended>,
) -> Result<(Load, Secrets), Fault> {
    let mut secrets = Secrets::default();
    let declared = |name: &str| match (&**shared, intended) {
        (_, Some(i)) => i.signed.intent.params().iter().any(|p| p.name == name),
        (Shared::One { .. }, _) => name.starts_with("KPSSH_"),
        _ => true,
    };
    let values: Values = wanted.given.for_host(host, &declared, &mut secrets)?;
    let load = Load { phase: wanted.phase, shared: Arc::clone(shared), values };
    let refuse =
        |r: muster_signing::Refusal| Fault::new(r.reason, format!("{} would refuse it: {r}", host.name));
    let params = plain(&load.values);
    if let Some(intended) = intended {
        verify::fits(&intended.signed, Some((&host.name, &host.pools)), wanted.now).map_err(refuse)?;
        let declared = intended.signed.intent.params();
        intended.signed.intent.check_params(&params).map_err(|r| with_missing(refuse(r), declared, &load))?;
    } else if let Shared::One { script, signature } = &**shared {
        let parts =
            v1::Parts { phase: wanted.phase, script, signature: signature.as_bytes(), params: &params };
        v1::build(&parts).map_err(refuse)?;
    }
    Ok((load, secrets))
}
