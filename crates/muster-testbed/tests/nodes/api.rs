//! The node's daemon on real nodes, under its real units.

use anyhow::Result;
use muster_testbed::{Node, Testbed, require_root_or_skip};

mod claim;
mod cloud;
mod console;
mod cut;
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
