//! An image that is pulled while edge, core or the machine end.
//!
//! No machine here boots from an image, so `bootc` is a stand-in on the node: the arguments of bootc-switch(8), bootc-upgrade(8) and
//! bootc-status(8), the recorded status of `crates/musterd/src/ops/upgrade/bootc`, lines of progress, and a pull that takes until
//! somebody says `go`. What was staged is never booted: that is `rollout.rs`'s. Everything around it is real: the units that it runs in, systemd, the sandbox of the core.

use super::*;

pub(super) const IMAGE: &str = "registry.example.com/os/node:2";
const POLICY: &str = r#"{"default":[{"type":"reject"}],"transports":{"docker":{"registry.example.com":[{"type":"sigstoreSigned","keyPath":"/k"}]}}}"#;
const STAGED: &str = include_str!("../../../../../musterd/src/ops/upgrade/bootc/staged.json");
const STAND_IN: &str = r#"#!/bin/bash
set -eu
cd /var/lib/bootc
echo "$*" >> called
case "$1" in
  status) [ "$*" = "status --format=json" ]; if [ -e done ]; then cat staged.json; else cat plain.json; fi ;;
  switch|upgrade) [ "$#" = 2 ] || [ "$*" = upgrade ]; rm -f done; echo "layers already present: 65; layers needed: 11 (214.0 MB)"
    n=0; until [ -e /run/go ]; do n=$((n+1)); printf 'Fetched %s\r' "$n"; sleep 0.2; done
    [ ! -e /run/fail ] || { echo "error: manifest unknown" >&2; exit 1; }
    touch done; echo "Queued for next boot: ${2:-what is followed}" ;;
  *) exit 2 ;;
esac
"#;
const UNIT: &str = "muster-upgrade-stage.service";

pub(super) fn rig(name: &str) -> Result<Rig> {
    Rig::claimed(name, |node, _| {
        let mut plain: Value = serde_json::from_str(STAGED)?;
        plain["status"]["staged"] = Value::Null;
        node.put("/usr/bin/bootc", STAND_IN.as_bytes(), 0o755)?;
        node.put("/var/lib/bootc/staged.json", STAGED.as_bytes(), 0o644)?;
        node.put("/var/lib/bootc/plain.json", plain.to_string().as_bytes(), 0o644)?;
        node.put("/etc/containers/policy.json", POLICY.as_bytes(), 0o644)
    })
}

/// A client that stages.
pub(super) fn stages(rig: &Rig, image: &str) -> Result<Running> {
    rig.alice.start(&["node", "upgrade", "a", "--image", image, "--stage-only", "--yes"])
}

impl Rig {
    pub(super) fn unit(&self, property: &str) -> Result<String> {
        Ok(self.node.sh(&format!("systemctl show --value --property={property} {UNIT}"))?.trim().to_owned())
    }

    /// Nothing is left of a pull, and its image is what comes next or is not.
    pub(super) fn pulled(&self, pulls: usize, staged: bool) -> Result<()> {
        holds(&self.node, "[ ! -e /run/muster/stage.json ] && [ ! -e /run/muster/stage.log ]")?;
        assert_eq!(self.unit("LoadState")?, "not-found");
        let called = self.node.sh("grep -c '^switch\\|^upgrade' /var/lib/bootc/called || true")?;
        assert_eq!(called.trim(), pulls.to_string(), "pulls");
        let state = super::super::operator::status(&self.alice, &self.node)?;
        assert_eq!(state["os"]["staged"]["image"].as_str(), staged.then_some(IMAGE), "{state}");
        nothing_failed(&self.node)
    }

    pub(super) fn fresh(&self) -> Result<()> {
        self.node.sh(
            "rm -f /run/go /run/fail /var/lib/bootc/done /var/lib/bootc/called; touch /var/lib/bootc/called",
        )?;
        Ok(())
    }
}

