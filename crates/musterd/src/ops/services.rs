//! The services of the node: which there are, how they are, and restarting three of them.
//!
//! The list is closed. A name from outside is looked up in it and never handed on, so that no unit of the operator's choice is
//! ever read or started. Properties are as `systemctl show` prints them: systemctl(1), org.freedesktop.systemd1(5).

use std::time::Duration;

use muster_api::services::{Service, Services};
use muster_api::{Fault, Kind};
use muster_core::UtcTime;

use super::{Done, Request, tools};
use crate::places::Places;

/// A unit that the API knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// With its `.service`.
    pub name: &'static str,
    /// What it is for.
    pub purpose: &'static str,
    /// It may be restarted through the API.
    pub restartable: bool,
}

const fn shown(name: &'static str, purpose: &'static str) -> Unit {
    Unit { name, purpose, restartable: false }
}

const fn restartable(name: &'static str, purpose: &'static str) -> Unit {
    Unit { name, purpose, restartable: true }
}

/// All of them, by name. What builds the node is not restarted from here: it would run beside itself.
pub(super) const UNITS: &[Unit] = &[
    shown("cloud-final.service", "the last step of cloud-init"),
    restartable("containerd.service", "container runtime"),
    restartable("crio.service", "container runtime"),
    shown("greenboot-healthcheck.service", "judges whether this boot is a good one"),
    restartable("kubelet.service", "runs the pods of the node"),
    shown("muster-bootstrap.service", "builds the node as its document says"),
    shown("muster-update.service", "replaces the node's daemon"),
    shown("musterd-core.service", "this API: decides and acts"),
    shown("musterd-edge.service", "this API: ends the connections"),
];

/// The unit of a name from outside, with or without `.service`.
pub(super) fn find(name: &str) -> Option<&'static Unit> {
    let bare = name.strip_suffix(".service").unwrap_or(name);
    UNITS.iter().find(|u| u.name.strip_suffix(".service") == Some(bare))
}

/// The names, for an error.
pub(super) fn names() -> String {
    UNITS.iter().filter_map(|u| u.name.strip_suffix(".service")).collect::<Vec<_>>().join(", ")
}

/// `GET /v1/services`: those of the list that the node has.
pub(super) fn list(request: &Request<'_>) -> Result<Done, Fault> {
    Done::json(&Services { services: read(request.places, UNITS)? })
}

/// `POST /v1/services/{unit}/restart`.
pub(super) fn restart(request: &Request<'_>, name: &str) -> Result<Done, Fault> {
    Done::json(&restarted(request.places, name)?)
}

fn restarted(places: &Places, name: &str) -> Result<Service, Fault> {
    let missing = || {
        Fault::new(Kind::Missing, "unknown-unit", "there is no service of that name on this node")
            .fix(format!("Services that the API knows: {}.", names()))
    };
    let unit = find(name).ok_or_else(missing)?;
    if !unit.restartable {
        let may: Vec<_> = UNITS.iter().filter(|u| u.restartable).map(|u| u.name).collect();
        let error = format!("{} may not be restarted through the API", unit.name);
        let fault = Fault::new(Kind::Forbidden, "not-restartable", error);
        return Err(fault.fix(format!("Those that may: {}.", may.join(", "))));
    }
    let one = [*unit];
    if read(places, &one)?.is_empty() {
        return Err(missing());
    }
    // Shorter than the operation's own time, so that there is an answer in it.
    let command = tools::systemctl(places).arg("restart").arg("--").arg(unit.name);
    let _ =
        tools::must(command.deadline(Duration::from_secs(25)), &format!("systemctl restart {}", unit.name))?;
    read(places, &one)?.pop().ok_or_else(missing)
}

/// How these units are, without those that the node does not have.
pub(super) fn read(places: &Places, units: &[Unit]) -> Result<Vec<Service>, Fault> {
    let properties =
        "--property=Id,LoadState,ActiveState,SubState,UnitFileState,Result,StateChangeTimestampMonotonic";
    let command = tools::systemctl(places).arg("show").arg(properties).arg("--");
    let output = tools::must(command.args(units.iter().map(|u| u.name)), "systemctl show")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let now = (tools::now(), muster_sys::clock::monotonic());
    Ok(parse(&text, units, now))
}

/// Reads the properties of units: a block for each, an empty line between two.
fn parse(text: &str, units: &[Unit], now: (UtcTime, Duration)) -> Vec<Service> {
    let mut found: Vec<Service> = text.split("\n\n").filter_map(|block| one(block, units, now)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|a, b| a.name == b.name);
    found
}

fn one(block: &str, units: &[Unit], now: (UtcTime, Duration)) -> Option<Service> {
    let get = |name: &str| {
        let line = block.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='))?;
        Some(tools::line(line, 128)).filter(|v| !v.is_empty())
    };
    let id = get("Id")?;
    // An alias is shown under the name that it is asked by, where that is the list's own.
    let unit = units.iter().find(|u| u.name == id)?;
    if get("LoadState")? == "not-found" {
        return None;
    }
    Some(Service {
        name: unit.name.to_owned(),
        purpose: unit.purpose.to_owned(),
        restartable: unit.restartable,
        active: get("ActiveState")?,
        sub: get("SubState")?,
        enabled: get("UnitFileState"),
        since: get("StateChangeTimestampMonotonic").and_then(|v| since(&v, now)),
        result: get("Result"),
    })
}

/// A monotonic time in microseconds as a time of the clock.
fn since(micros: &str, (clock, monotonic): (UtcTime, Duration)) -> Option<String> {
    let micros: u64 = micros.parse().ok()?;
    if micros == 0 {
        return None;
    }
    let ago = monotonic.checked_sub(Duration::from_micros(micros))?;
    Some(UtcTime::from_unix(clock.unix().checked_sub(ago.as_secs())?).to_string())
}

#[cfg(test)]
#[path = "services/tests.rs"]
mod tests;
