//! Judging an intent against what came with it and where it arrived.

use super::{Intent, MAX_PATTERN, MAX_VALUE, ParamLine, Target};
use crate::{Reason, Refusal, UtcTime, params::Param, sshsig::hex};
use muster_core::{HostName, Phase, PoolName};
use regex_lite::{Regex, RegexBuilder};
use std::collections::BTreeMap;

/// Bytes that one compiled pattern may take. A pattern comes from the envelope before its
/// signature was checked, so that this bounds what a stranger can make us build.
const COMPILED_SIZE: usize = 512 * 1024;

/// Compiles a pattern for a match on the whole value. It must stand alone first: `a)|(b` does not,
/// and inside of the wrapping group it would match in the middle.
pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
    if pattern.is_empty() || pattern.len() > MAX_PATTERN {
        return Err(format!("a pattern is 1 to {MAX_PATTERN} bytes"));
    }
    let build = |text: &str| {
        RegexBuilder::new(text)
            .size_limit(COMPILED_SIZE)
            .build()
            .map_err(|e| format!("the pattern does not compile: {e}"))
    };
    drop(build(pattern)?);
    build(&format!(r"\A(?:{pattern})\z"))
}

/// Whether a parameter line may have this pattern; the error says why not.
pub fn check_pattern(pattern: &str) -> Result<(), String> {
    compile(pattern).map(drop)
}

impl Intent {
    /// Whether the SHA-256 of the received script (`None`: no script came) is the signed one (2).
    pub fn check_script(&self, sha256: Option<&[u8; 32]>) -> Result<(), Refusal> {
        if self.script_sha256() == sha256 {
            return Ok(());
        }
        let say =
            |d: Option<&[u8; 32]>| d.map_or_else(|| "no script".to_owned(), |d| format!("sha256 {}", hex(d)));
        let detail = format!("received {}, signed {}", say(sha256), say(self.script_sha256()));
        Err(Refusal::new(Reason::ScriptDigest, detail))
    }

    /// Whether the envelope's phase is the signed one (6).
    pub fn check_phase(&self, outer: Phase) -> Result<(), Refusal> {
        if self.phase() == outer {
            return Ok(());
        }
        Err(Refusal::new(
            Reason::PhaseMismatch,
            format!("the envelope says {outer}, the intent {}", self.phase()),
        ))
    }

    /// The first target line that names this host or one of its pools (6). Names are compared
    /// whole; a host without a name, and without pools, is met by `*` alone.
    pub fn check_target(&self, host: Option<&HostName>, pools: &[PoolName]) -> Result<&Target, Refusal> {
        let hit = |t: &&Target| match t {
            Target::Any => true,
            Target::Host(name) => Some(name) == host,
            Target::Pool(name) => pools.contains(name),
        };
        self.targets().iter().find(hit).ok_or_else(|| {
            let list = |all: Vec<String>| {
                let more = all.len().saturating_sub(8);
                let mut text = all.into_iter().take(8).collect::<Vec<_>>().join(" ");
                if more > 0 {
                    text.push_str(&format!(" and {more} more"));
                }
                text
            };
            let here = host
                .map(|h| format!("host={h}"))
                .into_iter()
                .chain(pools.iter().map(|p| format!("pool={p}")));
            let here = list(here.collect());
            let here = if here.is_empty() { "without a name and pools".to_owned() } else { here };
            let wanted = list(self.targets().iter().map(Target::to_string).collect());
            Refusal::new(Reason::Target, format!("it is for {wanted}; this host is {here}"))
        })
    }

    /// Whether `not-before <= now < not-after` (6).
    pub fn check_validity(&self, now: UtcTime) -> Result<(), Refusal> {
        let reason = if now < self.not_before() {
            Reason::NotYetValid
        } else if now >= self.not_after() {
            Reason::Expired
        } else {
            return Ok(());
        };
        let detail = format!("valid from {} until before {}; now {now}", self.not_before(), self.not_after());
        Err(Refusal::new(reason, detail))
    }

    /// Whether its deadline is within the host's cap, in seconds (6).
    pub fn check_deadline(&self, cap: u32) -> Result<(), Refusal> {
        if self.deadline() <= cap {
            return Ok(());
        }
        Err(Refusal::new(
            Reason::DeadlineCap,
            format!("it asks for {} s, the cap is {cap} s", self.deadline()),
        ))
    }

    /// Checks parameters against the declared ones (6) and returns the environment that the script
    /// gets from the intent: signed constants and parameters, ascending by name.
    ///
    /// A value must be UTF-8 of at most 65,536 bytes without NUL, LF and CR, and match its
    /// pattern whole. Values never appear in a refusal.
    pub fn check_params(&self, params: &[Param]) -> Result<Vec<Param>, Refusal> {
        let mut out: BTreeMap<&str, &[u8]> = BTreeMap::new();
        for value in self.values() {
            out.insert(&value.name, &value.value);
        }
        for (name, value) in params {
            if self.values().iter().any(|v| v.name == *name) {
                return Err(Refusal::new(Reason::ParamIsValue, name.clone()));
            }
            let Some(line) = self.params().iter().find(|p| p.name == *name) else {
                return Err(Refusal::new(Reason::ParamUndeclared, name.clone()));
            };
            check_value(line, value)?;
            if out.insert(name, value).is_some() {
                return Err(Refusal::new(Reason::ParamForm, format!("{name} is given twice")));
            }
        }
        if let Some(line) = self.params().iter().find(|p| !p.optional && !out.contains_key(p.name.as_str())) {
            return Err(Refusal::new(Reason::ParamMissing, line.name.clone()));
        }
        Ok(out.into_iter().map(|(name, value)| (name.to_owned(), value.to_vec())).collect())
    }
}

fn check_value(line: &ParamLine, value: &[u8]) -> Result<(), Refusal> {
    let refuse = |why: &str| Refusal::new(Reason::ParamPattern, format!("{}{why}", line.name));
    if value.len() > MAX_VALUE {
        return Err(refuse(&format!(": the value is over {MAX_VALUE} bytes")));
    }
    if value.iter().any(|b| matches!(b, 0 | b'\n' | b'\r')) {
        return Err(refuse(": the value holds NUL, LF or CR"));
    }
    let text = core::str::from_utf8(value).map_err(|_| refuse(": the value is not UTF-8"))?;
    // It compiled when the intent was read.
    let pattern = compile(&line.pattern).map_err(|why| refuse(&format!(": {why}")))?;
    if pattern.is_match(text) { Ok(()) } else { Err(refuse(&format!(": wanted {}", line.pattern))) }
}
