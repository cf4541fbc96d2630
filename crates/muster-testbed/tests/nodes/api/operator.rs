//! Somebody with an authority and the command line, on this machine: another network namespace than any node's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use muster_testbed::{Node, Output, PATIENCE, Testbed, binaries};

pub(crate) struct Operator {
    folder: PathBuf,
}

impl Operator {
    /// With an authority and an administrator's certificate, `alice`.
    pub(crate) fn new(bed: &Testbed, name: &str) -> Result<Self> {
        let this = Self::empty(bed, name)?;
        this.muster(&["pki", "init", "--danger-no-passphrase"])?.check()?;
        this.issue("alice", "admin")?;
        Ok(this)
    }

    /// With a folder and nothing in it.
    pub(crate) fn empty(bed: &Testbed, name: &str) -> Result<Self> {
        let folder = bed.dir().join(name);
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    pub(crate) fn issue(&self, name: &str, role: &str) -> Result<()> {
        self.muster(&["pki", "issue", name, "--role", role, "--danger-no-passphrase"])?.check()?;
        Ok(())
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The authority's certificate, PEM.
    pub(crate) fn authority(&self) -> Result<String> {
        Ok(fs::read_to_string(self.file("pki/operator-ca.pem"))?)
    }

    /// The document of a node whose owner this one is.
    pub(crate) fn document(&self) -> Result<String> {
        Ok(muster_testbed::owned_by(&self.authority()?))
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.file(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// `muster …` in this operator's folder, as alice, with nothing on standard input.
    pub(crate) fn muster(&self, args: &[&str]) -> Result<Output> {
        self.muster_as("alice", args, b"")
    }

    pub(crate) fn muster_as(&self, client: &str, args: &[&str], stdin: &[u8]) -> Result<Output> {
        let mut command = self.command(&binaries()?.muster, args);
        command.env("MUSTER_CLIENT", format!("pki/clients/{client}.pem"));
        Output::of(&mut command, stdin, Duration::from_secs(120))
    }

    /// The same, begun and not waited for.
    pub(crate) fn start(&self, args: &[&str]) -> Result<Running> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let (out, err) = (self.file(&format!("out-{number}")), self.file(&format!("err-{number}")));
        let mut command = self.command(&binaries()?.muster, args);
        command.env("MUSTER_CLIENT", "pki/clients/alice.pem").stdin(Stdio::null());
        let child = command.stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?).spawn()?;
        Ok(Running { child, out, err })
    }

    pub(crate) fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(&self.folder)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.folder)
            .env("LANG", "C.UTF-8");
        command
    }

    /// Claims `node` by the code on its console.
    pub(crate) fn claim(&self, node: &Node, more: &[&str]) -> Result<Output> {
        self.claim_by(node, &shown(node)?, more)
    }

    /// Claims `node` by what was read on its console before.
    pub(crate) fn claim_by(&self, node: &Node, shown: &Shown, more: &[&str]) -> Result<Output> {
        listens(node)?;
        let address = node.addr().to_string();
        let mut args = vec!["node", "claim", &address, "--name", node.name(), "--code-file", "-"];
        args.extend(["--fingerprint", &shown.fingerprint]);
        args.extend(more);
        self.muster_as("alice", &args, format!("{}\n", shown.code).as_bytes())
    }

    /// Waits until this owner's calls are answered.
    pub(crate) fn is_let_in(&self, node: &Node) -> Result<()> {
        until("its owner is let in", || Ok(self.muster(&["node", "status", node.name()])?.ok().then_some(())))
            .with_context(|| ours(node))
    }

    /// Pins a node that has an owner by the fingerprint that its console shows.
    pub(crate) fn pin(&self, node: &Node) -> Result<()> {
        listens(node)?;
        let address = node.addr().to_string();
        let fingerprint =
            until("the console shows a fingerprint", || Ok(last(&node.console(), "fingerprint")))?;
        let args = ["node", "pin", &address, "--name", node.name(), "--fingerprint", &fingerprint];
        self.muster(&args)?.check()?;
        Ok(())
    }
}

/// The command line while it runs; it ends with its value.
pub(crate) struct Running {
    child: Child,
    out: PathBuf,
    err: PathBuf,
}

