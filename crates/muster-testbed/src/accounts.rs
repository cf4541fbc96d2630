//! Accounts on a node, as an administrator would have left them before Muster comes.

use std::fs;

use anyhow::Result;

use crate::node::Node;
use crate::ssh::KeyPair;

/// What an administrator's account may do with sudo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sudo<'a> {
    /// Anything, without a password.
    NoPassword,
    /// Anything, after this password, which is also the account's own.
    Password(&'a str),
    /// Nothing.
    None,
}

impl Node {
    /// Lets `key` log in as `user`, who must exist.
    pub fn add_ssh_key(&self, user: &str, key: &KeyPair) -> Result<()> {
        self.add_ssh_line(user, &fs::read_to_string(&key.public)?)
    }

    /// Adds one line to the `authorized_keys` of `user`, who must exist.
    pub fn add_ssh_line(&self, user: &str, line: &str) -> Result<()> {
        let script = r#"
            home=$(getent passwd "$1" | cut -d: -f6); [ -n "$home" ]
            install -d -m 0700 -o "$1" -g "$1" "$home/.ssh"
            cat >> "$home/.ssh/authorized_keys"
            chown "$1:$1" "$home/.ssh/authorized_keys"; chmod 0600 "$home/.ssh/authorized_keys""#;
        let line = format!("{}\n", line.trim_end());
        self.exec_with(
            &["bash", "-euc", script, "add-key", user],
            line.as_bytes(),
            crate::process::DEADLINE,
        )?
        .check()?;
        Ok(())
    }

    /// Makes an administrator's account with a home, a bash and `key`.
    pub fn add_admin(&self, user: &str, key: &KeyPair, sudo: Sudo<'_>) -> Result<()> {
        self.exec(&["useradd", "--create-home", "--shell", "/bin/bash", "--", user])?.check()?;
        self.add_ssh_key(user, key)?;
        let rule = match sudo {
            Sudo::None => return Ok(()),
            Sudo::NoPassword => format!("{user} ALL=(ALL:ALL) NOPASSWD: ALL\n"),
            Sudo::Password(word) => {
                let line = format!("{user}:{word}\n");
                self.exec_with(&["chpasswd"], line.as_bytes(), crate::process::DEADLINE)?.check()?;
                format!("{user} ALL=(ALL:ALL) ALL\n")
            }
        };
        self.put(&format!("/etc/sudoers.d/90-{user}"), rule.as_bytes(), 0o440)
    }
}
