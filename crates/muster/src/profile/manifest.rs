//! `profile.yaml`: what a profile is, in words that a reviewer reads.
//!
//! Form: `docs/profiles.md`. Unknown keys refuse; every fault carries its line.

use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::files;
use crate::shell::is_carried;
use crate::yaml::walk::{Fields, Walk, duration};
use crate::yaml::{self, Kind, Node};
use base64ct::{Base64, Encoding};
use muster_core::{HostName, Phase, PoolName, ProfileName, UtcTime};
use muster_signing::intent::{OnDisconnect, Target};
use std::path::{Path, PathBuf};

/// Validity when the manifest says none.
pub const DEFAULT_VALIDITY: u64 = 30 * 86_400;
/// Longest value, decoded (the intent's bound).
const MAX_VALUE: usize = 65_536;

/// A manifest, checked.
#[derive(Debug)]
pub struct Manifest {
    /// The file it was read from.
    pub file: PathBuf,
    /// The profile's name.
    pub profile: ProfileName,
    /// The epoch, unless the command line gives it.
    pub epoch: Option<u32>,
    /// For whom.
    pub targets: Vec<Target>,
    /// The line of `targets:`.
    pub targets_line: usize,
    /// When it is valid.
    pub validity: Validity,
    /// Signed constants.
    pub values: Vec<Value>,
    /// Declared parameters.
    pub params: Vec<Param>,
    /// What is said about single phases.
    pub phases: Vec<PhaseEntry>,
}

/// When an intent is valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Validity {
    /// First second; the time of signing when none.
    pub not_before: Option<UtcTime>,
    /// End; not-before plus `length` when none.
    pub not_after: Option<UtcTime>,
    /// Seconds; 30 days when none.
    pub length: Option<u64>,
}

/// A signed constant.
#[derive(Debug)]
pub struct Value {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The file of the folder that they are from.
    pub source: Option<String>,
    /// The phases it belongs to; none = all.
    pub phases: Option<Vec<Phase>>,
    /// Its line.
    pub line: usize,
}

/// A declared parameter.
#[derive(Debug)]
pub struct Param {
    /// Its name.
    pub name: String,
    /// The pattern of its whole value.
    pub pattern: String,
    /// Whether it may be left out.
    pub optional: bool,
    /// The phases it belongs to; none = all.
    pub phases: Option<Vec<Phase>>,
    /// Its line.
    pub line: usize,
}

/// What is said about one phase.
#[derive(Debug)]
pub struct PhaseEntry {
    /// Which.
    pub phase: Phase,
    /// Its line.
    pub line: usize,
    /// Seconds.
    pub deadline: Option<u32>,
    /// What becomes of a run whose peer goes away.
    pub on_disconnect: Option<OnDisconnect>,
}

const KEYS: [&str; 9] =
    ["profile", "epoch", "targets", "validity", "not-before", "not-after", "values", "params", "phases"];

impl Manifest {
    /// Reads `profile.yaml` of a folder.
    pub fn read(folder: &Path) -> Result<Self, Faults> {
        super::folder::there(folder)?;
        let file = folder.join(super::MANIFEST);
        if !file.exists() {
            let what = format!("{} has no {}", folder.display(), super::MANIFEST);
            return Err(Fault::new(Own::ManifestMissing, what).into());
        }
        let text = files::read_text(&file, yaml::MAX_BYTES)?;
        Self::parse(&text, &file)
    }

