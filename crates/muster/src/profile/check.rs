//! What is wrong or risky with a profile as a whole: lint of each script, and the rules that need the manifest too.

use super::folder::{Folder, Script};
use super::{pattern, signed};
use crate::codes::{Code, Own};
use crate::fault::{Fault, Place};
use crate::shell::{self, Finding, Rule, Severity};
use muster_core::UtcTime;
use muster_signing::intent::{Draft, Target};
use std::collections::BTreeSet;
use std::path::Path;

/// Over this, validity is called long.
const LONG_VALIDITY: u64 = 90 * 86_400;
/// Hosts take at most this much above their floor (`epoch-max-step`'s default).
pub const MAX_STEP: u32 = 1000;
/// Over this, a rise of the epoch is called a jump.
const JUMP: u32 = 100;

/// One remark on a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    /// Where.
    pub place: Place,
    /// The stable code.
    pub code: Code,
    /// How much it weighs.
    pub severity: Severity,
    /// What exactly.
    pub what: String,
    /// What to do.
    pub fix: String,
}

impl Remark {
    fn rule(file: &Path, finding: &Finding) -> Self {
        let rule = finding.rule;
        let what = match finding.detail.as_str() {
            "" => rule.what().to_owned(),
            detail => format!("{}: {detail}", rule.what()),
        };
        Self {
            place: Place::line(file, finding.line),
            code: rule.into(),
            severity: rule.severity(),
            what,
            fix: rule.fix().to_owned(),
        }
    }

    /// As a fault, for a command that refuses because of it.
    pub fn fault(&self) -> Fault {
        let mut fault = Fault::new(self.code, self.what.clone()).fix(self.fix.clone());
        fault.place = Some(self.place.clone());
        fault
    }
}

/// What bash itself says about a script; empty when it parses. Injected, since it runs a program.
pub type BashSays<'a> = dyn Fn(&[u8]) -> Option<(usize, String)> + 'a;

/// Everything there is to say about a folder, errors first within each file.
pub fn folder(folder: &Folder, accept_open: &[String], bash: &BashSays<'_>) -> Vec<Remark> {
    let mut out = Vec::new();
    for script in &folder.scripts {
        out.extend(shell::script(&script.bytes).iter().map(|f| Remark::rule(&script.file, f)));
        if let Some((line, detail)) = bash(&script.bytes) {
            out.push(Remark::rule(&script.file, &Finding { line, rule: Rule::Syntax, detail }));
        }
        names(folder, script, accept_open, &mut out);
    }
    manifest(folder, &mut out);
    out.sort_by(|a, b| {
        let key = |r: &Remark| (r.place.file.clone(), r.place.line, r.code.word());
        key(a).cmp(&key(b))
    });
    out.dedup();
    out
}

/// What there is to say about a script that is signed alone, for envelope 1: there every parameter is open.
pub fn script_alone(script: &Script, accept_open: &[String], bash: &BashSays<'_>) -> Vec<Remark> {
    let mut out: Vec<Remark> =
        shell::script(&script.bytes).iter().map(|f| Remark::rule(&script.file, f)).collect();
    if let Some((line, detail)) = bash(&script.bytes) {
        out.push(Remark::rule(&script.file, &Finding { line, rule: Rule::Syntax, detail }));
    }
    for (name, (line, _)) in shell::read_names(&script.bytes) {
        if decides_whom(&name) && !accept_open.contains(&name) {
            let mut remark = open(&script.file, line, &name);
            remark.fix =
                format!("Sign an intent instead (envelope 2), or accept it with --accept-open {name}.");
            out.push(remark);
        }
    }
    out
}

/// Whether a name decides whom a host obeys (M1).
pub fn decides_whom(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    upper.contains("_CA") || ["_ENDPOINT", "_URL", "_MIRROR", "_REGISTRY"].iter().any(|s| upper.ends_with(s))
}

