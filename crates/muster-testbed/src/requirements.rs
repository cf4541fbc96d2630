//! What real nodes need of the machine: root, and a few Debian packages.

use std::path::Path;

use crate::process::call;

/// A Debian package that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing {
    /// Name for `apt-get install`.
    pub package: &'static str,
    /// The file that shows whether it is installed.
    pub file: &'static str,
}

/// All that real nodes need, each with the file that proves it.
pub const REQUIRED: &[Missing] = &[
    Missing { package: "debootstrap", file: "/usr/sbin/debootstrap" },
    Missing { package: "systemd-container", file: "/usr/bin/systemd-nspawn" },
    Missing { package: "openssh-server", file: "/usr/sbin/sshd" },
    Missing { package: "openssh-client", file: "/usr/bin/ssh-keygen" },
    Missing { package: "sudo", file: "/usr/bin/sudo" },
    Missing { package: "iproute2", file: "/sbin/ip" },
    Missing { package: "util-linux", file: "/usr/bin/nsenter" },
    Missing { package: "nftables", file: "/usr/sbin/nft" },
    Missing { package: "procps", file: "/usr/bin/pgrep" },
    Missing { package: "strace", file: "/usr/bin/strace" },
];

/// The required packages that are not installed.
#[must_use]
pub fn missing_packages() -> Vec<Missing> {
    REQUIRED.iter().copied().filter(|m| !Path::new(m.file).exists()).collect()
}

/// Why real nodes cannot run here; `None` means that they can.
#[must_use]
pub fn why_not() -> Option<String> {
    let uid = call("id", &["-u"]).map(|o| o.stdout_text()).unwrap_or_default();
    if uid.trim() != "0" {
        return Some("real nodes need root (network namespaces, mounts); run it with sudo".to_owned());
    }
    let missing: Vec<_> = missing_packages().iter().map(|m| m.package).collect();
    if !missing.is_empty() {
        return Some(format!("not installed: {}; `cargo xtask test` installs them", missing.join(" ")));
    }
    None
}
