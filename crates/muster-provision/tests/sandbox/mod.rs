//! A throw-away machine inside this one: its own mounts (overlays on /etc, /usr, /var, /opt, /root,
//! /home), its own processes and its own loopback. What runs in it is real: sshd, sudo, visudo,
//! useradd. It has no systemd; the nodes of `muster-testbed` have.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::disallowed_methods, reason = "tests spawn the real tools")]

use muster_provision::elevate::{self, Elevation};
use muster_provision::{HostShell, ProofFailure, Prover, ShellError, ShellOutput};
use std::io::Write as _;
use std::pin::pin;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// Polls a future whose every await is ready at once or blocks by itself.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(out) = future.as_mut().poll(&mut cx) {
            return out;
        }
    }
}

/// What the sandbox needs; the reason where it cannot be.
pub(crate) fn available() -> Result<(), String> {
    muster_needs::root()?;
    let tools = ["sshd", "visudo", "sudo", "ssh-keygen", "unshare", "nsenter", "useradd"];
    let missing: Vec<&str> = tools
        .into_iter()
        .filter(|t| {
            !["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
                .iter()
                .any(|d| std::path::Path::new(&format!("{d}/{t}")).exists())
        })
        .collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("not installed: {}", missing.join(", "))) }
}

const SETUP: &str = r#"
set -e
umask 022
mkdir -p "$T"; mount -t tmpfs -o mode=0755 sandbox "$T"
mkdir "$T/etc"; cp -a /etc/. "$T/etc"; mount --bind "$T/etc" /etc
for d in usr var opt root home; do
  mkdir -p "$T/$d/u" "$T/$d/w"
  mount -t overlay -o "lowerdir=/$d,upperdir=$T/$d/u,workdir=$T/$d/w" overlay "/$d"