fn names(folder: &Folder, script: &Script, accept_open: &[String], out: &mut Vec<Remark>) {
    let m = &folder.manifest;
    let reads = shell::read_names(&script.bytes);
    let values: BTreeSet<&str> = m.values_of(script.phase).map(|v| v.name.as_str()).collect();
    for (name, (line, guarded)) in &reads {
        if values.contains(name.as_str()) {
            continue;
        }
        let param = m.params_of(script.phase).find(|p| p.name == *name);
        let closed = param.is_some_and(|p| pattern::is_closed(&p.pattern));
        if decides_whom(name) && !closed && !accept_open.contains(name) {
            out.push(open(&script.file, *line, name));
        } else if param.is_none() && !guarded {
            let finding = Finding { line: *line, rule: Rule::Undeclared, detail: name.clone() };
            out.push(Remark::rule(&script.file, &finding));
        }
    }
    for p in m.params_of(script.phase) {
        if reads.contains_key(&p.name) {
            continue;
        }
        if decides_whom(&p.name) && !pattern::is_closed(&p.pattern) && !accept_open.contains(&p.name) {
            out.push(open(&m.file, p.line, &p.name));
        }
        let detail = format!("{} in {}", p.name, script.phase);
        out.push(Remark::rule(&m.file, &Finding { line: p.line, rule: Rule::Unused, detail }));
    }
    for v in m.values_of(script.phase).filter(|v| v.phases.is_some() && !reads.contains_key(&v.name)) {
        let detail = format!("{} in {}", v.name, script.phase);
        out.push(Remark::rule(&m.file, &Finding { line: v.line, rule: Rule::Unused, detail }));
    }
}

fn open(file: &Path, line: usize, name: &str) -> Remark {
    Remark {
        place: Place::line(file, line),
        code: Own::OpenParameter.into(),
        severity: Severity::Error,
        what: format!(
            "{name} is left to whoever sends it: a stolen controller key could name its own server there"
        ),
        fix: format!("Put {name} under values:, or accept it with --accept-open {name}."),
    }
}

fn manifest(folder: &Folder, out: &mut Vec<Remark>) {
    let m = &folder.manifest;
    let mut add =
        |line, rule, detail: String| out.push(Remark::rule(&m.file, &Finding { line, rule, detail }));
    for p in m.params.iter().filter(|p| pattern::is_wide(&p.pattern)) {
        add(p.line, Rule::WidePattern, format!("{} `{}`", p.name, p.pattern));
    }
    if m.targets.contains(&Target::Any) {
        add(m.targets_line, Rule::TargetAll, String::new());
    }
    let has = |phase| folder.scripts.iter().any(|s| s.phase == phase);
    use muster_core::Phase::{Install, Join, Leave, Uninstall};
    for (there, back) in [(Join, Leave), (Install, Uninstall)] {
        if has(there) && !has(back) {
            add(0, Rule::NoWayBack, format!("{there} without {back}"));
        }
    }
}

/// What to say about the intents that would be signed, beside what was signed before.
pub fn drafts(
    folder: &Folder,
    drafts: &[Draft],
    before: &[signed::SignedPhase],
    now: UtcTime,
) -> Vec<Remark> {
    let file = &folder.manifest.file;
    let mut out = Vec::new();
    let mut add = |rule, detail: String| out.push(Remark::rule(file, &Finding { line: 0, rule, detail }));
    let Some(first) = drafts.first() else { return out };
    let left = first.not_after.unix().saturating_sub(now.unix().max(first.not_before.unix()));
    if left > LONG_VALIDITY {
        add(Rule::LongValidity, format!("until {}", first.not_after));
    }
    let Some(last) = before.iter().map(|s| s.intent.epoch()).max() else { return out };
    let changed = drafts.iter().any(|d| {
        before
            .iter()
            .any(|s| s.intent.phase() == d.phase && s.intent.script_sha256() != d.script_sha256.as_ref())
    });
    if changed && first.epoch == last {
        add(Rule::EpochSame, format!("epoch {last}"));
    }
    if first.epoch > last.saturating_add(JUMP) && first.epoch <= last.saturating_add(MAX_STEP) {
        add(Rule::EpochJump, format!("from {last} to {}", first.epoch));
    }
    let refused = if first.epoch < last {
        Some(format!(
            "epoch {} is below {last}, which was signed before: hosts that took that refuse this",
            first.epoch
        ))
    } else if first.epoch > last.saturating_add(MAX_STEP) {
        Some(format!("epoch {} is more than {MAX_STEP} above {last}, which was signed before", first.epoch))
    } else {
        None
    };
    if let Some(what) = refused {
        out.push(Remark {
            place: Place::line(file, 0),
            code: Own::EpochJump.into(),
            severity: Severity::Error,
            what,
            fix: "Look for a typing error; say --accept-epoch to mean it.".into(),
        });
    }
    out
}
