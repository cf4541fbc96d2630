//! What the node says of itself: `GET /v1/node`.
//!
//! It never fails: what cannot be found is left out. Sources: machine-id(5), os-release(5), proc_sys_kernel(5), proc_uptime(5), proc_pid_stat(5),
//! `systemctl show`, `kubelet --version`, the status of the image back end, our own `node.json`.

use std::time::Duration;

use muster_api::Fault;
use muster_api::node::{Kubernetes, Management, Node, NodeHealth, Os, RevocationList};
use muster_core::Machine;
use muster_core::machine::Hold;
use muster_sys::clock;
use muster_sys::command::Command;
use muster_sys::procfs::Stat;

use super::{Done, Request, Works, reset, tools, upgrade};
use crate::core::owner::{Ownership, Revocation};
use crate::places::{self, Places};

/// `GET /v1/node`.
pub(super) fn read(request: &Request<'_>) -> Result<Done, Fault> {
    let owner = request.owner;
    let mut node = of(request.places, request.works);
    node.management = management(&owner.ownership(), &owner.revocation(), owner.machine());
    Done::json(&node)
}

/// The node's own name.
pub(super) fn hostname(places: &Places) -> Option<String> {
    tools::text(places, "/proc/sys/kernel/hostname").map(|n| tools::line(&n, 255))
}

fn of(places: &Places, works: &Works) -> Node {
    let text = |path: &str| tools::text(places, path).map(|t| tools::line(&t, 255));
    let built = built(places);
    let images = upgrade::images(places, works);
    let init = tools::text(places, "/proc/1/stat").and_then(|t| Stat::parse(t.as_bytes())).map(|s| s.start);
    let (here, also) = (places.clone(), places.clone());
    let units = works.units.get(Duration::from_secs(1), move || Units::of(&here));
    Node {
        hostname: hostname(places),
        machine_id: text("/etc/machine-id"),
        bootstrapped: places.at(places::BOOTSTRAPPED).exists(),
        role: built.role,
        cluster: built.cluster,
        endpoint: built.endpoint,
        os: Os {
            name: tools::text(places, "/etc/os-release").and_then(|t| pretty_name(&t)),
            kernel: text("/proc/sys/kernel/osrelease"),
            booted: images.booted,
            staged: images.staged,
            rollback: images.rollback,
        },
        kubernetes: Kubernetes {
            version: works.kubelet.get(Duration::from_secs(60), move || kubelet(&also)),
            service: units.kubelet.is_some().then(|| KUBELET.to_owned()),
            active: units.kubelet == Some(true),
        },
        health: NodeHealth {
            uptime_seconds: uptime(places, init),
            boot_id: text("/proc/sys/kernel/random/boot_id").map(|kernel| clock::name_boot(&kernel, init)),
            verdict: units.greenboot.or(units.complete).map(word),
            by: match (units.greenboot, units.complete) {
                (Some(_), _) => Some("greenboot".to_owned()),
                (None, Some(_)) => Some(COMPLETE.to_owned()),
                (None, None) => None,
            },
            greenboot: units.greenboot.map(word),
        },
        management: Management::default(),
        reset: reset::state(places),
    }
}

/// Since process 1 was started: of a machine since its kernel was, of a container since its own boot, whatever its kernel counts.
fn uptime(places: &Places, init: Option<u64>) -> Option<u64> {
    let kernel: u64 = tools::text(places, "/proc/uptime")?.split('.').next()?.parse().ok()?;
    Some(kernel.saturating_sub(init.map_or(0, clock::seconds_of_ticks)))
}

fn word(passed: bool) -> String {
    if passed { "passed" } else { "failed" }.to_owned()
}

fn management(owner: &Ownership, revocation: &Revocation, machine: Machine) -> Management {
    Management {
        claimed_by: owner.method.clone(),
        unauthenticated: owner.tainted,
        open_enrolment: owner.open_enrolment,
        waits_for: match machine.hold() {
            Hold::Claim => Some("claim".to_owned()),
            Hold::Document => Some("document".to_owned()),
            Hold::Released => None,
        },
        revocation: match revocation {
            Revocation::None => Some("none".to_owned()),
            Revocation::List { number, ended: false, .. } => Some(number.clone()),
            Revocation::List { number, .. } => Some(format!("{number} (ended)")),
            Revocation::Lost(_) => Some("lost".to_owned()),
        },
        operator_ca: owner.authority.map(|a| a.to_string()),
        revocation_list: match revocation {
            Revocation::List { number, revoked, next_update, ended } => Some(RevocationList {
                number: number.clone(),
                revoked: u64::try_from(*revoked).unwrap_or(u64::MAX),
                next_update: next_update.map(|t| t.to_string()),
                ended: *ended,
            }),
            Revocation::None | Revocation::Lost(_) => None,
        },
    }
}

