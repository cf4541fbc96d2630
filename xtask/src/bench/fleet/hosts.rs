//! Fifty hosts on one node: each has an sshd, a host key, a policy, floors, records and a lock of its own.
//!
//! What hosts share, they share as machines of one image would: the programs, the pool login, sudo's permission, sshd's
//! drop-in. All of that is put there by the script that `muster host provision --as sh` writes. What is a host's own
//! comes from that host's own plan, and reaches its sshd, and whatever runs below it, through the mount namespace of a unit.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use muster_core::Phase;
use muster_provision::plan::Action;
use muster_provision::render::{self, ShimSource};
use muster_provision::{ControllerKey, HostSpec, Plan, PublicKeyLine, ShimBinary};
use muster_signing::envelope::v2;
use muster_testbed::{KeyPair, Node, Testbed, binaries};

/// How many hosts.
pub(super) const HOSTS: usize = 50;
/// The profile's name and folder.
pub(super) const PROFILE: &str = "bench";
/// What its intents are signed at; hosts begin at 1, so that the first run raises every floor.
const EPOCH: u32 = 7;

const MANIFEST: &str = "profile: bench\nepoch: 7\ntargets: [pool=fleet]\nvalidity: 1d\nphases:\n  install: {deadline: 2m}\n  join: {deadline: 1m}\n";
/// The phase that is timed: it leaves a line, so that runs can be counted.
pub(super) const JOIN: &str = "#!/usr/bin/env bash\nset -euo pipefail\nprintf 'ran\\n' >> /srv/ran\n";
/// The phase that stays until it is let go, so that all connections are open at once.
const HOLD: &str = "#!/usr/bin/env bash\nset -euo pipefail\nprintf 'held\\n' >> /srv/held\n\
    for ((i = 0; i < 120; i++)); do if [ -e /srv/go ]; then exit 0; fi; sleep 0.5; done\nexit 1\n";

/// sshd(8) as Debian's own unit starts it, in a world where these three folders are the host's own.
const UNIT: &str = "[Unit]\nDescription=sshd of host %i of the fleet\n\n[Service]\nType=notify\nKillMode=process\n\
    EnvironmentFile=/hosts/%i/env\nBindPaths=/hosts/%i/etc:/etc/muster /hosts/%i/var:/var/lib/muster /hosts/%i/srv:/srv\n\
    TemporaryFileSystem=/run/muster:mode=0755\n\
    ExecStart=/usr/sbin/sshd -D -o Port=${PORT} -o PidFile=none -h /hosts/%i/key\n";

/// The fleet, and the operator's folder from which it is worked on.
pub(super) struct Hosts {
    bed: Testbed,
    pub(super) node: Node,
    /// The operator's folder, made by `muster init`.
    pub(super) folder: PathBuf,
    /// The `muster` that is measured, as it ships.
    pub(super) muster: PathBuf,
    /// Opens the pool login.
    pub(super) controller: PathBuf,
    /// Opens root's login, for the side that has no shim.
    pub(super) admin: KeyPair,
    /// Every host's key, for the real `ssh`.
    pub(super) known_hosts: PathBuf,
}

/// Name of host `n`, from 1.
pub(super) fn name(n: usize) -> String {
    format!("fleet-{n:02}")
}

/// Port of host `n`, from 1.
pub(super) fn port(n: usize) -> usize {
    2200 + n
}

impl Hosts {
    /// Makes all of it; dropping it removes all of it.
    pub(super) fn set(muster: &Path) -> Result<Self> {
        let bed = Testbed::prepare("bench-fleet")?;
        let node = bed.node("fleet")?.boot()?;
        let folder = bed.dir().join("operator");
        fs::create_dir_all(&folder)?;
        let admin = bed.keygen("admin")?;
        node.add_ssh_key("root", &admin)?;
        let hosts = Self {
            node,
            muster: muster.to_owned(),
            controller: folder.join("keys/controller"),
            known_hosts: folder.join("known_hosts"),
            folder,
            admin,
            bed,
        };
        hosts.sign()?;
        hosts.provision()?;
        hosts.start()?;
        Ok(hosts)
    }

