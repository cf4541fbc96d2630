//! `/etc/muster/shim.toml`: what the host is called, what it takes, and from whom.
//!
//! A key that is not known refuses the whole file, because a misspelt restriction would otherwise
//! restrict nothing. Reading is pure; [`load`] is what judges and reads the file itself.

use crate::{called::CalledAs, paths};
use muster_core::{HostName, Phase, PoolName, ProfileName, Reason};
use muster_signing::Refusal;
use muster_signing::intent::OnDisconnect;
use muster_sys::file::Root;
use serde::de::{Deserialize, Deserializer, Error as _};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Cap on an intent's deadline where `max-deadline` does not say otherwise, in seconds; also the
/// deadline of a phase of envelope 1.
pub const DEFAULT_DEADLINE: u32 = 7200;
/// How far above the floor an epoch may be where `epoch-max-step` does not say otherwise.
pub const DEFAULT_STEP: u32 = 1000;
/// Longest deadline that can be written, in seconds.
const LONGEST: u32 = 86_400;
/// Variables that steer bash and not the script, or that the shim fixes itself.
const NOT_IN_ENVIRONMENT: [&str; 14] = [
    "ENV",
    "SHELLOPTS",
    "PS4",
    "IFS",
    "GLOBIGNORE",
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "CDPATH",
    "PROMPT_COMMAND",
    "POSIXLY_CORRECT",
    "SHELL",
];
/// Beginnings of such names.
const NOT_IN_ENVIRONMENT_PREFIX: [&str; 5] = ["BASH", "LD_", "MUSTER_", "KPSSH_", "GLIBC_"];

/// Whether a list of revoked signers must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revoked {
    /// Missing or unreadable: nothing runs.
    Required,
    /// Missing: nobody is revoked. There and unreadable still refuses.
    Optional,
}

/// What envelope 1 is taken with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvelopeOne {
    /// SSHSIG namespace.
    pub namespace: String,
    /// Principal in allowed_signers.
    pub principal: String,
    /// What happens to a run whose peer goes away.
    pub on_disconnect: OnDisconnect,
    deadlines: BTreeMap<&'static str, u32>,
}

impl EnvelopeOne {
    /// Seconds that a run of this phase may take.
    pub fn deadline(&self, phase: Phase) -> u32 {
        self.deadlines.get(phase.as_str()).copied().unwrap_or(DEFAULT_DEADLINE)
    }
}

impl Default for EnvelopeOne {
    fn default() -> Self {
        Self {
            namespace: "kpssh".to_owned(),
            principal: "kpssh".to_owned(),
            on_disconnect: OnDisconnect::End,
            deadlines: BTreeMap::new(),
        }
    }
}

/// The file, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What the host calls itself.
    pub host: Option<HostName>,
    /// Groups it is in.
    pub pools: Vec<PoolName>,
    /// Whether envelope 1 is taken, under either name.
    pub envelope_1: bool,
    /// How many distinct signers an intent needs.
    pub signers_needed: u32,
    /// The revocation list.
    pub revoked: Revoked,
    /// Cap on an intent's deadline, in seconds.
    pub max_deadline: u32,
    /// How far above the floor an epoch may be.
    pub epoch_max_step: u32,
    /// Profiles that may run here, with their least epoch; `None` without a `[profiles]` table.
    pub profiles: Option<BTreeMap<ProfileName, Option<u32>>>,
    /// How envelope 1 is taken.
    pub envelope_one: EnvelopeOne,
    /// Added to the environment of every script.
    pub environment: BTreeMap<String, String>,
    /// Phases that a login key may ask for, by fingerprint; `None` without a `[keys]` table.
    pub keys: Option<BTreeMap<String, Vec<Phase>>>,
}

/// Why the text is no policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFault {
    /// 1-based; 0 when it is of the file as a whole.
    pub line: usize,
    /// What is wrong, in one clause.
    pub why: String,
}

impl fmt::Display for PolicyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.why),
            n => write!(f, "line {n}: {}", self.why),
        }
    }
}

impl std::error::Error for PolicyFault {}

