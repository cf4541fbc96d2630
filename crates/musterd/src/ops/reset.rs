//! Taking the node apart, in phases that are written down.
//!
//! ```text
//! stop ──▶ leave ──▶ keys ──▶ forget ──▶ reboot ──▶ (gone)
//! ```
//!
//! The phase that comes next is on disk before it is begun, and each may be done again, so that whatever interrupts a reset (a crash,
//! a power cut, a full disk), the next start of the core goes on with it. As long as the file is there the node is leaving, takes
//! nothing new on, and is owned; a phase that fails leaves it so, and says why in the node's state. The owner is forgotten after the
//! node is in no cluster and never before. A failure erases nothing.
//!
//! What was put on the machine another way stays: the account of `muster host provision`, its keys, its sudoers and sshd files, and
//! the record of the audit.

use std::sync::Arc;
use std::time::Duration;

use muster_api::lifecycle::{ResetRequest, Status};
use muster_api::node::ResetState;
use muster_api::{Fault, Kind};
use muster_sys::state::Durability;
use serde::{Deserialize, Serialize};

use super::{Done, Request, Works, access, lifecycle, state as node_state, tools};
use crate::core::disk::{self, Disk};
use crate::core::owner::Owner;
use crate::core::room;
use crate::places::{self, Places};

/// The file of [`places::RESET`], in its folder.
const RECORD: &str = "reset.json";
/// There from before the reboot until it, since it is not on a disk: the boot that is to end.
const GOING_DOWN: &str = "reset-reboots";
/// Of a boot without a name.
const UNKNOWN: &str = "unknown";
/// What builds the node, and would go on with it.
const BOOTSTRAP: &str = "muster-bootstrap.service";
/// What the answer has to get to the client before its connection is one of a stranger.
const GRACE: Duration = Duration::from_millis(500);

/// What comes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Phase {
    /// End a bootstrap that runs.
    #[default]
    Stop,
    /// Leave the cluster.
    Leave,
    /// Take away the SSH keys that the API let in.
    Keys,
    /// Take away the markers of the bootstrap, then the owner.
    Forget,
    /// Reboot.
    Reboot,
}

impl Phase {
    #[cfg(test)]
    const ALL: [Self; 5] = [Self::Stop, Self::Leave, Self::Keys, Self::Forget, Self::Reboot];

    const fn word(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Leave => "leave",
            Self::Keys => "keys",
            Self::Forget => "forget",
            Self::Reboot => "reboot",
        }
    }
}

/// What is on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    phase: Phase,
    /// Who asked.
    by: String,
    /// When.
    at: String,
    /// Why the last try of the phase failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A reset of this node. There is one at a time: see [`Works`].
struct Reset<'r> {
    places: &'r Places,
    disk: Disk,
    forget: &'r dyn Fn() -> Result<(), Fault>,
}

impl<'r> Reset<'r> {
    fn open(places: &'r Places, forget: &'r dyn Fn() -> Result<(), Fault>) -> Result<Self, Fault> {
        let disk = Disk::open(places).map_err(|e| Fault::failed("disk", e))?;
        Ok(Self { places, disk, forget })
    }

    /// What is on disk. A record that is there and cannot be read is one of the first phase: each may be done again.
    fn record(&self) -> Result<Option<Record>, Fault> {
        let there = self.disk.state.has(RECORD).map_err(|e| Fault::failed("disk", e.line()))?;
        Ok(there.then(|| disk::read_json(&self.disk.state, RECORD).ok().flatten().unwrap_or_default()))
    }

    fn store(&self, record: &Record) -> Result<(), Fault> {
        disk::write_json(&self.disk.state, RECORD, record, Durability::Durable)
            .map_err(|e| Fault::failed("disk", format!("the reset cannot be written down: {e}")))
    }

