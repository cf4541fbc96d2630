//! What a host shall be: checked values only, so that a plan cannot be made from a bad one.

use crate::key::ControllerKey;
use core::fmt;
use muster_core::{HostName, Phase, PoolName, ProfileName};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is wrong with a spec: which part, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{part}: {why}")]
pub struct SpecFault {
    /// The part of the spec, in the words of the command line and the inventory.
    pub part: String,
    /// Why it is refused, and what to do.
    pub why: String,
}

impl SpecFault {
    pub(crate) fn new(part: impl Into<String>, why: String) -> Self {
        Self { part: part.into(), why }
    }
}

/// A login name: `[a-z_][a-z0-9_-]{0,31}`, the common subset of what useradd(8), sudoers(5) and
/// sshd's `Match User` take literally. `root` is refused: it would never pass through sudo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountName(String);

impl AccountName {
    /// Checks `text` and takes it.
    pub fn new(text: &str) -> Result<Self, SpecFault> {
        let mut bytes = text.bytes();
        let head = bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b == b'_');
        let rest = bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
        if !head || !rest || text.len() > 32 {
            let why = format!(
                "{:?} is not of the form [a-z_][a-z0-9_-]{{0,31}}",
                text.chars().take(80).collect::<String>()
            );
            return Err(SpecFault::new("account", why));
        }
        if text == "root" {
            return Err(SpecFault::new(
                "account",
                "root cannot be the pool login: choose another name".into(),
            ));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for AccountName {
    fn default() -> Self {
        Self("muster".into())
    }
}

impl fmt::Display for AccountName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The bytes of `muster-shim` and their digest.
#[derive(Clone)]
pub struct ShimBinary {
    bytes: Arc<[u8]>,
    sha256: String,
}

impl ShimBinary {
    /// Takes the bytes; when `expected` (64 hex digits) is given they must have that digest.
    /// Only an ELF file is taken: a script there would run as root whatever the shim promises.
    pub fn new(bytes: impl Into<Arc<[u8]>>, expected: Option<&str>) -> Result<Self, SpecFault> {
        let bytes: Arc<[u8]> = bytes.into();
        let sha256 = sha256_hex(&bytes);
        let fault = |why| Err(SpecFault::new("shim", why));
        if bytes.len() > 64 << 20 {
            return fault(format!("{} bytes; 64 MiB is the most", bytes.len()));
        }
        if let Some(want) = expected
            && !want.eq_ignore_ascii_case(&sha256)
        {
            return fault(format!("its SHA-256 is {sha256}, not {want}: do not use this file"));
        }
        if !bytes.starts_with(b"\x7fELF") {
            return fault("not an ELF program: give the muster-shim binary of a release".into());
        }
        Ok(Self { bytes, sha256 })
    }

    /// The program.
    pub fn bytes(&self) -> &Arc<[u8]> {
        &self.bytes
    }

    /// 64 lower-case hex digits.
    pub fn sha256(&self) -> &str {
        &self.sha256
    }

    /// What `uname -m` must say on the host, from `e_machine` of the ELF header; `None` for a
    /// machine that this list does not know.
    pub fn machine(&self) -> Option<&'static str> {
        match (self.bytes.get(4), self.bytes.get(18), self.bytes.get(19)) {
            (Some(2), Some(0x3e), Some(0)) => Some("x86_64"),
            (Some(2), Some(0xb7), Some(0)) => Some("aarch64"),
            (Some(2), Some(0xf3), Some(0)) => Some("riscv64"),
            (Some(1), Some(0x28), Some(0)) => Some("armv7l"),
            _ => None,
        }
    }
}

impl fmt::Debug for ShimBinary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShimBinary({} bytes, sha256 {})", self.bytes.len(), self.sha256)
    }
}

/// Lower-case hex SHA-256.
pub fn sha256_hex(bytes: &[u8]) -> String {
    use core::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::with_capacity(64), |mut out, b| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// What the host does when the peer goes away in the middle of a run of envelope 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnDisconnect {
    /// The run is ended.
    #[default]
    End,
    /// The run goes on to its end or deadline (for hosts whose SSH rides what `leave` takes down).
    Finish,
}

/// Whether the host takes envelope 1, and on which terms.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum EnvelopeOne {
    /// Refused: replay, phase and parameters are bounded by intents.
    #[default]
    Refused,
    /// Taken, for the time of a migration.
    Taken(Terms),
}

/// The terms of [`EnvelopeOne::Taken`].
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Terms {
    /// What happens when the peer goes away.
    pub on_disconnect: OnDisconnect,
    /// Deadline per phase in seconds; a phase that is not named has the shim's default.
    pub deadlines: BTreeMap<Phase, u32>,
    /// SSHSIG namespace that its signatures are made in; the shim's default when none.
    pub namespace: Option<String>,
    /// Whom `allowed_signers` must list for it; the shim's default when none.
    pub principal: Option<String>,
}

/// Swapping the bash shim of an existing fleet for ours at its own path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DropIn {
    /// The account that the fleet's sshd and sudoers files name. It, its keys, its sudoers line and
    /// its sshd block stay as they are.
    pub account: AccountName,
}

impl Default for DropIn {
    fn default() -> Self {
        Self { account: AccountName("kpssh".into()) }
    }
}

