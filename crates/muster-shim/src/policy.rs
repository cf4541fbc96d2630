//! `/etc/muster/shim.toml`: what the host is called, what it takes, and from whom.
//!
//! A key that is not known refuses the whole file, because a misspelt restriction would otherwise
//! restrict nothing. Reading is pure; [`load`] is what judges and reads the file itself.

use crate::{called::CalledAs, paths};
use muster_core::{BadName, HostName, Phase, PoolName, ProfileName, Reason};
use muster_signing::Refusal;
use muster_signing::intent::OnDisconnect;
use muster_sys::file::Root;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use toml::{Node, Table};

mod toml;

/// Cap on an intent's deadline where `max-deadline` does not say otherwise, in seconds; also the
/// deadline of a phase of envelope 1.
pub const DEFAULT_DEADLINE: u32 = 7200;
/// How far above the floor an epoch may be where `epoch-max-step` does not say otherwise.
pub const DEFAULT_STEP: u32 = 1000;
/// Longest deadline that can be written, in seconds.
const LONGEST: u32 = 86_400;
/// Signatures that one envelope can carry, and so the most that can be asked for.
const MOST_SIGNERS: u32 = 8;

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

/// Why a value is not of its form.
type Bad = String;

fn phase_word(s: &str) -> Result<Phase, Bad> {
    Phase::from_word(s).ok_or_else(|| format!("{s:?} is not a phase"))
}

fn revoked_word(s: &str) -> Result<Revoked, Bad> {
    match s {
        "required" => Ok(Revoked::Required),
        "optional" => Ok(Revoked::Optional),
        _ => Err("wanted \"required\" or \"optional\"".to_owned()),
    }
}

fn disconnect_word(s: &str) -> Result<OnDisconnect, Bad> {
    match s {
        "end" => Ok(OnDisconnect::End),
        "finish" => Ok(OnDisconnect::Finish),
        _ => Err("wanted \"end\" or \"finish\"".to_owned()),
    }
}

/// `SHA256:` and 43 characters of base64, as `ssh-keygen -l` shows a key.
fn fingerprint(s: &str) -> Result<String, Bad> {
    let ok = muster_signing::key::is_fingerprint(s);
    if ok { Ok(s.to_owned()) } else { Err(format!("{s:?} is not a fingerprint such as ssh-keygen -l shows")) }
}

/// A variable that `[environment]` may set.
fn variable(s: &str) -> Result<String, Bad> {
    match muster_core::variable::why_not_set(s) {
        None => Ok(s.to_owned()),
        Some(why) => Err(format!("{s:?} {why}")),
    }
}

fn plain_text(s: &str) -> Result<String, Bad> {
    let ok = s.len() <= 4096 && !s.contains(['\0', '\n', '\r']);
    if ok { Ok(s.to_owned()) } else { Err("wanted one line of at most 4096 bytes".to_owned()) }
}

/// A namespace or principal: no blanks, no pattern characters.
fn plain_word(s: &str) -> Result<String, Bad> {
    let ok = (1..=64).contains(&s.len())
        && s.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'@'));
    if ok { Ok(s.to_owned()) } else { Err("wanted 1 to 64 of [A-Za-z0-9._@-]".to_owned()) }
}

fn name<T: FromStr<Err = BadName>>(s: &str) -> Result<T, Bad> {
    s.parse().map_err(|e: BadName| e.to_string())
}

/// A table being read: what is left in it when all was taken is unknown.
struct Fields {
    what: String,
    table: Table,
}

impl Fields {
    fn of(what: impl Into<String>, line: usize, node: Node) -> Result<Self, PolicyFault> {
        match node {
            Node::Table(table) => Ok(Self { what: what.into(), table }),
            _ => Err(PolicyFault { line, why: format!("wanted a table: {}", what.into()) }),
        }
    }

    /// A value of the form that `read` takes.
    fn take<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(usize, Node) -> Result<T, PolicyFault>,
    ) -> Result<Option<T>, PolicyFault> {
        self.table.entries.remove(key).map(|(line, node)| read(line, node)).transpose()
    }

    /// Every entry, for a table whose keys are names.
    fn all(self) -> impl Iterator<Item = (String, usize, Node)> {
        self.table.entries.into_iter().map(|(key, (line, node))| (key, line, node))
    }

    /// Refuses what was not taken.
    fn finish(self) -> Result<(), PolicyFault> {
        match self.table.entries.into_iter().next() {
            None => Ok(()),
            Some((key, (line, _))) => {
                Err(PolicyFault { line, why: format!("{key:?} is not known in {}", self.what) })
            }
        }
    }
}

fn text<T>(read: impl Fn(&str) -> Result<T, Bad>) -> impl Fn(usize, Node) -> Result<T, PolicyFault> {
    move |line, node| match node {
        Node::Text(s) => read(&s).map_err(|why| PolicyFault { line, why }),
        _ => Err(PolicyFault { line, why: "wanted a \"text\"".to_owned() }),
    }
}

fn texts<T>(read: impl Fn(&str) -> Result<T, Bad>) -> impl Fn(usize, Node) -> Result<Vec<T>, PolicyFault> {
    move |line, node| match node {
        Node::List(l) => {
            l.iter().map(|(line, s)| read(s).map_err(|why| PolicyFault { line: *line, why })).collect()
        }
        _ => Err(PolicyFault { line, why: "wanted a list of texts".to_owned() }),
    }
}

