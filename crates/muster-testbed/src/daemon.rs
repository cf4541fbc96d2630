//! The node's daemon, installed as its package installs it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::binaries::binaries;
use crate::node::Node;

/// A file of the package: where it goes, and what is in it.
pub type Packaged = (String, Vec<u8>);

/// Where units are, on a system that has merged `/usr` and on one that has not.
const UNITS: &str = "/usr/lib/systemd/system";

/// What the package of `musterd` has beside the program.
pub fn musterd_files() -> Result<Vec<Packaged>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../musterd/units");
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let to = match name.as_str() {
            "muster.sysusers.conf" => "/usr/lib/sysusers.d/muster.conf".to_owned(),
            "muster.tmpfiles.conf" => "/usr/lib/tmpfiles.d/muster.conf".to_owned(),
            _ => format!("{UNITS}/{name}"),
        };
        files.push((to, fs::read(entry.path())?));
    }
    files.sort();
    Ok(files)
}

/// Links that the package has: what is wanted by a target of ours, with no administrator's word for it; and the notice of a node
/// that nobody owns, in the folder that agetty(8) reads beside `/etc/issue`. It reads `/run/issue.d` only where that file is absent.
pub const MUSTERD_LINKS: &[(&str, &str)] = &[
    (
        "/usr/lib/systemd/system/muster-claimed.target.wants/muster-bootstrap.service",
        "../muster-bootstrap.service",
    ),
    ("/etc/issue.d/50-muster.issue", "../../run/issue.d/muster.issue"),
];

/// What the package does whenever it is installed: in an image that is built too, where no systemd runs (sd_booted(3)).
pub(crate) const MUSTERD_INSTALLED: &str = "\
systemd-sysusers muster.conf
systemd-tmpfiles --create muster.conf
mkdir -p /etc/muster /var/lib/muster
[ ! -d /run/systemd/system ] || systemctl daemon-reload
";

/// And at the first time only, or each new version would undo what the machine's administrator, or `enabled: false`, has said.
/// Enabling opens no port: the core asks the node's document first.
pub(crate) const MUSTERD_FIRST: &str = "systemctl enable --quiet musterd-core.service\n";

impl Node {
    /// Installs `musterd` as its package would. It is enabled and not started: a boot does that, or the caller.
    pub fn install_musterd(&self) -> Result<()> {
        self.install_musterd_from(&binaries()?.musterd)
    }

    /// The same with another program than the one of the tests.
    pub fn install_musterd_from(&self, program: &Path) -> Result<()> {
        self.put_file(program, "/usr/bin/musterd", 0o755)?;
        for (path, bytes) in musterd_files()? {
            self.put(&path, &bytes, 0o644)?;
        }
        let mut script = String::new();
        for (link, to) in MUSTERD_LINKS {
            script.push_str(&format!("mkdir -p \"$(dirname {link})\"; ln -sfn {to} {link}\n"));
        }
        self.sh(&format!("{script}{MUSTERD_INSTALLED}{MUSTERD_FIRST}"))?;
        Ok(())
    }
}
