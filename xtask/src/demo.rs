//! `cargo xtask demo`: the main job on two real nodes of this machine, five attacks, and a third node that is claimed.
//!
//! Every command is shown before it runs, and every outcome is checked: the demo fails when
//! something is not as it says.

mod attacks;
mod second;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use muster_testbed::{Node, Sudo, Testbed, programs};

use crate::run::root;
use crate::setup;
pub(crate) use second::wait_for_an_owner;

/// The bed's name; `--down` finds it by that.
const BED: &str = "demo";
const PROFILE: &str = "example-heartbeat";
const PROGRAMS: &str = "The three programs (minutes the first time, seconds after that)";

/// Runs the demo, or removes what it left up.
pub(crate) fn run(down: bool) -> Result<()> {
    let folder = root()?.join("target/demo");
    if !setup::is_root() {
        return as_root(down);
    }
    if down {
        for name in muster_testbed::remove(BED)? {
            println!("removed {name}");
        }
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        println!("all that the demo made is gone");
        return Ok(());
    }
    println!(
        "This boots three Debian nodes in network namespaces on this machine (root is needed for that). Two are provisioned\n\
         over SSH, live the full life of a host with a signed profile, and are attacked; the third has the node's daemon, is\n\
         claimed by the code on its console and operated without a login. Nothing outside {} and\n\
         the nodes is changed, but for Debian packages that are missing here and the cached root of the nodes.",
        folder.display()
    );
    setup::packages_for_nodes()?;
    muster_testbed::collect_garbage()?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    let stage = Stage::set(&folder)?;
    let outcome = stage.play();
    // Also after a failure the nodes stay up, to look at.
    stage.bed.keep()?;
    outcome?;
    stage.farewell()
}

/// Starts this program again through sudo; what is built was built as the user before.
fn as_root(down: bool) -> Result<()> {
    if !crate::run::on_path("sudo") {
        bail!("the demo needs root (network namespaces, mounts, systemd-nspawn), and there is no sudo here");
    }
    println!(
        "The demo needs root (network namespaces, mounts, systemd-nspawn): sudo may ask for your password."
    );
    let mut c = Command::new("sudo");
    c.arg("--").arg("env");
    if !down {
        title(PROGRAMS);
        let built = programs()?;
        for (name, path) in
            [("MUSTER_SHIM_BIN", &built.shim), ("MUSTER_BIN", &built.muster), ("MUSTERD_BIN", &built.musterd)]
        {
            c.arg(format!("{name}={}", path.display()));
        }
    }
    c.arg(std::env::current_exe()?).arg("demo");
    if down {
        c.arg("--down");
    }
    crate::run::run(&mut c)
}

/// The two nodes, the operator's folder, and the programs.
struct Stage {
    bed: Testbed,
    nodes: Vec<Node>,
    folder: PathBuf,
    muster: PathBuf,
    musterd: PathBuf,
}

impl Stage {
    fn set(folder: &Path) -> Result<Self> {
        title(PROGRAMS);
        let programs = programs()?;
        title("Two nodes that have nothing but sshd and sudo");
        let bed = Testbed::prepare(BED)?;
        let admin = bed.keygen("admin")?;
        let mut nodes = Vec::new();
        for name in ["edge-1", "edge-2"] {
            let node = bed.node(name)?.boot()?;
            node.add_admin("admin", &admin, Sudo::NoPassword)?;
            println!("{name} is up at {}", node.addr());
            nodes.push(node);
        }
        // Side by side, as an installation has them: `muster` takes the shim beside itself.
        let bin = folder.join("bin");
        fs::create_dir_all(&bin)?;
        fs::copy(&programs.shim, bin.join("muster-shim"))?;
        fs::copy(&programs.muster, bin.join("muster"))?;
        fs::copy(&admin.private, folder.join("admin"))?;
        fs::copy(&admin.public, folder.join("admin.pub"))?;
        Ok(Self {
            bed,
            nodes,
            folder: folder.to_owned(),
            muster: bin.join("muster"),
            musterd: programs.musterd,
        })
    }