    /// Reads a manifest; `file` names it in messages, and its folder is where value files are looked for.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Faults> {
        let root = yaml::parse(text, file)?;
        let mut walk = Walk::new(file);
        let read = Self::walk(&mut walk, &root, file);
        let faults = walk.finish();
        match read {
            Some(manifest) if faults.is_empty() => Ok(manifest),
            _ => {
                Faults::check(faults)?;
                Err(Fault::new(Own::Fault, "the manifest was refused without a reason").at(file, 0).into())
            }
        }
    }

    fn walk(walk: &mut Walk<'_>, root: &Node, file: &Path) -> Option<Self> {
        let top = walk.fields(root, "the profile", &KEYS)?;
        let profile = top.need(walk, "profile", "the profile's name").and_then(|n| walk.parsed(n, "profile"));
        let epoch = top.get("epoch").and_then(|n| {
            walk.value(n, "epoch", "a whole number from 1 to 4294967295", |t| {
                t.parse::<u32>().ok().filter(|e| *e > 0 && !t.starts_with(['0', '+']))
            })
        });
        let (targets, targets_line) = read_targets(walk, &top);
        let validity = read_validity(walk, &top);
        // Never empty: `-` alone would mean standard input.
        let folder = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let values = top.get("values").map(|n| read_values(walk, n, folder)).unwrap_or_default();
        let params = top.get("params").map(|n| read_params(walk, n)).unwrap_or_default();
        for p in &params {
            if let Some(v) = values.iter().find(|v| v.name == p.name) {
                let what = format!("{} is a parameter here and a value on line {}", p.name, v.line);
                walk.fault(
                    Own::ConfigValue,
                    p.line,
                    what,
                    Some("Keep one: a signed value cannot be sent.".into()),
                );
            }
        }
        let phases = top.get("phases").map(|n| read_phases(walk, n)).unwrap_or_default();
        let file = file.to_owned();
        Some(Self { file, profile: profile?, epoch, targets, targets_line, validity, values, params, phases })
    }

    /// What is said about a phase.
    pub fn phase(&self, phase: Phase) -> Option<&PhaseEntry> {
        self.phases.iter().find(|p| p.phase == phase)
    }

    /// The values of a phase.
    pub fn values_of(&self, phase: Phase) -> impl Iterator<Item = &Value> {
        self.values.iter().filter(move |v| v.phases.as_ref().is_none_or(|p| p.contains(&phase)))
    }

    /// The parameters of a phase.
    pub fn params_of(&self, phase: Phase) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(move |v| v.phases.as_ref().is_none_or(|p| p.contains(&phase)))
    }
}

/// Reads `*`, `host=NAME` or `pool=NAME`.
pub fn parse_target(text: &str) -> Option<Target> {
    if text == "*" {
        return Some(Target::Any);
    }
    match text.split_once('=')? {
        ("host", name) => HostName::new(name).ok().map(Target::Host),
        ("pool", name) => PoolName::new(name).ok().map(Target::Pool),
        _ => None,
    }
}

fn read_targets(walk: &mut Walk<'_>, top: &Fields<'_>) -> (Vec<Target>, usize) {
    let form = "one or more of host=NAME, pool=NAME, or \"*\" alone";
    let Some(node) = top.need(walk, "targets", form) else { return (Vec::new(), 0) };
    let mut targets = Vec::new();
    for item in walk.many(node) {
        targets.extend(walk.value(item, "targets", form, parse_target));
    }
    if targets.contains(&Target::Any) && targets.len() > 1 {
        walk.fault(
            Own::ConfigValue,
            node.line,
            "targets has \"*\" beside others",
            Some("Let it stand alone.".into()),
        );
    }
    if targets.is_empty() {
        walk.fault(Own::ConfigMissing, node.line, "targets names nobody", Some(format!("Write {form}.")));
    }
    targets.sort();
    targets.dedup();
    (targets, node.line)
}

fn read_validity(walk: &mut Walk<'_>, top: &Fields<'_>) -> Validity {
    let time = |walk: &mut Walk<'_>, key| {
        let form = "a time such as 2026-11-29T00:00:00Z";
        top.get(key).and_then(|n| walk.value(n, key, form, |t| UtcTime::parse(t).ok()))
    };
    let validity = Validity {
        not_before: time(walk, "not-before"),
        not_after: time(walk, "not-after"),
        length: top
            .get("validity")
            .and_then(|n| walk.value(n, "validity", "a duration such as 30d or 12h", duration)),
    };
    if let (Some(node), Some(_)) = (top.get("validity"), validity.not_after) {
        let fix = Some("Keep one of them.".into());
        walk.fault(Own::ConfigValue, node.line, "both validity and not-after say when it ends", fix);
    }
    validity
}

