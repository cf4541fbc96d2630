//! What will be done, as values: nothing here touches a host.
//!
//! A step's check, apply and undo are calls of the host library (`host/*.sh`). The check is 0 when
//! the step's state is there already; the apply reads [`Step::input`] on standard input and may be
//! repeated; what it changes is saved before the change, so that the undo is exact.

use crate::files::{self, AdaptiveFile};
use crate::sh::quote;
use crate::spec::{AccountName, HostSpec, SpecFault, sha256_hex};
use core::fmt;
use std::sync::Arc;

/// The stable name of a step: appears in output, in the host's journal and in the documentation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(String);

impl StepId {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What becomes of a folder of ours when everything is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Folder {
    /// Removed when it is empty.
    Shared,
    /// Removed with what is in it.
    Own,
}

/// A tool of the host that decides on the optional lines of a file and must accept the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tool {
    /// `visudo -cf`
    Visudo,
    /// `sshd -t`
    Sshd,
}

impl Tool {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Visudo => "visudo",
            Self::Sshd => "sshd",
        }
    }
}

/// What a step makes true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A folder of root's with this mode.
    Dir {
        /// Absolute path.
        path: String,
        /// Permission bits.
        mode: u32,
        /// What undo does with it.
        folder: Folder,
    },
    /// A file of root's with these bytes and this mode.
    File {
        /// Absolute path.
        path: String,
        /// Permission bits.
        mode: u32,
        /// The bytes.
        content: Arc<[u8]>,
    },
    /// A file that is written only where there is none: after that it is the shim's.
    Once {
        /// Absolute path.
        path: String,
        /// Permission bits.
        mode: u32,
        /// The first bytes.
        content: Arc<[u8]>,
    },
    /// A file whose optional lines the host's tool decides on.
    Adaptive {
        /// Absolute path.
        path: String,
        /// Permission bits.
        mode: u32,
        /// The tool.
        tool: Tool,
        /// The lines.
        file: AdaptiveFile,
    },
    /// The pool login.
    Account {
        /// Its name.
        name: AccountName,
    },
    /// sshd reads the drop-in: true as it is on current systems, made true on others.
    Pin {
        /// The login that must be pinned.
        account: AccountName,
    },
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    id: StepId,
    what: String,
    action: Action,
}

impl Step {
    fn new(id: &str, what: impl Into<String>, action: Action) -> Self {
        Self { id: StepId::new(id), what: what.into(), action }
    }

    /// Its stable name.
    pub fn id(&self) -> &StepId {
        &self.id
    }

    /// What it does, in words.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What it makes true.
    pub fn action(&self) -> &Action {
        &self.action
    }

    /// The path that it writes, if it writes one.
    pub fn path(&self) -> Option<&str> {
        match &self.action {
            Action::Dir { path, .. }
            | Action::File { path, .. }
            | Action::Once { path, .. }
            | Action::Adaptive { path, .. } => Some(path),
            Action::Account { .. } | Action::Pin { .. } => None,
        }
    }

    /// A shell command that is 0 when the step has nothing to do.
    pub fn check(&self) -> String {
        match &self.action {
            Action::Dir { path, mode, .. } => format!("m_check_dir {} {mode:o}", quote(path)),
            Action::File { path, mode, content } => {
                format!("m_check_file {} {mode:o} {}", quote(path), sha256_hex(content))
            }
            Action::Once { path, mode, .. } => format!("m_check_once {} {mode:o}", quote(path)),
            Action::Adaptive { path, mode, tool, file } => format!(
                "m_check_adaptive {} {} {mode:o} <<'MUSTER_END'\n{}MUSTER_END",
                tool.word(),
                quote(path),
                file.template()
            ),
            Action::Account { name } => format!("m_check_account {name} {}", files::HOME),
            Action::Pin { account } => {
                format!("m_check_pinned {account} {} {}/%u", files::SHIM, files::AUTHORIZED_KEYS_DIR)
            }
        }
    }