    /// Goes on until `until` comes next.
    fn go(&self, until: Phase) -> Result<(), Fault> {
        let mut record = self.record()?.unwrap_or_default();
        while record.phase < until {
            match self.phase(record.phase) {
                Ok(next) => record = Record { phase: next, error: None, ..record },
                Err(fault) => {
                    let error = tools::line(&fault.error, 400);
                    let told = format!("the reset stopped at `{}`: {error}", record.phase.word());
                    // The phase stays; that its error cannot be kept changes nothing.
                    let _ = self.store(&Record { error: Some(error), ..record });
                    return Err(Fault::failed("reset", told).fix(
                        "The node is leaving, and still owned. Ask again, or restart musterd-core, to go on from there.",
                    ));
                }
            }
            self.store(&record)?;
        }
        Ok(())
    }

    /// Does one, and says which comes next.
    fn phase(&self, phase: Phase) -> Result<Phase, Fault> {
        match phase {
            Phase::Stop => self.stop().map(|()| Phase::Leave),
            Phase::Leave => self.leave().map(|()| Phase::Keys),
            Phase::Keys => access::forget(self.places).map(|()| Phase::Forget),
            Phase::Forget => {
                (self.forget)()?;
                // Before the phase: where the phase is on disk and this is not in memory, the machine was started anew.
                let failed = |e: muster_sys::SysError| Fault::failed("disk", e.line());
                let boot = muster_sys::clock::this_boot().unwrap_or_else(|_| UNKNOWN.to_owned());
                self.disk.run.replace(GOING_DOWN, boot.as_bytes(), Durability::Volatile).map_err(failed)?;
                Ok(Phase::Reboot)
            }
            Phase::Reboot => Ok(Phase::Reboot),
        }
    }

    fn stop(&self) -> Result<(), Fault> {
        let stop = tools::systemctl(self.places).args(["stop", "--", BOOTSTRAP]);
        // A unit that is not there cannot be stopped either; what counts is that it does not run.
        let _ = tools::run(stop.deadline(Duration::from_secs(120)), "systemctl stop")?;
        let active = tools::systemctl(self.places).args(["is-active", "--quiet", "--", BOOTSTRAP]);
        if tools::run(active, "systemctl is-active")?.ok() {
            return Err(Fault::failed("reset", format!("{BOOTSTRAP} does not stop")));
        }
        Ok(())
    }

    /// Of a node that is in no cluster there is nothing to leave. What a cluster put on the node, its distribution takes away.
    fn leave(&self) -> Result<(), Fault> {
        #[derive(Deserialize)]
        struct Built {
            #[serde(default)]
            distribution: Option<String>,
        }
        let text = tools::text(self.places, places::NODE);
        let built = text.and_then(|t| serde_json::from_str::<Built>(&t).ok()?.distribution);
        match built.as_deref() {
            None | Some("none") => Ok(()),
            Some(other) => Err(Fault::failed(
                "reset",
                format!("this build cannot take a node out of a cluster of {}", tools::line(other, 40)),
            )),
        }
    }

    /// Whether a reboot ended it.
    fn ended(&self) -> Result<bool, Fault> {
        if self.record()?.is_none_or(|r| r.phase != Phase::Reboot) {
            return Ok(false);
        }
        let marker =
            disk::read_text(&self.disk.run, GOING_DOWN, 256).map_err(|e| Fault::failed("disk", e))?;
        // A file system in memory can outlive the boot: of a container that is started anew, or over a soft reboot.
        Ok(match (marker, muster_sys::clock::this_boot()) {
            (Some(marked), Ok(boot)) => marked != UNKNOWN && marked != boot,
            (Some(_), Err(_)) => false,
            (None, _) => true,
        })
    }

    /// Forgets one that a reboot ended.
    fn settle(&self) -> Result<bool, Fault> {
        let ended = self.ended()?;
        if ended {
            self.disk.state.remove_durably(RECORD).map_err(|e| Fault::failed("disk", e.line()))?;
        }
        Ok(ended)
    }
}

