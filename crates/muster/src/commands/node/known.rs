//! `muster node list` and `muster node forget`: what is known here; no node is asked.

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

/// Takes pins out.
pub fn forget(chosen: &[Chosen], store: &Store, printer: &mut Printer) -> Outcome {
    for node in chosen {
        match store.forget(&node.name)? {
            true => printer.talk(&format!("{}: forgotten", node.name)),
            false => printer.talk(&format!("{}: nothing was pinned", node.name)),
        }
    }
    Ok(Exit::Ok)
}
