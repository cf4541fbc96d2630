//! A pool host provisioned by hand, with nothing but a shell and the files that the contract names: what the tests of the shim
//! stand on, so that a fault of `muster host provision` cannot hide one of the shim, or the other way round. What pins the login
//! in sshd and sudo is the text that provisioning writes: the pin that is tested is the one that hosts get. A fleet of the bash
//! shim has its own, as its published documents set it up.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use base64ct::{Base64, Encoding};
use muster_provision::{AccountName, files};
use muster_testbed::{KeyPair, Layout, Node, Output, Ssh, Testbed};

/// Which of its two names the shim goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Name {
    Muster,
    Kpssh,
}

impl Name {
    pub(crate) fn shim(self) -> &'static str {
        match self {
            Self::Muster => "/usr/bin/muster-shim",
            Self::Kpssh => "/opt/kpssh/kpssh-shim",
        }
    }

    /// The pool account; also the principal and, for envelope 1, the namespace.
    pub(crate) fn account(self) -> &'static str {
        match self {
            Self::Muster => "muster",
            Self::Kpssh => "kpssh",
        }
    }

    pub(crate) fn allowed_signers(self) -> &'static str {
        match self {
            Self::Muster => "/etc/muster/allowed_signers",
            Self::Kpssh => "/etc/kpssh/allowed_signers",
        }
    }
}

/// What differs from host to host.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) name: Name,
    /// The program that is installed as the shim.
    pub(crate) shim: PathBuf,
    /// `/etc/muster/shim.toml`; none is written for `None`.
    pub(crate) policy: Option<String>,
    pub(crate) layout: Layout,
    /// More lines for the sudoers file, before ours.
    pub(crate) sudoers: String,
}

impl Options {
    pub(crate) fn new(name: Name, shim: &Path) -> Self {
        Self { name, shim: shim.to_owned(), policy: None, layout: Layout::Unified, sudoers: String::new() }
    }

    pub(crate) fn policy(mut self, text: &str) -> Self {
        self.policy = Some(text.to_owned());
        self
    }

    pub(crate) fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    pub(crate) fn sudoers(mut self, lines: &str) -> Self {
        lines.clone_into(&mut self.sudoers);
        self
    }
}

/// A policy for tests of envelope 2: one profile, one pool, nobody revoked.
pub(crate) const POLICY: &str = "host = \"edge-1\"\npools = [\"edge\"]\nrevoked-signers = \"required\"\n\n\
                                 [profiles.example]\nmin-epoch = 1\n";

/// A provisioned node, its controller key and its signer.
pub(crate) struct Host {
    pub(crate) node: Node,
    pub(crate) controller: KeyPair,
    pub(crate) signer: KeyPair,
    pub(crate) ssh: Ssh,
    account: &'static str,
    dir: PathBuf,
}

impl Host {
    /// Boots a node in `bed` and provisions it.
    pub(crate) fn provision(bed: &Testbed, node: &str, options: &Options) -> Result<Self> {
        let name = options.name;
        let booted = bed.node(node)?.cgroups(options.layout).boot()?;
        let controller = bed.keygen(&format!("{node}-controller"))?;
        let signer = bed.keygen(&format!("{node}-signer"))?;
        let account = name.account();
        booted.put_file(&options.shim, name.shim(), 0o755)?;
        let line = |namespaces: &str| -> Result<String> {
            Ok(format!("{account} namespaces=\"{namespaces}\" {}\n", key_only(&signer)?))
        };
        booted.put(
            name.allowed_signers(),
            line(&format!("{account},kpssh,muster-intent"))?.as_bytes(),
            0o644,
        )?;
        booted.put("/etc/muster/revoked_signers", b"", 0o644)?;
        if let Some(policy) = &options.policy {
            booted.put("/etc/muster/shim.toml", policy.as_bytes(), 0o644)?;
        }
        booted.put(
            &format!("/etc/muster/authorized_keys.d/{account}"),
            format!("restrict {}\n", key_only(&controller)?).as_bytes(),
            0o644,
        )?;
        booted.sh(&format!(
            "install -d -m 0755 /var/lib/muster /var/lib/muster/home; install -d -m 0700 /var/lib/muster/shim
             useradd --system --no-create-home --home-dir /var/lib/muster/home --shell /bin/sh --password '*' {account}"
        ))?;
        let floors = b"muster-floors: 1\ntime-floor: 1970-01-01T00:00:00Z\n";
        booted.put("/var/lib/muster/shim/floors", floors, 0o600)?;
        booted.put("/etc/ssh/sshd_config.d/00-muster.conf", sshd_block(name)?.as_bytes(), 0o644)?;
        let sudoers = format!("{}{}", options.sudoers, sudoers(name)?);
        booted.put("/etc/sudoers.d/muster-shim", sudoers.as_bytes(), 0o440)?;
        booted.sh("visudo -cqf /etc/sudoers.d/muster-shim")?;
        booted.reload_ssh()?;
        let ssh = bed.ssh(&booted, account, &controller);
        Ok(Self { node: booted, controller, signer, ssh, account, dir: bed.dir() })
    }