/// What the bootstrap wrote down.
#[derive(Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Built {
    #[serde(default)]
    role: Option<String>,
    #[serde(default)]
    cluster: Option<String>,
    #[serde(default)]
    endpoint: Option<String>,
}

fn built(places: &Places) -> Built {
    let found = tools::text(places, places::NODE).and_then(|t| serde_json::from_str(&t).ok());
    found.unwrap_or_default()
}

/// `PRETTY_NAME` of os-release(5): a line of a shell, with or without quotes.
fn pretty_name(text: &str) -> Option<String> {
    let value = text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME="))?.trim();
    let quoted = |q: char| value.strip_prefix(q).and_then(|v| v.strip_suffix(q));
    let inner = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    let mut name = String::with_capacity(inner.len());
    let mut escaped = false;
    for c in inner.chars() {
        escaped = !escaped && c == '\\';
        if !escaped {
            name.push(c);
        }
    }
    Some(tools::line(&name, 255)).filter(|n| !n.is_empty())
}

/// The kubelet's own word for its version.
fn kubelet(places: &Places) -> Option<String> {
    let program = ["/usr/bin/kubelet", "/usr/local/bin/kubelet"].map(|p| places.at(p));
    let program = program.iter().find(|p| p.is_file())?;
    let command = Command::new(program).arg("--version").deadline(Duration::from_secs(5)).keep_output(256);
    let output = command.run().ok().filter(muster_sys::command::Output::ok)?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(tools::line(text.trim().strip_prefix("Kubernetes ")?, 64))
}

const KUBELET: &str = "kubelet.service";
const GREENBOOT: &str = "greenboot-healthcheck.service";
const COMPLETE: &str = "boot-complete.target";

/// What systemd says of the units that a node's state is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Units {
    /// Whether it is active, where there is one.
    kubelet: Option<bool>,
    /// Whether this boot passed, where greenboot has judged.
    greenboot: Option<bool>,
    /// Whether this boot is complete. That it is not may mean that nobody asks for it, so there is no other word.
    complete: Option<bool>,
}

impl Units {
    fn of(places: &Places) -> Self {
        let properties = "--property=Id,LoadState,ActiveState,Result,StateChangeTimestampMonotonic";
        let command = tools::systemctl(places).arg("show").arg(properties).arg("--");
        let command = command.args([KUBELET, GREENBOOT, COMPLETE]).deadline(Duration::from_secs(10));
        let output = tools::must(command, "systemctl show").ok();
        output.map_or_else(Self::default, |o| Self::parse(&String::from_utf8_lossy(&o.stdout)))
    }

