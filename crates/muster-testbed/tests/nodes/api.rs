//! The node's daemon on real nodes, under its real units.

use anyhow::Result;
use muster_testbed::{Node, Testbed, WAITS, require_root_or_skip};

mod claim;
mod cloud;
mod console;
mod faults;
mod fetch;
mod full;
mod going;
mod modes;
mod operations;
mod operator;
mod package;
mod packaged;
mod readme;
mod rollout;
mod sandbox;
mod ui;

/// A node with the daemon's package, not started yet.
fn installed(bed: &Testbed, name: &str) -> Result<Node> {
    let node = bed.node(name)?.boot()?;
    node.install_musterd()?;
    Ok(node)
}

/// A node that nobody owns and that waits for a claim, begun without another boot.
fn waiting(bed: &Testbed, name: &str) -> Result<Node> {
    let node = installed(bed, name)?;
    node.describe(WAITS)?;
    node.sh("systemctl start --no-block musterd-core.service")?;
    Ok(node)
}

/// A node that was claimed by its code, and its owner.
fn claimed(bed: &Testbed, name: &str, more: &[&str]) -> Result<(Node, operator::Operator)> {
    let node = waiting(bed, name)?;
    let alice = operator::Operator::new(bed, "alice")?;
    alice.claim(&node, more)?.check()?;
    alice.is_let_in(&node)?;
    Ok((node, alice))
}
