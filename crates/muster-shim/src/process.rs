//! The two stages of the shim's process.
//!
//! Stage 1 is the pool account's: it reads nothing and becomes sudo, which starts the same
//! program as root. Stage 2 is root's. Neither takes an argument; neither lets the environment
//! decide anything.

use crate::called::CalledAs;
use crate::decide::{Asked, Ground, decide};
use crate::evidence::Peer;
use crate::execute::{Stage, execute};
use crate::input::Input;
use crate::policy::Loaded;
use crate::record::{Facts, Recorder};
use crate::report::Reporter;
use crate::steps::Steps;
use crate::trust::Trust;
use crate::{answer, clock, paths, policy, trust};
use muster_core::{Reason, ShimExit, UtcTime};
use muster_signing::Refusal;
use muster_sys::file::Root;
use muster_sys::{command, environment, procfs, sshd, system};
use std::ffi::OsString;
use std::path::Path;

/// Variables that pass through sudo as evidence, never as instruction.
const EVIDENCE: [&str; 2] = ["SSH_USER_AUTH", "SSH_CONNECTION"];

/// The whole program: what `main` returns.
pub fn run(mut args: impl Iterator<Item = OsString>, steps: &mut dyn Steps) -> ShimExit {
    let called = args.next().as_deref().and_then(CalledAs::from_argv0);
    let reporter = Reporter::new(called.unwrap_or(CalledAs::Muster));
    let ids = system::user_ids();
    let refuse = |reason, detail: &str| {
        let r = Refusal::new(reason, detail);
        if ids == (0, 0) {
            // Somebody tried root's stage with what it never gets.
            Recorder::new(called.unwrap_or(CalledAs::Muster), Peer::default()).refused(&Facts::default(), &r);
        }
        reporter.refusal(&r);
        r.reason.exit()
    };
    if args.next().is_some() {
        return refuse(Reason::Argument, "");
    }
    let Some(called) = called else { return refuse(Reason::CalledAs, "") };
    match ids {
        (0, 0) if !procfs::is_mounted() => refuse(Reason::ProcMissing, ""),
        (0, 0) => stage_two(called, reporter, steps),
        // Set-user-id root is not how this program is installed.
        (_, 0) => refuse(Reason::NotRoot, "it has root's rights without being root"),
        _ => refuse(Reason::NotRoot, &stage_one(called)),
    }
}

/// Becomes sudo; the reason when that fails.
fn stage_one(called: CalledAs) -> String {
    let env: Vec<(&str, OsString)> =
        EVIDENCE.iter().filter_map(|n| Some((*n, std::env::var_os(n)?))).collect();
    command::become_program(Path::new(paths::SUDO), &["-n", "--", called.path()], &env).line()
}

fn stage_two(called: CalledAs, reporter: Reporter, steps: &mut dyn Steps) -> ShimExit {
    let [user_auth, connection] = EVIDENCE;
    let peer = match environment::start([user_auth, connection, "SUDO_UID"]) {
        Ok([user_auth, connection, sudo_uid]) => Peer::collect(user_auth, connection, sudo_uid),
        Err(e) => {
            let r = Refusal::new(Reason::InternalFault, e.line());
            Recorder::new(called, Peer::default()).refused(&Facts::default(), &r);
            reporter.refusal(&r);
            return r.reason.exit();
        }
    };
    let mut recorder = Recorder::new(called, peer.clone());
    let mut facts = Facts::default();
    match as_root(called, reporter, &peer, &mut facts, &mut recorder, steps) {
        Ok(exit) => exit,
        Err(refusal) => {
            recorder.refused(&facts, &refusal);
            reporter.refusal(&refusal);
            refusal.reason.exit()
        }
    }
}

fn as_root(
    called: CalledAs,
    reporter: Reporter,
    peer: &Peer,
    facts: &mut Facts,
    recorder: &mut Recorder,
    steps: &mut dyn Steps,
) -> Result<ShimExit, Refusal> {
    let sshd = sshd::ancestor();
    let root = Root::system().map_err(|e| Refusal::new(Reason::InternalFault, e.line()))?;
    let mut input = Input::begin();
    let is_whole = input.is_whole();
    // Before anything is said of the input: a host that is at fault says so to whoever asks.
    let mut judged = files(&root, called)?;
    let input = input.finish()?;
    if !is_whole {
        // Again, and these count: a key that was revoked while the input was on its way is revoked.
        judged = files(&root, called)?;
    }
    let (loaded, trust) = judged;
    let now = UtcTime::from_unix(muster_sys::clock::unix_seconds());
    let ground = Ground { called, loaded: &loaded, trust: &trust, now, build: clock::build_date() };
    let order = match decide(&ground, &input, facts)? {
        Asked::Probe(version) => return answer::probe(version, called, &loaded, now),
        Asked::Run(order) => *order,
    };
    drop(input);
    let mut stage = Stage { loaded: &loaded, peer, sshd, reporter, steps };
    execute(&mut stage, order, facts, recorder)
}

/// Policy and trust files, read and judged.
fn files(root: &Root, called: CalledAs) -> Result<(Loaded, Result<Trust, Refusal>), Refusal> {
    let loaded = policy::load(root)?;
    let trust = trust::load(root, called, &loaded);
    match &trust {
        Ok(t) => trust::check_threshold_can_be_met(&loaded, t)?,
        // The bash shim reads its trust root last of all, and answers a probe without one.
        Err(_) if called == CalledAs::Kpssh => {}
        Err(r) => return Err(r.clone()),
    }
    Ok((loaded, trust))
}