    fn parse(text: &str) -> Self {
        let mut units = Self::default();
        for block in text.split("\n\n") {
            let get = |name: &str| block.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='));
            if get("LoadState") != Some("loaded") {
                continue;
            }
            let active = get("ActiveState");
            match get("Id") {
                Some(KUBELET) => units.kubelet = Some(active == Some("active")),
                // A unit that never ran has the result of a success.
                Some(GREENBOOT)
                    if matches!(active, Some("active" | "inactive" | "failed"))
                        && get("StateChangeTimestampMonotonic").is_some_and(|t| t != "0") =>
                {
                    units.greenboot = get("Result").map(|r| r == "success");
                }
                Some(COMPLETE) if active == Some("active") => units.complete = Some(true),
                _ => {}
            }
        }
        units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::Fake;

    #[test]
    fn a_bare_machine_says_what_it_can_and_never_fails() {
        let fake = Fake::new();
        let node = of(&fake.places, &Works::default());
        assert_eq!(node, Node::default(), "nothing is known, and nothing is made up");
        assert_eq!(
            serde_json::to_string(&node).unwrap(),
            r#"{"bootstrapped":false,"os":{},"kubernetes":{"active":false},"health":{},"management":{}}"#
        );
    }

    #[test]
    fn a_node_in_service_says_all_under_the_names_of_the_contract() {
        let fake = Fake::new();
        fake.file("/proc/sys/kernel/hostname", "node-1\n")
            .file("/etc/machine-id", "0123\n")
            .file("/etc/os-release", "ID=x\nPRETTY_NAME=\"A \\\"Node\\\" 1\"\n")
            .file("/proc/sys/kernel/osrelease", "6.1.0\n")
            .file("/proc/uptime", "12345.67 1.00\n")
            .file(places::BOOTSTRAPPED, "")
            .file(places::NODE, r#"{"role":"worker","cluster":"edge","endpoint":"https://10.0.0.5:6443","bootstrappedAt":"x"}"#)
            .program("/usr/bin/kubelet", "echo Kubernetes v1.31.2")
            .program("/usr/bin/systemctl", "printf 'Id=kubelet.service\\nLoadState=loaded\\nActiveState=active\\nResult=success\\n\\nId=boot-complete.target\\nLoadState=loaded\\nActiveState=active\\n'");
        let works = Works::default();
        let node = serde_json::to_value(of(&fake.places, &works)).unwrap();
        assert_eq!(
            node,
            serde_json::json!({
                "hostname": "node-1", "machineID": "0123", "bootstrapped": true, "role": "worker",
                "cluster": "edge", "endpoint": "https://10.0.0.5:6443",
                "os": { "name": "A \"Node\" 1", "kernel": "6.1.0" },
                "kubernetes": { "version": "v1.31.2", "service": "kubelet.service", "active": true },
                "health": { "uptimeSeconds": 12345, "verdict": "passed", "by": "boot-complete.target" },
                "management": {},
            })
        );
        assert_eq!(fake.called().len(), 2);
        for _ in 0..50 {
            of(&fake.places, &works);
        }
        assert!(fake.called().len() < 10, "who reads often starts no program each time");
    }

    /// Its kernel has not booted: id and uptime of that are the same before and after.
    #[test]
    fn a_container_that_boots_anew_is_up_since_then_and_names_another_boot() {
        let fake = Fake::new();
        let at = |up: &str, start: u64| {
            let stat = format!("1 (systemd) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 {start} 1 2\n");
            fake.file("/proc/uptime", &format!("{up} 1.00\n")).file("/proc/1/stat", &stat);
            fake.file("/proc/sys/kernel/random/boot_id", "00000000-0000-4000-8000-000000000000\n");
            of(&fake.places, &Works::default()).health
        };
        let (before, after) = (at("5000.10", 100), at("5030.10", 502_500));
        assert_eq!((before.uptime_seconds, after.uptime_seconds), (Some(4999), Some(5)));
        assert_eq!(before.boot_id.as_deref(), Some("00000000-0000-4000-8000-000000000000.100"));
        assert_ne!(before.boot_id, after.boot_id);
    }

    #[test]
    fn a_node_of_an_older_release_is_bootstrapped_without_its_record() {
        let fake = Fake::new();
        fake.file(places::BOOTSTRAPPED, "").file(places::NODE, "{broken");
        let node = of(&fake.places, &Works::default());
        assert!(node.bootstrapped && node.role.is_none());
    }

    #[test]
    fn greenboots_verdict_is_of_a_unit_that_ran() {
        let block = |load: &str, active: &str, result: &str, at: &str| {
            let text = format!(
                "Id={GREENBOOT}\nLoadState={load}\nActiveState={active}\nResult={result}\nStateChangeTimestampMonotonic={at}\n"
            );
            Units::parse(&text).greenboot
        };
        assert_eq!(block("loaded", "active", "success", "5"), Some(true));
        assert_eq!(block("loaded", "failed", "exit-code", "5"), Some(false));
        assert_eq!(block("loaded", "activating", "success", "5"), None, "it has not judged yet");
        assert_eq!(block("loaded", "inactive", "success", "0"), None, "it never ran");
        assert_eq!(block("not-found", "inactive", "success", "0"), None);
    }

    #[test]
    fn ownership_is_told_as_it_is() {
        let owner = Ownership {
            method: Some("open".to_owned()),
            at: None,
            tainted: true,
            open_enrolment: false,
            authority: Some(muster_tls::Fingerprint::of(b"ca")),
        };
        let list = Revocation::List { number: "0a".to_owned(), revoked: 1, next_update: None, ended: false };
        let told = management(&owner, &list, Machine::UNCLAIMED);
        assert_eq!(
            serde_json::to_value(told).unwrap(),
            serde_json::json!({
                "claimedBy": "open", "unauthenticated": true, "waitsFor": "claim", "revocation": "0a",
                "operatorCA": muster_tls::Fingerprint::of(b"ca").to_string(),
                "revocationList": { "number": "0a", "revoked": 1 },
            })
        );
        let ended = Revocation::List { number: "0a".to_owned(), revoked: 1, next_update: None, ended: true };
        let told = management(&owner, &ended, Machine::UNCLAIMED);
        assert_eq!(told.revocation.as_deref(), Some("0a (ended)"));
        let list = told.revocation_list.unwrap();
        assert_eq!((list.number.as_str(), list.ended), ("0a", true), "the number is no words");
        let lost = management(&owner, &Revocation::Lost("x".to_owned()), Machine::UNCLAIMED);
        assert_eq!((lost.revocation.as_deref(), lost.revocation_list), (Some("lost"), None));
        assert_eq!(
            management(&owner, &Revocation::None, Machine::UNCLAIMED).revocation.as_deref(),
            Some("none")
        );
    }
}