#[test]
fn fault_kill_core_or_edge_during_a_stage_and_the_pull_goes_on() -> Result<()> {
    require_root_or_skip!();
    let rig = rig("fault-stage")?;
    let node = &rig.node;

    // Before it was written down: nothing was begun.
    rig.fresh()?;
    let trap = node.trap(node.outer_pid(CORE)?, Step::placed("stage.json", 1), "KILL")?;
    let mut client = stages(&rig, IMAGE)?;
    trap.wait()?;
    client.ends(8)?;
    rig.answers()?;
    rig.pulled(0, false)?;
    drop(trap);

    // In the middle, the core: it goes on under its own clock, and the next core has it.
    let seq = rig.seq()?;
    let mut client = stages(&rig, IMAGE)?;
    client.until("Fetched 3")?;
    let (pid, clock) = (rig.unit("MainPID")?, rig.unit("RuntimeMaxUSec")?);
    assert_eq!(clock, "30min");
    outer_kill("KILL", node.outer_pid(CORE)?)?;
    client.ends(8)?;
    rig.answers()?;
    assert_eq!(rig.unit("MainPID")?, pid, "the same pull");
    let mut second = stages(&rig, IMAGE)?;
    second.until("layers needed: 11")?;
    let other = rig.alice.muster(&[
        "node",
        "upgrade",
        "a",
        "--image",
        "registry.example.com/os/other:1",
        "--stage-only",
        "--yes",
    ])?;
    assert!(!other.ok() && other.stderr_text().contains("pulling another image"), "{}", other.stderr_text());

    // And the edge: also for the second client.
    outer_kill("KILL", node.outer_pid(EDGE)?)?;
    second.ends(8)?;
    rig.answers()?;
    assert_eq!(rig.unit("MainPID")?, pid, "the same pull");
    let mut third = stages(&rig, IMAGE)?;
    third.until("layers needed: 11")?;
    node.sh("touch /run/go")?;
    third.ends(0)?;
    assert!(third.said().contains(IMAGE), "{}", third.said());
    rig.pulled(1, true)?;
    let told = until("its outcome", || {
        let told = rig.told("upgrade-stage", seq)?;
        Ok(told.contains(&("ended".into(), "done".into())).then_some(told))
    })?;
    assert_eq!(told.first().map(|t| t.0.as_str()), Some("intent"), "{told:?}");
    assert!(told.iter().any(|t| t.0 == "resumed"), "{told:?}");

    // One that fails while nobody is there says so to who asks the record.
    rig.fresh()?;
    let seq = rig.seq()?;
    let mut client = stages(&rig, IMAGE)?;
    client.until("Fetched 2")?;
    node.sh("systemctl stop musterd-edge musterd-core.service; touch /run/fail /run/go")?;
    client.ends(8)?;
    until("the unit fails", || Ok((rig.unit("ActiveState")? == "failed").then_some(())))?;
    node.sh("systemctl start musterd-core")?;
    until("its outcome", || {
        Ok(rig.told("upgrade-stage", seq)?.contains(&("ended".into(), "failed".into())).then_some(()))
    })?;
    rig.answers()?;
    rig.pulled(1, false)
}

#[test]
fn fault_power_cut_during_a_stage_and_kill_core_or_edge_before_an_apply() -> Result<()> {
    require_root_or_skip!();
    let rig = rig("fault-apply")?;
    let node = &rig.node;
    rig.fresh()?;
    let mut client = stages(&rig, IMAGE)?;
    client.until("Fetched 2")?;
    node.power_off()?;
    node.power_on()?;
    client.ends(8)?;
    rig.answers()?;
    rig.pulled(1, false)?;

    // Staged again, and one of the two is killed when it has answered that it boots it: the next core does it, or this one.
    node.sh("touch /run/go")?;
    for (n, killed, last) in [(2, CORE, "resumed"), (4, EDGE, "outcome")] {
        stages(&rig, IMAGE)?.ends(0)?;
        rig.pulled(n, true)?;
        let (boots, seq) = (node.exits().len(), rig.seq()?);
        let process = node.outer_pid(killed)?;
        let there = format!("/proc/{}/root/run/muster/going-down.json", node.leader()?);
        std::thread::scope(|s| {
            let client = s.spawn(|| {
                rig.alice.muster(&["node", "upgrade", "a", "--image", IMAGE, "--yes", "--settle", "20s"])
            });
            if seen("the promise", || std::path::Path::new(&there).exists()).is_err() {
                panic!("no promise: {:?}", client.join().expect("the client"));
            }
            // The answer goes out after its outcome was written, and the deed is some tenths of a second later.
            let answered = |r: &Value| {
                r["op"] == "upgrade-apply" && r["event"] == "outcome" && r["seq"].as_u64() > Some(seq)
            };
            seen("its outcome", || on_disk(node).is_ok_and(|all| all.iter().any(answered)))?;
            outer_kill("KILL", process)?;
            until("it reboots by itself", || Ok((node.exits().len() > boots).then_some(())))?;
            // It was answered, or not; and what comes back is not what was staged.
            let ended = client.join().expect("the client")?;
            anyhow::ensure!(matches!(ended.code(), Some(1 | 8)), "{ended:?}");
            Ok::<_, anyhow::Error>(())
        })?;
        node.wait_boot()?;
        rig.answers()?;
        let told = rig.told("upgrade-apply", seq)?;
        assert_eq!(told.first().map(|t| t.0.as_str()), Some("intent"), "{told:?}");
        assert_eq!(told.last().map(|t| t.0.as_str()), Some(last), "{told:?}");
        node.sh("touch /run/go")?;
    }
    nothing_failed(node)
}
