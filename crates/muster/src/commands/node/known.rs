//! `muster node list` and `muster node forget`: what is known here; no node is asked.

use super::plan::{self, Planned};
use crate::exit::Exit;
use crate::fault::Outcome;
use crate::inventory::{Inventory, Selection};
use crate::nodes::choose::{self, Chosen};
use crate::nodes::pins::Store;
use crate::printer::{Listing, Printer};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    name: String,
    address: String,
    fingerprint: Option<String>,
    pools: Vec<String>,
    labels: BTreeMap<String, String>,
}

/// Lists nodes; all of them when none is named.
pub fn list(
    inventory: Option<&Inventory>,
    store: &Store,
    selection: &Selection,
    printer: &mut Printer,
) -> Outcome {
    let pins = store.read()?;
    let everything = selection.names.is_empty() && selection.selector.is_none();
    let chosen = match everything {
        true => choose::known(inventory, &pins),
        false => choose::choose(selection, inventory, &pins)?,
    };
    let row = |chosen: Chosen| {
        let node = inventory.and_then(|i| i.nodes.iter().find(|n| n.name.as_str() == chosen.name));
        Row {
            name: chosen.name,
            address: chosen.endpoint.to_string(),
            fingerprint: chosen.pin.map(|p| p.to_string()),
            pools: node.map(|n| n.pools.iter().map(ToString::to_string).collect()).unwrap_or_default(),
            labels: node.map(|n| n.labels.clone()).unwrap_or_default(),
        }
    };
    printer.listing(&Listing {
        columns: &["name", "address", "pinned", "pools", "labels"],
        rows: chosen.into_iter().map(row).collect(),
        cells: |r| {
            let labels = r.labels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",");
            let pin = r.fingerprint.clone().unwrap_or_else(|| "no".into());
            vec![r.name.clone(), r.address.clone(), pin, r.pools.join(","), labels]
        },
        name: |r| r.name.clone(),
        empty: "no node is known; claim one with `muster node claim`",
    });
    Ok(Exit::Ok)
}

#[derive(Serialize)]
struct Forgotten {
    node: String,
    address: String,
    status: &'static str,
}

/// Takes pins out.
pub fn forget(chosen: &[Chosen], store: &Store, plan: bool, printer: &mut Printer) -> Outcome {
    if plan {
        let does =
            |c: &Chosen| if c.pin.is_some() { "be forgotten" } else { "not change: nothing is pinned" };
        return plan::show(chosen.iter().map(|c| Planned::of(c, does(c))).collect(), printer);
    }
    let mut rows = Vec::new();
    for node in chosen {
        let status = if store.forget(&node.name)? { "forgotten" } else { "nothing was pinned" };
        rows.push(Forgotten { node: node.name.clone(), address: node.endpoint.to_string(), status });
    }
    printer.listing(&Listing {
        columns: &["node", "address", "status"],
        rows,
        cells: |r| vec![r.node.clone(), r.address.clone(), r.status.to_owned()],
        name: |r| r.node.clone(),
        empty: "",
    });
    Ok(Exit::Ok)
}