/// A value with a checked form, read from its text.
struct Checked<T>(T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Checked<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<T: Ord> Ord for Checked<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<T: Ord> PartialOrd for Checked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T: PartialEq> PartialEq for Checked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T: Eq> Eq for Checked<T> {}

macro_rules! words {
    ($ty:ty, $form:literal, $($word:literal => $value:expr),+) => {
        impl FromStr for $ty {
            type Err = String;
            fn from_str(s: &str) -> Result<Self, String> {
                match s {
                    $($word => Ok(Self($value)),)+
                    _ => Err(concat!("wanted ", $form).to_owned()),
                }
            }
        }
    };
}

struct RevokedWord(Revoked);
words!(RevokedWord, "\"required\" or \"optional\"", "required" => Revoked::Required, "optional" => Revoked::Optional);
struct DisconnectWord(OnDisconnect);
words!(DisconnectWord, "\"end\" or \"finish\"", "end" => OnDisconnect::End, "finish" => OnDisconnect::Finish);

struct PhaseWord(Phase);
impl FromStr for PhaseWord {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Phase::from_word(s).map(Self).ok_or_else(|| format!("{s:?} is not a phase"))
    }
}

/// `SHA256:` and 43 characters of base64, as `ssh-keygen -l` shows a key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Fingerprint(String);
impl FromStr for Fingerprint {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let tail = s.strip_prefix("SHA256:").unwrap_or_default();
        let ok =
            tail.len() == 43 && tail.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
        if ok {
            Ok(Self(s.to_owned()))
        } else {
            Err(format!("{s:?} is not a fingerprint such as ssh-keygen -l shows"))
        }
    }
}

/// A variable that `[environment]` may set.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct VariableName(String);
impl FromStr for VariableName {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let form = !s.is_empty()
            && !s.starts_with(|c: char| c.is_ascii_digit())
            && s.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !form {
            return Err(format!("{s:?} is not a variable's name"));
        }
        if NOT_IN_ENVIRONMENT.contains(&s) || NOT_IN_ENVIRONMENT_PREFIX.iter().any(|p| s.starts_with(p)) {
            return Err(format!("{s} is not for [environment] to set"));
        }
        Ok(Self(s.to_owned()))
    }
}

/// Text without NUL and line breaks.
struct PlainText(String);
impl FromStr for PlainText {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let ok = s.len() <= 4096 && !s.contains(['\0', '\n', '\r']);
        if ok { Ok(Self(s.to_owned())) } else { Err("wanted one line of at most 4096 bytes".to_owned()) }
    }
}

/// A namespace or principal: no blanks, no pattern characters.
struct PlainWord(String);
impl FromStr for PlainWord {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let ok = (1..=64).contains(&s.len())
            && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@'));
        if ok { Ok(Self(s.to_owned())) } else { Err("wanted 1 to 64 of [A-Za-z0-9._@-]".to_owned()) }
    }
}

/// A whole number between two bounds, both allowed.
struct Within<const LOW: u32, const HIGH: u32>(u32);

