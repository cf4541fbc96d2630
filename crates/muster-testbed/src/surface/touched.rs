//! The paths that stand in the daemon's sources, and what is done with each.

/// A path of the machine.
#[derive(Debug)]
pub struct Touched {
    /// As it stands in the sources.
    pub path: &'static str,
    /// Who: `core`, `edge`, `bootstrap`, `core and bootstrap`.
    pub who: &'static str,
    /// `reads`, `writes`, `runs`, `connects`.
    pub how: &'static str,
    /// What for.
    pub what: &'static str,
}

const fn row(path: &'static str, who: &'static str, how: &'static str, what: &'static str) -> Touched {
    Touched { path, who, how, what }
}

const BOTH: &str = "core and bootstrap";

/// One row for each path that a text in the sources begins with, but for those
/// of `places.rs`, which say themselves what they are; and what `muster-sys` opens for the daemon.
pub const TOUCHED: &[Touched] = &[
    row("/etc/muster", "core", "writes", "the folder of the document below"),
    row(
        "/etc/muster/config.yaml",
        BOTH,
        "reads and writes",
        "the node's document; written by a claim or an apply that brings one",
    ),
    row("/usr/share/muster/config.yaml", BOTH, "reads", "the document that came with an image"),
    row(
        "/var/lib/cloud/instance/cloud-config.txt",
        BOTH,
        "reads",
        "the `muster:` block of cloud-init's merged result; nothing else of it",
    ),
    row("/proc/cmdline", BOTH, "reads", "`muster.config=`, which names a document"),
    row(
        "/var/lib",
        "core",
        "reads",
        "whether nobody but root can put something there; the same for `/run` and `/etc`",
    ),
    row(
        "/run/issue.d",
        "core",
        "writes",
        "`muster.issue`: the notice above each login prompt, while nobody owns the node",
    ),
    row("/etc/hostname", BOTH, "reads; bootstrap writes", "the machine's name"),
    row(
        "/proc/sys/kernel/hostname",
        BOTH,
        "reads",
        "the same, as the kernel has it; bootstrap sets it where the document names one",
    ),
    row("/etc/machine-id", BOTH, "reads", "a part of the node's state, and of where its journal is"),
    row("/etc/os-release", "core", "reads", "a part of the node's state"),
    row("/proc/sys/kernel/osrelease", "core", "reads", "the same"),
    row(
        "/proc/sys/kernel/random/boot_id",
        "core",
        "reads",
        "the same; with the start of process 1 it names the boot that a record and a pairing code are of",
    ),
    row("/proc/1/stat", "core", "reads", "when process 1 was started"),
    row("/proc/uptime", "core", "reads", "the same"),
    row("/etc/passwd", "core", "reads", "who the edge is; whether an account is there that a key is for"),
    row("/etc/containers/policy.json", "core", "reads", "which images may be pulled"),
    row(
        "/etc/ssh/sshd_config.d/10-muster-api.conf",
        "core",
        "writes",
        "where sshd finds the keys that the API let in; outside its sandbox, by the programs below",
    ),
    row(
        "/sys/fs/selinux/enforce",
        "core",
        "reads",
        "whether files that sshd reads need a label; then it is given to them, at each write and each start",
    ),
    row(
        "/sys/class/tty/console/active",
        "core",
        "reads",
        "which consoles the kernel has; the notice is written to each, below `/dev`",
    ),
    row("/proc/net", "core", "reads", "the machine's addresses, for the notice"),
    row(
        "/run/systemd/journal/socket",
        BOTH,
        "connects",
        "its own words, and the newest hash of the audit record",
    ),
    row(
        "/usr/bin/systemctl",
        "core",
        "runs",
        "starts, stops, restarts and shows units; reboots and shuts down",
    ),
    row(
        "/usr/bin/systemd-run",
        "core",
        "runs",
        "what its sandbox forbids, each with a fixed program: `install`, `mv`, `rm` and `bootc`",
    ),
    row("/usr/bin/install", "core", "runs", "writes sshd's drop-in, beside its place"),
    row("/usr/bin/mv", "core", "runs", "puts it there"),
    row("/usr/bin/rm", "core", "runs", "takes it away"),
    row(
        "/usr/sbin/sshd",
        "core",
        "runs",
        "whether sshd takes its configuration, before it is told to read it",
    ),
    row("/dev/stdin", "core", "reads", "what `install` writes"),
    row(
        "/usr/sbin/agetty",
        "core",
        "runs",
        "`--reload`, so that a login prompt that stands already shows the notice, or no longer",
    ),
    row("/usr/bin/journalctl", "core", "runs", "reads journals"),
    row("/usr/bin/bootc", "core", "runs", "images: state, pull, what boots next; where the machine has it"),
    row("/usr/bin/kubelet", "core", "runs", "`--version`, where the machine has it"),
    row("/usr/local/bin/kubelet", "core", "runs", "the same, in its other place"),
];