done
mkdir "$T/run" "$T/out"; chmod 755 "$T/run"
mount --bind "$T/run" /run
ip link set lo up
rm -rf /var/lib/muster /etc/muster /etc/sudoers.d/* /etc/ssh/sshd_config.d/* /opt/kpssh /etc/kpssh
mkdir -m 755 /run/sshd
ssh-keygen -A >/dev/null
useradd -m -s /bin/bash admin; echo admin:right-one | chpasswd
echo 'admin ALL=(ALL:ALL) NOPASSWD: ALL' >/etc/sudoers.d/admin; chmod 440 /etc/sudoers.d/admin
install -d -o admin -g admin -m 700 /home/admin/.ssh
ssh-keygen -q -t ed25519 -N '' -C admin -f "$T/out/admin"
ssh-keygen -q -t ed25519 -N '' -C controller -f "$T/out/controller"
ssh-keygen -q -t ed25519 -N '' -C signer -f "$T/out/signer"
install -o admin -g admin -m 600 "$T/out/admin.pub" /home/admin/.ssh/authorized_keys
/usr/sbin/sshd
echo ready
# An init that reaps.
exec bash -c 'while :; do sleep 1000 & wait $!; done'
"#;

/// One sandbox; everything of it is gone when it is dropped.
pub(crate) struct Sandbox {
    unshare: Child,
    init: String,
    pub(crate) dir: tempfile::TempDir,
}

impl Sandbox {
    pub(crate) fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut unshare = Command::new("unshare")
            .args([
                "--mount",
                "--net",
                "--pid",
                "--ipc",
                "--fork",
                "--kill-child",
                "--mount-proc",
                "--propagation",
                "private",
            ])
            .args(["sh", "-c", SETUP])
            .env("T", dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut out = std::io::BufReader::new(unshare.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        assert_eq!(line, "ready\n", "the sandbox did not come up");
        let kids = format!("/proc/{0}/task/{0}/children", unshare.id());
        let init = std::fs::read_to_string(kids).unwrap().trim().to_owned();
        Self { unshare, init, dir }
    }

    fn enter(&self, argv: &[&str], stdin: &[u8]) -> Output {
        let mut child = Command::new("nsenter")
            .args(["-t", &self.init, "-m", "-n", "-p", "-i", "--"])
            .args(argv)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = child.stdin.take().unwrap();
        let bytes = stdin.to_vec();
        let feed = std::thread::spawn(move || {
            let _ = pipe.write_all(&bytes);
        });
        let out = child.wait_with_output().unwrap();
        let _ = feed.join();
        out
    }

    /// Runs a script as root, directly.
    pub(crate) fn sh(&self, script: &str) -> Output {
        self.enter(&["sh", "-c", script], b"")
    }

    /// The same; the script must succeed. Its standard output.
    pub(crate) fn ok(&self, script: &str) -> String {
        let out = self.sh(script);
        assert!(
            out.status.success(),
            "{script}: {}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        String::from_utf8(out.stdout).unwrap()
    }

    /// Makes sshd read its files again. It starts itself anew, and writes its number when it listens.
    pub(crate) fn reload_sshd(&self) {
        self.ok("p=$(cat /run/sshd.pid); rm /run/sshd.pid; kill -HUP $p; until [ -s /run/sshd.pid ]; do sleep 0.05; done");
    }

    /// Holds the lock of runs, as a run does.
    pub(crate) fn begin_run(&self) {
        self.ok("mkdir -p -m 755 /run/muster; mkdir -p -m 700 /run/muster/shim
             (flock 5; exec sleep 777) 5>>/run/muster/shim/lock >/dev/null 2>&1 &
             until pgrep -fx 'sleep 777' >/dev/null; do sleep 0.05; done");
    }

    /// Lets go of it. Not by TERM, which may be ignored since before the tests began.
    pub(crate) fn end_run(&self) {
        self.ok(
            "pkill -KILL -fx 'sleep 777'; until flock -n /run/muster/shim/lock true; do sleep 0.05; done",
        );
    }

    /// Writes a file as the sandbox sees it.
    pub(crate) fn write(&self, path: &std::path::Path, bytes: &[u8]) {
        let out = self.enter(&["tee", &path.display().to_string()], bytes);
        assert!(out.status.success(), "{out:?}");
    }

    pub(crate) fn key(&self, name: &str) -> String {
        self.ok(&format!("cat {}/out/{name}", self.dir.path().display()))
    }

    /// A real login over the sandbox's loopback.
    pub(crate) fn ssh(&self, user: &str, key: &str, command: &str, stdin: &[u8]) -> Output {
        self.ssh_with(user, key, &["-T"], &[command], stdin)
    }

    /// The same with options of one's own.
    pub(crate) fn ssh_with(
        &self,
        user: &str,
        key: &str,
        options: &[&str],
        command: &[&str],
        stdin: &[u8],
    ) -> Output {
        let key = format!("{}/out/{key}", self.dir.path().display());
        let target = format!("{user}@127.0.0.1");
        let fixed = [
            "ssh",
            "-F",
            "/dev/null",
            "-i",
            &key,
            "-oIdentitiesOnly=yes",
            "-oStrictHostKeyChecking=no",
            "-oUserKnownHostsFile=/dev/null",
            "-oBatchMode=yes",
            "-oConnectTimeout=5",
            "-oLogLevel=INFO",
        ];
        self.enter(&[&fixed[..], options, &[&target], command].concat(), stdin)
    }

    /// Everything that provisioning could touch: type, mode, owner, link target, and the digest of
    /// each file.
    pub(crate) fn snapshot(&self) -> String {
        self.ok(
            "cd /; { find etc var/lib/muster opt run/muster run/muster-provision.lock -printf '%p %y %m %U %G %l\\n'; \
             find usr/bin usr/sbin -name '*muster*' -printf '%p %y %m %U %G %l %s %T@\\n'; \
             find etc var/lib/muster opt -type f -exec sha256sum {} +; } 2>/dev/null | sort; exit 0",
        )
    }

    /// The same with times of change and inode numbers: equal only if nothing was rewritten.
    pub(crate) fn snapshot_strict(&self) -> String {
        self.ok(
            "cd /; { find etc var/lib/muster opt run/muster -printf '%p %y %m %U %G %l %s %T@ %i\\n'; \
             find usr/bin usr/sbin -name '*muster*' -printf '%p %y %m %U %G %l %s %T@ %i\\n'; } 2>/dev/null | sort; exit 0",
        )
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

static COUNTER: AtomicU64 = AtomicU64::new(0);

/// A word that no other call of this process uses.
pub(crate) fn word() -> String {
    format!("t{:010}x{:010}", std::process::id(), COUNTER.fetch_add(1, Ordering::Relaxed))
}

/// What goes wrong on which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection is lost before the script starts; the next call works again.
    LostBefore,
    /// The script runs to its end and its answer is lost; the next call works again.
    LostAfter,
    /// The script runs to its end and something in it failed.
    Fails,
    /// The connection is lost after the script and stays lost.
    Dead,
}

/// The admin login: over real ssh, or straight into the sandbox where speed matters.
pub(crate) struct Shell<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) ssh: bool,
    pub(crate) how: Elevation,
    /// Calls so far.
    pub(crate) calls: AtomicU64,
    pub(crate) fault: Option<(u64, Fault)>,
}

impl<'a> Shell<'a> {
    pub(crate) fn direct(sandbox: &'a Sandbox) -> Self {
        Self { sandbox, ssh: false, how: Elevation::Root, calls: AtomicU64::new(0), fault: None }
    }

    pub(crate) fn over_ssh(sandbox: &'a Sandbox) -> Self {
        Self { ssh: true, how: Elevation::NoPassword, ..Self::direct(sandbox) }
    }

    fn run(&self, script: &str, stdin: &[u8]) -> Result<ShellOutput, ShellError> {
        let marker = word();
        let remote = elevate::remote(&self.how, &marker, script, stdin)?;
        let out = if self.ssh {
            self.sandbox.ssh("admin", "admin", &remote.command, &remote.stdin)
        } else {
            self.sandbox.enter(&["sh", "-c", &remote.command], &remote.stdin)
        };
        elevate::outcome(&marker, out.status.code().filter(|c| *c != 255), &out.stdout, &out.stderr)
    }
}

impl HostShell for Shell<'_> {
    async fn run_root(&self, script: &str, stdin: &[u8]) -> Result<ShellOutput, ShellError> {
        let n = self.calls.fetch_add(1, Ordering::Relaxed);
        let lost = || ShellError::Lost("injected".into());
        match self.fault {
            Some((at, Fault::LostBefore)) if n == at => Err(lost()),
            Some((at, Fault::LostAfter | Fault::Dead)) if n == at => {
                let _ = self.run(script, stdin);
                Err(lost())
            }
            Some((at, Fault::Dead)) if n > at => Err(ShellError::Unreachable("injected".into())),
            Some((at, Fault::Fails)) if n == at => {
                let mut out = self.run(script, stdin)?;
                out.status = 1;
                out.stderr = b"injected".to_vec();
                Ok(out)
            }
            _ => self.run(script, stdin),
        }
    }
}

/// Proves with real logins. The sandbox's shim is `id`, so the pool login answers who it is.
pub(crate) struct Logins<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) user: &'static str,
    pub(crate) key: &'static str,
}

impl Prover for Logins<'_> {
    async fn pool_login(&self) -> Result<String, ProofFailure> {
        let out = self.sandbox.ssh(self.user, self.key, "ignored", b"");
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        if out.status.success() && text.contains(&format!("({})", self.user)) {
            Ok(text)
        } else {
            Err(ProofFailure {
                what: "pool login",
                why: format!("{text}{}", String::from_utf8_lossy(&out.stderr)),
            })
        }
    }

    async fn admin_login(&self) -> Result<String, ProofFailure> {
        let out = self.sandbox.ssh("admin", "admin", "true", b"");
        if out.status.success() {
            Ok("admin".into())
        } else {
            Err(ProofFailure { what: "admin login", why: String::from_utf8_lossy(&out.stderr).into_owned() })
        }
    }
}

/// Waits until `f` is true; panics with `what` after `most`.
pub(crate) fn wait_for(what: &str, most: Duration, mut f: impl FnMut() -> bool) {
    let start = Instant::now();
    while !f() {
        assert!(start.elapsed() < most, "{what}: not within {most:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