impl Running {
    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(&self.out).unwrap_or_default()
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(&self.err).unwrap_or_default()
    }

    pub(crate) fn said(&self) -> String {
        self.stdout() + &self.stderr()
    }

    pub(crate) fn until(&self, words: &str) -> Result<()> {
        until(words, || Ok(self.said().contains(words).then_some(()))).with_context(|| self.said())
    }

    pub(crate) fn ends(&mut self, code: i32) -> Result<()> {
        self.ends_within(PATIENCE, code)
    }

    pub(crate) fn ends_within(&mut self, limit: Duration, code: i32) -> Result<()> {
        let ended = muster_testbed::until("the client ends", limit, || Ok(self.child.try_wait()?));
        let status = ended.with_context(|| self.said())?;
        ensure!(status.code() == Some(code), "{status}, not {code}: {}", self.said());
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the console of a node shows.
pub(crate) struct Shown {
    pub(crate) code: String,
    pub(crate) fingerprint: String,
}

/// The newest notice on the console, as a person reads it.
pub(crate) fn shown(node: &Node) -> Result<Shown> {
    other_than(node, "")
}

/// The same, once it shows another code than one that was read before.
pub(crate) fn other_than(node: &Node, code: &str) -> Result<Shown> {
    let other = |n: &muster_testbed::Notice| n.code.as_deref().is_some_and(|c| c != code);
    let notice = node.notice_where("the console shows a pairing code", other).with_context(|| {
        format!("the console of {}:\n{}\nits journal:\n{}", node.name(), node.console(), ours(node))
    })?;
    Ok(Shown { code: notice.code.context("a code")?, fingerprint: notice.fingerprint })
}

/// What stands behind the newest label of this name, once all of it is there.
fn last(console: &str, label: &str) -> Option<String> {
    let (whole, _) = console.rsplit_once('\n')?;
    let line = whole.lines().rev().find(|l| l.trim_start().starts_with(label))?;
    Some(line.trim_start().strip_prefix(label)?.trim().to_owned())
}

/// Of the node's serving certificate, made by openssl from the node's own disk.
pub(crate) fn fingerprint(node: &Node) -> Result<String> {
    let pem = until("a serving certificate", || Ok(node.get("/var/lib/muster/api/server.crt").ok()))?;
    let digest = Output::of(
        Command::new("bash")
            .args(["-c", "openssl x509 -outform DER | openssl dgst -sha256 -binary | base64 | tr -d '=\\n'"]),
        &pem,
        Duration::from_secs(20),
    )?;
    Ok(format!("SHA256:{}", digest.check()?.stdout_text().trim()))
}

/// Waits for what comes by itself.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    muster_testbed::until(what, PATIENCE, look)
}

/// The console shows the code a moment before the edge listens.
pub(crate) fn listens(node: &Node) -> Result<()> {
    holds(node, "[ -n \"$(ss -Hltn 'sport = :7443')\" ]")
}

/// Waits until each of these units is active: `systemctl is-active` of several says so where one of them is.
pub(crate) fn active(node: &Node, units: &[&str]) -> Result<()> {
    let each: Vec<String> = units.iter().map(|u| format!("systemctl is-active --quiet {u}")).collect();
    holds(node, &each.join(" && "))
}

/// Waits until the node is owned, released and built.
pub(crate) fn is_built(node: &Node) -> Result<()> {
    active(node, &["muster-claimed.target"])?;
    holds(node, "test -e /var/lib/muster/bootstrapped")
}

/// Waits for a script in the node to succeed.
pub(crate) fn holds(node: &Node, script: &str) -> Result<()> {
    until(script, || Ok(node.exec(&["bash", "-c", script])?.ok().then_some(()))).with_context(|| ours(node))
}

/// Nothing of the node has failed, and nothing of ours is in between.
pub(crate) fn nothing_failed(node: &Node) -> Result<()> {
    let failed = node.sh("systemctl --failed --plain --no-legend || true")?;
    ensure!(failed.trim().is_empty(), "failed units: {failed}");
    Ok(())
}

/// The state of a node, as its owner gets it.
pub(crate) fn status(alice: &Operator, node: &Node) -> Result<serde_json::Value> {
    let out = alice.muster(&["node", "status", node.name(), "-o", "json"])?.check()?;
    let all: serde_json::Value = serde_json::from_str(&out.stdout_text())?;
    let one = all.as_array().and_then(|a| a.first()).cloned().unwrap_or(all);
    Ok(one)
}

/// What the journal has of our units, and what became of them.
fn ours(node: &Node) -> String {
    node.sh("systemctl --no-pager --plain list-units --all 'muster*'; journalctl --no-pager -o cat -u 'muster*' | tail -n 60")
        .unwrap_or_else(|e| format!("{e:#}"))
}
