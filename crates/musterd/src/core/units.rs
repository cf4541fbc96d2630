//! The units of the node's daemon, and what the core asks the service manager to do with them.

use std::time::Duration;

use muster_sys::command::Command;

use crate::places::{self, Places};

/// Our own.
pub(super) const CORE: &str = "musterd-core.service";
/// The other half.
pub(super) const EDGE: &str = "musterd-edge.service";
/// What wakes the core.
const SOCKETS: [&str; 2] = ["musterd-edge.socket", "musterd-control.socket"];
const BOOTSTRAP: &str = "muster-bootstrap.service";
const PARKED: &str = "muster-parked.target";
/// What starts a fetcher for each connection.
const FETCH: &str = "muster-fetch.socket";
/// It only queues jobs.
pub(super) const TIME: Duration = Duration::from_secs(20);

/// Lets the bootstrap go, also one that failed before.
///
/// # Errors
/// One line.
pub(super) fn release(places: &Places) -> Result<(), String> {
    ask(places, TIME, "start", &[places::CLAIMED_TARGET, BOOTSTRAP])
}

/// Says of a node that is built what others may be ordered after: the bootstrap, which the target wants, has nothing to do there.
///
/// # Errors
/// One line.
pub(super) fn reach(places: &Places) -> Result<(), String> {
    ask(places, TIME, "start", &[places::CLAIMED_TARGET])
}

/// Makes it plain that the node waits. The service manager has so long to take it.
///
/// # Errors
/// One line.
pub(super) fn park(places: &Places, longest: Duration) -> Result<(), String> {
    ask(places, longest, "start", &[PARKED])
}

/// Starts the other half, which runs only where the API is wanted.
///
/// # Errors
/// One line.
pub(super) fn start_edge(places: &Places) -> Result<(), String> {
    ask(places, TIME, "start", &[EDGE])
}

/// Sees to it that there is somebody who fetches: there is only where something is to be fetched. Waits for it, so long at most.
///
/// # Errors
/// One line.
pub(super) fn start_fetching(places: &Places, longest: Duration) -> Result<(), String> {
    call(places, longest.min(TIME), &["start", "--no-ask-password", "--", FETCH])
}

/// Ends the other half, where a document before this one wanted it, and the sockets: else the next knock would start us again. With
/// `forever`, no preset, no package and no administrator in a hurry starts any of it again: that takes `systemctl unmask`.
///
/// # Errors
/// One line.
pub(super) fn stand_down(places: &Places, forever: bool) -> Result<(), String> {
    let [edge, control] = SOCKETS;
    // The stop comes last: without its sockets our own unit is ended too, and whatever we have begun.
    let masked = if forever { ask(places, TIME, "mask", &[CORE, EDGE, edge, control]) } else { Ok(()) };
    masked.and(ask(places, TIME, "stop", &[EDGE, FETCH, edge, control]))
}

fn ask(places: &Places, longest: Duration, verb: &str, units: &[&str]) -> Result<(), String> {
    // A reload would make this unit a masked one under its own feet, and its end with 78 a failure.
    let words = [verb, "--no-block", "--no-reload", "--no-ask-password", "--"];
    call(places, longest, &[&words, units].concat())
}

fn call(places: &Places, longest: Duration, words: &[&str]) -> Result<(), String> {
    let plain: Vec<&str> = words.iter().copied().filter(|w| !w.starts_with('-')).collect();
    let told = || format!("systemctl {}", plain.join(" "));
    let out = Command::new(places.at("/usr/bin/systemctl"))
        .args(words)
        .deadline(longest)
        .run()
        .map_err(|e| format!("{}: {}", told(), e.line()))?;
    if out.ok() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&out.stderr);
    let last = said.lines().last().unwrap_or_default().chars().take(200).collect::<String>();
    Err(format!("{}: {:?}: {last}", told(), out.outcome))
}
