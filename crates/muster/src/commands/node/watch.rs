//! `muster node list --watch`: what nodes are, again and again.
//!
//! On a terminal each round is drawn over the one before; elsewhere one follows the other, so that a pipe and a log have all of
//! them. It goes on until Ctrl-C, or until nobody reads any more.

use super::status::uptime;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::nodes::choose::Chosen;
use crate::nodes::session::Session;
use crate::printer::{Format, Printer};
use muster_api::node::Node;
use muster_core::Operation;
use serde::Serialize;
use std::time::Duration;

/// Up and to the left, and what was there is gone (ECMA-48: CUP, ED).
const AGAIN: &[u8] = b"\x1b[H\x1b[2J";

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    node: String,
    address: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn row(chosen: Chosen, result: Result<Node, Fault>) -> Row {
    let (node, address) = (chosen.name, chosen.endpoint.to_string());
    match result {
        Ok(status) => Row { node, address, state: word(&status), status: Some(status), error: None },
        Err(fault) => {
            Row { node, address, state: fault.code.word(), status: None, error: Some(fault.to_string()) }
        }
    }
}

/// A node in one word.
pub(crate) fn word(node: &Node) -> &'static str {
    let failed = |v: &Option<String>| v.as_deref() == Some("failed");
    match () {
        () if node.reset.is_some() => "resetting",
        () if failed(&node.health.verdict) || failed(&node.health.greenboot) => "failed",
        () if node.kubernetes.service.is_some() && !node.kubernetes.active => "degraded",
        () if node.bootstrapped => "well",
        () if node.management.waits_for.is_some() => "waits",
        () => "not-built",
    }
}

/// Watches.
pub fn run(session: &Session, every: Duration, printer: &mut Printer) -> Outcome {
    loop {
        let results = session.each(Operation::NodeState, |callee| async move {
            callee.told(Operation::NodeState, callee.node.state().await)
        })?;
        let rows: Vec<Row> = results.into_iter().map(|(chosen, result)| row(chosen, result)).collect();
        show(&rows, printer);
        if printer.out_gone() {
            return Ok(Exit::Ok);
        }
        std::thread::sleep(every);
    }
}

fn show(rows: &[Row], printer: &mut Printer) {
    if printer.value(&rows) {
        return;
    }
    if printer.looks().format == Format::Name {
        for row in rows.iter().filter(|r| r.status.is_some()) {
            printer.data(&row.node);
        }
        return;
    }
    // Only a terminal has a width.
    if printer.looks().width.is_some() {
        printer.raw(AGAIN);
    }
    let cells = |r: &Row| {
        let s = r.status.as_ref();
        let text = |f: fn(&Node) -> Option<String>| s.and_then(f).unwrap_or_default();
        // What somebody should look at stands out without a colour, too.
        let mark = if r.state == "well" { "" } else { "! " };
        vec![
            r.node.clone(),
            r.address.clone(),
            format!("{mark}{}", r.state),
            text(|n| n.role.clone()),
            text(|n| n.kubernetes.version.clone()),
            text(|n| n.os.booted.as_ref().map(super::status::image)),
            text(|n| n.health.uptime_seconds.map(uptime)),
        ]
    };
    printer.table(
        &["node", "address", "state", "role", "kubernetes", "image", "up"],
        &rows.iter().map(cells).collect::<Vec<_>>(),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::node::{Kubernetes, Management, NodeHealth};

    #[test]
    fn a_node_is_one_word() {
        let built = || Node { bootstrapped: true, ..Node::default() };
        let kubelet =
            |active| Kubernetes { service: Some("kubelet.service".into()), active, ..Kubernetes::default() };
        for (node, want) in [
            (Node::default(), "not-built"),
            (
                Node {
                    management: Management { waits_for: Some("document".into()), ..Management::default() },
                    ..Node::default()
                },
                "waits",
            ),
            (built(), "well"),
            (Node { kubernetes: kubelet(true), ..built() }, "well"),
            (Node { kubernetes: kubelet(false), ..built() }, "degraded"),
            (
                Node {
                    health: NodeHealth { verdict: Some("failed".into()), ..NodeHealth::default() },
                    ..built()
                },
                "failed",
            ),
        ] {
            assert_eq!(word(&node), want);
        }
    }
}
