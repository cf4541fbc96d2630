//! `muster node upgrade` against nodes that stage, reboot and come back; or do not.

use super::{Nodes, nonce, target, targets};
use muster_client::testing::{Seen, Server, reply};
use std::sync::{Arc, Mutex};

/// A node that boots images.
#[derive(Clone, Default)]
struct Machine {
    booted: String,
    staged: Option<String>,
    up: u64,
    boot: u64,
    /// What it boots instead of what was staged.
    falls_back: bool,
    /// It says that it applies, and never reboots.
    stays_up: bool,
    well: bool,
    /// Whether it is well after the boot.
    well_after: bool,
}

impl Machine {
    fn new() -> Self {
        Self { booted: "sha256:old".into(), up: 5000, well: true, well_after: true, ..Self::default() }
    }

    fn answer(&mut self, seen: &Seen) -> muster_client::testing::Reply {
        self.up += 1;
        match target(seen) {
            "GET /v1/proof" => nonce(),
            "GET /v1/node" => {
                let state = serde_json::json!({
                    "bootstrapped": true,
                    "hostname": "edge",
                    "os": {"booted": {"image": "r.example/os:1", "digest": self.booted}},
                    "kubernetes": {"service": "kubelet.service", "active": self.well},
                    "health": {"uptimeSeconds": self.up, "bootID": format!("boot-{}", self.boot)},
                });
                reply(200, "", state.to_string().as_bytes())
            }
            "POST /v1/upgrade/stage" => {
                let body: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
                let digest = body["image"].as_str().unwrap().rsplit('@').next().unwrap().to_owned();
                self.staged = Some(digest.clone());
                let lines =
                    format!("{{\"progress\":\"pulling\"}}\n{{\"staged\":{{\"digest\":\"{digest}\"}}}}\n");
                reply(200, "", lines.as_bytes())
            }
            "POST /v1/upgrade/apply" => {
                if !self.stays_up {
                    let staged = self.staged.take().unwrap();
                    if !self.falls_back {
                        self.booted = staged;
                    }
                    (self.up, self.boot, self.well) = (0, self.boot + 1, self.well_after);
                }
                reply(202, "", br#"{"status":"applying"}"#)
            }
            _ => reply(404, "", br#"{"error":"nothing","reason":"no-route"}"#),
        }
    }
}

fn node(nodes: &Nodes, name: &str, machine: Machine) -> (Server, Arc<Mutex<Machine>>) {
    let machine = Arc::new(Mutex::new(machine));
    let kept = Arc::clone(&machine);
    (nodes.node(name, Box::new(move |seen| kept.lock().unwrap().answer(seen))), machine)
}

fn changed(server: &Server) -> usize {
    targets(server).iter().filter(|t| t.starts_with("POST")).count()
}

const LINE: &str = "node upgrade edge-1 edge-2 edge-3 --image r.example/os@sha256:new --settle 2s";

#[test]
fn nodes_are_upgraded_one_after_the_other_and_the_same_command_goes_on() {
    let nodes = Nodes::new();
    let (one, _) = node(&nodes, "edge-1", Machine::new());
    let (two, second) = node(&nodes, "edge-2", Machine { falls_back: true, ..Machine::new() });
    let (three, _) = node(&nodes, "edge-3", Machine::new());
    let ran = nodes.ran(&format!("{LINE} --plan"), 0);
    let rows: Vec<_> = ran.out.lines().skip(1).map(|l| l.split_whitespace().next().unwrap()).collect();
    assert_eq!(rows, ["edge-1", "edge-2", "edge-3"], "{}", ran.out);
    assert!(
        ran.out.contains("boot r.example/os@sha256:new  edge ") && ran.out.contains(" r.example/os:1  1h23m"),
        "{}",
        ran.out
    );
    let ran = nodes.ran(LINE, 4);
    for line in ["1. edge-1 at ", "3. edge-3 at ", "from r.example/os:1, up 1h23m", "error[confirm-needed]: "]
    {
        assert!(ran.err.contains(line), "{line}: {}", ran.err);
    }
    assert_eq!(changed(&one) + changed(&two) + changed(&three), 0);

    let ran = nodes.ran(&format!("{LINE} --yes"), 1);
    assert!(
        ran.err.contains("error[rollout-stopped]: edge-2: it came back and runs sha256:old, not sha256:new"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("stopped at edge-2: 1 of 3 done, 2 left"), "{}", ran.err);
    assert!(ran.err.contains("error[not-asked]: edge-3: not asked, since edge-2 failed"), "{}", ran.err);
    assert!(
        ran.out.contains("edge-2  rollout-stopped") && ran.out.contains("edge-3  not-asked"),
        "{}",
        ran.out
    );
    assert_eq!((changed(&one), changed(&three)), (2, 0), "the third is not touched");

    second.lock().unwrap().falls_back = false;
    let ran = nodes.ran(&format!("{LINE} --yes -o json"), 0);
    let done: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let states: Vec<_> = done.as_array().unwrap().iter().map(|d| d["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["already runs it", "upgraded", "upgraded"]);
    assert_eq!(changed(&one), 2, "what is done is not done again");
}

#[test]
fn a_node_that_stays_up_has_not_rebooted_whatever_it_answers() {
    let nodes = Nodes::new();
    let (_one, _) = node(&nodes, "edge-1", Machine { stays_up: true, ..Machine::new() });
    let ran = nodes.ran("node upgrade edge-1 --image r.example/os@sha256:new --settle 1s --yes", 1);
    assert!(ran.err.contains("error[rollout-stopped]: edge-1: it stayed up for 1 s"), "{}", ran.err);
}

#[test]
fn a_node_that_is_not_well_is_not_touched_and_one_that_comes_back_ill_ends_it() {
    let nodes = Nodes::new();
    let (one, _) = node(&nodes, "edge-1", Machine::new());
    let (two, second) = node(&nodes, "edge-2", Machine { well: false, ..Machine::new() });
    let (three, _) = node(&nodes, "edge-3", Machine::new());
    let ran = nodes.ran(&format!("{LINE} --yes"), 4);
    assert!(
        ran.err.contains("error[health-gate]: edge-2 is not well: kubelet.service is not active"),
        "{}",
        ran.err
    );
    assert_eq!(changed(&one) + changed(&two) + changed(&three), 0, "found before the first is touched");
    *second.lock().unwrap() = Machine { well_after: false, ..Machine::new() };
    let ran = nodes.ran(&format!("{LINE} --yes"), 1);
    assert!(ran.err.contains("error[rollout-stopped]: edge-2 is not well"), "{}", ran.err);
    assert_eq!(changed(&three), 0);
}

/// When the roll-out began it was well: what is refused then is not what a refusal before the first says, that nothing was changed.
#[test]
fn a_node_that_falls_ill_while_others_are_upgraded_stops_what_has_begun() {
    let nodes = Nodes::new();
    let (one, _) = node(&nodes, "edge-1", Machine::new());
    let machine = Mutex::new(Machine::new());
    let two = nodes.node(
        "edge-2",
        Box::new(move |seen| {
            let mut machine = machine.lock().unwrap();
            let reply = machine.answer(seen);
            machine.well &= target(seen) != "GET /v1/node";
            reply
        }),
    );
    let (three, _) = node(&nodes, "edge-3", Machine::new());
    let ran = nodes.ran(&format!("{LINE} --yes"), 1);
    assert!(
        ran.err.contains("error[rollout-stopped]: edge-2 is not well: kubelet.service is not active"),
        "{}",
        ran.err
    );
    assert_eq!((changed(&one), changed(&two), changed(&three)), (2, 0, 0));
    // The same where it is the first that falls ill: nothing was changed, and that is said.
    let ran = nodes.ran("node upgrade edge-2 edge-3 --image r.example/os@sha256:new --yes", 4);
    assert!(ran.err.contains("error[health-gate]: edge-2 is not well"), "{}", ran.err);
}

#[test]
fn an_image_is_staged_for_later() {
    let nodes = Nodes::new();
    let (one, machine) = node(&nodes, "edge-1", Machine::new());
    let ran = nodes.ran("node upgrade edge-1 --image r.example/os@sha256:new --stage-only --yes", 0);
    assert!(ran.out.contains("staged") && ran.err.contains("pulling"), "{}{}", ran.out, ran.err);
    assert_eq!(changed(&one), 1);
    assert_eq!(machine.lock().unwrap().staged.as_deref(), Some("sha256:new"));
}

/// Ctrl-C in the middle: what became of each node is told, and the same command goes on.
#[test]
fn an_upgrade_that_is_interrupted_says_what_goes_on_without_it() {
    let nodes = Nodes::new();
    let (one, _) = node(&nodes, "edge-1", Machine::new());
    let (two, second) = node(&nodes, "edge-2", Machine { stays_up: true, ..Machine::new() });
    let (three, _) = node(&nodes, "edge-3", Machine::new());
    let line = LINE.replace("--settle 2s", "--settle 60s --yes");
    let ran = nodes.interrupted(&line, || changed(&two) >= 2);
    assert_eq!(ran.code, 8, "{}{}", ran.out, ran.err);
    for words in [
        "error[outcome-unknown]: edge-2: interrupted, and the node was told to boot the image, and may be about to. Ask the node",
        "stopped at edge-2: 1 of 3 done, 2 left",
        "error[not-asked]: edge-3: ",
        "the same command goes on from there",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    assert!(ran.out.contains("edge-1  upgraded"), "{}", ran.out);
    assert_eq!((changed(&one), changed(&three)), (2, 0));
    second.lock().unwrap().stays_up = false;
    let ran = nodes.ran(&line, 0);
    assert!(
        ran.out.contains("edge-1  already runs it") && ran.out.contains("edge-3  upgraded"),
        "{}",
        ran.out
    );
}
