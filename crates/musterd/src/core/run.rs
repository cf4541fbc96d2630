//! `musterd core`: from its options to its end.

use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use muster_core::Operation;
use muster_sys::lock::Lock;
use muster_sys::service::{self, Peer};
use muster_sys::signals::EndingSignals;
use muster_sys::{SysError, system};

use super::audit::{Audit, Decision, Event, Room};
use super::control;
use super::disk::Disk;
use super::owner::{Opened, Owner};
use super::server::{AT_THE_DOOR, Core, Door, Gate};
use super::units;
use super::waiting;
use crate::ops;
use crate::places::{CONTROL_SOCKET, EDGE_SOCKET, Places};
use crate::say;

/// The node's API is not wanted: no failure, and no reason to start again.
pub const NOT_WANTED: u8 = 78;
/// The edge's user.
const EDGE_USER: &str = "muster-edge";
/// Between two looks at how the node stands.
const STATUS_EVERY: Duration = Duration::from_secs(5);
/// What the core has open at most: calls, their files, what they run.
const FILES: u64 = 4096;

/// What stands on the command line.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// A folder that stands for `/`: for trying it out, with sockets of its own
    #[arg(long, value_name = "DIR")]
    pub state_root: Option<PathBuf>,
    /// User id of the edge, instead of that of `muster-edge`
    #[arg(long, value_name = "UID", requires = "state_root")]
    pub edge_uid: Option<u32>,
}

/// Runs until it is told to end.
#[must_use]
pub fn run(options: &Options) -> ExitCode {
    match serve(options) {
        Ok(code) => code,
        Err(why) => {
            say::ends(&why);
            service::tell(&format!("STATUS={why}"));
            ExitCode::FAILURE
        }
    }
}

fn serve(options: &Options) -> Result<ExitCode, String> {
    let line = |e: SysError| e.line();
    let sockets = service::sockets().map_err(line)?;
    // Before any thread: they all keep these signals waiting for this one.
    let signals = EndingSignals::catch().map_err(line)?;
    // Before the folder is left that it may be named from.
    let root = options
        .state_root
        .as_ref()
        .map(|root| root.canonicalize().map_err(|e| format!("--state-root {}: {e}", root.display())));
    let root = root.transpose()?;
    system::neutral_place().map_err(line)?;
    system::open_files(FILES);
    let places = match root {
        Some(root) => Places::below(root),
        None => Places::system(),
    };
    let disk = Disk::open(&places)?;
    // Before anything is read that another one may be writing. The kernel lets go of it whatever ends this process.
    let Some(_alone) = Lock::try_take_folder(&disk.api) else {
        return Err("another `musterd core` runs on this node: `systemctl status musterd-core`".to_owned());
    };
    let mut audit = settled(&places)?;
    let managed = !sockets.is_empty();
    let mut sockets = sockets;
    let mut given = |name: &str| {
        let at = sockets.iter().position(|s| s.name == name)?;
        Some(UnixListener::from(sockets.swap_remove(at).socket))
    };
    let control = match given("control") {
        Some(socket) => socket,
        None => listen(&places.at(CONTROL_SOCKET), system::user_ids().1)?,
    };
    let opened = waiting::during(&control, || Owner::open(&places, &|d| signals.wait(d).is_none()));
    let opened = opened.map_err(|e| format!("cannot answer at the control socket: {e}"))?;
    let owner: Arc<Owner> = match opened.map_err(|e| e.to_string())? {
        Opened::Ended => return Ok(ExitCode::SUCCESS),
        Opened::Wanted(owner) => Arc::from(owner),
        Opened::NotWanted(why) => {
            say::ends(&format!("the node API is not wanted: {why}"));
            service::tell(&format!("STATUS=not wanted: {why}"));
            return Ok(ExitCode::from(NOT_WANTED));
        }
    };
    let audit = match audit.take() {
        Some(audit) => audit,
        None => Arc::new(Audit::open(&places).map_err(|e| e.to_string())?),
    };
    audit.tell_head();
    let core = Core::new(places.clone(), owner, Arc::clone(&audit));
    let gate = gate(options, &places, managed)?;
    let edge = match given("edge") {
        Some(socket) => socket,
        None => listen(&places.at(EDGE_SOCKET), gate.uid)?,
    };
    let writer = Arc::clone(&audit);
    spawn("audit", move || needed("audit", || writer.run()))?;
    let watcher = Arc::clone(&core);
    spawn("trust", move || needed("trust", || watcher.watch()))?;
    ops::relabel_keys(&places);
    // Before anybody is let in: what goes on already is not begun beside it.
    go_on(&places, &core);
    let door = Door::new(Arc::clone(&core), edge, gate);
    for _ in 0..AT_THE_DOOR {
        let door = Arc::clone(&door);
        spawn("call", move || door.keep())?;
    }
    let here = Arc::clone(&core);
    spawn("control", move || needed("control", || console(&here, &control)))?;
    if options.state_root.is_none() {
        // Without it there is no API, and root on the machine must still be told why.
        if let Err(e) = units::start_edge(&places) {
            say::warning(&e);
        }
    }
    wait(&signals, &core.owner);
    core.audit.ends();
    Ok(ExitCode::SUCCESS)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|e| format!("cannot start a thread: {e}"))
}

