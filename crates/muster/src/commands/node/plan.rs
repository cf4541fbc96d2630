//! What a command would do to which node: one shape for every `--plan`, for people and for programs.

use super::status::{image, uptime};
use crate::exit::Exit;
use crate::fault::Outcome;
use crate::nodes::choose::Chosen;
use crate::printer::{Listing, Printer};
use muster_api::node::Node;
use serde::Serialize;

/// One node of a plan.
#[derive(Debug, Serialize)]
pub struct Planned {
    node: String,
    address: String,
    /// What would be done, as an order.
    does: String,
    /// What the node is now, where it was asked.
    now: Option<Now>,
}

/// What a node says that it is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Now {
    hostname: Option<String>,
    role: Option<String>,
    cluster: Option<String>,
    uptime_seconds: Option<u64>,
    image: Option<String>,
    digest: Option<String>,
    /// The next boot takes another image.
    staged: bool,
}

impl Planned {
    /// Of a node that was not asked.
    pub fn of(chosen: &Chosen, does: impl Into<String>) -> Self {
        let (node, address) = (chosen.name.clone(), chosen.endpoint.to_string());
        Self { node, address, does: does.into(), now: None }
    }

    /// Of a node that is not known yet, or is not asked as one that is.
    pub fn at(node: &str, address: String, does: impl Into<String>) -> Self {
        Self { node: node.to_owned(), address, does: does.into(), now: None }
    }

    /// Of a node that said what it is.
    pub fn seen(chosen: &Chosen, node: &Node, does: impl Into<String>) -> Self {
        let booted = node.os.booted.as_ref();
        let now = Now {
            hostname: node.hostname.clone(),
            role: node.role.clone(),
            cluster: node.cluster.clone(),
            uptime_seconds: node.health.uptime_seconds,
            image: booted.map(image),
            digest: booted.and_then(|i| i.digest.clone()),
            staged: node.os.staged.is_some(),
        };
        Self { now: Some(now), ..Self::of(chosen, does) }
    }

    fn cells(&self) -> Vec<String> {
        let now = self.now.as_ref();
        let hostname = now.and_then(|n| n.hostname.clone()).filter(|h| *h != self.node);
        let cluster = now.map(|n| n.cluster.clone().unwrap_or_else(|| "none".to_owned()));
        let runs = now.and_then(|n| {
            let staged = if n.staged { ", another one staged" } else { "" };
            n.image.as_ref().map(|i| format!("{i}{staged}"))
        });
        let up = now.and_then(|n| n.uptime_seconds).map(uptime);
        let text = Option::unwrap_or_default;
        vec![
            self.node.clone(),
            self.address.clone(),
            self.does.clone(),
            text(hostname),
            text(now.and_then(|n| n.role.clone())),
            text(cluster),
            text(runs),
            text(up),
        ]
    }
}

/// Shows a plan; it is the whole of the command.
pub fn show(rows: Vec<Planned>, printer: &mut Printer) -> Outcome {
    printer.listing(&Listing {
        columns: &["node", "address", "would", "calls itself", "role", "cluster", "runs", "up"],
        rows,
        cells: Planned::cells,
        name: |r| r.node.clone(),
        empty: "nothing is to be done",
    });
    printer.talk("this is a plan: nothing was changed");
    Ok(Exit::Ok)
}

/// The same to all of these, of which none was asked.
pub fn same(chosen: &[Chosen], does: &str, printer: &mut Printer) -> Outcome {
    show(chosen.iter().map(|c| Planned::of(c, does)).collect(), printer)
}
