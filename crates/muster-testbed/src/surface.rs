//! What the daemon's units take from it, and how each taking away is proven.
//!
//! [`SETTINGS`] has a row for each line of a `[Service]` section that takes something away or gives it: what it forbids, and attempts
//! whose outcome it changes. A test on a real node makes each attempt in a unit without the line and in one with it, and all of
//! them in the whole unit. [`OFF`] has a row for whatever `systemd-analyze security` finds missing. A line without a row fails a test,
//! as does a row without a line.
//!
//! Sources: systemd.exec(5), systemd.resource-control(5), systemd-analyze(1).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

mod off;
mod settings;
mod touched;

pub use off::{EXPOSURE, OFF, Off, UNCONFINED};
pub use settings::{ORDINARY, SETTINGS};
pub use touched::{TOUCHED, Touched};

/// The account of the half that faces the network.
pub const EDGE_USER: &str = "muster-edge";

/// One attempt: its name in `sandbox-probe`, what comes of it without the setting and with it.
pub type Attempt = (&'static str, &'static str, &'static str);

/// A line of a unit, and what it does.
#[derive(Debug)]
pub struct Setting {
    /// The line as it stands.
    pub line: &'static str,
    /// What it takes away or gives, for people.
    pub does: &'static str,
    /// What else is set in both runs: that which would hide it, or which it needs.
    pub beside: &'static [&'static str],
    /// What changes with it.
    pub attempts: &'static [Attempt],
    /// The same, tried from outside when the unit has ended.
    pub after: &'static [Attempt],
    /// What a machine must have for it; without it the line is read and does nothing, and the test says so.
    pub needs: Option<Needs>,
}

/// What not every machine gives to the nodes of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// A controller of version 2 of control groups.
    Controller(&'static str),
    /// BPF programs at control groups.
    Bpf,
    /// CAP_SYS_RESOURCE for the node's init.
    Resource,
}

/// A unit that is a service.
#[derive(Debug)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The whole file.
    pub text: String,
    /// The lines of `[Service]`.
    pub lines: Vec<String>,
}

impl Service {
    /// Whether a line is set.
    #[must_use]
    pub fn has(&self, line: &str) -> bool {
        self.lines.iter().any(|l| l == line)
    }

    /// The values of a key, in their order.
    pub fn values<'s>(&'s self, key: &'s str) -> impl Iterator<Item = &'s str> {
        self.lines.iter().filter_map(move |l| l.split_once('=').filter(|(k, _)| *k == key).map(|(_, v)| v))
    }
}

/// Where the units are.
#[must_use]
pub fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../musterd/units")
}

/// The services among the daemon's units, by name.
pub fn services() -> Result<Vec<Service>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(units()).with_context(|| units().display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if name.ends_with(".service") {
            let text = fs::read_to_string(&path)?;
            let lines = section(&text, "Service");
            all.push(Service { name, text, lines });
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// The lines of a section of a unit, without comments (systemd.syntax(7)). None of ours is continued.
#[must_use]
pub fn section(text: &str, name: &str) -> Vec<String> {
    let head = format!("[{name}]");
    let mut inside = false;
    let mut lines = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            inside = line == head;
        } else if inside && !line.is_empty() && !line.starts_with(['#', ';']) {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// The row of a line.
#[must_use]
pub fn setting(line: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.line == line)
}

/// Whether a line is none that confines.
#[must_use]
pub fn is_ordinary(line: &str) -> bool {
    line.split_once('=').is_some_and(|(key, _)| ORDINARY.contains(&key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_a_confined_unit_has_a_row_and_every_row_a_line() -> Result<()> {
        let services = services()?;
        let confined: Vec<&Service> =
            services.iter().filter(|s| !UNCONFINED.iter().any(|(name, _)| *name == s.name)).collect();
        assert!(confined.len() >= 2);
        for service in &confined {
            for line in service.lines.iter().filter(|l| !is_ordinary(l)) {
                assert!(setting(line).is_some(), "{}: `{line}` has no row and no proof", service.name);
            }
            let known = EXPOSURE.iter().any(|(name, _)| *name == service.name);
            assert!(known, "{}: nobody wrote down its exposure", service.name);
        }
        for row in SETTINGS {
            assert!(confined.iter().any(|s| s.has(row.line)), "`{}` is in no unit", row.line);
            assert!(!row.attempts.is_empty() || !row.after.is_empty(), "`{}` has no proof", row.line);
            let changes = row.attempts.iter().chain(row.after).any(|(_, without, with)| without != with);
            assert!(changes, "`{}`: its proof proves nothing", row.line);
        }
        for off in OFF {
            assert!(services.iter().any(|s| s.name == off.unit), "{off:?}");
        }
        Ok(())
    }
}
