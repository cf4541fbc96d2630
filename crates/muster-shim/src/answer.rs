//! What `probe` says of the shim itself: policy, floors, the run that is going on, the last one.
//!
//! Takes no lock and writes nothing. Every state file is replaced whole by whoever writes it, so
//! that reading without the lock sees one version or the other.

use crate::floors::Floors;
use crate::policy::{Loaded, Policy};
use crate::probe::{self, Inside, PolicySummary, Running};
use crate::runfile::{self, Found};
use crate::{called::CalledAs, clock, floors, hex, history, paths};
use muster_core::{Reason, ShimExit, UtcTime};
use muster_signing::Refusal;
use muster_signing::envelope::Version;
use muster_sys::file::Root;
use muster_sys::lock::Lock;
use muster_sys::state::StateDir;
use std::io::Write;
use std::path::Path;

/// Answers a probe on standard output.
pub fn probe(version: Version, called: CalledAs, loaded: &Loaded, now: UtcTime) -> Result<ShimExit, Refusal> {
    let text = match version {
        Version::One => probe::one(),
        Version::Two => {
            let state = floors::state_dir();
            // One probe at a time starts tools: whoever holds the login may send any number of them.
            let slot = state.as_ref().ok().and_then(Lock::try_take_folder);
            probe::two(&inside(called, loaded, now, state, slot.is_some()))
        }
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => Ok(ShimExit::Ok),
        Err(e) => Err(Refusal::new(Reason::InternalFault, format!("write the answer: {e}"))),
    }
}

fn inside(
    called: CalledAs,
    loaded: &Loaded,
    now: UtcTime,
    state: Result<StateDir, Refusal>,
    ask_tools: bool,
) -> Inside {
    let policy = match &loaded.policy {
        Some(p) => summary(called, loaded, p, state.as_ref()).map_err(|r| r.to_string()),
        None => Err(format!("{} is not there", paths::POLICY)),
    };
    let volatile = Root::system().ok().and_then(|root| StateDir::open(root, Path::new(paths::RUN)).ok());
    // Without it every run without an end is one of an earlier boot, which is what a host without
    // boot ids makes of it too.
    let boot = muster_sys::clock::boot_id().unwrap_or_default();
    // What goes on is looked at first: a run that ends in between is then on record, never nowhere.
    let running = volatile.as_ref().and_then(running);
    Inside {
        now,
        build_date: clock::build_date(),
        ask_tools,
        policy,
        running,
        runs: history::runs(state.as_ref().ok(), volatile.as_ref(), &boot),
    }
}

/// Where intents are taken, floors that cannot be read are the fault that every one of them would
/// meet: never shown as no floors.
fn summary(
    called: CalledAs,
    loaded: &Loaded,
    p: &Policy,
    state: Result<&StateDir, &Refusal>,
) -> Result<PolicySummary, Refusal> {
    let floors = match state.map_err(Clone::clone).and_then(floors::read) {
        Ok(floors) => floors,
        Err(_) if p.profiles.is_none() => Floors::default(),
        Err(r) => return Err(r),
    };
    let profiles = p.profiles.iter().flatten().map(|(name, least)| {
        let floor = floors.get(name).max(*least);
        (name.to_string(), floor.unwrap_or(1))
    });
    Ok(PolicySummary {
        digest: loaded.digest.map(|d| hex(&d)).unwrap_or_default(),
        host: p.host.as_ref().map(ToString::to_string),
        pools: p.pools.iter().map(ToString::to_string).collect(),
        envelope_one: loaded.takes_envelope_one(called),
        signers_needed: p.signers_needed as usize,
        max_deadline: p.max_deadline,
        profiles: profiles.collect(),
    })
}

fn running(dir: &StateDir) -> Option<Running> {
    let Found::Run(record) = runfile::look(dir) else { return None };
    let alive = record.shim_lives();
    Some(Running { record, alive })
}