/// Everything that a provisioned host is. [`HostSpec::check`] is called by the planner.
#[derive(Clone, Debug)]
pub struct HostSpec {
    /// The pool login.
    pub account: AccountName,
    /// What the host calls itself; an intent's `target: host=` names it.
    pub host: HostName,
    /// Its pools, for `target: pool=`.
    pub pools: BTreeSet<PoolName>,
    /// Keys that may open the pool login; at least one.
    pub controllers: Vec<ControllerKey>,
    /// Text of `/etc/muster/allowed_signers`.
    pub allowed_signers: Vec<u8>,
    /// Text or KRL of `/etc/muster/revoked_signers`; empty revokes nobody.
    pub revoked_signers: Vec<u8>,
    /// Distinct signers that an intent needs, 1 to 8.
    pub signers_needed: u32,
    /// Profiles that may run here, each with the least epoch (M4): the current one when in doubt.
    pub profiles: BTreeMap<ProfileName, u32>,
    /// Envelope 1 (M6).
    pub envelope_one: EnvelopeOne,
    /// Cap on an intent's deadline, seconds, 1 to 86400.
    pub max_deadline: u32,
    /// How far above the floor one intent may be (M3).
    pub epoch_max_step: u32,
    /// Variables that every script gets beside the fixed ones (proxies and the like). Not secret.
    pub environment: BTreeMap<String, String>,
    /// The program.
    pub shim: ShimBinary,
    /// Also answer at `/opt/kpssh/kpssh-shim`.
    pub drop_in: Option<DropIn>,
}

/// Default of [`HostSpec::max_deadline`].
pub const MAX_DEADLINE: u32 = 7200;
/// Default of [`HostSpec::epoch_max_step`].
pub const EPOCH_MAX_STEP: u32 = 1000;

impl HostSpec {
    /// A spec with the defaults of the documentation and nothing that has none.
    pub fn new(
        host: HostName,
        shim: ShimBinary,
        allowed_signers: Vec<u8>,
        controllers: Vec<ControllerKey>,
    ) -> Self {
        Self {
            account: AccountName::default(),
            host,
            pools: BTreeSet::new(),
            controllers,
            allowed_signers,
            revoked_signers: Vec::new(),
            signers_needed: 1,
            profiles: BTreeMap::new(),
            envelope_one: EnvelopeOne::Refused,
            max_deadline: MAX_DEADLINE,
            epoch_max_step: EPOCH_MAX_STEP,
            environment: BTreeMap::new(),
            shim,
            drop_in: None,
        }
    }

    /// Every fault of the spec, not only the first.
    pub fn check(&self) -> Result<(), Vec<SpecFault>> {
        let mut faults = Vec::new();
        self.check_policy(&mut faults);
        self.check_keys(&mut faults);
        self.check_environment(&mut faults);
        self.check_drop_in(&mut faults);
        crate::trust::check_spec(self, &mut faults);
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn check_policy(&self, faults: &mut Vec<SpecFault>) {
        let mut need = |ok: bool, part: &str, why: &str| {
            if !ok {
                faults.push(SpecFault::new(part, why.to_owned()));
            }
        };
        need((1..=8).contains(&self.signers_needed), "signers-needed", "1 to 8 is needed");
        need((1..=86_400).contains(&self.max_deadline), "max-deadline", "1 to 86400 seconds is needed");
        need(
            self.epoch_max_step >= 1,
            "epoch-max-step",
            "at least 1 is needed, else no newer epoch is ever taken",
        );
        need(self.profiles.values().all(|e| *e >= 1), "profiles", "an epoch is 1 to 4294967295");
        need(
            !self.profiles.is_empty() || self.envelope_one != EnvelopeOne::Refused,
            "profiles",
            "no profile is listed and envelope 1 is off, so nothing could ever run: list at least one",
        );
        if let EnvelopeOne::Taken(Terms { deadlines, namespace, principal, .. }) = &self.envelope_one {
            // As the shim reads them.
            let word = |t: &String| {
                (1..=64).contains(&t.len())
                    && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.@".contains(&b))
            };
            need(
                namespace.iter().chain(principal).all(word),
                "envelope-1",
                "its namespace and its principal are 1 to 64 of [A-Za-z0-9._@-]",
            );
            need(
                self.signers_needed <= 1,
                "envelope-1",
                "it carries one signature, so it cannot meet signers-needed; switch it off",
            );
            let ok = deadlines.iter().all(|(p, s)| p.is_scripted() && (1..=86_400).contains(s));
            need(ok, "envelope-1 deadline", "install, join, leave and uninstall take 1 to 86400 seconds");
        }
    }

    fn check_keys(&self, faults: &mut Vec<SpecFault>) {
        if self.controllers.is_empty() {
            faults.push(SpecFault::new("controller key", "none is given, so nobody could log in".into()));
        }
        let mut seen = BTreeSet::new();
        for c in &self.controllers {
            if !seen.insert(c.key().fingerprint()) {
                faults.push(SpecFault::new(
                    "controller key",
                    format!("{} is given twice", c.key().fingerprint()),
                ));
            }
        }
    }

    fn check_environment(&self, faults: &mut Vec<SpecFault>) {
        for (name, value) in &self.environment {
            if let Some(why) = muster_core::variable::why_not_set(name) {
                faults.push(SpecFault::new("environment", format!("{name:?} {why}")));
            }
            if value.len() > 4096
                || value.chars().any(|c| c == '\n' || c == '\t' || crate::text::is_hidden(c))
            {
                faults.push(SpecFault::new(
                    "environment",
                    format!("the value of {name} is over 4096 bytes or has control characters or others that are not seen"),
                ));
            }
        }
    }

    fn check_drop_in(&self, faults: &mut Vec<SpecFault>) {
        let Some(d) = &self.drop_in else { return };
        if self.envelope_one == EnvelopeOne::Refused {
            let why = "controllers at /opt/kpssh/kpssh-shim speak envelope 1, which is off: switch it on for the time of the migration";
            faults.push(SpecFault::new("drop-in", why.into()));
        }
        if d.account == self.account {
            let why = format!(
                "{} is the fleet's own login and stays as it is: give the new login another name",
                d.account
            );
            faults.push(SpecFault::new("drop-in", why));
        }
    }
}