impl<'de, const LOW: u32, const HIGH: u32> Deserialize<'de> for Within<LOW, HIGH> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let n = i64::deserialize(d)?;
        u32::try_from(n)
            .ok()
            .filter(|n| (LOW..=HIGH).contains(n))
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("wanted a number from {LOW} to {HIGH}")))
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Raw {
    host: Option<Checked<HostName>>,
    #[serde(default)]
    pools: Vec<Checked<PoolName>>,
    #[serde(default)]
    envelope_1: bool,
    signers_needed: Option<Within<1, 8>>,
    revoked_signers: Option<Checked<RevokedWord>>,
    max_deadline: Option<Within<1, LONGEST>>,
    epoch_max_step: Option<Within<1, { u32::MAX }>>,
    profiles: Option<BTreeMap<Checked<ProfileName>, RawProfile>>,
    envelope1: Option<RawEnvelopeOne>,
    #[serde(default)]
    environment: BTreeMap<Checked<VariableName>, Checked<PlainText>>,
    keys: Option<BTreeMap<Checked<Fingerprint>, RawKey>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawProfile {
    min_epoch: Option<Within<1, { u32::MAX }>>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawEnvelopeOne {
    on_disconnect: Option<Checked<DisconnectWord>>,
    deadline: Option<RawDeadlines>,
    namespace: Option<Checked<PlainWord>>,
    principal: Option<Checked<PlainWord>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDeadlines {
    install: Option<Within<1, LONGEST>>,
    join: Option<Within<1, LONGEST>>,
    leave: Option<Within<1, LONGEST>>,
    uninstall: Option<Within<1, LONGEST>>,
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawKey {
    phases: Vec<Checked<PhaseWord>>,
}

impl Policy {
    /// Reads the text of a `shim.toml`.
    pub fn parse(text: &[u8]) -> Result<Self, PolicyFault> {
        let whole = |why: &str| PolicyFault { line: 0, why: why.to_owned() };
        if text.len() as u64 > paths::TRUST_MAX {
            return Err(whole("the file is over 1 MiB"));
        }
        let text = std::str::from_utf8(text).map_err(|_| whole("the file is not UTF-8"))?;
        let raw: Raw = toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(0, |s| s.start);
            let line = text.as_bytes().iter().take(at).filter(|&&b| b == b'\n').count() + 1;
            PolicyFault { line: if e.span().is_some() { line } else { 0 }, why: first_line(e.message()) }
        })?;
        Ok(raw.into())
    }

    /// Whether an intent of this profile may run, and from which epoch on.
    pub fn profile(&self, name: &ProfileName) -> Option<Option<u32>> {
        self.profiles.as_ref()?.get(name).copied()
    }
}

fn first_line(message: &str) -> String {
    message.lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

impl From<Raw> for Policy {
    fn from(r: Raw) -> Self {
        Self {
            host: r.host.map(|h| h.0),
            pools: r.pools.into_iter().map(|p| p.0).collect(),
            envelope_1: r.envelope_1,
            signers_needed: r.signers_needed.map_or(1, |n| n.0),
            revoked: r.revoked_signers.map_or(Revoked::Required, |w| w.0.0),
            max_deadline: r.max_deadline.map_or(DEFAULT_DEADLINE, |n| n.0),
            epoch_max_step: r.epoch_max_step.map_or(DEFAULT_STEP, |n| n.0),
            profiles: r
                .profiles
                .map(|t| t.into_iter().map(|(name, p)| (name.0, p.min_epoch.map(|n| n.0))).collect()),
            envelope_one: r.envelope1.map(EnvelopeOne::from).unwrap_or_default(),
            environment: r.environment.into_iter().map(|(n, v)| (n.0.0, v.0.0)).collect(),
            keys: r.keys.map(|t| {
                t.into_iter().map(|(f, k)| (f.0.0, k.phases.into_iter().map(|p| p.0.0).collect())).collect()
            }),
        }
    }
}

impl From<RawEnvelopeOne> for EnvelopeOne {
    fn from(r: RawEnvelopeOne) -> Self {
        let plain = Self::default();
        let mut deadlines = BTreeMap::new();
        if let Some(d) = r.deadline {
            let all = [
                (Phase::Install, d.install),
                (Phase::Join, d.join),
                (Phase::Leave, d.leave),
                (Phase::Uninstall, d.uninstall),
            ];
            deadlines.extend(all.into_iter().filter_map(|(p, n)| Some((p.as_str(), n?.0))));
        }
        Self {
            namespace: r.namespace.map_or(plain.namespace, |w| w.0.0),
            principal: r.principal.map_or(plain.principal, |w| w.0.0),
            on_disconnect: r.on_disconnect.map_or(plain.on_disconnect, |w| w.0.0),
            deadlines,
        }
    }
}

/// The policy of this host and the digest of its file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// `None` when there is no file.
    pub policy: Option<Policy>,
    /// SHA-256 of the file.
    pub digest: Option<[u8; 32]>,
}

impl Loaded {
    /// Whether envelope 1 is taken: what the file says, for both names; without a file, for the
    /// name of the bash shim alone. More than one signer needed always refuses it: its scripts
    /// carry one signature.
    pub fn takes_envelope_one(&self, called: CalledAs) -> bool {
        match &self.policy {
            Some(p) => p.envelope_1 && p.signers_needed == 1,
            None => called == CalledAs::Kpssh,
        }
    }
}

/// Reads and judges the file.
pub fn load(root: &Root) -> Result<Loaded, Refusal> {
    let path = Path::new(paths::POLICY);
    let text = match root.read(path, paths::TRUST_MAX) {
        Ok(text) => text,
        Err(e) if e.is_missing() => return Ok(Loaded { policy: None, digest: None }),
        Err(e) => return Err(Refusal::new(Reason::PolicyUnsafe, e.to_string())),
    };
    let policy = Policy::parse(&text)
        .map_err(|e| Refusal::new(Reason::PolicyInvalid, format!("{}: {e}", paths::POLICY)))?;
    Ok(Loaded { policy: Some(policy), digest: Some(crate::sha256(&text)) })
}

#[cfg(test)]
mod tests;