    /// Signs bytes with the real `ssh-keygen`; the armored signature.
    pub(crate) fn sign(&self, bytes: &[u8], namespace: &str) -> Result<Vec<u8>> {
        sign(&self.dir, bytes, namespace, &self.signer)
    }

    /// Envelope 1 for a script, as the published controller writes it.
    pub(crate) fn envelope_one(&self, phase: &str, script: &str, params: &str) -> Result<Vec<u8>> {
        let armored = self.sign(script.as_bytes(), "kpssh")?;
        let mut text = format!("kpssh-envelope: 1\nphase: {phase}\n");
        if !params.is_empty() {
            text.push_str(&format!("params-b64: {}\n", b64(params.as_bytes())));
        }
        text.push_str(&format!("sig-b64: {}\nscript-b64: {}\n", b64(&armored), b64(script.as_bytes())));
        Ok(text.into_bytes())
    }

    /// Envelope 2 for an intent text and its script.
    pub(crate) fn envelope_two(
        &self,
        phase: &str,
        intent: &str,
        script: &str,
        params: &str,
    ) -> Result<Vec<u8>> {
        let armored = self.sign(intent.as_bytes(), "muster-intent")?;
        let mut text = format!(
            "muster-envelope: 2\nphase: {phase}\nintent-b64: {}\nsig-b64: {}\n",
            b64(intent.as_bytes()),
            b64(&armored)
        );
        if !params.is_empty() {
            text.push_str(&format!("params-b64: {}\n", b64(params.as_bytes())));
        }
        if phase != "floor" {
            text.push_str(&format!("script-b64: {}\n", b64(script.as_bytes())));
        }
        Ok(text.into_bytes())
    }

    /// Sends bytes to the forced command over a real login.
    pub(crate) fn send(&self, envelope: &[u8]) -> Result<Output> {
        self.ssh.run("ignored", envelope)
    }

    /// As [`Host::send`], asking for a command of the caller's.
    pub(crate) fn send_asking(&self, command: &str, envelope: &[u8]) -> Result<Output> {
        self.ssh.run(command, envelope)
    }

    /// Runs a bash script as the pool account itself, as a thief with a process of that account would.
    pub(crate) fn as_pool(&self, script: &str, stdin: &[u8]) -> Result<Output> {
        let argv = ["runuser", "-u", self.account, "--", "bash", "-c", script];
        self.node.exec_with(&argv, stdin, std::time::Duration::from_secs(60))
    }

    /// Starts a login with these bytes on standard input and does not wait.
    pub(crate) fn start(&self, envelope: &[u8]) -> Result<std::process::Child> {
        let file = tempfile(&self.dir, envelope)?;
        Ok(self
            .ssh
            .command(Some("ignored"))?
            .stdin(fs::File::open(file)?)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()?)
    }
}

