//! What stops a plan before it touches anything. Pure.

use crate::facts::Facts;
use crate::files;
use crate::plan::Plan;
use crate::spec::{AccountName, HostSpec};
use crate::trust;

/// One reason not to begin: what, where, why, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct Obstacle {
    /// A stable word.
    pub id: &'static str,
    /// Where: a file and line, an account, a tool.
    pub what: String,
    /// Why it stops the plan, and what to do.
    pub why: String,
}

struct Gate(Vec<Obstacle>);

impl Gate {
    fn stop_if(&mut self, stop: bool, id: &'static str, what: impl Into<String>, why: impl Into<String>) {
        if stop {
            self.0.push(Obstacle { id, what: what.into(), why: why.into() });
        }
    }
}

/// Every obstacle to provisioning `spec` on a host that said `facts`.
pub fn provision(spec: &HostSpec, facts: &Facts) -> Vec<Obstacle> {
    let mut g = Gate(Vec::new());
    host(&mut g, facts);
    let arch = spec.shim.machine();
    g.stop_if(
        arch.is_some_and(|a| a != facts.arch),
        "arch",
        "shim",
        format!(
            "it is built for {}, and the host is {}: give the binary for this host",
            arch.unwrap_or("?"),
            facts.arch
        ),
    );
    let bytes = spec.shim.bytes().len() + spec.allowed_signers.len() + spec.revoked_signers.len();
    let need = (bytes as u64 / 1024 + 64) * 2;
    g.stop_if(
        facts.free_kib.0 < need || facts.free_kib.1 < need,
        "disk",
        "/var/lib or /usr/bin",
        format!(
            "{} and {} KiB are free, {need} are needed: free some space",
            facts.free_kib.0, facts.free_kib.1
        ),
    );
    account(&mut g, &spec.account, facts);
    state(&mut g, facts);
    drop_in(&mut g, spec, facts);
    g.0
}

/// Every obstacle to a plan that is a part of what a host is.
pub fn part(plan: &Plan, facts: &Facts) -> Vec<Obstacle> {
    let mut g = Gate(Vec::new());
    host(&mut g, facts);
    let was = facts.manifest.as_ref().map(|(account, _)| account.as_str());
    let why = match was {
        None => "the host was not provisioned by `muster host provision`".to_owned(),
        Some(other) => format!("the host was provisioned with login {other}"),
    };
    g.stop_if(
        was != Some(plan.account().as_str()),
        "not-provisioned",
        format!("account {}", plan.account()),
        why,
    );
    g.0
}

/// What only provisioning puts on a host; the shim itself may also come as a package.
const TRACES: &[&str] =
    &[files::SHIM_TOML, files::SHIM_STATE, files::AUTHORIZED_KEYS_DIR, files::SUDOERS, files::SSHD_DROP_IN];

/// Every obstacle to undoing it.
pub fn unprovision(facts: &Facts) -> Vec<Obstacle> {
    let mut g = Gate(Vec::new());
    host(&mut g, facts);
    let there: Vec<&str> = TRACES.iter().copied().filter(|p| facts.files.contains_key(*p)).collect();
    g.stop_if(
        facts.baseline.is_empty() && facts.open.is_none() && !there.is_empty(),
        "no-record",
        "/var/lib/muster/provision",
        format!(
            "nothing is recorded there, so it is not known what was on this host before {}: undo by hand (docs/provisioning.md)",
            there.join(", ")
        ),
    );
    if let Some(run) = &facts.run {
        g.stop_if(true, "run", "shim", run.trim_start_matches("muster-provision: "));
    }
    g.0
}

fn host(g: &mut Gate, facts: &Facts) {
    g.stop_if(facts.uid != 0, "root", "admin login", "the script did not run as root: check sudo");
    if !facts.missing.is_empty() {
        let why = "not on the host; install the packages that hold them (sudo, openssh-server, util-linux, passwd, bash)";
        g.stop_if(true, "tools", facts.missing.join(", "), why);
    }
    if let Some(fault) = &facts.sshd_fault {
        let why = format!(
            "`sshd -t` already refuses the configuration as it is ({fault}): mend it first, else a reload ends sshd"
        );
        g.stop_if(true, "sshd", "sshd", why);
    }
}

fn account(g: &mut Gate, name: &AccountName, facts: &Facts) {
    g.stop_if(
        facts.sudo_user.as_deref() == Some(name.as_str()),
        "account",
        format!("account {name}"),
        "it is the admin login itself, which pinning would shut out: choose another name",
    );
    if let Some((was, _)) = &facts.manifest {
        let why =
            format!("the host was provisioned with login {was}: unprovision it first, or keep that name");
        g.stop_if(was != name.as_str(), "account", format!("account {name}"), why);
    }
    let made = facts.baseline.iter().any(|(kind, path)| kind == "account-made" && path == name.as_str());
    if let Some(line) = &facts.account {
        let ours = line.ends_with(&format!(":{}:/bin/sh", files::HOME))
            && facts.account_password == "star"
            && facts.account_groups == [name.as_str()];
        let why = "it is there and was not made here: choose another login for the host in the inventory, or remove it";
        g.stop_if(!ours && !made && facts.open.is_none(), "account", format!("account {name}"), why);
    }
}

fn state(g: &mut Gate, facts: &Facts) {
    g.stop_if(
        facts.manifest.is_some() && facts.state_dir && !facts.files.contains_key(files::FLOORS),
        "floors",
        files::FLOORS,
        "it is gone while its folder is there: find out who removed it, then set it with `muster host floor set`",
    );
    for dir in [files::ETC, files::VAR, files::HOME, files::SHIM_STATE, files::AUTHORIZED_KEYS_DIR] {
        if let Some(f) = facts.files.get(dir) {
            g.stop_if(
                f.kind != "directory",
                "path",
                dir,
                format!("it is a {}, not a folder: move it away", f.kind),
            );
            g.stop_if(
                f.uid != 0,
                "path",
                dir,
                format!("it belongs to uid {}, not to root: find out why", f.uid),
            );
        }
    }
}

fn drop_in(g: &mut Gate, spec: &HostSpec, facts: &Facts) {
    let Some(fleet) = &spec.drop_in else { return };
    g.stop_if(
        facts.fleet.is_none(),
        "drop-in",
        format!("account {}", fleet.account),
        "the fleet's login is not on this host: name the one that its sshd and sudoers files name, or leave the drop-in out",
    );
    let path = files::KPSSH_ALLOWED_SIGNERS;
    match facts.files.get(path).and_then(|f| f.body.as_deref()) {
        None => g.stop_if(
            true,
            "trust-file",
            path,
            "the drop-in shim trusts this file, and it is not there or not readable: put it in place first",
        ),
        Some(body) => {
            if let Err(e) = trust::check_allowed_signers(body, false) {
                let why = format!(
                    "{}: our shim refuses the whole file for it, so it is mended before the shim is swapped",
                    e.why
                );
                g.stop_if(true, "trust-file", format!("{path} line {}", e.line), why);
            }
        }
    }
}
