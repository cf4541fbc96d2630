//! An intent in words that a person can agree or disagree with.

use super::folder::{Script, hex};
use super::signed::SignedPhase;
use crate::printer::clean;
use crate::yaml::walk::show_duration;
use muster_core::{Phase, UtcTime};
use muster_signing::intent::{Intent, OnDisconnect, Target};
use serde::Serialize;

/// An intent for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Shown {
    /// The profile.
    pub profile: String,
    /// The phase.
    pub phase: String,
    /// The epoch.
    pub epoch: u32,
    /// For whom, as signed.
    pub targets: Vec<String>,
    /// First second.
    pub not_before: String,
    /// End.
    pub not_after: String,
    /// Whether it is valid now.
    pub valid_now: bool,
    /// Seconds.
    pub deadline: u32,
    /// `end` or `finish`.
    pub on_disconnect: &'static str,
    /// SHA-256 of the script; none for `floor`.
    pub script_sha256: Option<String>,
    /// Whether the script beside it is the signed one; none when there is none to compare.
    pub script_matches: Option<bool>,
    /// Signed constants, as text where they are text.
    pub values: Vec<(String, String)>,
    /// Parameters: name, pattern, whether it may be left out.
    pub params: Vec<ShownParam>,
    /// Fingerprints of the keys that the signatures name; nothing is verified here.
    pub signatures: Vec<String>,
}

/// A parameter for programs.
#[derive(Debug, Serialize)]
pub struct ShownParam {
    /// Its name.
    pub name: String,
    /// The pattern of its whole value.
    pub pattern: String,
    /// Whether it may be left out.
    pub optional: bool,
}

fn target(t: &Target) -> String {
    match t {
        Target::Any => "*".into(),
        Target::Host(h) => format!("host={h}"),
        Target::Pool(p) => format!("pool={p}"),
    }
}

/// An intent for programs.
pub fn shown(intent: &Intent, script: Option<&Script>, signatures: Vec<String>, now: UtcTime) -> Shown {
    let matches = |want: &[u8; 32]| script.map(|s| s.sha256 == *want);
    Shown {
        profile: intent.profile().to_string(),
        phase: intent.phase().to_string(),
        epoch: intent.epoch(),
        targets: intent.targets().iter().map(target).collect(),
        not_before: intent.not_before().to_string(),
        not_after: intent.not_after().to_string(),
        valid_now: intent.check_validity(now).is_ok(),
        deadline: intent.deadline(),
        on_disconnect: if intent.on_disconnect() == OnDisconnect::End { "end" } else { "finish" },
        script_sha256: intent.script_sha256().map(|d| hex(d)),
        script_matches: intent.script_sha256().and_then(matches),
        values: intent
            .values()
            .iter()
            .map(|v| (v.name.clone(), String::from_utf8_lossy(&v.value).into_owned()))
            .collect(),
        params: intent
            .params()
            .iter()
            .map(|p| ShownParam { name: p.name.clone(), pattern: p.pattern.clone(), optional: p.optional })
            .collect(),
        signatures,
    }
}

/// The fingerprints that a phase's signatures name.
pub fn fingerprints(phase: &SignedPhase) -> Vec<String> {
    phase.signatures.iter().map(|s| s.signature.fingerprint()).collect()
}

/// What all phases share, in sentences.
pub fn heading(s: &Shown, now: UtcTime) -> Vec<String> {
    let whom: Vec<String> = s.targets.iter().map(|t| whom(t)).collect();
    vec![
        format!("Profile {}, epoch {}.", s.profile, s.epoch),
        format!("For {}.", whom.join(", ")),
        format!("Valid from {} until {}{}.", s.not_before, s.not_after, left(s, now)),
    ]
}

fn whom(target: &str) -> String {
    match target.split_once('=') {
        Some(("host", name)) => format!("host {name}"),
        Some(("pool", name)) => format!("every host of pool {name}"),
        _ => "every host that trusts the signer".into(),
    }
}

fn left(s: &Shown, now: UtcTime) -> String {
    let (Ok(from), Ok(until)) = (UtcTime::parse(&s.not_before), UtcTime::parse(&s.not_after)) else {
        return String::new();
    };
    let coarse = |secs: u64| show_duration(if secs > 86_400 { secs - secs % 3600 } else { secs - secs % 60 });
    if now < from {
        format!(" (begins in {})", coarse(from.unix() - now.unix()))
    } else if now >= until {
        " (over)".into()
    } else {
        format!(" ({} left)", coarse(until.unix() - now.unix()))
    }
}

/// One phase, in sentences.
pub fn phase(s: &Shown) -> Vec<String> {
    let mut out = Vec::new();
    if s.phase == Phase::Floor.as_str() {
        out.push(format!(
            "floor: runs nothing; hosts refuse epochs of {} below {} from then on.",
            s.profile, s.epoch
        ));
    } else {
        let digest = s.script_sha256.as_deref().unwrap_or("-");
        let state = match s.script_matches {
            Some(true) => ", which is the one beside it",
            Some(false) => ", WHICH IS NOT THE ONE BESIDE IT",
            None => "",
        };
        out.push(format!("{0}: runs as root the script with SHA-256 {digest}{state}.", s.phase));
        let fate = if s.on_disconnect == "end" { "ended" } else { "left to finish" };
        let time = show_duration(u64::from(s.deadline));
        out.push(format!("  It may take {time}, and is {fate} when the connection goes away."));
    }
    for (name, value) in &s.values {
        out.push(format!("  {name} is {:?}: signed, and nobody can send another.", clean(value)));
    }
    for p in &s.params {
        let may = if p.optional { "may" } else { "must" };
        out.push(format!("  {} {may} be sent, and must match as a whole: {}", p.name, clean(&p.pattern)));
    }
    match s.signatures.len() {
        0 => out.push("  Nobody signed it yet.".into()),
        _ => out.push(format!("  Signatures name {} (not verified here).", s.signatures.join(", "))),
    }
    out
}
