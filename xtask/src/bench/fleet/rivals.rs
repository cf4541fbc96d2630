//! The contenders: `muster host`, the stock `ssh` in a pool of `xargs`, ansible-core.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use muster_core::Phase;

use super::hosts::{HOSTS, Hosts, PROFILE, name, port};

/// Who runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rival {
    /// `muster host PHASE`.
    Muster,
    /// `ssh` with its own choice of algorithms.
    Ssh,
    /// `ssh` told to agree on what `muster` and this sshd agree on.
    SshSame,
    /// `ansible -m raw`: one command over one connection, nothing else.
    AnsibleRaw,
    /// `ansible -m script`: how a script is usually sent.
    AnsibleScript,
}

impl Rival {
    /// Whether the shim verifies and records what it sends.
    pub(super) fn through_shim(self) -> bool {
        matches!(self, Self::Muster | Self::Ssh | Self::SshSame)
    }

    /// In words.
    pub(super) fn what(self) -> &'static str {
        match self {
            Self::Muster => "`muster host join`",
            Self::Ssh => "`xargs -P W ssh`",
            Self::SshSame => "`xargs -P W ssh`, algorithms as muster's",
            Self::AnsibleRaw => "`ansible -m raw -f W`",
            Self::AnsibleScript => "`ansible -m script -f W`, pipelining",
        }
    }

    /// The command that runs `phase` on hosts 1 to `hosts`, so many at a time.
    pub(super) fn command(self, fleet: &Hosts, phase: Phase, hosts: usize, width: usize) -> Result<Command> {
        match self {
            Self::Muster => Ok(muster(fleet, phase, hosts, width)),
            Self::Ssh => ssh(fleet, phase, hosts, width, ""),
            // The first of muster-ssh's own lists that the node's sshd has.
            Self::SshSame => ssh(
                fleet,
                phase,
                hosts,
                width,
                "-o KexAlgorithms=curve25519-sha256 -o Ciphers=aes256-gcm@openssh.com",
            ),
            Self::AnsibleRaw | Self::AnsibleScript => self.ansible(fleet, width),
        }
    }

    fn ansible(self, fleet: &Hosts, width: usize) -> Result<Command> {
        let folder = fleet.folder.join("ansible");
        fs::create_dir_all(&folder)?;
        let address = fleet.node.addr();
        let hosts: String = (1..=HOSTS)
            .map(|n| format!("{} ansible_host={address} ansible_port={}\n", name(n), port(n)))
            .collect();
        fs::write(folder.join("hosts"), hosts)?;
        // Each run connects anew, as the others do. What would otherwise be copied in three connections needs a
        // shared one, which ansible makes by itself; `raw` is faster without.
        let sharing = match self {
            Self::AnsibleRaw => "-o ControlMaster=no",
            _ => "-o ControlMaster=auto -o ControlPersist=5s",
        };
        let config = format!(
            "[defaults]\ninventory = hosts\nremote_user = root\nprivate_key_file = {}\ninterpreter_python = auto_silent\n\
             host_key_checking = True\n[ssh_connection]\npipelining = True\ncontrol_path_dir = {}/cp\n\
             ssh_args = -F none -o UserKnownHostsFile={} -o IdentitiesOnly=yes {sharing}\n",
            fleet.admin.private.display(),
            folder.display(),
            fleet.known_hosts.display()
        );
        fs::write(folder.join("ansible.cfg"), config)?;
        let mut c = Command::new("ansible");
        fleet.world(&mut c);
        c.env("ANSIBLE_CONFIG", folder.join("ansible.cfg")).args(["all", "-f", &width.to_string()]);
        match self {
            Self::AnsibleRaw => c.args([
                "-m",
                "raw",
                "-a",
                "executable=/bin/bash set -euo pipefail; printf 'ran\\n' >> /srv/ran",
            ]),
            _ => c.args(["-m", "script", "-a"]).arg(fleet.folder.join(PROFILE).join("join.sh")),
        };
        Ok(c)
    }
}

fn muster(fleet: &Hosts, phase: Phase, hosts: usize, width: usize) -> Command {
    let (phase, width) = (phase.to_string(), width.to_string());
    let mut c = fleet.muster(&["host", &phase, "--profile", PROFILE, "--yes", "--parallel", &width]);
    c.args((1..=hosts).map(name));
    c
}

fn ssh(fleet: &Hosts, phase: Phase, hosts: usize, width: usize, more: &str) -> Result<Command> {
    let ports: String = (1..=hosts).map(|n| format!("{}\n", port(n))).collect();
    let list = fleet.folder.join("ports");
    fs::write(&list, ports)?;
    let one = format!(
        "exec ssh -F none -T -p \"$1\" -i {} -l muster -o BatchMode=yes -o StrictHostKeyChecking=yes \
         -o IdentitiesOnly=yes -o GlobalKnownHostsFile=none -o UserKnownHostsFile={} -o ControlMaster=no {more} {} <{}",
        shown(&fleet.controller),
        shown(&fleet.known_hosts),
        fleet.node.addr(),
        shown(&fleet.envelope(phase)?)
    );
    let mut c = Command::new("xargs");
    fleet.world(&mut c);
    c.args(["-a", &shown(&list), "-P", &width.to_string(), "-n", "1", "sh", "-c", &one, "sh"]);
    Ok(c)
}

/// Paths here are of the bed's own folder: plain words.
fn shown(path: &Path) -> String {
    PathBuf::from(path).display().to_string()
}