    /// A shell command that makes it so, reading [`Step::input`].
    pub fn apply(&self) -> String {
        match &self.action {
            Action::Dir { path, mode, folder } => {
                let kind = match folder {
                    Folder::Shared => "absent-dir",
                    Folder::Own => "absent-tree",
                };
                format!("m_dir {} {mode:o} {kind}", quote(path))
            }
            Action::File { path, mode, content } => {
                format!("m_file {} {mode:o} {}", quote(path), sha256_hex(content))
            }
            Action::Once { path, mode, .. } => format!("m_once {} {mode:o}", quote(path)),
            Action::Adaptive { path, mode, tool, .. } => {
                format!("m_adaptive {} {} {mode:o}", tool.word(), quote(path))
            }
            Action::Account { name } => format!("m_account {name} {}", files::HOME),
            Action::Pin { account } => format!(
                "m_pin {account} {} {}/%u {}",
                files::SHIM,
                files::AUTHORIZED_KEYS_DIR,
                files::SSHD_DROP_IN
            ),
        }
    }

    /// What the apply reads.
    pub fn input(&self) -> Vec<u8> {
        match &self.action {
            Action::File { content, .. } | Action::Once { content, .. } => content.to_vec(),
            Action::Adaptive { file, .. } => file.template().into_bytes(),
            Action::Dir { .. } | Action::Account { .. } | Action::Pin { .. } => Vec::new(),
        }
    }

    /// The exact undo, in words.
    pub fn undo(&self) -> String {
        match &self.action {
            Action::Dir { path, folder: Folder::Own, .. } => {
                format!("remove {path} and what is in it, or restore its owner and mode where it was there")
            }
            Action::Dir { path, .. } => {
                format!("remove {path} when it is empty, or restore its owner and mode where it was there")
            }
            Action::File { path, .. } | Action::Once { path, .. } | Action::Adaptive { path, .. } => {
                format!("remove {path}, or restore the bytes, owner and mode of the one that was there")
            }
            Action::Account { name } => format!("remove account {name}, unless it was there"),
            Action::Pin { .. } => format!("restore {} where it was changed", files::SSHD_CONFIG),
        }
    }
}

/// Ordered steps for one host, and the digest that names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    account: AccountName,
    steps: Vec<Step>,
    digest: String,
}

impl Plan {
    pub(crate) fn new(account: AccountName, steps: Vec<Step>) -> Self {
        let mut all = String::new();
        for s in &steps {
            all.push_str(&format!("{}\n{}\n{}\n", s.id, s.apply(), sha256_hex(&s.input())));
        }
        Self { account, steps, digest: sha256_hex(all.as_bytes()) }
    }

    /// A part of a host: its login keys and, where it changes, its policy.
    pub(crate) fn keys(account: &AccountName, keys: String, policy: Option<String>) -> Self {
        let path = format!("{}/{account}", files::AUTHORIZED_KEYS_DIR);
        let policy =
            policy.map(|p| file("shim-toml", "write the host's policy", files::SHIM_TOML, 0o644, text(p)));
        let keys = file("authorized-keys", "write the login keys", &path, 0o644, text(keys));
        Self::new(account.clone(), policy.into_iter().chain([keys]).collect())
    }

    /// The plan that makes a host what `spec` says, or every fault of the spec.
    pub fn provision(spec: &HostSpec) -> Result<Self, Vec<SpecFault>> {
        spec.check()?;
        Ok(Self::new(spec.account.clone(), steps(spec)))
    }

    /// The pool login.
    pub fn account(&self) -> &AccountName {
        &self.account
    }

    /// In the order in which they are carried out.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// SHA-256 over every step: two plans with one digest do the same.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// What the host keeps about this plan: `manifest` in the provisioning folder.
    pub fn manifest(&self, transaction: &str) -> String {
        format!(
            "muster-provision: 1\naccount: {}\ndigest: {}\ntransaction: {transaction}\n",
            self.account, self.digest
        )
    }
}

fn file(id: &str, what: &str, path: &str, mode: u32, content: impl Into<Arc<[u8]>>) -> Step {
    Step::new(id, what, Action::File { path: path.into(), mode, content: content.into() })
}

fn dir(id: &str, what: &str, path: &str, mode: u32, folder: Folder) -> Step {
    Step::new(id, what, Action::Dir { path: path.into(), mode, folder })
}

