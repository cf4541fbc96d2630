//! `muster script lint`

use super::{bash_says, line, rows};
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::printer::{Format, Printer};
use crate::profile::check;
use crate::profile::folder::Folder;
use crate::shell::Severity;
use std::path::PathBuf;

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// The profile's folder.
    pub folder: PathBuf,
    /// Parameters whose openness is accepted.
    pub accept_open: Vec<String>,
    /// Warnings fail too.
    pub strict: bool,
}

/// Lints; the exit code says whether `sign` would refuse.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let folder = Folder::read(&settings.folder)?;
    let remarks = check::folder(&folder, &settings.accept_open, &bash_says);
    let count = |severity| remarks.iter().filter(|r| r.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    if !printer.value(&rows(&remarks)) {
        for remark in &remarks {
            let text = match printer.looks().format {
                Format::Name => remark.code.word().to_owned(),
                _ => line(remark, printer),
            };
            printer.data(&text);
        }
    }
    printer.talk(&format!("{}: {errors} errors, {warnings} warnings", settings.folder.display()));
    let place = settings.folder.display();
    if errors > 0 {
        return Err(Fault::new(Own::LintFailed, format!("{errors} errors in {place}")).into());
    }
    if settings.strict && warnings > 0 {
        let what = format!("{warnings} warnings in {place}, and --strict was given");
        return Err(Fault::new(Own::LintFailed, what).into());
    }
    Ok(Exit::Ok)
}
