//! `muster script …`

pub mod lint;
pub mod show;
pub mod sign;
pub mod verify;

use crate::printer::{Printer, Tone, clean};
use crate::profile::check::Remark;
use crate::shell::Severity;
use muster_sys::command::{Command, Outcome};
use serde::Serialize;
use std::time::Duration;

/// What bash itself says about a script; silent where there is no bash.
pub fn bash_says(script: &[u8]) -> Option<(usize, String)> {
    let run =
        Command::new("/bin/bash").arg("-n").stdin(script).deadline(Duration::from_secs(20)).keep_output(8192);
    let output = run.run().ok()?;
    if !matches!(output.outcome, Outcome::Exited(code) if code != 0) {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let first = text.lines().next().unwrap_or("bash does not say why");
    let after = first.split_once("line ").map_or(first, |(_, rest)| rest);
    let (line, why) = after.split_once(": ").unwrap_or(("0", after));
    Some((line.parse().unwrap_or(0), why.to_owned()))
}

#[derive(Serialize)]
struct Row<'r> {
    file: &'r str,
    line: usize,
    severity: &'static str,
    code: &'static str,
    what: &'r str,
    fix: &'r str,
}

fn rows(remarks: &[Remark]) -> Vec<Row<'_>> {
    remarks
        .iter()
        .map(|r| Row {
            file: &r.place.file,
            line: r.place.line,
            severity: if r.severity == Severity::Error { "error" } else { "warning" },
            code: r.code.word(),
            what: &r.what,
            fix: &r.fix,
        })
        .collect()
}

fn line(remark: &Remark, printer: &Printer) -> String {
    let (tone, word) = match remark.severity {
        Severity::Error => (Tone::Bad, "error"),
        Severity::Warning => (Tone::Warn, "warning"),
    };
    let word = printer.tint(tone, word);
    format!("{}: {word}[{}]: {}. {}", remark.place, remark.code, clean(&remark.what), remark.fix)
}
