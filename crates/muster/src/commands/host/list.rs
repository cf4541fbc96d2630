//! `muster host list`

use crate::args::host::Select;
use crate::exit::Exit;
use crate::fault::Outcome;
use crate::inventory::{ExecMode, Host, Inventory};
use crate::printer::{Listing, Printer};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    name: String,
    address: String,
    port: u16,
    user: String,
    via: Vec<String>,
    pools: Vec<String>,
    labels: BTreeMap<String, String>,
    exec_mode: &'static str,
    envelope: u8,
}

fn row(h: &Host) -> Row {
    Row {
        name: h.name.to_string(),
        address: h.ssh.address.clone(),
        port: h.ssh.port,
        user: h.ssh.user.clone(),
        via: h.ssh.via.clone(),
        pools: h.pools.iter().map(ToString::to_string).collect(),
        labels: h.labels.clone(),
        exec_mode: if h.exec_mode == ExecMode::Raw { "raw" } else { "verified" },
        envelope: h.envelope,
    }
}

/// Lists hosts; all of them when none is named.
pub fn list(inventory: &Inventory, select: &Select, printer: &mut Printer) -> Outcome {
    let mut selection = select.selection()?;
    selection.all |= selection.names.is_empty() && selection.selector.is_none();
    let chosen = if inventory.hosts.is_empty() && selection.names.is_empty() {
        Vec::new()
    } else {
        crate::inventory::choose(inventory, &selection)?
    };
    printer.listing(&Listing {
        columns: &["name", "address", "user", "via", "pools", "labels", "mode"],
        rows: chosen.into_iter().map(row).collect(),
        cells: |r| {
            let address = if r.address.contains(':') {
                format!("[{}]:{}", r.address, r.port)
            } else {
                format!("{}:{}", r.address, r.port)
            };
            let labels = r.labels.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(",");
            vec![
                r.name.clone(),
                address,
                r.user.clone(),
                r.via.join(","),
                r.pools.join(","),
                labels,
                r.exec_mode.to_owned(),
            ]
        },
        name: |r| r.name.clone(),
        empty: "the inventory has no hosts; add one with `muster host add`",
    });
    Ok(Exit::Ok)
}
