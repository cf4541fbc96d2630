//! One bridge per bed, one network namespace per node, and nothing that leads further.
//!
//! Addresses follow from the slot and the node's number: 198.18.SLOT.1 is this machine on the bridge, 198.18.SLOT.(10+n)
//! node n; for IPv6 the same last parts below `fd6d:7573:7465:SLOT::/64`.

use std::net::{Ipv4Addr, Ipv6Addr};

use anyhow::Result;

use crate::process::{call, try_call};

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
    call("ip", &["link", "add", &name, "type", "bridge"])?;
    call("ip", &["addr", "add", &format!("{}/24", v4(slot, GATE)), "dev", &name])?;
    // Without IPv6 in the kernel a bed is IPv4 only; tests that need IPv6 fail by themselves.
    try_call("ip", &["addr", "add", &format!("{}/64", v6(slot, GATE)), "dev", &name, "nodad"]);
    call("ip", &["link", "set", &name, "up"])?;
    Ok(())
}

pub(crate) fn make_namespace(slot: u8, index: u8, node: &str) -> Result<()> {
    let (ns, cable) = (namespace(slot, node), cable(slot, index));
    call("ip", &["netns", "add", &ns])?;
    call("ip", &["link", "add", &cable, "type", "veth", "peer", "name", "eth0", "netns", &ns])?;
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