/// An intent text with everything that has no meaning for the test at hand filled in.
pub(crate) fn intent(phase: &str, script: &str, epoch: u32, more: &str) -> Result<String> {
    let (from, to) = (utc("-1 hour")?, utc("+1 day")?);
    intent_between(phase, script, epoch, more, &from, &to)
}

/// As [`intent`], with its two times given.
pub(crate) fn intent_between(
    phase: &str,
    script: &str,
    epoch: u32,
    more: &str,
    from: &str,
    to: &str,
) -> Result<String> {
    let digest = if phase == "floor" { "-".to_owned() } else { sha256(script.as_bytes())? };
    Ok(format!(
        "muster-intent: 1\nprofile: example\nphase: {phase}\nscript-sha256: {digest}\ntarget: pool=edge\n{more}epoch: {epoch}\n\
         not-before: {from}\nnot-after: {to}\ndeadline: 120\n"
    ))
}

/// A time relative to now, by date(1), in the form of an intent.
pub(crate) fn utc(offset: &str) -> Result<String> {
    let out = Command::new("date").args(["-u", "-d", offset, "+%Y-%m-%dT%H:%M:%SZ"]).output()?;
    Ok(String::from_utf8(out.stdout)?.trim().to_owned())
}

fn sha256(bytes: &[u8]) -> Result<String> {
    let file = tempfile(&std::env::temp_dir(), bytes)?;
    let out = Command::new("sha256sum").arg(&file).output()?;
    fs::remove_file(&file)?;
    let text = String::from_utf8(out.stdout)?;
    Ok(text.split_whitespace().next().context("sha256sum")?.to_owned())
}

pub(crate) fn b64(bytes: &[u8]) -> String {
    Base64::encode_string(bytes)
}

/// `ssh-keygen -Y sign` over a file, as its manual shows it.
pub(crate) fn sign(dir: &Path, bytes: &[u8], namespace: &str, key: &KeyPair) -> Result<Vec<u8>> {
    let file = tempfile(dir, bytes)?;
    let out = Command::new("ssh-keygen")
        .args(["-Y", "sign", "-q", "-n", namespace, "-f"])
        .arg(&key.private)
        .arg(&file)
        .output()?;
    anyhow::ensure!(out.status.success(), "ssh-keygen -Y sign: {}", String::from_utf8_lossy(&out.stderr));
    let armored = fs::read(file.with_extension("bytes.sig"))?;
    fs::remove_file(file.with_extension("bytes.sig"))?;
    fs::remove_file(file)?;
    Ok(armored)
}

fn tempfile(dir: &Path, bytes: &[u8]) -> Result<PathBuf> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = dir.join(format!("muster-test-{}-{n}.bytes", std::process::id()));
    fs::write(&path, bytes)?;
    Ok(path)
}

/// Type and base64 of a public key.
fn key_only(key: &KeyPair) -> Result<String> {
    Ok(key.public_line()?.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
}

fn account(name: Name) -> Result<AccountName> {
    Ok(AccountName::new(name.account())?)
}

fn sshd_block(name: Name) -> Result<String> {
    if name == Name::Muster {
        return Ok(files::sshd_drop_in(&account(name)?, None).full());
    }
    Ok(format!(
        "Match User {}\n    ForceCommand {}\n    AuthorizedKeysFile /etc/muster/authorized_keys.d/%u\n    \
         AuthenticationMethods publickey\n    PermitTTY no\n    PermitUserRC no\n    DisableForwarding yes\n    \
         ExposeAuthInfo yes\n    ClientAliveInterval 3\n    ClientAliveCountMax 3\n",
        name.account(),
        name.shim()
    ))
}

fn sudoers(name: Name) -> Result<String> {
    if name == Name::Muster {
        return Ok(files::sudoers(&account(name)?, false).full());
    }
    let (account, shim) = (name.account(), name.shim());
    Ok(format!(
        "Defaults!{shim} !log_input,!log_output,!use_pty,!requiretty\n\
         Defaults!{shim} env_keep += \"SSH_USER_AUTH SSH_CONNECTION\"\n\
         {account} ALL=(root) NOPASSWD: {shim} \"\"\n"
    ))
}