/// Work that is never done. A core that lacks it is none: where it ends, by a panic too, the process does, and is started anew.
fn needed(name: &'static str, work: impl FnOnce()) {
    struct Ends(&'static str);
    impl Drop for Ends {
        fn drop(&mut self) {
            say::error(&format!("the thread `{}` has ended, and the core with it", self.0));
            std::process::exit(1);
        }
    }
    let _ends = Ends(name);
    work();
}

/// Ends a reset that the last boot was the end of, and writes that down: whoever asked for it may never have been answered.
fn settled(places: &Places) -> Result<Option<Arc<Audit>>, String> {
    match ops::reset::settle(places) {
        Ok(false) => return Ok(None),
        Ok(true) => {}
        Err(e) => {
            say::warning(&e);
            return Ok(None);
        }
    }
    let audit = Arc::new(Audit::open(places).map_err(|e| e.to_string())?);
    let event = Event::new("outcome").op("reset").decision(Decision::Allowed).reason("rebooted");
    if audit.first(&event, Room::Reserved).is_err() {
        audit.waits(event);
    }
    Ok(Some(audit))
}

/// Goes on with what the core before this one was in the middle of.
fn go_on(places: &Places, core: &Core) {
    let note = |event: Event| {
        if core.audit.first(&event, Room::Reserved).is_err() {
            core.audit.waits(event);
        }
    };
    ops::reset::resume(places, &core.works, &core.owner, |phase| {
        note(Event::new("resumed").op("reset").reason(phase));
    });
    ops::lifecycle::resume(places, |op| note(Event::new("resumed").op(op.row().name)));
    let audit = Arc::clone(&core.audit);
    let stage = Operation::UpgradeStage.row().name;
    let adopted = ops::upgrade::adopt(places, &core.works, move |staged, words| {
        say::info(&format!("what {stage} began has ended: {words}"));
        let (decision, reason) =
            if staged { (Decision::Allowed, "done") } else { (Decision::Failed, "failed") };
        audit.waits(Event::new("ended").op(stage).decision(decision).reason(reason).detail(words));
    });
    if adopted {
        note(Event::new("resumed").op(stage));
    }
}

/// Answers root on the machine, and writes down what he changed. He owns the machine: a record that cannot be written does not stop him.
fn console(core: &Core, listener: &UnixListener) {
    let noted = |change: &'static str, made: bool| {
        let decision = if made { Decision::Allowed } else { Decision::Failed };
        let event = Event::new("console").op(change).decision(decision);
        if core.audit.first(&event, Room::Reserved).is_err() {
            core.audit.waits(event);
        }
    };
    control::serve(&core.owner, listener, &noted);
}

/// Waits for the word to end, and tells the service manager meanwhile how the node stands: a bootstrap is another process.
fn wait(signals: &EndingSignals, owner: &Owner) {
    let mut told = String::new();
    loop {
        let now = owner.status();
        if now != told {
            service::tell(&format!("STATUS={now}"));
            told = now;
        }
        owner.refresh_banner();
        if signals.wait(STATUS_EVERY).is_some() {
            return;
        }
    }
}

/// Who may connect. The unit is asked for where a service manager made the sockets, because then it made the edge too.
fn gate(options: &Options, places: &Places, managed: bool) -> Result<Gate, String> {
    // The v2 hierarchy may be another manager's, as in a container that has the old one: then it names neither of us.
    let here = Peer { uid: 0, pid: system::pid() }.unit();
    let unit = (managed && here.as_deref() == Some(units::CORE)).then(|| units::EDGE.to_owned());
    if let Some(uid) = options.edge_uid {
        return Ok(Gate { uid, unit });
    }
    let path = places.at("/etc/passwd");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let uid = user(&text, EDGE_USER)
        .ok_or_else(|| format!("{} has no user {EDGE_USER}: run systemd-sysusers", path.display()))?;
    if uid == 0 {
        return Err(format!(
            "{EDGE_USER} is user 0 in {}: the edge must be nobody in particular",
            path.display()
        ));
    }
    Ok(Gate { uid, unit })
}

/// The user id of a name (passwd(5)).
fn user(passwd: &str, name: &str) -> Option<u32> {
    let line = passwd.lines().find(|l| l.split(':').next() == Some(name))?;
    line.split(':').nth(2)?.parse().ok()
}

/// A socket of our own making, where no service manager made one: for the edge's user alone.
fn listen(path: &Path, uid: u32) -> Result<UnixListener, String> {
    let failed = |e: std::io::Error| format!("cannot listen at {}: {e}", path.display());
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
        // To be gone through, and not to be looked at. What is above it is as the umask made it.
        for folder in folder.ancestors().take(2) {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o711)).map_err(failed)?;
        }
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    // Made private by the umask, then given away: at no moment may anybody else connect.
    let listener = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
    chown(path, Some(uid), None).map_err(failed)?;
    Ok(listener)
}