fn read_name(walk: &mut Walk<'_>, name: &str, line: usize) -> bool {
    let rest = name.strip_prefix("MUSTER_").or_else(|| name.strip_prefix("KPSSH_")).unwrap_or_default();
    let form =
        (1..=120).contains(&rest.len()) && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let taken = matches!(name, "MUSTER_RUN_ID" | "MUSTER_PHASE" | "MUSTER_PROFILE");
    if !form || taken || !is_carried(name) {
        let why =
            if taken { "is set by the shim itself" } else { "is not a name that an envelope can carry" };
        let fix = "Use MUSTER_ or KPSSH_ and up to 120 letters, digits and underscores.";
        walk.fault(Own::ConfigValue, line, format!("{name:?} {why}"), Some(fix.into()));
        return false;
    }
    true
}

fn read_phase_list(walk: &mut Walk<'_>, fields: &Fields<'_>) -> Option<Vec<Phase>> {
    let node = fields.get("phases")?;
    let at = fields.at("phases");
    let form = "install, join, leave or uninstall";
    let items = walk.many(node);
    Some(items.iter().filter_map(|i| walk.value(i, &at, form, scripted)).collect())
}

fn scripted(word: &str) -> Option<Phase> {
    Phase::from_word(word).filter(|p| p.is_scripted())
}

fn read_values(walk: &mut Walk<'_>, node: &Node, folder: &Path) -> Vec<Value> {
    let mut out = Vec::new();
    for e in walk.entries(node, "values").unwrap_or_default() {
        if !read_name(walk, &e.key, e.line) {
            continue;
        }
        let at = format!("values.{}", e.key);
        let (bytes, phases) = match &e.value.kind {
            Kind::Map(_) => {
                let Some(f) = walk.fields(&e.value, &at, &["value", "file", "encode", "phases"]) else {
                    continue;
                };
                (long_value(walk, &f, folder), read_phase_list(walk, &f))
            }
            _ => (walk.text(&e.value, &at).map(|t| (t.into_bytes(), None)), None),
        };
        let Some((bytes, source)) = bytes else { continue };
        if bytes.len() > MAX_VALUE || bytes.iter().any(|b| matches!(b, 0 | b'\n')) {
            let what = format!("{at} is over {MAX_VALUE} bytes or holds a NUL or a line feed");
            let fix =
                "For a file of several lines write {file: NAME, encode: base64} and decode it in the script.";
            walk.fault(Own::ConfigValue, e.line, what, Some(fix.into()));
            continue;
        }
        out.push(Value { name: e.key.clone(), bytes, source, phases, line: e.line });
    }
    out
}

/// The bytes of a value, and the file that they are from.
fn long_value(walk: &mut Walk<'_>, f: &Fields<'_>, folder: &Path) -> Option<(Vec<u8>, Option<String>)> {
    let mut source = None;
    let bytes = match (f.get("value"), f.get("file")) {
        (Some(v), None) => walk.text(v, &f.at("value"))?.into_bytes(),
        (None, Some(file)) => {
            let name = walk.text(file, &f.at("file"))?;
            match files::read_within(folder, Path::new(&name), MAX_VALUE) {
                Ok(bytes) => {
                    source = Some(name);
                    bytes
                }
                Err(fault) => {
                    let what =
                        fault.why.iter().fold(fault.what.clone(), |what, why| format!("{what}: {why}"));
                    let fix = "A value's file is a path from the profile's folder that stays in it.";
                    walk.fault(Own::ConfigValue, file.line, what, Some(fix.into()));
                    return None;
                }
            }
        }
        _ => {
            let what = format!("{} needs either value or file", f.at("value"));
            walk.fault(Own::ConfigMissing, f.line(), what, None);
            return None;
        }
    };
    let encode = match f.get("encode") {
        Some(n) => {
            walk.value(n, &f.at("encode"), "base64, or leave it out", |t| (t == "base64").then_some(true))?
        }
        None => false,
    };
    if encode {
        return Some((Base64::encode_string(&bytes).into_bytes(), source));
    }
    // One line end at the end of a file is the editor's, not the value's.
    Some((bytes.strip_suffix(b"\n").map(<[u8]>::to_vec).unwrap_or(bytes), source))
}

