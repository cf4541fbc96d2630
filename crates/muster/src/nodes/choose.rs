//! Which nodes a command is for: those of the inventory, and those that were claimed or pinned without one.

use super::pins::Pins;
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::inventory::{ApiNode, Inventory, Selection};
use crate::yaml::nearest;
use muster_client::Endpoint;
use muster_tls::Fingerprint;

/// One node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Its name here.
    pub name: String,
    /// Where its API is.
    pub endpoint: Endpoint,
    /// What is pinned.
    pub pin: Option<Fingerprint>,
}

impl Chosen {
    /// The pin, which a call needs.
    pub fn pinned(&self) -> Result<Fingerprint, Fault> {
        self.pin.ok_or_else(|| {
            let what = format!("no certificate is pinned for {} at {}", self.name, self.endpoint);
            Fault::new(Own::NodePinMissing, what)
        })
    }
}

/// Every node that is known, those of the inventory first.
pub fn known(inventory: Option<&Inventory>, pins: &Pins) -> Vec<Chosen> {
    let nodes = inventory.map_or(&[][..], |i| &i.nodes);
    let of_inventory = |n: &ApiNode| Chosen {
        name: n.name.to_string(),
        endpoint: n.endpoint.clone(),
        pin: pins.of(n.name.as_str(), &n.endpoint),
    };
    let mut all: Vec<Chosen> = nodes.iter().map(of_inventory).collect();
    for pin in pins.iter().filter(|p| !nodes.iter().any(|n| n.name.as_str() == p.name)) {
        let (name, endpoint) = (pin.name.clone(), pin.endpoint.clone());
        all.push(Chosen { name, endpoint, pin: Some(pin.certificate) });
    }
    all
}

/// The nodes of a selection, each once, in the order in which they were named, or in that of [`known`].
pub fn choose(
    selection: &Selection,
    inventory: Option<&Inventory>,
    pins: &Pins,
) -> Result<Vec<Chosen>, Faults> {
    let all = known(inventory, pins);
    let mut chosen: Vec<Chosen> = Vec::new();
    let mut faults = Vec::new();
    for name in &selection.names {
        match one(name, &all) {
            Ok(node) if !chosen.contains(node) => chosen.push(node.clone()),
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
    }
    Faults::check(faults)?;
    if !selection.all && selection.names.is_empty() && selection.selector.is_none() {
        return Err(Fault::new(Own::NothingSelected, "no node was named")
            .fix("Name nodes, or use -l SELECTOR or --all.")
            .into());
    }
    let matches = |node: &Chosen| match &selection.selector {
        None => selection.all,
        Some(selector) => inventory
            .and_then(|i| i.nodes.iter().find(|n| n.name.as_str() == node.name))
            .is_some_and(|n| selector.hold(n.name.as_str(), &n.pools, &n.labels)),
    };
    for node in all.iter().filter(|n| matches(n)) {
        if !chosen.contains(node) {
            chosen.push(node.clone());
        }
    }
    if chosen.is_empty() {
        return Err(Fault::new(Own::NothingSelected, "no node matches")
            .fix("Look at `muster node list`.")
            .into());
    }
    Ok(chosen)
}

/// A node by its name, or by where it is.
fn one<'a>(name: &str, all: &'a [Chosen]) -> Result<&'a Chosen, Fault> {
    let place: Option<Endpoint> = name.parse().ok();
    let found = all.iter().find(|n| n.name == name);
    let found = found.or_else(|| all.iter().find(|n| Some(&n.endpoint) == place.as_ref()));
    found.ok_or_else(|| {
        let fault = Fault::new(Own::NodeUnknown, format!("no node {name:?}"));
        match nearest(name, all.iter().map(|n| n.name.as_str())) {
            Some(near) => fault.fix(format!("Did you mean {near:?}?")),
            None => fault,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn nodes_of_the_inventory_and_of_the_state_are_chosen_alike() {
        let text = "hosts:\n  a: {ssh: {address: 192.0.2.1}, api: {}, labels: {site: x}}\n  b: {api: {address: 192.0.2.2, port: 1}}\n  c: {ssh: {address: 192.0.2.3}}\n";
        let inventory = Inventory::parse(text, Path::new("i.yaml"), None).unwrap();
        assert_eq!(inventory.hosts.len(), 2);
        let print = Fingerprint::of(b"x");
        let pins = format!("a 192.0.2.1:7443 {print}\nb 192.0.2.9:1 {print}\nloose 192.0.2.4:7443 {print}\n");
        let pins = Pins::parse(&pins, Path::new("p")).unwrap();
        let names = |s: &Selection| {
            choose(s, Some(&inventory), &pins)
                .map(|c| {
                    c.into_iter()
                        .map(|n| format!("{}{}", n.name, if n.pin.is_some() { "+" } else { "" }))
                        .collect::<Vec<_>>()
                })
                .map_err(|f| f.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
        };
        let named = |names: &[&str]| Selection {
            names: names.iter().map(|n| (*n).to_owned()).collect(),
            ..Selection::default()
        };
        // The pin of b is for another place.
        assert_eq!(names(&Selection { all: true, ..Selection::default() }).unwrap(), ["a+", "b", "loose+"]);
        assert_eq!(names(&named(&["loose", "a", "192.0.2.1", "a"])).unwrap(), ["loose+", "a+"]);
        let site = Selection { selector: Some("site=x".parse().unwrap()), ..Selection::default() };
        assert_eq!(names(&site).unwrap(), ["a+"]);
        assert!(names(&named(&["c", "losse"])).unwrap_err().contains("Did you mean \"loose\"?"));
        assert!(names(&Selection::default()).unwrap_err().contains("no node was named"));
    }
}
