//! The real `ssh` client and `ssh-keygen`, with nothing of this machine's or user's configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::node::Node;
use crate::process::{Output, call, run};

/// A key pair on this machine's disk, in the bed's folder.
#[derive(Debug, Clone)]
pub struct KeyPair {
    /// Private key, OpenSSH format, no passphrase, mode 0600.
    pub private: PathBuf,
    /// Public key.
    pub public: PathBuf,
}

impl KeyPair {
    /// Makes one with `ssh-keygen`.
    pub fn generate(dir: &Path, name: &str, args: &[&str]) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let private = dir.join(name);
        let path = private.display().to_string();
        let mut argv = vec!["-q", "-N", "", "-C", name, "-f", &path];
        argv.extend(args);
        call("ssh-keygen", &argv)?;
        Ok(Self { public: dir.join(format!("{name}.pub")), private })
    }

    /// The public key line: type, base64, comment.
    pub fn public_line(&self) -> Result<String> {
        let text = fs::read_to_string(&self.public)
            .with_context(|| format!("cannot read {}", self.public.display()))?;
        Ok(text.trim_end().to_owned())
    }

    /// `SHA256:…` as `ssh-keygen -l` prints it.
    pub fn fingerprint(&self) -> Result<String> {
        let line = call("ssh-keygen", &["-l", "-f", &self.public.display().to_string()])?.stdout_text();
        Ok(line.split_whitespace().nth(1).unwrap_or_default().to_owned())
    }
}

/// A login with the real `ssh` client: one node, one user, one key, host key pinned.
#[derive(Debug, Clone)]
pub struct Ssh {
    node: Node,
    user: String,
    key: KeyPair,
    options: Vec<String>,
    deadline: Duration,
    v6: bool,
}

impl Ssh {
    pub(crate) fn new(node: &Node, user: &str, key: &KeyPair) -> Self {
        Self {
            node: node.clone(),
            user: user.to_owned(),
            key: key.clone(),
            options: Vec::new(),
            deadline: Duration::from_secs(60),
            v6: false,
        }
    }

    /// More arguments for `ssh`. They come first, and for `ssh` the first value of an option wins.
    #[must_use]
    pub fn option(mut self, args: &[&str]) -> Self {
        self.options.extend(args.iter().map(|a| (*a).to_owned()));
        self
    }

    /// Another limit than 60 s for [`Ssh::run`].
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Over IPv6.
    #[must_use]
    pub fn over_v6(mut self) -> Self {
        self.v6 = true;
        self
    }

    /// The client as a command, for tests that start it and then do things to it.
    pub fn command(&self, remote: Option<&str>) -> Result<Command> {
        let known_hosts = self.node.known_hosts()?;
        let mut command = Command::new("ssh");
        command
            .args(["-F", "none", "-T"])
            .args(&self.options)
            .args(["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes"])
            .args(["-o", "GlobalKnownHostsFile=none", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=20"])
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", known_hosts.display()))
            .arg("-i")
            .arg(&self.key.private)
            .arg("-l")
            .arg(&self.user)
            .arg(if self.v6 { self.node.addr_v6().to_string() } else { self.node.addr_v4().to_string() })
            .env_remove("SSH_AUTH_SOCK");
        if let Some(remote) = remote {
            command.arg("--").arg(remote);
        }
        Ok(command)
    }

    /// Logs in, runs `remote`, gives it `stdin`. Exit 255 is ssh's own error.
    pub fn run(&self, remote: &str, stdin: &[u8]) -> Result<Output> {
        run(&mut self.command(Some(remote))?, stdin, self.deadline)
    }

    /// Logs in and asks for a shell, which a forced command replaces.
    pub fn shell(&self, stdin: &[u8]) -> Result<Output> {
        run(&mut self.command(None)?, stdin, self.deadline)
    }
}