fn read_params(walk: &mut Walk<'_>, node: &Node) -> Vec<Param> {
    let mut out = Vec::new();
    for e in walk.entries(node, "params").unwrap_or_default() {
        if !read_name(walk, &e.key, e.line) {
            continue;
        }
        let at = format!("params.{}", e.key);
        let (pattern, optional, phases) = match &e.value.kind {
            Kind::Map(_) => {
                let Some(f) = walk.fields(&e.value, &at, &["pattern", "optional", "phases"]) else {
                    continue;
                };
                let pattern =
                    f.need(walk, "pattern", "a pattern").and_then(|n| walk.text(n, &f.at("pattern")));
                let optional =
                    f.get("optional").and_then(|n| walk.flag(n, &f.at("optional"))).unwrap_or(false);
                (pattern, optional, read_phase_list(walk, &f))
            }
            _ => (walk.text(&e.value, &at), false, None),
        };
        let Some(pattern) = pattern else { continue };
        if let Err(why) = super::pattern::check(&pattern) {
            let fix = "Write a pattern for the whole value, without ^ and $ at its ends.";
            walk.fault(Own::ConfigValue, e.line, format!("{at}: {why}"), Some(fix.into()));
            continue;
        }
        out.push(Param { name: e.key.clone(), pattern, optional, phases, line: e.line });
    }
    out
}

