//! What a host said about itself before anything is done: the parsed answer of `host/inspect.sh`.

use crate::files;
use crate::sh::{quote, with_lib};
use crate::spec::AccountName;
use base64ct::{Base64, Encoding};
use std::collections::BTreeMap;

/// A path as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundFile {
    /// In the words of stat(1), with `-` for blanks: `regular-file`, `directory`, `symbolic-link`.
    pub kind: String,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// The bytes of a regular file of at most 1 MiB, or 16 MiB where it is the revocation list.
    pub body: Option<Vec<u8>>,
}

/// An open transaction of an earlier provisioning that did not end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Its id.
    pub id: String,
    /// The digest of its plan.
    pub digest: String,
}

/// The whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Effective user of the script.
    pub uid: u32,
    /// The admin login, where sudo made us root.
    pub sudo_user: Option<String>,
    /// `uname -m`.
    pub arch: String,
    /// Name of the operating system.
    pub os: String,
    /// Whether systemd is PID 1.
    pub systemd: bool,
    /// Tools that are not there.
    pub missing: Vec<String>,
    /// `ssh -V`.
    pub ssh_version: String,
    /// First line of `sudo -V`.
    pub sudo_version: String,
    /// What `sshd -t` said against the configuration as it is; `None` is nothing.
    pub sshd_fault: Option<String>,
    /// passwd line of the pool login.
    pub account: Option<String>,
    /// `star`, `empty`, `locked` or `set`; never the hash.
    pub account_password: String,
    /// Groups of the pool login.
    pub account_groups: Vec<String>,
    /// passwd line of the drop-in fleet's login.
    pub fleet: Option<String>,
    /// Free KiB under `/var/lib` and `/usr/bin`.
    pub free_kib: (u64, u64),
    /// A provisioning that did not end.
    pub open: Option<OpenTransaction>,
    /// Login and plan digest of the last provisioning that ended well.
    pub manifest: Option<(String, String)>,
    /// Kind and path of everything that provisioning has touched so far.
    pub baseline: Vec<(String, String)>,
    /// Why a run is in progress, or `None`.
    pub run: Option<String>,
    /// Whether the shim's state folder is there.
    pub state_dir: bool,
    /// The paths that were asked for; absent ones are not in it.
    pub files: BTreeMap<String, FoundFile>,
}

/// Paths whose content decides whether a plan may go on.
const READ: &[&str] = &[
    files::ALLOWED_SIGNERS,
    files::REVOKED_SIGNERS,
    files::SHIM_TOML,
    files::FLOORS,
    files::KPSSH_ALLOWED_SIGNERS,
];

/// Paths of which kind and owner are enough.
const LOOK: &[&str] = &[
    files::ETC,
    files::VAR,
    files::HOME,
    files::SHIM_STATE,
    files::AUTHORIZED_KEYS_DIR,
    files::SUDOERS,
    files::SSHD_DROP_IN,
];

/// The read-only script that asks.
pub fn script(account: &AccountName, fleet: Option<&AccountName>) -> String {
    let fleet = fleet.map_or("-", AccountName::as_str);
    let keys = format!("{}/{account}", files::AUTHORIZED_KEYS_DIR);
    let words: Vec<String> = READ.iter().chain(LOOK).copied().chain([keys.as_str()]).map(quote).collect();
    with_lib(&format!("set -- {account} {fleet} {}\n{}", words.join(" "), include_str!("host/inspect.sh")))
}

/// Why an answer is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the host's answer cannot be read: {0}")]
pub struct BadAnswer(pub String);

impl Facts {
    /// Reads the answer. Lines that are not known are passed over: an answer is data, not policy.
    pub fn parse(text: &str) -> Result<Self, BadAnswer> {
        let mut lines = text.lines().skip_while(|l| *l != "format muster-inspect-1");
        if lines.next().is_none() {
            return Err(BadAnswer("no `format muster-inspect-1` line".into()));
        }
        let mut f = Self::default();
        let mut ended = false;
        for line in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.trim();
            ended |= key == "end";
            f.take(key, value).map_err(|why| BadAnswer(format!("{key}: {why}")))?;
        }
        if ended { Ok(f) } else { Err(BadAnswer("it was cut off".into())) }
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        let number = |v: &str| v.parse::<u64>().map_err(|_| format!("{v:?} is not a number"));
        let text = |v: &str| (!v.is_empty()).then(|| v.to_owned());
        match key {
            "uid" => self.uid = number(value)?.try_into().map_err(|_| "out of range")?,
            "sudo-user" => self.sudo_user = text(value),
            "arch" => self.arch = value.into(),
            "os" => self.os = value.into(),
            "systemd" => self.systemd = value == "yes",
            "missing" => self.missing.push(value.into()),
            "sshd-version" => self.ssh_version = value.into(),
            "sudo-version" => self.sudo_version = value.into(),
            "sshd-valid" => self.sshd_fault = value.strip_prefix("no").map(|w| w.trim().to_owned()),
            "account" => self.account = text(value),
            "account-password" => self.account_password = value.into(),
            "account-groups" => self.account_groups = value.split_whitespace().map(str::to_owned).collect(),
            "fleet" => self.fleet = text(value),
            "free-var" => self.free_kib.0 = number(value)?,
            "free-usr" => self.free_kib.1 = number(value)?,
            "open" => {
                let (id, digest) = value.split_once(' ').ok_or("two words are needed")?;
                self.open = Some(OpenTransaction { id: id.into(), digest: digest.into() });
            }
            "manifest-account" => self.manifest.get_or_insert_default().0 = value.into(),
            "manifest-digest" => self.manifest.get_or_insert_default().1 = value.into(),
            "baseline" => {
                let (kind, path) = value.split_once(' ').ok_or("two words are needed")?;
                self.baseline.push((kind.into(), path.into()));
            }
            "run" => self.run = (value != "none").then(|| value.to_owned()),
            "state-dir" => self.state_dir = value == "yes",
            "file" => self.take_file(value)?,
            "body" => {
                let (path, b64) = value.split_once(' ').unwrap_or((value, ""));
                let body = Base64::decode_vec(b64).map_err(|e| e.to_string())?;
                self.files.get_mut(path).ok_or("a body without its file line")?.body = Some(body);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_file(&mut self, value: &str) -> Result<(), String> {
        let (path, rest) = value.split_once(' ').ok_or("two words are needed")?;
        if rest == "absent" {
            return Ok(());
        }
        let mut parts = rest.split('|');
        let mut next = || parts.next().ok_or_else(|| "five parts are needed".to_owned());
        let kind = next()?.to_owned();
        let uid = next()?.parse().map_err(|_| "uid")?;
        let gid = next()?.parse().map_err(|_| "gid")?;
        let mode = u32::from_str_radix(next()?, 8).map_err(|_| "mode")?;
        self.files.insert(path.to_owned(), FoundFile { kind, uid, gid, mode, body: None });
        Ok(())
    }
}
