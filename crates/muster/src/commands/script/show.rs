//! `muster script show`

use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::printer::{Format, Printer};
use crate::profile::words::{self, Shown};
use crate::profile::{folder, signed};
use muster_core::UtcTime;
use std::path::Path;

/// Shows a folder's intents, or one intent's file, in words.
pub fn run(path: &Path, now: UtcTime, printer: &mut Printer) -> Outcome {
    let shown = if path.is_dir() { whole(path, now)? } else { vec![single(path, now)?] };
    if printer.value(&shown) {
        return Ok(Exit::Ok);
    }
    if printer.looks().format == Format::Name {
        for s in &shown {
            printer.data(&s.phase);
        }
        return Ok(Exit::Ok);
    }
    let mut last: Option<Vec<String>> = None;
    for s in &shown {
        let heading = words::heading(s, now);
        if last.as_ref() != Some(&heading) {
            for line in &heading {
                printer.data(line);
            }
            last = Some(heading);
        }
        for line in words::phase(s) {
            printer.data(&line);
        }
    }
    Ok(Exit::Ok)
}

fn whole(path: &Path, now: UtcTime) -> Result<Vec<Shown>, crate::fault::Faults> {
    let scripts = folder::read_scripts(path)?;
    let phases = signed::read_all(path)?;
    if phases.is_empty() {
        return Err(signed::nothing_signed(path, "holds nothing signed").into());
    }
    let of = |p: &signed::SignedPhase| {
        let script = scripts.iter().find(|s| s.phase == p.intent.phase());
        words::shown(&p.intent, script, words::fingerprints(p), now)
    };
    Ok(phases.iter().map(of).collect())
}

fn single(path: &Path, now: UtcTime) -> Result<Shown, Fault> {
    let (_, intent) = signed::read_intent(path)?;
    Ok(words::shown(&intent, None, Vec::new(), now))
}