    /// Keys, trust files and the signed profile.
    fn sign(&self) -> Result<()> {
        self.run(&["init", ".", "--danger-no-passphrase"])?;
        let profile = self.folder.join(PROFILE);
        fs::create_dir_all(&profile)?;
        fs::write(profile.join("profile.yaml"), MANIFEST)?;
        fs::write(profile.join("join.sh"), JOIN)?;
        fs::write(profile.join("install.sh"), HOLD)?;
        self.run(&["script", "sign", PROFILE])
    }

    /// The shared part by the script of provisioning, each host's own part by the files of its plan.
    fn provision(&self) -> Result<()> {
        let shim = ShimBinary::new(fs::read(binaries()?.shim)?, None)?;
        let signers = fs::read(self.folder.join("trust/allowed_signers"))?;
        let controller = fs::read_to_string(self.controller.with_extension("pub"))?;
        let controller = ControllerKey::new(PublicKeyLine::parse(&controller)?);
        let address = self.node.addr().to_string();
        let mut pins = String::new();
        for n in 1..=HOSTS {
            let key = self.bed.keygen(&format!("host-{n}"))?;
            let line = key.public_line()?;
            let line = line.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
            pins.push_str(&format!("[{address}]:{} {line}\n", port(n)));
            let (name, port) = (name(n), port(n).to_string());
            self.run(&[
                "host",
                "add",
                &name,
                "--address",
                &address,
                "--port",
                &port,
                "--host-key",
                &line,
                "--pool",
                "fleet",
            ])?;
            let mut spec =
                HostSpec::new(name.parse()?, shim.clone(), signers.clone(), vec![controller.clone()]);
            spec.pools.insert("fleet".parse()?);
            spec.profiles.insert(PROFILE.parse()?, 1);
            let plan = Plan::provision(&spec).map_err(|f| anyhow!("{f:?}"))?;
            if n == 1 {
                self.node.put(
                    "/root/provision.sh",
                    render::sh(&plan, &ShimSource::Embedded).as_bytes(),
                    0o700,
                )?;
                self.node.sh("sh /root/provision.sh >&2")?;
            }
            self.lay(n, &plan, &key)?;
        }
        fs::write(&self.known_hosts, pins)?;
        Ok(())
    }

    /// A host's own files.
    fn lay(&self, n: usize, plan: &Plan, key: &KeyPair) -> Result<()> {
        let home = self.own(n, "");
        for dir in ["etc", "var", "srv"] {
            make_dir(&home.join(dir), 0o755)?;
        }
        for step in plan.steps() {
            let place = step.path().and_then(|p| {
                let etc = p.strip_prefix("/etc/muster").map(|rest| ("etc", rest));
                etc.or_else(|| p.strip_prefix("/var/lib/muster").map(|rest| ("var", rest)))
            });
            let Some((dir, rest)) = place else { continue };
            let path = home.join(dir).join(rest.trim_start_matches('/'));
            match step.action() {
                Action::Dir { mode, .. } => make_dir(&path, *mode)?,
                Action::File { mode, content, .. } | Action::Once { mode, content, .. } => {
                    fs::write(&path, content)?;
                    fs::set_permissions(&path, fs::Permissions::from_mode(*mode))?;
                }
                _ => {}
            }
        }
        fs::copy(&key.private, home.join("key"))?;
        fs::set_permissions(home.join("key"), fs::Permissions::from_mode(0o600))?;
        Ok(())
    }

    /// Starts every host's sshd; each is ready when systemd says so.
    fn start(&self) -> Result<()> {
        for n in 1..=HOSTS {
            fs::write(self.own(n, "env"), format!("PORT={}\n", port(n)))?;
        }
        self.node.put("/etc/systemd/system/fleet@.service", UNIT.as_bytes(), 0o644)?;
        self.node.sh(&format!(
            "mkdir -p /run/muster; systemctl daemon-reload; systemctl restart $(printf 'fleet@%s ' {{1..{HOSTS}}})"
        ))?;
        Ok(())
    }

