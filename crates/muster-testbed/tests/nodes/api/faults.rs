//! What goes wrong with a node's daemon under its real units: processes that are killed at each step, machines that lose their
//! power, cut links, crowds, wrong clocks.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use muster_testbed::Step;
use serde_json::Value;

use super::operator::{Operator, Running, active, holds, is_built, listens, nothing_failed, until};
use super::*;

mod claim;
mod clock;
mod link;
mod reset;
mod stage;
mod storm;

const CORE: &[&str] = &["/usr/bin/musterd", "core"];
const EDGE: &[&str] = &["/usr/bin/musterd", "edge"];
const INIT: &str = "muster:\n  role: init\n  cluster:\n    name: lab\n  api:\n    enabled: true\n";

/// A node that was claimed and built once, and can be put back to that moment.
pub(super) struct Rig {
    pub(super) node: Node,
    pub(super) alice: Operator,
    _bed: Testbed,
}

impl Rig {
    /// Claimed with `document`, after `more` was done on the node.
    pub(super) fn claimed(name: &str, more: impl FnOnce(&Node, &Operator) -> Result<()>) -> Result<Self> {
        let bed = Testbed::prepare(name)?;
        let document = bed.dir().join("node.yaml");
        std::fs::write(&document, INIT)?;
        let (node, alice) = claimed(&bed, "a", &["--document", &document.to_string_lossy()])?;
        is_built(&node)?;
        let rig = Self { node, alice, _bed: bed };
        more(&rig.node, &rig.alice)?;
        rig.node.sh("systemctl stop musterd-edge musterd-core; cd /; tar cf /root/claimed.tar var/lib/muster/[!a]* var/lib/muster/api \
             etc/muster etc/ssh/sshd_config.d; systemctl start musterd-core")?;
        rig.answers()?;
        Ok(rig)
    }

    /// As it was when it had been claimed; the audit record goes on.
    pub(super) fn again(&self) -> Result<()> {
        self.node.sh("systemctl stop musterd-edge musterd-core; cd /; rm -rf var/lib/muster/[!a]* var/lib/muster/api etc/muster; \
             tar xf /root/claimed.tar; rm -f run/muster/*.json run/issue.d/*; \
             systemctl reset-failed; systemctl start musterd-core")?;
        self.answers()
    }

    pub(super) fn answers(&self) -> Result<()> {
        self.alice.is_let_in(&self.node)
    }

    /// What the record has of an operation since `seq`, as (event, reason), oldest first.
    pub(super) fn told(&self, operation: &str, seq: u64) -> Result<Vec<(String, String)>> {
        let word = |v: &Value, name: &str| v[name].as_str().unwrap_or_default().to_owned();
        Ok(records(&self.node)?
            .iter()
            .filter(|v| v["seq"].as_u64() > Some(seq) && v["op"].as_str() == Some(operation))
            .map(|v| (word(v, "event"), word(v, "reason")))
            .collect())
    }

    /// The newest record.
    pub(super) fn seq(&self) -> Result<u64> {
        records(&self.node)?.last().and_then(|v| v["seq"].as_u64()).context("a record")
    }
}

/// The audit record as it is on the disk, whole: each line names the one before.
pub(super) fn records(node: &Node) -> Result<Vec<Value>> {
    in_order(&node.sh("cd /var/lib/muster/audit; cat $(ls chain-*.jsonl | sort -t- -k2 -n)")?)
}

/// The same of its first file, seen from outside within milliseconds.
fn on_disk(node: &Node) -> Result<Vec<Value>> {
    let first = format!("/var/lib/muster/audit/chain-{:020}.jsonl", 1);
    in_order(&std::fs::read_to_string(node.host_path(&first))?)
}

fn in_order(text: &str) -> Result<Vec<Value>> {
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    let lines = lines.with_context(|| format!("a record that is none: {text}"))?;
    for pair in lines.windows(2) {
        anyhow::ensure!(pair[0]["seq"].as_u64().map(|s| s + 1) == pair[1]["seq"].as_u64(), "{pair:?}");
    }
    Ok(lines)
}

/// Sees something on the disk within milliseconds, from outside the node.
pub(super) fn seen(what: &str, mut look: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !look() {
        if begun.elapsed() > Duration::from_secs(40) {
            bail!("{what}: not within 40 s");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// A signal to a process by its number on this machine.
pub(super) fn outer_kill(signal: &str, pid: u32) -> Result<()> {
    let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status()?;
    anyhow::ensure!(sent.success(), "kill -{signal} {pid}: {sent}");
    Ok(())
}
