//! Boots a node: the overlay, the command line of `systemd-nspawn`, and the keeper that starts it again after a reboot.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result};

use crate::cgroup::{self, Layout};
use crate::net;
use crate::process::call;

/// The keeper: one small shell per node.
///
/// Status 133 of `systemd-nspawn` means that the node asked for a reboot. Standard input is a pipe from the owning process:
/// when it closes without the word `keep`, that process is gone, and the node must not outlive it.
const KEEPER: &str = r#"
dir=$1 groups=$2; shift 2
exec 3<&0 0</dev/null >>"$dir/console" 2>&1
enter() { local g; local IFS=:; for g in $groups; do mkdir -p "$g/$1" && echo "$BASHPID" > "$g/$1/cgroup.procs"; done; }
enter keeper
( word=; read -r word <&3; [ "$word" = keep ] && exit
  echo 1 > "${groups%%:*}/cgroup.kill"; kill -KILL 0 ) &
exec 3<&-
while :; do
  ( enter box; echo "$BASHPID" > "$dir/nspawn.pid"; exec "$@" )
  status=$?
  echo "$status" >> "$dir/exits"
  [ "$status" = 133 ] || break
done
rm -f "$dir/nspawn.pid"
kill "$!" 2>/dev/null
"#;

/// What the boot of one node needs to know.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) slot: u8,
    pub(crate) index: u8,
    pub(crate) name: String,
    pub(crate) layout: Layout,
    pub(crate) lower: PathBuf,
    /// The node's folder in the bed: `upper`, `work`, `root`, `console`.
    pub(crate) dir: PathBuf,
}

/// The keeper of a running node; dropping it ends the node unless [`Keeper::keep`] was called.
#[derive(Debug)]
pub(crate) struct Keeper {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Keeper {
    /// Lets the node outlive this process.
    pub(crate) fn keep(&mut self) -> Result<()> {
        if let Some(mut stdin) = self.stdin.take() {
            stdin.write_all(b"keep\n")?;
        }
        Ok(())
    }

    /// Waits for the keeper, after its node was killed.
    pub(crate) fn reap(&mut self) {
        self.stdin = None;
        let _ = self.child.wait();
    }

    /// The node has ended for good.
    pub(crate) fn ended(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(Some(_)))
    }
}

impl Plan {
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    pub(crate) fn group(&self) -> String {
        format!("{}/{}", self.slot, self.name)
    }

    /// Lays the overlay, gives the node its name, its host keys and its network.
    pub(crate) fn lay(&self) -> Result<()> {
        for part in ["upper", "work", "root"] {
            fs::create_dir_all(self.dir.join(part))?;
            // `upper` is the node's `/`, for all its users, whatever the umask of whoever runs this.
            fs::set_permissions(self.dir.join(part), fs::Permissions::from_mode(0o755))?;
        }
        let root = self.root();
        let options = format!(
            "lowerdir={},upperdir={},workdir={}",
            self.lower.display(),
            self.dir.join("upper").display(),
            self.dir.join("work").display()
        );
        call("mount", &["-t", "overlay", "-o", &options, "overlay", &root.display().to_string()])?;
        fs::write(root.join("etc/hostname"), format!("{}\n", self.name))?;
        fs::write(root.join("etc/machine-id"), new_machine_id()?)?;
        make_host_keys(&root)?;
        net::make_namespace(self.slot, self.index, &self.name)
    }

    /// Starts systemd in it. Does not wait for anything.
    pub(crate) fn start(&self) -> Result<Keeper> {
        let groups: Vec<String> =
            cgroup::groups(&self.group()).iter().map(|g| g.display().to_string()).collect();
        let mut command = Command::new("setsid");
        command
            .args(["--wait", "bash", "-c", KEEPER, "muster-testbed-keeper"])
            .arg(&self.dir)
            .arg(groups.join(":"))
            .args(self.nspawn())
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", if self.layout == Layout::Unified { "1" } else { "0" })
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if self.layout == Layout::Hybrid {
            // nspawn finds out by itself what this machine and the node's systemd can do.
            command.env_remove("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY");
        }
        let mut child = command.spawn().context("cannot start the keeper of a node")?;
        let stdin = child.stdin.take();
        Ok(Keeper { child, stdin })
    }

    fn nspawn(&self) -> Vec<String> {
        vec![
            "systemd-nspawn".to_owned(),
            "--quiet".to_owned(),
            format!("--directory={}", self.root().display()),
            "--boot".to_owned(),
            "--register=no".to_owned(),
            "--keep-unit".to_owned(),
            format!("--network-namespace-path=/run/netns/{}", net::namespace(self.slot, &self.name)),
            format!("--machine=mtb{}-{}", self.slot, self.name),
            format!("--hostname={}", self.name),
            "--resolv-conf=off".to_owned(),
            "--timezone=off".to_owned(),
            "--link-journal=no".to_owned(),
            // Reading the clock's state is an ordinary thing to do on a host; without CAP_SYS_TIME nothing can be set.
            "--system-call-filter=adjtimex clock_adjtime landlock_create_ruleset landlock_add_rule landlock_restrict_self"
                .to_owned(),
            "--console=read-only".to_owned(),
        ]
    }
}

/// machine-id(5): 32 lower hexadecimal digits.
fn new_machine_id() -> Result<String> {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(format!("{}\n", uuid.trim().replace('-', "")))
}

fn make_host_keys(root: &Path) -> Result<()> {
    for kind in ["ed25519", "ecdsa"] {
        let path = root.join(format!("etc/ssh/ssh_host_{kind}_key"));
        call("ssh-keygen", &["-q", "-t", kind, "-N", "", "-C", "", "-f", &path.display().to_string()])?;
    }
    Ok(())
}
