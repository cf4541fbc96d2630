//! What a host says of itself for the doctor: one read-only script and the parsed answer.

use crate::facts::BadAnswer;
use crate::sh::{quote, with_lib};
use crate::spec::AccountName;
use base64ct::{Base64, Encoding};
use std::collections::BTreeMap;

/// Whose login is looked at, and from where its controllers come.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The pool login.
    pub account: AccountName,
    /// An address that a controller comes from: `Match Address` blocks and `from=` depend on it.
    pub address: core::net::IpAddr,
    /// The login of a fleet whose bash shim was swapped.
    pub drop_in: Option<AccountName>,
}

/// A path as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// In the words of stat(1), with `-` for blanks.
    pub kind: String,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permission bits.
    pub mode: u32,
    /// Bytes.
    pub size: u64,
}

/// One login.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Login {
    /// passwd line; empty where there is no such account.
    pub passwd: String,
    /// `star`, `empty`, `locked`, `set`.
    pub password: String,
    /// Day of expiry, or empty.
    pub expires: String,
    /// Groups.
    pub groups: Vec<String>,
    /// `sshd -T` for it, in order: keyword and value.
    pub sshd: Vec<(String, String)>,
    /// `sudo -l -U`, lines as they came.
    pub sudo: Vec<String>,
}

impl Login {
    /// The value that sshd has for a keyword (lower case).
    pub fn keyword(&self, name: &str) -> Option<&str> {
        self.sshd.iter().find(|(k, _)| k == name).map(|(_, v)| v.as_str())
    }

    /// Every value of a keyword that may repeat.
    pub fn keywords<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.sshd.iter().filter(move |(k, _)| k == name).map(|(_, v)| v.as_str())
    }
}

/// The whole answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Effective user of the script.
    pub uid: u32,
    /// Operating system.
    pub os: String,
    /// `uname -n`.
    pub host_name: String,
    /// A digest of `/etc/machine-id`.
    pub machine_id: String,
    /// Fingerprints of the host keys.
    pub host_keys: Vec<String>,
    /// `ssh -V`.
    pub ssh_version: String,
    /// `sudo -V`.
    pub sudo_version: String,
    /// What `sshd -t` complains of.
    pub sshd_fault: Option<String>,
    /// How the listening sshd was started.
    pub sshd_listener: String,
    /// Logins by name.
    pub logins: BTreeMap<String, Login>,
    /// The host's clock, seconds.
    pub now: u64,
    /// Whether the kernel says that the clock is synchronised.
    pub synchronised: Option<bool>,
    /// SHA-256 of `/usr/bin/muster-shim`.
    pub shim_sum: String,
    /// SHA-256 of `/opt/kpssh/kpssh-shim`.
    pub kpssh_sum: String,
    /// Exit code of a probe through the login's own road; `None` when it was not tried.
    pub probe_exit: Option<i32>,
    /// What is in the pool login's home.
    pub in_home: Vec<String>,
    /// Paths, `None` where there is nothing.
    pub paths: BTreeMap<String, Option<Found>>,
    /// Contents.
    pub bodies: BTreeMap<String, Vec<u8>>,
    /// Id of a provisioning that did not end.
    pub open: String,
    /// Login of the last provisioning that did.
    pub record: String,
    /// Whether /proc is there.
    pub proc: bool,
}

/// The script.
pub fn script(subject: &Subject) -> String {
    let fleet = subject.drop_in.as_ref().map_or("-", AccountName::as_str);
    let head = format!(
        "set -- {} {} {} {fleet}",
        subject.account,
        quote(&subject.address.to_string()),
        quote(&subject.address.to_string())
    );
    with_lib(&format!("{head}\n{}", include_str!("../host/doctor.sh")))
}

