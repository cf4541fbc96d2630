//! One booted node: run things in it, put files there, reboot it, read its journal.

use std::fs;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::boot::{Keeper, Plan};
use crate::cgroup;
use crate::net;
use crate::process::{DEADLINE, Output, call, run, until, wait_until};

/// It only ends a hang.
const BOOT_LIMIT: Duration = Duration::from_secs(300);

/// What the bed and the handles share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) plan: Plan,
    /// Its folders and its network are there.
    pub(crate) laid: AtomicBool,
    keeper: Mutex<Option<Keeper>>,
}

impl Inner {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, laid: AtomicBool::new(false), keeper: Mutex::new(None) }
    }

    fn keeper(&self) -> MutexGuard<'_, Option<Keeper>> {
        self.keeper.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(&self) -> Result<()> {
        *self.keeper() = Some(self.plan.start()?);
        Ok(())
    }

    pub(crate) fn keep(&self) -> Result<()> {
        self.keeper().as_mut().map_or(Ok(()), Keeper::keep)
    }

    pub(crate) fn reap(&self) {
        if let Some(mut keeper) = self.keeper().take() {
            keeper.reap();
        }
    }

    /// Process id, on this machine, of the node's PID 1.
    fn leader(&self) -> Result<Option<u32>> {
        let Ok(nspawn) = fs::read_to_string(self.plan.dir.join("nspawn.pid")) else { return Ok(None) };
        let children = run(Command::new("pgrep").args(["-P", nspawn.trim()]), b"", DEADLINE)?.stdout_text();
        // The child of nspawn is the init only once it is PID 1 of a namespace of its own (NSpid: OUTER 1).
        Ok(children.lines().filter_map(|l| l.parse().ok()).find(|pid: &u32| {
            fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|s| {
                s.lines().any(|l| {
                    l.starts_with("NSpid:") && l.split_whitespace().count() == 3 && l.ends_with("\t1")
                })
            })
        }))
    }

    /// Copies console and journal of the node to `to`.
    pub(crate) fn save_logs(&self, to: &Path) {
        let name = &self.plan.name;
        let _ = fs::copy(self.plan.dir.join("console"), to.join(format!("{name}.console")));
        // Read from outside: it works also when the node hangs.
        let journal = self.plan.root().join("var/log/journal");
        let mut command = Command::new("journalctl");
        command.arg("--directory").arg(journal).args(["--no-pager", "--output=short-precise", "--merge"]);
        if let Ok(out) = run(&mut command, b"", DEADLINE) {
            let _ = fs::write(to.join(format!("{name}.journal")), out.stdout);
        }
    }
}

/// A booted node.
#[derive(Debug, Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