    fn play(&self) -> Result<()> {
        title("Keys, an inventory, and each host's key read off its console");
        self.muster(&["init", ".", "--danger-no-passphrase"])?;
        for node in &self.nodes {
            let key = node.host_key("ed25519")?;
            let key = key.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
            let address = node.addr().to_string();
            self.muster(&[
                "host",
                "add",
                node.name(),
                "--address",
                &address,
                "--host-key",
                &key,
                "--pool",
                "example",
                "--admin-user",
                "admin",
            ])?;
        }

        title("Sign a profile, offline");
        copy(&root()?.join("profiles").join(PROFILE), &self.folder.join(PROFILE))?;
        self.muster(&["script", "lint", PROFILE])?;
        self.muster(&["script", "sign", PROFILE])?;
        self.muster(&["script", "show", PROFILE])?;

        title("Provision both hosts, then attack their login");
        let admin = ["--admin-key", "admin"];
        let provision = ["host", "provision", "--all", "--profile", PROFILE, "--yes"];
        self.muster(&[&provision[..], &admin[..]].concat())?;
        self.muster(&[&["host", "doctor", "--all"], &admin[..]].concat())?;

        title("The life of a host: probe, install, join, leave, uninstall");
        self.muster(&["host", "probe", "--all"])?;
        let token = self.folder.join("token");
        fs::write(&token, "a-secret-that-is-shown-nowhere\n")?;
        self.phase("install", &[])?;
        self.phase("join", &["--secret", "MUSTER_HEARTBEAT_TOKEN=@token"])?;
        for node in &self.nodes {
            let state = node.sh(
                "systemctl is-active example-heartbeat.timer; tail -n 1 /var/lib/example-heartbeat/beats",
            )?;
            println!("on {}: {}", node.name(), state.trim().replace('\n', ", "));
            ensure!(state.starts_with("active"), "{} did not join", node.name());
        }

        title("Five attacks, with the controller key in the attacker's hand");
        attacks::play(self)?;

        title("And out again");
        self.phase("leave", &[])?;
        self.phase("uninstall", &[])?;
        for node in &self.nodes {
            let left =
                node.sh("ls -d /etc/example-heartbeat /usr/local/lib/example-heartbeat 2>/dev/null || true")?;
            ensure!(left.trim().is_empty(), "{} still has {left}", node.name());
        }
        println!("both hosts are clean");
        second::play(self)
    }

    fn phase(&self, phase: &str, more: &[&str]) -> Result<()> {
        let args = ["host", phase, "--all", "--profile", PROFILE, "--yes"];
        self.muster(&[&args[..], more].concat()).map(drop)
    }

    /// Runs `muster` in the operator's folder, with its output on ours.
    fn muster(&self, args: &[&str]) -> Result<()> {
        let status = self.run(args)?;
        ensure!(status.success(), "muster {}: {status}", args.join(" "));
        Ok(())
    }

    /// The same of what must not work.
    fn refused(&self, args: &[&str]) -> Result<()> {
        let status = self.run(args)?;
        ensure!(!status.success(), "muster {} was not refused", args.join(" "));
        println!("refused, as it must be ({status})");
        Ok(())
    }

    fn run(&self, args: &[&str]) -> Result<std::process::ExitStatus> {
        println!("\n$ muster {}", args.iter().map(|a| shown(a)).collect::<Vec<_>>().join(" "));
        Command::new(&self.muster)
            .current_dir(&self.folder)
            .args(args)
            .env("XDG_STATE_HOME", self.folder.join("state"))
            .env("XDG_CONFIG_HOME", self.folder.join("config"))
            .status()
            .context("cannot start muster")
    }

    fn farewell(&self) -> Result<()> {
        let muster = self.muster.display();
        title("The nodes stay up");
        println!("  cd {}", self.folder.display());
        println!("  export XDG_STATE_HOME=$PWD/state XDG_CONFIG_HOME=$PWD/config");
        println!("  {muster} host probe edge-1");
        for node in &self.nodes {
            println!(
                "  ssh -i admin -o UserKnownHostsFile={} admin@{}",
                node.known_hosts()?.display(),
                node.addr()
            );
            println!(
                "  nsenter --target {} --all journalctl -t muster-shim   # every run on {}",
                node.leader()?,
                node.name()
            );
        }
        println!(
            "  node-1 waits to be claimed again: {muster} node claim ADDRESS, with the code that its console showed above"
        );
        println!("Remove all of it with: cargo xtask demo --down");
        Ok(())
    }
}

/// A word as one would type it.
fn shown(word: &str) -> String {
    if word.contains(' ') { format!("'{word}'") } else { word.to_owned() }
}

fn title(text: &str) {
    println!("\n=== {text}");
}

/// Copies a folder of plain files and folders.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().context("a folder's entry has a name")?);
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}