/// `POST /v1/lifecycle/reset`.
pub(super) fn begin(request: &Request<'_>) -> Result<Done, Fault> {
    let ResetRequest { confirm } = super::body(request)?;
    let name = node_state::hostname(request.places).unwrap_or_default();
    if name.is_empty() || confirm != name {
        return Err(Fault::bad("confirm", format!("this node is {name}, and `confirm` does not say so"))
            .fix(format!("If it is the one that you mean: {{\"confirm\":\"{name}\"}}.")));
    }
    let Some(held) = request.works.sole_reset() else {
        return Err(Fault::new(Kind::State, "resetting", "the node is being taken apart already")
            .fix("Wait until it has come back."));
    };
    let owner = Arc::clone(request.owner);
    let forget = move || owner.forget();
    let reset = Reset::open(request.places, &forget)?;
    room::give(&reset.disk);
    if reset.record()?.is_none() {
        let by = tools::line(&request.caller.name, 200);
        let begun = reset.store(&Record { by, at: tools::now().to_string(), ..Record::default() });
        begun.inspect_err(|_| room::keep(&reset.disk))?;
    }
    reset.go(Phase::Forget)?;
    drop(held);
    let note = "The node forgets its owner and reboots; it comes back as its own document says.";
    let (places, works, owner) = (request.places.clone(), request.works.clone(), Arc::clone(request.owner));
    Ok(Done::status(202, &Status::of("reset").note(note))?.and_then(move || {
        std::thread::sleep(GRACE);
        finish(&places, &works, &owner);
    }))
}

/// Ends what the last boot began and this one is the end of; whether there was one. Before ownership is read: the owner is gone
/// already.
///
/// # Errors
/// One line: the node stays as it is, and is leaving.
pub fn settle(places: &Places) -> Result<bool, String> {
    let reset = Reset::open(places, &|| Ok(())).map_err(|e| e.error)?;
    let ended = reset.settle().map_err(|e| e.error)?;
    if ended {
        lifecycle::record("the reset is done: the node has no owner");
    }
    Ok(ended)
}

/// Goes on with a reset that something interrupted, on a thread of its own. After ownership was read. `told` is called first where
/// there is one, with its phase.
pub fn resume(places: &Places, works: &Works, owner: &Arc<Owner>, told: impl FnOnce(&str)) {
    let Some(ResetState { phase, .. }) = state(places) else { return };
    match Reset::open(places, &|| Ok(())).and_then(|reset| reset.ended()) {
        Ok(false) => {}
        // It rebooted, and that cannot be written down: once more would change nothing.
        Ok(true) => return lifecycle::record("the reset is done, and its record cannot be removed"),
        Err(fault) => return lifecycle::record(&format!("the reset does not go on: {}", fault.error)),
    }
    told(&phase);
    let (places, works, owner) = (places.clone(), works.clone(), Arc::clone(owner));
    let spawned =
        std::thread::Builder::new().name("reset".to_owned()).spawn(move || finish(&places, &works, &owner));
    if let Err(e) = spawned {
        lifecycle::record(&format!("the reset does not go on: no thread: {e}"));
    }
}

/// All that is left, and the reboot.
fn finish(places: &Places, works: &Works, owner: &Owner) {
    // Whoever holds it does the same.
    let Some(_held) = works.sole_reset() else { return };
    let forget = || owner.forget();
    let done = Reset::open(places, &forget).and_then(|reset| reset.go(Phase::Reboot));
    match done {
        Ok(()) => lifecycle::reboot_now(places)(),
        Err(fault) => lifecycle::record(&fault.error),
    }
}

/// How far a reset is, where one is under way.
pub(super) fn state(places: &Places) -> Option<ResetState> {
    // That it is there is what counts; what is in it, where it can be read.
    std::fs::symlink_metadata(places.at(places::RESET)).ok()?;
    let text = tools::text(places, places::RESET);
    let record: Record = text.and_then(|t| serde_json::from_str(&t).ok()).unwrap_or_default();
    Some(ResetState { phase: record.phase.word().to_owned(), error: record.error })
}

#[cfg(test)]
#[path = "reset/tests.rs"]
mod tests;