fn boolean(line: usize, node: Node) -> Result<bool, PolicyFault> {
    match node {
        Node::Bool(b) => Ok(b),
        _ => Err(PolicyFault { line, why: "wanted true or false".to_owned() }),
    }
}

fn within(low: u32, high: u32) -> impl Fn(usize, Node) -> Result<u32, PolicyFault> {
    move |line, node| match node {
        Node::Number(n) if (u64::from(low)..=u64::from(high)).contains(&n) => {
            u32::try_from(n).map_err(|e| PolicyFault { line, why: e.to_string() })
        }
        _ => Err(PolicyFault { line, why: format!("wanted a number from {low} to {high}") }),
    }
}

/// The entries of a table whose keys have a checked form too.
fn map<K: Ord, V>(
    what: &'static str,
    key: impl Fn(&str) -> Result<K, Bad>,
    value: impl Fn(usize, Node) -> Result<V, PolicyFault>,
) -> impl Fn(usize, Node) -> Result<BTreeMap<K, V>, PolicyFault> {
    move |line, node| {
        let entries = Fields::of(what, line, node)?.all();
        entries
            .map(|(k, line, node)| {
                Ok((key(&k).map_err(|why| PolicyFault { line, why })?, value(line, node)?))
            })
            .collect()
    }
}

fn profile(line: usize, node: Node) -> Result<Option<u32>, PolicyFault> {
    let mut f = Fields::of("a profile's table", line, node)?;
    let least = f.take("min-epoch", within(1, u32::MAX))?;
    f.finish()?;
    Ok(least)
}

fn key_phases(line: usize, node: Node) -> Result<Vec<Phase>, PolicyFault> {
    let mut f = Fields::of("a key's table", line, node)?;
    let phases = f.take("phases", texts(phase_word))?;
    f.finish()?;
    phases.ok_or_else(|| PolicyFault { line, why: "wanted phases = [...]".to_owned() })
}

fn envelope_one(line: usize, node: Node) -> Result<EnvelopeOne, PolicyFault> {
    let mut f = Fields::of("[envelope1]", line, node)?;
    let plain = EnvelopeOne::default();
    let scripted = |s: &str| match phase_word(s)? {
        p if p.is_scripted() => Ok(p.as_str()),
        p => Err(format!("{p} has no deadline")),
    };
    let out = EnvelopeOne {
        namespace: f.take("namespace", text(plain_word))?.unwrap_or(plain.namespace),
        principal: f.take("principal", text(plain_word))?.unwrap_or(plain.principal),
        on_disconnect: f.take("on-disconnect", text(disconnect_word))?.unwrap_or(plain.on_disconnect),
        deadlines: f.take("deadline", map("deadline", scripted, within(1, LONGEST)))?.unwrap_or_default(),
    };
    f.finish()?;
    Ok(out)
}

impl Policy {
    /// Reads the text of a `shim.toml`.
    pub fn parse(bytes: &[u8]) -> Result<Self, PolicyFault> {
        let whole = |why: &str| PolicyFault { line: 0, why: why.to_owned() };
        if bytes.len() as u64 > paths::TRUST_MAX {
            return Err(whole("the file is over 1 MiB"));
        }
        let whole_text = std::str::from_utf8(bytes).map_err(|_| whole("the file is not UTF-8"))?;
        let mut f = Fields { what: "shim.toml".to_owned(), table: toml::read(whole_text)? };
        let policy = Self {
            host: f.take("host", text(name))?,
            pools: f.take("pools", texts(name))?.unwrap_or_default(),
            envelope_1: f.take("envelope-1", boolean)?.unwrap_or(false),
            signers_needed: f.take("signers-needed", within(1, MOST_SIGNERS))?.unwrap_or(1),
            revoked: f.take("revoked-signers", text(revoked_word))?.unwrap_or(Revoked::Required),
            max_deadline: f.take("max-deadline", within(1, LONGEST))?.unwrap_or(DEFAULT_DEADLINE),
            epoch_max_step: f.take("epoch-max-step", within(1, u32::MAX))?.unwrap_or(DEFAULT_STEP),
            profiles: f.take("profiles", map("[profiles]", name, profile))?,
            envelope_one: f.take("envelope1", envelope_one)?.unwrap_or_default(),
            environment: f
                .take("environment", map("[environment]", variable, text(plain_text)))?
                .unwrap_or_default(),
            keys: f.take("keys", map("[keys]", fingerprint, key_phases))?,
        };
        f.finish()?;
        Ok(policy)
    }

    /// Whether an intent of this profile may run, and from which epoch on.
    pub fn profile(&self, name: &ProfileName) -> Option<Option<u32>> {
        self.profiles.as_ref()?.get(name).copied()
    }
}

/// The tree alone, for the fuzz target that lets another reader judge it.
#[cfg(feature = "fuzzing")]
pub(crate) fn tree(text: &str) -> Result<BTreeMap<String, crate::fuzzing::Value>, PolicyFault> {
    use crate::fuzzing::Value;
    fn all(table: Table) -> BTreeMap<String, Value> {
        table.entries.into_iter().map(|(name, (_, node))| (name, value(node))).collect()
    }
    fn value(node: Node) -> Value {
        match node {
            Node::Text(s) => Value::Text(s),
            Node::Number(n) => Value::Number(n),
            Node::Bool(b) => Value::Bool(b),
            Node::List(l) => Value::List(l.into_iter().map(|(_, s)| s).collect()),
            Node::Table(t) => Value::Table(all(t)),
        }
    }
    toml::read(text).map(all)
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
