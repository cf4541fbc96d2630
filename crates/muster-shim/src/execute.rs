//! Carrying out an order: one at a time, recorded before and after, with nothing left behind.

use crate::decide::{Epoch, Order};
use crate::floors::{self, Floors};
use crate::identity::Identity;
use crate::policy::Loaded;
use crate::record::{Event, Facts, Recorder, RunId, Verdict};
use crate::report::Reporter;
use crate::runfile::{self, Found, RunRecord};
use crate::steps::{Step, Steps};
use crate::supervise::{self, Run, Summary};
use crate::{evidence::Peer, paths};
use muster_core::{Phase, Reason, ShimExit, UtcTime};
use muster_signing::Refusal;
use muster_sys::cgroup::Cgroup;
use muster_sys::clock::{since_boot, unix_seconds};
use muster_sys::file::Root;
use muster_sys::lock::Lock;
use muster_sys::state::StateDir;
use muster_sys::tree;
use rustix::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

/// How long what an interrupted run left may take to die.
const ORPHANS: Duration = Duration::from_secs(10);
/// The variable that marks every process of a run.
pub const MARK: &str = "MUSTER_RUN_ID";

/// Everything around an order.
pub struct Stage<'a> {
    /// The policy.
    pub loaded: &'a Loaded,
    /// Who asked.
    pub peer: &'a Peer,
    /// The sshd process of the connection, when one was found.
    pub sshd: Option<OwnedFd>,
    /// Where lines go.
    pub reporter: Reporter,
    /// Told at each step.
    pub steps: &'a mut dyn Steps,
}

/// The host's one lock, and the folder it is in. What runs needs it.
struct LockHeld {
    _lock: Lock,
    dir: StateDir,
}

fn internal(e: &muster_sys::SysError) -> Refusal {
    Refusal::new(Reason::InternalFault, e.line())
}

/// What is said once the lock is free: whoever reads our lines must not be able to keep the host
/// busy by not reading them.
#[derive(Default)]
struct Later(Vec<String>);

/// Carries out `order`. A refusal means that nothing ran.
pub fn execute(
    stage: &mut Stage<'_>,
    order: Order,
    facts: &mut Facts,
    recorder: &mut Recorder,
) -> Result<ShimExit, Refusal> {
    if recorder.boot().is_empty() {
        // Without it a run record of this boot looks like one of the boot before, and what it left
        // would be taken for dead.
        return Err(Refusal::new(Reason::InternalFault, "the kernel does not tell its boot id"));
    }
    let held = take_lock()?;
    let mut later = Later::default();
    let done = locked(&held, stage, order, facts, recorder, &mut later);
    drop(held);
    for line in &later.0 {
        stage.reporter.line(line);
    }
    done
}

fn locked(
    held: &LockHeld,
    stage: &mut Stage<'_>,
    order: Order,
    facts: &mut Facts,
    recorder: &mut Recorder,
    later: &mut Later,
) -> Result<ShimExit, Refusal> {
    stage.steps.reached(Step::Locked);
    recorder.open_log(floors::state_dir().ok());
    finish_interrupted(held, recorder)?;
    stage.steps.reached(Step::OrphansEnded);
    let raise = match &order.epoch {
        Some(epoch) => check_floor(stage.loaded, recorder, epoch, facts)?,
        None => None,
    };
    check_key(stage.loaded, stage.peer, order.phase)?;
    stage.steps.reached(Step::Allowed);

    let run = RunId::new()?;
    facts.run = Some(run.clone());
    let group = order.script.as_ref().and_then(|_| make_group(&run, facts, recorder));
    let now = UtcTime::from_unix(unix_seconds());
    let what = Identity::of(facts)
        .ok_or_else(|| Refusal::new(Reason::InternalFault, "a run without envelope or phase"))?;
    let mut record = RunRecord::of_this_process(run, recorder.boot(), what, now);
    record.group = group.as_ref().map(|g| g.path().to_owned());
    record.write(&held.dir).map_err(|e| internal(&e))?;
    stage.steps.reached(Step::RunRecorded);

    let begun = announce(held, stage, &order, facts, recorder, raise.as_ref(), later);
    let summary = match begun {
        Ok(()) => {
            facts.floor_after = facts.floor_before.max(order.epoch.as_ref().map(|e| e.epoch));
            carry_out(stage, &order, facts, recorder, group.as_ref())
        }
        Err(Begun::Unrecorded(r)) => {
            forget(held, group.as_ref());
            return Err(r);
        }
        Err(Begun::Recorded(r)) => Summary::not_started(r),
    };
    stage.steps.reached(Step::Ended);
    let exit = conclude(held, facts, recorder, &summary, later);
    stage.steps.reached(Step::EndRecorded);
    if summary.survivors == 0 {
        forget(held, group.as_ref().filter(|_| !summary.kept));
        stage.steps.reached(Step::RunForgotten);
    }
    match summary.refusal {
        Some(r) => Err(r),
        None => Ok(exit),
    }
}