fn read_phases(walk: &mut Walk<'_>, node: &Node) -> Vec<PhaseEntry> {
    let mut out = Vec::new();
    for e in walk.entries(node, "phases").unwrap_or_default() {
        let Some(phase) = scripted(&e.key) else {
            let near = yaml::nearest(&e.key, Phase::SCRIPTED.iter().map(|p| p.as_str()));
            let fix = near
                .map_or("Known: install, join, leave, uninstall.".into(), |n| format!("Did you mean {n:?}?"));
            walk.fault(Own::ConfigKey, e.line, format!("unknown phase {:?}", e.key), Some(fix));
            continue;
        };
        let at = format!("phases.{}", e.key);
        let Some(f) = walk.fields(&e.value, &at, &["deadline", "on-disconnect"]) else { continue };
        let deadline = f.get("deadline").and_then(|n| {
            walk.value(n, &f.at("deadline"), "a duration from 1s to 24h", |t| {
                duration(t).filter(|d| (1..=86_400).contains(d)).and_then(|d| u32::try_from(d).ok())
            })
        });
        let on_disconnect = f.get("on-disconnect").and_then(|n| {
            walk.value(n, &f.at("on-disconnect"), "end or finish", |t| match t {
                "end" => Some(OnDisconnect::End),
                "finish" => Some(OnDisconnect::Finish),
                _ => None,
            })
        });
        out.push(PhaseEntry { phase, line: e.line, deadline, on_disconnect });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Manifest, Vec<String>> {
        Manifest::parse(text, Path::new("p/profile.yaml"))
            .map_err(|f| f.iter().map(ToString::to_string).collect())
    }

    const GOOD: &str = "profile: tls-bootstrap\nepoch: 7\ntargets: [pool=edge, host=a.b]\nvalidity: 12h\nvalues:\n  \
        MUSTER_CLUSTER_ENDPOINT: https://10.0.0.5:6443\n  KPSSH_X: {value: \"1\", phases: [join]}\nparams:\n  \
        MUSTER_NODE_NAME: \"[a-z0-9-]+\"\n  MUSTER_L: {pattern: \"a|b\", optional: true, phases: join}\nphases:\n  \
        join: {deadline: 15m, on-disconnect: finish}\n";

    #[test]
    fn a_whole_one() {
        let m = parse(GOOD).unwrap();
        assert_eq!((m.profile.as_str(), m.epoch), ("tls-bootstrap", Some(7)));
        assert_eq!(m.targets.len(), 2);
        assert_eq!(m.validity.length, Some(43_200));
        assert_eq!(m.values_of(Phase::Leave).count(), 1);
        assert_eq!(m.params_of(Phase::Join).count(), 2);
        assert_eq!(m.phase(Phase::Join).unwrap().deadline, Some(900));
    }

    #[test]
    fn every_fault_with_its_line() {
        for (text, wants) in [
            (
                "profil: x\ntargets: \"*\"\n",
                vec![
                    "p/profile.yaml:1: unknown key \"profil\"",
                    "p/profile.yaml:1: the profile has no \"profile\"",
                ],
            ),
            ("profile: A b\ntargets: \"*\"\n", vec!["p/profile.yaml:1: profile: profile name \"A b\""]),
            (
                "profile: a\nepoch: 007\ntargets: []\n",
                vec![":2: epoch is \"007\"", ":3: targets names nobody"],
            ),
            ("profile: a\ntargets: [\"*\", pool=a]\n", vec![":2: targets has \"*\" beside others"]),
            ("profile: a\ntargets: [edge]\n", vec![":2: targets is \"edge\"", ":2: targets names nobody"]),
            ("profile: a\ntargets: \"*\"\nvalidity: 30\n", vec![":3: validity is \"30\""]),
            (
                "profile: a\ntargets: \"*\"\nvalidity: 1d\nnot-after: 2030-01-01T00:00:00Z\n",
                vec![":3: both validity"],
            ),
            (
                "profile: a\ntargets: \"*\"\nvalues:\n  PATH: x\n  MUSTER_PHASE: x\n",
                vec![":4: \"PATH\" is not", ":5: \"MUSTER_PHASE\" is set"],
            ),
            (
                "profile: a\ntargets: \"*\"\nvalues:\n  MUSTER_A: {file: /etc/hostname}\n  MUSTER_B: {file: ../x}\n",
                vec!["p/profile.yaml:4: ", "p/profile.yaml:5: "],
            ),
            (
                "profile: a\ntargets: \"*\"\nvalues:\n  MUSTER_A: {file: no/such}\n",
                vec![":4: cannot read p/no/such"],
            ),
            (
                "profile: a\ntargets: \"*\"\nvalues:\n  MUSTER_A: |\n    a\n    b\n",
                vec![":4: values.MUSTER_A is over"],
            ),
            ("profile: a\ntargets: \"*\"\nparams:\n  MUSTER_A: \"a)|(b\"\n", vec![":4: params.MUSTER_A: "]),
            (
                "profile: a\ntargets: \"*\"\nvalues: {MUSTER_A: x}\nparams: {MUSTER_A: x}\n",
                vec![":4: MUSTER_A is a parameter here and a value on line 3"],
            ),
            (
                "profile: a\ntargets: \"*\"\nphases:\n  jion: {}\n  join: {deadline: 2d, on-disconnect: no}\n",
                vec![
                    ":4: unknown phase \"jion\"",
                    ":5: phases.join.deadline",
                    ":5: phases.join.on-disconnect",
                ],
            ),
            ("- a\n", vec![":1: the profile is a list"]),
        ] {
            let got = parse(text).unwrap_err();
            assert_eq!(got.len(), wants.len(), "{text}: {got:#?}");
            for (g, w) in got.iter().zip(wants) {
                assert!(g.contains(w), "{text}: {g}");
            }
        }
    }
}
