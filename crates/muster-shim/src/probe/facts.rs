//! Facts that the kernel, `/etc/os-release` and systemd tell.

use crate::json::Value;
use muster_core::UtcTime;
use muster_sys::command::Command;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

/// Bytes that are read of a file of facts at the most.
const MOST: u64 = 64 * 1024;

/// `os`, `kernel`, `cpus`, `memory-kib`, `swap-kib`, `cgroup`, `clock`, `disk`, `kubelet`.
pub(super) fn members(now: UtcTime) -> Vec<(&'static str, Value)> {
    let release = text("/etc/os-release").or_else(|| text("/usr/lib/os-release")).unwrap_or_default();
    let os = [("id", "ID"), ("version", "VERSION_ID"), ("name", "PRETTY_NAME")];
    let (kernel, machine) = muster_sys::system::kernel();
    let clock = [
        ("now", Value::text(now.to_string())),
        ("synchronised", Value::or_null(muster_sys::clock::synchronised(), Value::Bool)),
    ];
    let disk = muster_sys::system::space(Path::new("/var/lib")).ok();
    let kubelet = kubelet_state().filter(|s| !s.is_empty());
    vec![
        ("os", Value::object(os.map(|(name, field)| (name, Value::optional(os_field(&release, field)))))),
        ("kernel", Value::object([("release", Value::text(kernel)), ("machine", Value::text(machine))])),
        ("cpus", Value::Number(muster_sys::system::processors() as u64)),
        ("memory-kib", Value::Number(meminfo("MemTotal").unwrap_or(0))),
        ("swap-kib", Value::Number(meminfo("SwapTotal").unwrap_or(0))),
        ("cgroup", Value::text(cgroup_version())),
        ("clock", Value::object(clock)),
        (
            "disk",
            Value::or_null(disk, |space| {
                Value::object([
                    ("path", Value::text("/var/lib")),
                    ("total-bytes", Value::Number(space.total)),
                    ("free-bytes", Value::Number(space.free)),
                ])
            }),
        ),
        ("kubelet", Value::optional(kubelet)),
    ]
}

fn text(path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(MOST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A field of os-release(5): `NAME=value`, the value perhaps in quotes.
pub(crate) fn os_field(release: &str, name: &str) -> Option<String> {
    let value = release.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('='))?.trim();
    Some(value.trim_matches(['"', '\'']).chars().take(200).collect())
}

/// A line of `/proc/meminfo`, in kB (proc_meminfo(5)).
pub(super) fn meminfo(name: &str) -> Option<u64> {
    let all = text("/proc/meminfo")?;
    let value = all.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':'))?;
    value.split_whitespace().next()?.parse().ok()
}

/// `v2` (the one hierarchy), `hybrid` (v1 controllers beside a v2 hierarchy), `v1`, or `none`.
fn cgroup_version() -> &'static str {
    let there = |path: &str| Path::new(path).exists();
    if there("/sys/fs/cgroup/cgroup.controllers") {
        "v2"
    } else if there("/sys/fs/cgroup/unified/cgroup.controllers") {
        "hybrid"
    } else if there("/sys/fs/cgroup/systemd") || there("/sys/fs/cgroup/memory") {
        "v1"
    } else {
        "none"
    }
}

/// What `systemctl is-active kubelet` prints; `None` where there is no systemctl or no answer.
pub(super) fn kubelet_state() -> Option<String> {
    let out = Command::new("/usr/bin/systemctl")
        .args(["is-active", "kubelet"])
        .deadline(Duration::from_secs(3))
        .keep_output(256)
        .run()
        .ok()?;
    let word = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-').then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn os_release_fields() {
        let text = "NAME=\"Debian GNU/Linux\"\nVERSION_ID=\"12\"\nID=debian\nID_LIKE=x\n";
        assert_eq!(os_field(text, "ID").as_deref(), Some("debian"));
        assert_eq!(os_field(text, "VERSION_ID").as_deref(), Some("12"));
        assert_eq!(os_field(text, "VARIANT"), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(meminfo("MemTotal").unwrap() > 1024);
        assert_ne!(cgroup_version(), "");
    }
}
