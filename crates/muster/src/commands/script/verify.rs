//! `muster script verify`

use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::printer::{Listing, Printer};
use crate::profile::folder::{self, Script};
use crate::profile::signed;
use crate::profile::verify::{self, Root};
use muster_core::{HostName, PoolName, UtcTime};
use muster_signing::Refusal;
use muster_signing::verify::Verified;
use serde::Serialize;
use std::path::PathBuf;

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// The profile's folder.
    pub folder: PathBuf,
    /// Whom to trust.
    pub root: Root,
    /// For which host, if that is asked.
    pub host: Option<(HostName, Vec<PoolName>)>,
    /// As of when.
    pub at: UtcTime,
    /// Scripts signed for envelope 1.
    pub envelope_one: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    phase: String,
    verdict: &'static str,
    reason: Option<&'static str>,
    detail: String,
    epoch: Option<u32>,
    not_after: Option<String>,
    signers: Vec<String>,
}

fn row(phase: String, judged: Result<Vec<Verified>, Refusal>) -> Row {
    let (verdict, reason, detail, signers) = match judged {
        Ok(v) => {
            let signers = v.iter().map(|v| match v.authority() {
                Some(ca) => format!("{} by authority {ca}", v.fingerprint()),
                None => v.fingerprint().to_owned(),
            });
            ("good", None, String::new(), signers.collect())
        }
        Err(r) => ("refused", Some(r.reason.code()), r.to_string(), Vec::new()),
    };
    Row { phase, verdict, reason, detail, epoch: None, not_after: None, signers }
}

/// Verifies every phase that is signed; any refusal fails.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let scripts = folder::read_scripts(&settings.folder)?;
    let rows = if settings.envelope_one { one(settings, &scripts)? } else { two(settings, &scripts)? };
    if rows.is_empty() {
        return Err(signed::nothing_signed(&settings.folder, "holds nothing signed").into());
    }
    let bad = rows.iter().filter(|r| r.reason.is_some()).count();
    let total = rows.len();
    printer.listing(&Listing {
        columns: &["phase", "verdict", "epoch", "until", "signers or reason"],
        rows,
        cells: |r| {
            let last = if r.reason.is_some() {
                format!("{} [{}]", r.detail, r.reason.unwrap_or(""))
            } else {
                r.signers.join(", ")
            };
            let epoch = r.epoch.map(|e| e.to_string()).unwrap_or_default();
            vec![r.phase.clone(), r.verdict.to_owned(), epoch, r.not_after.clone().unwrap_or_default(), last]
        },
        name: |r| r.phase.clone(),
        empty: "",
    });
    if bad > 0 {
        let what = format!("{bad} of {total} phases in {} would be refused", settings.folder.display());
        return Err(Fault::new(Own::VerifyFailed, what).into());
    }
    Ok(Exit::Ok)
}

fn two(settings: &Settings, scripts: &[Script]) -> Result<Vec<Row>, crate::fault::Faults> {
    let host = settings.host.as_ref().map(|(n, p)| (n, p.as_slice()));
    let mut rows = Vec::new();
    for p in signed::read_all(&settings.folder)? {
        let script = scripts.iter().find(|s| s.phase == p.intent.phase());
        let judged = settings.root.judge(&p, script, settings.at);
        let judged = judged.and_then(|v| verify::fits(&p, host, settings.at).map(|_| v));
        let mut row = row(p.intent.phase().to_string(), judged);
        row.epoch = Some(p.intent.epoch());
        row.not_after = Some(p.intent.not_after().to_string());
        rows.push(row);
    }
    Ok(rows)
}

fn one(settings: &Settings, scripts: &[Script]) -> Result<Vec<Row>, crate::fault::Faults> {
    let mut rows = Vec::new();
    for s in scripts {
        let file = signed::v1_signature_file(&s.file);
        if !file.exists() {
            continue;
        }
        let judged = match signed::read_signature(&file) {
            Ok(sig) => settings.root.judge_v1(s, &sig.signature, settings.at).map(|v| vec![v]),
            Err(fault) => return Err(fault.into()),
        };
        rows.push(row(s.phase.to_string(), judged));
    }
    Ok(rows)
}