impl Node {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner }
    }

    /// Its name in the bed, which is its host name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.plan.name
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.inner.plan
    }

    /// Its IPv4 address; sshd listens on port 22.
    #[must_use]
    pub fn addr(&self) -> IpAddr {
        IpAddr::V4(self.addr_v4())
    }

    /// Its IPv4 address.
    #[must_use]
    pub fn addr_v4(&self) -> Ipv4Addr {
        net::v4(self.plan().slot, net::last(self.plan().index))
    }

    /// Its IPv6 address.
    #[must_use]
    pub fn addr_v6(&self) -> Ipv6Addr {
        net::v6(self.plan().slot, net::last(self.plan().index))
    }

    /// A path of the node as this machine sees it. Through the overlay: mounts made inside the node are not visible there.
    #[must_use]
    pub fn host_path(&self, path: &str) -> PathBuf {
        self.plan().root().join(path.trim_start_matches('/'))
    }

    /// The node's public host key of `kind` (`ed25519` or `ecdsa`): type and base64, no comment.
    pub fn host_key(&self, kind: &str) -> Result<String> {
        let path = self.host_path(&format!("/etc/ssh/ssh_host_{kind}_key.pub"));
        let line = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(line.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
    }

    /// Process id, on this machine, of the node's PID 1.
    pub fn leader(&self) -> Result<u32> {
        self.inner.leader()?.with_context(|| format!("node {} is not running", self.name()))
    }

    /// A command that will run as root in all namespaces of the node, with a clean environment.
    pub fn command(&self, argv: &[&str]) -> Result<Command> {
        let leader = self.leader()?.to_string();
        // First into the node's own cgroup, so that what is run there is frozen, killed and seen with the rest of it.
        let groups: Vec<String> = cgroup::groups(&format!("{}/box/payload", self.plan().group()))
            .iter()
            .map(|g| format!("{}/cgroup.procs", g.display()))
            .collect();
        let mut command = Command::new("bash");
        command
            .args([
                "-c",
                r#"IFS=:; for g in $1; do echo $$ 2>/dev/null > "$g"; done; unset IFS; shift; exec "$@""#,
            ])
            .args(["enter", &groups.join(":")])
            .args(["nsenter", "--target", &leader, "--all", "--"])
            .args(argv)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("HOME", "/root")
            .env("LANG", "C.UTF-8")
            .current_dir("/");
        Ok(command)
    }

    /// Runs a program as root in the node. A non-zero exit is not an error here: look at the output, or `check()` it.
    pub fn exec(&self, argv: &[&str]) -> Result<Output> {
        self.exec_with(argv, b"", DEADLINE)
    }

    /// As [`Node::exec`], with standard input and a deadline.
    pub fn exec_with(&self, argv: &[&str], stdin: &[u8], deadline: Duration) -> Result<Output> {
        run(&mut self.command(argv)?, stdin, deadline)
    }

    /// Runs a bash script as root in the node and fails unless it exits 0; returns its standard output.
    pub fn sh(&self, script: &str) -> Result<String> {
        let out = self.exec_with(&["bash", "-euo", "pipefail", "-s"], script.as_bytes(), DEADLINE)?;
        Ok(out.check().with_context(|| format!("in node {}: {script}", self.name()))?.stdout_text())
    }

    /// Writes a file in the node, root-owned, with `mode` from the start; parents are made 0755.
    pub fn put(&self, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
        let script = format!(
            "umask 022; mkdir -p -- \"$(dirname -- \"$1\")\" && umask 077 && cat > \"$1.new\" && chmod {mode:o} \"$1.new\" \
             && mv -fT -- \"$1.new\" \"$1\""
        );
        self.exec_with(&["bash", "-c", &script, "put", path], bytes, DEADLINE)?
            .check()
            .with_context(|| format!("cannot put {path} in node {}", self.name()))?;
        Ok(())
    }

    /// Copies a file of this machine into the node.
    pub fn put_file(&self, from: &Path, path: &str, mode: u32) -> Result<()> {
        let bytes = fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.put(path, &bytes, mode)
    }

    /// Reads a file of the node.
    pub fn get(&self, path: &str) -> Result<Vec<u8>> {
        Ok(self.exec(&["cat", "--", path])?.check().with_context(|| format!("cannot read {path}"))?.stdout)
    }

    /// Reboots it from inside, as an administrator would, and waits until it is up again.
    pub fn reboot(&self) -> Result<()> {
        let before = self.sh(
            "cat /proc/sys/kernel/random/boot_id; systemctl show --value -p UserspaceTimestampMonotonic",
        )?;
        let leader = self.leader()?;
        // The command may or may not live to see the end of its own node.
        let _ = self.exec(&["systemctl", "reboot"]);
        wait_until("the old init to end", BOOT_LIMIT, || Ok(self.inner.leader()? != Some(leader)))?;
        self.wait_boot()?;
        let after = self.sh(
            "cat /proc/sys/kernel/random/boot_id; systemctl show --value -p UserspaceTimestampMonotonic",
        )?;
        if before == after {
            bail!("node {} says that it did not reboot", self.name());
        }
        Ok(())
    }

    /// Kills the whole node at once, as a power cut does. [`Node::power_on`] boots it again from the same disk.
    pub fn power_off(&self) -> Result<()> {
        cgroup::kill(&self.plan().group())?;
        self.inner.reap();
        Ok(())
    }

    /// Boots it again after [`Node::power_off`].
    pub fn power_on(&self) -> Result<()> {
        self.inner.start()?;
        self.wait_boot()
    }

    /// Waits until systemd has done its boot and sshd listens; a failed unit is an error that names it.
    pub fn wait_boot(&self) -> Result<()> {
        let state = until("systemd", BOOT_LIMIT, || {
            if self.inner.keeper().as_mut().is_some_and(Keeper::ended) {
                bail!("the node ended while it booted; console:\n{}", self.console());
            }
            if self.inner.leader()?.is_none() {
                return Ok(None);
            }
            let argv = ["systemctl", "is-system-running", "--wait"];
            let out = self.exec_with(&argv, b"", BOOT_LIMIT)?.stdout_text();
            Ok(matches!(out.trim(), "running" | "degraded").then(|| out.trim().to_owned()))
        })?;
        if state == "degraded" {
            bail!(
                "units failed:\n{}",
                self.exec(&["systemctl", "--failed", "--no-pager", "--no-legend"])?.stdout_text()
            );
        }
        self.wait_ssh()
    }

    /// Waits until something listens on port 22. It looks at the node's sockets and opens no connection, since sshd may count
    /// a connection without authentication against its client.
    pub fn wait_ssh(&self) -> Result<()> {
        wait_until("sshd to listen", BOOT_LIMIT, || {
            let leader = self.leader()?;
            // proc_pid_net(5): local address in hex, state 0A is LISTEN; port 22 is 0016.
            Ok(["tcp", "tcp6"].iter().any(|t| {
                fs::read_to_string(format!("/proc/{leader}/net/{t}")).is_ok_and(|table| {
                    table.lines().any(|l| {
                        let mut words = l.split_whitespace().skip(1);
                        words.next().is_some_and(|a| a.ends_with(":0016")) && words.nth(1) == Some("0A")
                    })
                })
            }))
        })?;
        Ok(())
    }

    /// Makes sshd read its configuration again, and waits until it has: a reload only sends a signal, after which sshd starts
    /// itself anew and for a moment nobody listens.
    pub fn reload_ssh(&self) -> Result<()> {
        let begun = || -> Result<usize> {
            Ok(self.journal_of(&["--identifier=sshd"])?.matches("Server listening on 0.0.0.0").count())
        };
        let before = begun()?;
        self.sh("sshd -t; systemctl reload ssh")?;
        wait_until("sshd to begin anew", BOOT_LIMIT, || Ok(begun()? > before))?;
        self.wait_ssh()
    }

    /// The journal of this boot, all units.
    pub fn journal(&self) -> Result<String> {
        self.journal_of(&[])
    }

    /// The journal of this boot, narrowed by arguments of `journalctl`.
    pub fn journal_of(&self, args: &[&str]) -> Result<String> {
        let mut argv = vec!["journalctl", "--no-pager", "--boot", "--output=short-precise"];
        argv.extend(args);
        // What was logged before now is in the files after this.
        let _ = self.exec(&["journalctl", "--sync"]);
        Ok(self.exec(&argv)?.check()?.stdout_text())
    }

    /// What the node printed on its console.
    #[must_use]
    pub fn console(&self) -> String {
        fs::read(self.plan().dir.join("console"))
            .map(|b| String::from_utf8_lossy(&b).into_owned())
            .unwrap_or_default()
    }

    /// A known_hosts file that pins this node by both addresses and its name; see sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT".
    pub fn known_hosts(&self) -> Result<PathBuf> {
        let path = self.plan().dir.join("known_hosts");
        let mut file = fs::File::create(&path)?;
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        for kind in ["ed25519", "ecdsa"] {
            writeln!(file, "{},{},{} {}", self.name(), self.addr_v4(), self.addr_v6(), self.host_key(kind)?)?;
        }
        Ok(path)
    }

    /// Marks of `systemd-nspawn`: one exit status per boot that ended (133 is a reboot).
    pub fn exits(&self) -> Vec<i32> {
        fs::read_to_string(self.plan().dir.join("exits"))
            .unwrap_or_default()
            .lines()
            .filter_map(|l| l.parse().ok())
            .collect()
    }

    /// Names of the network namespace and of the cable's end on this machine.
    #[must_use]
    pub fn network_names(&self) -> (String, String) {
        (net::namespace(self.plan().slot, self.name()), net::cable(self.plan().slot, self.plan().index))
    }
}

/// `ip` in this machine's own namespace, for the faults.
pub(crate) fn ip(args: &[&str]) -> Result<()> {
    call("ip", args).map(drop)
}