fn take_lock() -> Result<LockHeld, Refusal> {
    let root = Root::system().map_err(|e| internal(&e))?;
    let dir = StateDir::open_or_make(root, Path::new(paths::RUN))
        .map_err(|e| Refusal::new(Reason::InternalFault, e.to_string()))?;
    match Lock::try_take(&dir, paths::LOCK).map_err(|e| internal(&e))? {
        Some(lock) => Ok(LockHeld { _lock: lock, dir }),
        None => Err(busy(&runfile::look(&dir))),
    }
}

fn busy(found: &Found) -> Refusal {
    let detail = match found {
        Found::Run(r) => format!("{} since {}", r.what.phase, r.since),
        _ => String::new(),
    };
    Refusal::new(Reason::BusyRun, detail)
}

/// A run record that is there while we hold the lock is of a shim that was killed: what it left is
/// ended before anything else may run.
fn finish_interrupted(held: &LockHeld, recorder: &Recorder) -> Result<(), Refusal> {
    let found = runfile::look(&held.dir);
    let record = match &found {
        Found::Nothing => return Ok(()),
        Found::Run(r) => r,
        Found::Unreadable(why) => {
            let detail =
                format!("{}/{}: {why}; look for what it left, then remove it", paths::RUN, paths::RUN_RECORD);
            return Err(Refusal::new(Reason::InternalFault, detail));
        }
    };
    let this_boot = record.boot == recorder.boot();
    if this_boot && record.shim.0 != muster_sys::system::pid() && record.shim_lives() {
        // Somebody removed the lock file under a shim that is still there.
        return Err(busy(&found));
    }
    if this_boot {
        let group = record.group.as_ref().and_then(|p| Cgroup::reopen(p, &record.run.public()));
        if !tree::end_orphans(group.as_ref(), (MARK, record.run.as_str()), ORPHANS) {
            return Err(Refusal::new(Reason::SurvivorsRemain, format!("run {}", record.run.as_str())));
        }
        if let Some(g) = group {
            // It is empty; if it stays all the same it does no harm.
            let _ = g.remove();
        }
    }
    let facts = record.facts();
    let note = if this_boot { "its shim was killed" } else { "the machine went down" };
    let end = Event::End {
        verdict: Verdict::Interrupted,
        reason: None,
        exit: None,
        took: Duration::ZERO,
        stragglers: 0,
        survivors: 0,
        note,
    };
    if recorder.run(&facts, end).log.is_err() {
        recorder.keep(&held.dir, &facts, end);
    }
    held.dir.remove(paths::RUN_RECORD).map_err(|e| internal(&e))
}

/// Floor and step, with the file read again under the lock; the floors to write, if any rises.
fn check_floor(
    loaded: &Loaded,
    recorder: &Recorder,
    epoch: &Epoch,
    facts: &mut Facts,
) -> Result<Option<Floors>, Refusal> {
    let policy = loaded.policy.as_ref().ok_or_else(|| Refusal::new(Reason::NoPolicy, ""))?;
    let Some(dir) = recorder.state() else {
        return Err(floors::state_dir()
            .err()
            .unwrap_or_else(|| Refusal::new(Reason::StateMissing, paths::STATE)));
    };
    let now = floors::read(dir)?;
    let least = policy.profile(&epoch.profile).flatten();
    facts.floor_before = now.get(&epoch.profile).max(least);
    floors::check(&now, &epoch.profile, epoch.epoch, least, policy.epoch_max_step)?;
    Ok(now.raised(&epoch.profile, epoch.epoch, epoch.not_before))
}