impl Evidence {
    /// Reads the answer. Lines that are not known are passed over.
    pub fn parse(text: &str) -> Result<Self, BadAnswer> {
        let mut lines = text.lines().skip_while(|l| *l != "format muster-doctor-1");
        if lines.next().is_none() {
            return Err(BadAnswer("no `format muster-doctor-1` line".into()));
        }
        let mut e = Self::default();
        let mut ended = false;
        for line in lines {
            let (key, value) = line.split_once(' ').unwrap_or((line, ""));
            ended |= key == "end";
            e.take(key, value.trim_end()).map_err(|why| BadAnswer(format!("{key}: {why}")))?;
        }
        if ended { Ok(e) } else { Err(BadAnswer("it was cut off".into())) }
    }

    /// The pool login, or one of which nothing is known.
    pub fn login(&self, name: &AccountName) -> Login {
        self.logins.get(name.as_str()).cloned().unwrap_or_default()
    }

    fn take(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "uid" => self.uid = value.parse().map_err(|_| "not a number")?,
            "os" => self.os = value.into(),
            "host-name" => self.host_name = value.into(),
            "machine-id" => self.machine_id = value.into(),
            "host-key" => self.host_keys.push(value.into()),
            "ssh-version" => self.ssh_version = value.into(),
            "sudo-version" => self.sudo_version = value.into(),
            "sshd-valid" => self.sshd_fault = value.strip_prefix("no").map(|w| w.trim().to_owned()),
            "sshd-listener" => self.sshd_listener = value.into(),
            "now" => self.now = value.parse().map_err(|_| "not a number")?,
            "synchronised" => {
                self.synchronised = match value {
                    "yes" => Some(true),
                    "no" => Some(false),
                    _ => None,
                }
            }
            "shim-sum" => self.shim_sum = value.into(),
            "kpssh-sum" => self.kpssh_sum = value.into(),
            "probe-exit" => self.probe_exit = value.parse().ok(),
            "in-home" => self.in_home.push(value.into()),
            "provision-open" => self.open = value.into(),
            "provision-record" => self.record = value.into(),
            "proc" => self.proc = value == "yes",
            "path" => self.take_path(value)?,
            "body" => {
                let (path, b64) = value.split_once(' ').unwrap_or((value, ""));
                self.bodies.insert(path.into(), Base64::decode_vec(b64).map_err(|e| e.to_string())?);
            }
            "account" | "account-password" | "account-expires" | "account-groups" | "sshd" | "sudo" => {
                self.take_login(key, value);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_login(&mut self, key: &str, value: &str) {
        let (name, rest) = value.split_once(' ').unwrap_or((value, ""));
        let login = self.logins.entry(name.to_owned()).or_default();
        match key {
            "account" => login.passwd = rest.trim().into(),
            "account-password" => login.password = rest.trim().into(),
            "account-expires" => login.expires = rest.trim().into(),
            "account-groups" => login.groups = rest.split_whitespace().map(str::to_owned).collect(),
            "sshd" => {
                let (k, v) = rest.split_once(' ').unwrap_or((rest, ""));
                login.sshd.push((k.to_ascii_lowercase(), v.trim().to_owned()));
            }
            _ => login.sudo.push(rest.to_owned()),
        }
    }

    fn take_path(&mut self, value: &str) -> Result<(), String> {
        let (path, rest) = value.split_once(' ').ok_or("two words are needed")?;
        let found = if rest == "absent" {
            None
        } else {
            let parts: Vec<&str> = rest.split('|').collect();
            let [kind, uid, gid, mode, size] = parts.as_slice() else {
                return Err("five parts are needed".into());
            };
            Some(Found {
                kind: (*kind).to_owned(),
                uid: uid.parse().map_err(|_| "uid")?,
                gid: gid.parse().map_err(|_| "gid")?,
                mode: u32::from_str_radix(mode, 8).map_err(|_| "mode")?,
                size: size.parse().map_err(|_| "size")?,
            })
        };
        self.paths.insert(path.to_owned(), found);
        Ok(())
    }
}