    /// A file of host `n`'s own, seen from here.
    fn own(&self, n: usize, file: &str) -> PathBuf {
        self.node.host_path(&format!("/hosts/{n}/{file}"))
    }

    /// How many lines each host has in a file of its /srv.
    pub(super) fn lines(&self, file: &str) -> Vec<usize> {
        let count =
            |n| fs::read_to_string(self.own(n, &format!("srv/{file}"))).map_or(0, |t| t.lines().count());
        (1..=HOSTS).map(count).collect()
    }

    /// Lets hosts that hold go, or makes them hold again.
    pub(super) fn let_go(&self, go: bool) -> Result<()> {
        for n in 1..=HOSTS {
            let file = self.own(n, "srv/go");
            if go {
                fs::write(file, "")?;
            } else if file.exists() {
                fs::remove_file(file)?;
            }
        }
        Ok(())
    }

    /// Every host keeps its own floor, and its own record of exactly these many runs that ended well.
    pub(super) fn prove_separate(&self, runs: &[usize]) -> Result<()> {
        for (n, want) in (1..=HOSTS).zip(runs) {
            let floors =
                fs::read_to_string(self.own(n, "var/shim/floors")).context("a host without floors")?;
            ensure!(
                floors.contains(&format!("floor: {PROFILE} {EPOCH}\n")),
                "host {n} has floors {floors:?}"
            );
            // Rotated once (see the shim's record of runs): both parts are read.
            let old = fs::read_to_string(self.own(n, "var/shim/runs.log.1")).unwrap_or_default();
            let log =
                fs::read_to_string(self.own(n, "var/shim/runs.log")).context("a host without records")?;
            let log = old + &log;
            let ended = log.lines().filter(|l| l.contains("\"verdict\":\"ok\"")).count();
            ensure!(ended == *want, "host {n} has {ended} records of good runs, not {want}");
        }
        Ok(())
    }

    /// What `muster host PHASE` sends, byte for byte, for the side that only pipes it through `ssh`.
    pub(super) fn envelope(&self, phase: Phase) -> Result<PathBuf> {
        let profile = self.folder.join(PROFILE);
        let read = |file: String| {
            let path = profile.join(file);
            fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
        };
        let signature = String::from_utf8(read(format!("signed/{phase}.1.sig"))?)?;
        let parts = v2::Parts {
            phase,
            intent: &read(format!("signed/{phase}.intent"))?,
            signatures: &[signature],
            params: &[],
            script: Some(&read(format!("{phase}.sh"))?),
        };
        let file = self.folder.join(format!("{phase}.envelope"));
        fs::write(&file, v2::build(&parts)?)?;
        Ok(file)
    }

    /// The measured program in the operator's folder.
    pub(super) fn muster(&self, args: &[&str]) -> Command {
        let mut c = Command::new(&self.muster);
        c.args(args).current_dir(&self.folder);
        self.world(&mut c);
        c
    }

    /// An environment with nothing of this machine's user.
    pub(super) fn world(&self, c: &mut Command) {
        c.env_clear()
            .env("HOME", &self.folder)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8");
    }

    fn run(&self, args: &[&str]) -> Result<()> {
        let out = self.muster(args).output().context("cannot start muster")?;
        ensure!(out.status.success(), "muster {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        Ok(())
    }

    /// Waits until `held` hosts hold, and every one of them once.
    pub(super) fn wait_held(&self, before: &[usize], held: usize) -> Result<()> {
        for _ in 0..600 {
            let now = self.lines("held");
            let more: usize = now.iter().sum::<usize>() - before.iter().sum::<usize>();
            if more >= held {
                ensure!(now.iter().zip(before).all(|(n, b)| n - b <= 1), "a host ran twice");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        anyhow::bail!("not all of {held} hosts were reached within a minute")
    }
}

fn make_dir(path: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(())
}
