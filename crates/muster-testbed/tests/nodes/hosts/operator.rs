//! An operator's machine: a folder made by `muster init`, and the built binary with an environment of its own.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use muster_testbed::{Binaries, KeyPair, Node, Sudo, Testbed, binaries};
use serde_json::Value;

/// The operator.
pub(crate) struct Operator {
    pub(crate) dir: PathBuf,
    pub(crate) built: Binaries,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// It ended with 0.
    pub(crate) fn good(self) -> Result<Self> {
        self.ended(0)
    }

    /// It ended with this.
    pub(crate) fn ended(self, code: i32) -> Result<Self> {
        ensure!(self.code == code, "exit {} instead of {code}\n{}\n{}", self.code, self.out, self.err);
        Ok(self)
    }

    /// Its result, where `-o json` was asked for.
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.out).with_context(|| format!("not JSON: {:?}\n{}", self.out, self.err))
    }
}

impl Operator {
    /// `muster init`.
    pub(crate) fn new(bed: &Testbed) -> Result<Self> {
        let dir = bed.dir().join("operator");
        fs::create_dir_all(&dir)?;
        let operator = Self { dir, built: binaries()? };
        operator.run("init --danger-no-passphrase", b"")?.good()?;
        Ok(operator)
    }

    /// A booted node that the inventory has, and whose administrator is whom it says: `root`, or another with this sudo.
    pub(crate) fn of_one_host(
        bed: &Testbed,
        name: &str,
        user: &str,
        sudo: Sudo<'_>,
    ) -> Result<(Node, Self, KeyPair)> {
        let node = bed.node(name)?.boot()?;
        let admin = bed.keygen("admin")?;
        if user == "root" {
            node.add_ssh_key("root", &admin)?;
        } else {
            node.add_admin(user, &admin, sudo)?;
        }
        let operator = Self::new(bed)?;
        operator.keep(&admin, "admin")?;
        operator.administrator(user)?;
        operator.add(&node, "--pool edge")?;
        Ok((node, operator, admin))
    }

    /// The inventory's: who logs in to provision, with the key `admin`.
    pub(crate) fn administrator(&self, user: &str) -> Result<()> {
        let line = format!("defaults:\n  admin: {{user: {user}, identities: [admin]}}\n");
        self.edit(|t| t.replace("defaults:\n", &line))
    }

    /// The smallest profile for hosts of the pool `edge`.
    pub(crate) fn tiny(&self) -> Result<()> {
        let manifest = "profile: tiny\nepoch: 3\ntargets: [pool=edge]\n";
        self.profile("tiny", manifest, &[("join", "set -euo pipefail\nid -u\n")])
    }

    /// `host provision` of a host with the shim that was built.
    pub(crate) fn provision(&self, host: &str, more: &str) -> String {
        format!("host provision {host} --shim-binary {} {more}", self.built.shim.display())
    }

    fn command(&self, line: &str) -> Command {
        let mut c = Command::new("timeout");
        // Without a terminal: nothing waits for an answer.
        c.args(["--kill-after=5", "400", "setsid", "--wait"])
            .arg(&self.built.muster)
            .args(line.split_whitespace());
        c.current_dir(&self.dir)
            .env_clear()
            .env("HOME", &self.dir)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        c.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        c
    }

    /// Runs `muster` with these words.
    pub(crate) fn run(&self, line: &str, stdin: &[u8]) -> Result<Ran> {
        let child = self.start(line, stdin)?;
        Self::finish(child)
    }

    /// Starts it and looks away.
    pub(crate) fn start(&self, line: &str, stdin: &[u8]) -> Result<Child> {
        let mut child = self.command(line).spawn()?;
        let _ = child.stdin.take().context("a pipe")?.write_all(stdin);
        Ok(child)
    }

    /// Waits for it.
    pub(crate) fn finish(child: Child) -> Result<Ran> {
        let out = child.wait_with_output()?;
        Ok(Ran {
            code: out.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&out.stdout).into_owned(),
            err: String::from_utf8_lossy(&out.stderr).into_owned(),
        })
    }

    /// `muster host add`, with the key read off the node's console.
    pub(crate) fn add(&self, node: &Node, more: &str) -> Result<()> {
        let print = fingerprint(node)?;
        let line = format!("host add {0} --address {1} --host-key {print} {more}", node.name(), node.addr());
        self.run(&line, b"")?.good()?;
        Ok(())
    }

    /// Copies a key to a file that the inventory can name, and says its path.
    pub(crate) fn keep(&self, key: &KeyPair, name: &str) -> Result<PathBuf> {
        let to = self.dir.join(name);
        fs::copy(&key.private, &to)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o600))?;
        Ok(to)
    }

    /// A profile's folder from texts, signed.
    pub(crate) fn profile(&self, name: &str, manifest: &str, scripts: &[(&str, &str)]) -> Result<()> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)?;
        fs::write(dir.join("profile.yaml"), manifest)?;
        for (phase, text) in scripts {
            fs::write(dir.join(format!("{phase}.sh")), text)?;
        }
        self.run(&format!("script sign {name}"), b"")?.good()?;
        Ok(())
    }

    /// Writes a file in the folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.dir.join(name);
        let mut file = fs::File::create(&path)?;
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        Ok(path)
    }

    /// Reads a file in the folder.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Result<String> {
        let mut text = String::new();
        fs::File::open(self.dir.join(path))?.read_to_string(&mut text)?;
        Ok(text)
    }

    /// Changes the inventory's text.
    pub(crate) fn edit(&self, change: impl FnOnce(String) -> String) -> Result<()> {
        let text = change(self.read("inventory.yaml")?);
        fs::write(self.dir.join("inventory.yaml"), text)?;
        Ok(())
    }
}

/// What an administrator reads on the console of a node.
pub(crate) fn fingerprint(node: &Node) -> Result<String> {
    let line = node.sh("ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")?;
    Ok(line.split_whitespace().nth(1).context("a fingerprint")?.to_owned())
}

/// A value of a row of a summary.
pub(crate) fn field<'v>(rows: &'v Value, host: &str, name: &str) -> &'v Value {
    let row = rows.as_array().and_then(|all| all.iter().find(|r| r["host"] == host));
    row.map_or(&Value::Null, |r| &r[name])
}