/// Whether the login's key may ask for this phase. With several keys each of them must.
fn check_key(loaded: &Loaded, peer: &Peer, phase: Phase) -> Result<(), Refusal> {
    let Some(keys) = loaded.policy.as_ref().and_then(|p| p.keys.as_ref()) else { return Ok(()) };
    if peer.keys.is_empty() {
        return Err(Refusal::new(Reason::KeyPolicy, "the login's key is not known"));
    }
    for fp in &peer.keys {
        match keys.get(fp) {
            Some(phases) if phases.contains(&phase) => {}
            Some(_) => return Err(Refusal::new(Reason::KeyPolicy, format!("{fp} may not ask for {phase}"))),
            None => return Err(Refusal::new(Reason::KeyPolicy, format!("{fp} is not in [keys]"))),
        }
    }
    Ok(())
}

fn make_group(run: &RunId, facts: &Facts, recorder: &Recorder) -> Option<Cgroup> {
    match Cgroup::make(&run.public()) {
        Ok(g) => Some(g),
        Err(e) => {
            recorder
                .remark(facts, &format!("the run goes on without a control group of its own: {}", e.line()));
            None
        }
    }
}

/// Why a run did not begin.
enum Begun {
    /// No start record: nothing to conclude.
    Unrecorded(Refusal),
    /// There is a start record, so there has to be an end.
    Recorded(Refusal),
}

/// Start record, then the floor: both before anything runs.
fn announce(
    held: &LockHeld,
    stage: &mut Stage<'_>,
    order: &Order,
    facts: &Facts,
    recorder: &Recorder,
    raise: Option<&Floors>,
    later: &mut Later,
) -> Result<(), Begun> {
    let written = recorder.run(facts, Event::Start);
    if !written.anywhere() {
        if order.epoch.is_some() {
            return Err(Begun::Unrecorded(Refusal::new(Reason::RecordUnwritable, written.why_not())));
        }
        later.0.push(format!("warning: this run is recorded nowhere: {}", written.why_not()));
    }
    if written.log.is_err() {
        recorder.keep(&held.dir, facts, Event::Start);
    }
    if let (Some(run), true) = (&facts.run, order.epoch.is_some()) {
        // The caller can ask for it by this name when it loses us.
        stage.reporter.line_if_room(&format!("run {}", run.as_str()));
    }
    stage.steps.reached(Step::StartRecorded);
    if let Some((next, dir)) = raise.zip(recorder.state()) {
        floors::write(dir, next).map_err(Begun::Recorded)?;
    }
    stage.steps.reached(Step::FloorRaised);
    Ok(())
}

fn carry_out(
    stage: &mut Stage<'_>,
    order: &Order,
    facts: &Facts,
    recorder: &Recorder,
    group: Option<&Cgroup>,
) -> Summary {
    let Some(script) = &order.script else { return Summary::ok() };
    let Some(run) = &facts.run else { return Summary::ok() };
    let began = since_boot();
    let to_run = Run {
        id: run,
        phase: order.phase,
        profile: order.epoch.as_ref().map(|e| &e.profile),
        script,
        params: &order.params,
        extra: stage.loaded.policy.as_ref().map(|p| &p.environment),
        deadline: order.deadline,
        on_disconnect: order.on_disconnect,
        keep_stragglers: order.epoch.is_none(),
        group,
    };
    let mut summary = supervise::run(stage, &to_run, |text| recorder.remark(facts, text));
    summary.took = since_boot() - began;
    summary
}

/// The end record, and the last line for later; the exit code.
fn conclude(held: &LockHeld, facts: &Facts, recorder: &Recorder, s: &Summary, later: &mut Later) -> ShimExit {
    let end = Event::End {
        verdict: s.verdict,
        reason: s.reason(),
        exit: s.exit,
        took: s.took,
        stragglers: s.stragglers,
        survivors: s.survivors,
        note: &s.note,
    };
    let written = recorder.run(facts, end);
    if written.log.is_err() {
        recorder.keep(&held.dir, facts, end);
    }
    if !written.anywhere() {
        later.0.push(format!("warning: the end of this run is recorded nowhere: {}", written.why_not()));
    }
    let Some(reason) = s.reason().filter(|_| s.refusal.is_none()) else { return ShimExit::Ok };
    later.0.push(format!("ended [{}]: {}", reason.code(), s.line()));
    reason.exit()
}

fn forget(held: &LockHeld, group: Option<&Cgroup>) {
    // What stays of either is found and dealt with by the next run.
    let _ = held.dir.remove(paths::RUN_RECORD);
    if let Some(g) = group {
        let _ = g.remove();
    }
}