/// First what gives nobody anything, then the program, then the keys, last what opens the door:
/// sudo, then sshd.
fn steps(spec: &HostSpec) -> Vec<Step> {
    let mut out = inert(spec);
    out.extend(programs(spec));
    out.extend(doors(spec));
    out
}

fn text(s: String) -> Arc<[u8]> {
    s.into_bytes().into()
}

fn inert(spec: &HostSpec) -> Vec<Step> {
    let account = &spec.account;
    vec![
        dir("var-dir", "make the state folder", files::VAR, 0o755, Folder::Shared),
        dir(
            "home",
            "make the login's home: root's and empty, so that nothing planted there is read",
            files::HOME,
            0o755,
            Folder::Own,
        ),
        Step::new(
            "account",
            format!(
                "make the login {account}: password `*` (none fits), shell /bin/sh, no group but its own"
            ),
            Action::Account { name: account.clone() },
        ),
        dir("etc-dir", "make the configuration folder", files::ETC, 0o755, Folder::Shared),
        file(
            "allowed-signers",
            "say whose signatures count",
            files::ALLOWED_SIGNERS,
            0o644,
            spec.allowed_signers.clone(),
        ),
        file(
            "revoked-signers",
            "say whose signatures are void",
            files::REVOKED_SIGNERS,
            0o644,
            files::revoked_signers(spec),
        ),
        file(
            "shim-toml",
            "write the host's policy: its name, pools, profiles with their least epochs",
            files::SHIM_TOML,
            0o644,
            text(files::shim_toml(spec)),
        ),
        dir("state-dir", "make the shim's state folder, root's alone", files::SHIM_STATE, 0o700, Folder::Own),
        Step::new(
            "floors",
            "write the first epoch floors; where there are floors they stay",
            Action::Once { path: files::FLOORS.into(), mode: 0o600, content: text(files::floors(spec)) },
        ),
    ]
}

fn programs(spec: &HostSpec) -> Vec<Step> {
    let bytes = spec.shim.bytes();
    let mut out = vec![file("shim", "put the shim in place", files::SHIM, 0o755, bytes.clone())];
    if spec.drop_in.is_some() {
        let what = "make the folder of the shim's second name";
        out.push(dir("kpssh-dir", what, "/opt/kpssh", 0o755, Folder::Shared));
        let what = "swap the bash shim for ours at its own path";
        out.push(file("kpssh-shim", what, files::KPSSH_SHIM, 0o755, bytes.clone()));
    }
    out
}

fn doors(spec: &HostSpec) -> Vec<Step> {
    let account = &spec.account;
    let keys = format!("{}/{account}", files::AUTHORIZED_KEYS_DIR);
    let adaptive = |path: &str, mode, tool, file| Action::Adaptive { path: path.into(), mode, tool, file };
    let sudoers = files::sudoers(account, spec.drop_in.is_some());
    let sshd = files::sshd_drop_in(account, spec.drop_in.as_ref().map(|d| &d.account));
    vec![
        dir(
            "keys-dir",
            "make the folder of login keys, which no login can write",
            files::AUTHORIZED_KEYS_DIR,
            0o755,
            Folder::Shared,
        ),
        file(
            "authorized-keys",
            "let the controller keys log in, pinned to the shim",
            &keys,
            0o644,
            text(files::authorized_keys(&spec.controllers)),
        ),
        Step::new(
            "sudoers",
            "let the login run the shim as root: no argument, no I/O log, no pty",
            adaptive(files::SUDOERS, 0o440, Tool::Visudo, sudoers),
        ),
        dir("sshd-dir", "make sshd's drop-in folder", "/etc/ssh/sshd_config.d", 0o755, Folder::Shared),
        Step::new(
            "sshd",
            "pin the login to the shim in sshd: no pty, no forwarding, a lost peer noticed in 12 to 24 seconds",
            adaptive(files::SSHD_DROP_IN, 0o644, Tool::Sshd, sshd),
        ),
        Step::new(
            "sshd-pin",
            "have sshd read that file where it does not yet",
            Action::Pin { account: account.clone() },
        ),
    ]
}
