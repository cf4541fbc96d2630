//! One bridge per bed, one network namespace per node, and nothing that leads further.
//!
//! Addresses follow from the slot and the node's number: 198.18.SLOT.1 is this machine on the bridge, 198.18.SLOT.(10+n)
//! node n; for IPv6 the same last parts below `fd6d:7573:7465:SLOT::/64`. Link addresses are `02:6d:74:62:SLOT:LAST`.
//!
//! Nobody on a bridge asks who is where: every end has the link addresses of all others as permanent neighbours. A question
//! that a cut cable swallows would tell both sides of the cut (EHOSTUNREACH after 3 s), and with it connections that began
//! after the cable was mended. The bridge has an address of its own, since the kernel's choice (the lowest of its ports)
//! changes with each cable. Sources: arp(7), ip-neighbour(8), ip-link(8).

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::Command;

use anyhow::Result;

use crate::process::{DEADLINE, call, run, try_call};

const V4_ALL: &str = "198.18.0.0/16";
const V6_ALL: &str = "fd6d:7573:7465::/48";

pub(crate) fn bridge(slot: u8) -> String {
    format!("mtb{slot}")
}

/// The end of the node's cable on this machine's side.
pub(crate) fn cable(slot: u8, index: u8) -> String {
    format!("mtb{slot}n{index}")
}

pub(crate) fn namespace(slot: u8, node: &str) -> String {
    format!("mtb{slot}-{node}")
}

pub(crate) fn v4(slot: u8, last: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, slot, last)
}

pub(crate) fn v6(slot: u8, last: u8) -> Ipv6Addr {
    Ipv6Addr::new(0xfd6d, 0x7573, 0x7465, u16::from(slot), 0, 0, 0, u16::from(last))
}

/// Link address: the bit of local administration, the testbed, the slot, the same last part.
fn link(slot: u8, last: u8) -> String {
    format!("02:6d:74:62:{slot:02x}:{last:02x}")
}

/// Number of this machine on every bridge.
pub(crate) const GATE: u8 = 1;

/// Last part of a node's addresses.
pub(crate) fn last(index: u8) -> u8 {
    index.saturating_add(10)
}

/// What is sent to a bed that is gone must not leave this machine. Call it under the lock of the place.
pub(crate) fn guard_routes() {
    try_call("ip", &["route", "replace", "blackhole", V4_ALL]);
    try_call("ip", &["-6", "route", "replace", "blackhole", V6_ALL]);
}

pub(crate) fn unguard_routes() {
    try_call("ip", &["route", "del", "blackhole", V4_ALL]);
    try_call("ip", &["-6", "route", "del", "blackhole", V6_ALL]);
}

pub(crate) fn make_bridge(slot: u8) -> Result<()> {
    let name = bridge(slot);
    call("ip", &["link", "add", &name, "address", &link(slot, GATE), "type", "bridge"])?;
    call("ip", &["addr", "add", &format!("{}/24", v4(slot, GATE)), "dev", &name])?;
    // Without IPv6 in the kernel a bed is IPv4 only; tests that need IPv6 fail by themselves.
    try_call("ip", &["addr", "add", &format!("{}/64", v6(slot, GATE)), "dev", &name, "nodad"]);
    call("ip", &["link", "set", &name, "up"])?;
    Ok(())
}

pub(crate) fn make_namespace(slot: u8, index: u8, node: &str) -> Result<()> {
    let (ns, cable) = (namespace(slot, node), cable(slot, index));
    call("ip", &["netns", "add", &ns])?;
    let address = link(slot, last(index));
    call(
        "ip",
        &["link", "add", &cable, "type", "veth", "peer", "name", "eth0", "address", &address, "netns", &ns],
    )?;
    call("ip", &["link", "set", &cable, "master", &bridge(slot)])?;
    call("ip", &["link", "set", &cable, "up"])?;
    call("ip", &["-n", &ns, "link", "set", "lo", "up"])?;
    call("ip", &["-n", &ns, "addr", "add", &format!("{}/24", v4(slot, last(index))), "dev", "eth0"])?;
    try_call(
        "ip",
        &["-n", &ns, "addr", "add", &format!("{}/64", v6(slot, last(index))), "dev", "eth0", "nodad"],
    );
    call("ip", &["-n", &ns, "link", "set", "eth0", "up"])?;
    Ok(())
}

/// Tells the bridge and every node where all others are; `nodes` are those whose namespace is made.
pub(crate) fn introduce(slot: u8, nodes: &[(u8, &str)]) -> Result<()> {
    let lasts: Vec<u8> = std::iter::once(GATE).chain(nodes.iter().map(|(index, _)| last(*index))).collect();
    introduce_one(slot, GATE, &lasts, &bridge(slot), None)?;
    for (index, node) in nodes {
        introduce_one(slot, last(*index), &lasts, "eth0", Some(&namespace(slot, node)))?;
    }
    Ok(())
}

fn introduce_one(slot: u8, own: u8, lasts: &[u8], device: &str, namespace: Option<&str>) -> Result<()> {
    let (mut four, mut six) = (String::new(), String::new());
    for other in lasts.iter().copied().filter(|l| *l != own) {
        let rest = format!("lladdr {} dev {device} nud permanent", link(slot, other));
        let _ = writeln!(four, "neigh replace {} {rest}", v4(slot, other));
        let _ = writeln!(six, "neigh replace {} {rest}", v6(slot, other));
    }
    let batch = |lines: &str| {
        let mut ip = Command::new("ip");
        ip.args(namespace.map(|n| ["-n", n]).into_iter().flatten()).args(["-batch", "-"]);
        run(&mut ip, lines.as_bytes(), DEADLINE)
    };
    batch(&four)?.check()?;
    // As for its addresses: a kernel without IPv6 is no error.
    batch(&six)?;
    Ok(())
}

/// Removes the bridge, and every namespace of the slot with its cable.
pub(crate) fn remove_slot(slot: u8) {
    let prefix = format!("mtb{slot}-");
    if let Ok(dir) = std::fs::read_dir("/run/netns") {
        for name in dir.flatten().map(|e| e.file_name().to_string_lossy().into_owned()) {
            if name.starts_with(&prefix) {
                try_call("ip", &["netns", "del", &name]);
            }
        }
    }
    // A namespace is taken apart by the kernel in its own time; the cables go now, so that the slot can be used again.
    let cables = format!("mtb{slot}n");
    if let Ok(dir) = std::fs::read_dir("/sys/class/net") {
        for name in dir.flatten().map(|e| e.file_name().to_string_lossy().into_owned()) {
            if name.starts_with(&cables) {
                try_call("ip", &["link", "del", &name]);
            }
        }
    }
    try_call("ip", &["link", "del", &bridge(slot)]);
}
