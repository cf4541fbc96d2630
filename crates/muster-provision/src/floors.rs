//! Epoch floors over the admin login: look, and set by root's hand.
//!
//! The file is the shim's (`/var/lib/muster/shim/floors`):
//!
//! ```text
//! muster-floors: 1
//! time-floor: 2026-11-29T00:00:00Z
//! floor: tls-bootstrap 7
//! ```
//!
//! Raising in the fleet is a signed intent (phase `floor`) and needs no admin login. Lowering is
//! possible here only (M3), is written to the journal and to the durable run log first (S8), and is
//! refused while a run holds the host.

use crate::files;
use crate::sh::{LIB, quote};
use crate::shell::{HostShell, ShellError};
use crate::spec::sha256_hex;
use core::fmt::Write as _;
use muster_core::{ProfileName, UtcTime};
use std::collections::BTreeMap;

/// The file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floors {
    /// The newest signed time that was accepted here.
    pub time_floor: UtcTime,
    /// The floor of each profile that has one.
    pub floors: BTreeMap<ProfileName, u32>,
}

impl Floors {
    /// Reads the text; the error names the line.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text = core::str::from_utf8(text).map_err(|_| "not UTF-8".to_owned())?;
        let body = text.strip_suffix('\n').ok_or("the last line has no LF at its end")?;
        let mut lines = body.split('\n').zip(1usize..);
        let mut head = |want: &str| match lines.next() {
            Some((line, n)) => line.strip_prefix(want).ok_or(format!("line {n}: `{want}` is wanted")),
            None => Err(format!("`{want}` is wanted before the end")),
        };
        if head("muster-floors: ")? != "1" {
            return Err("line 1: `muster-floors: 1` is wanted".into());
        }
        let time_floor = UtcTime::parse(head("time-floor: ")?).map_err(|e| format!("line 2: {e}"))?;
        let mut floors: BTreeMap<ProfileName, u32> = BTreeMap::new();
        for (line, n) in lines {
            let (name, epoch) = one(line).ok_or(format!("line {n}: `floor: PROFILE EPOCH` is wanted"))?;
            if floors.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(format!("line {n}: {name} repeats a profile or is out of order"));
            }
            floors.insert(name, epoch);
        }
        Ok(Self { time_floor, floors })
    }

    /// The text that the shim reads.
    pub fn render(&self) -> String {
        let mut out = format!("muster-floors: 1\ntime-floor: {}\n", self.time_floor);
        for (name, epoch) in &self.floors {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "floor: {name} {epoch}");
        }
        out
    }
}

fn one(line: &str) -> Option<(ProfileName, u32)> {
    let (name, epoch) = line.strip_prefix("floor: ")?.split_once(' ')?;
    let plain = !epoch.starts_with('0') && epoch.bytes().all(|b| b.is_ascii_digit());
    Some((ProfileName::new(name).ok()?, epoch.parse().ok().filter(|_| plain)?))
}

/// Why floors could not be shown or set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FloorError {
    /// The admin login did not work.
    #[error(transparent)]
    Shell(#[from] ShellError),
    /// The file is not there.
    #[error(
        "/var/lib/muster/shim/floors is not there; if its folder is, find out who removed it, then rebuild it with every profile's epoch"
    )]
    Missing,
    /// The file does not parse.
    #[error("/var/lib/muster/shim/floors: {0}: the shim refuses everything until it is rebuilt")]
    Malformed(String),
    /// The host refused.
    #[error("nothing was changed: {0}")]
    Refused(String),
}

/// What a set did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The profile.
    pub profile: ProfileName,
    /// Its floor before.
    pub before: Option<u32>,
    /// Its floor now.
    pub after: u32,
}

impl Change {
    /// The word in the journal.
    pub fn event(&self) -> &'static str {
        if self.before.is_some_and(|b| self.after < b) { "floor-lowered" } else { "floor-set" }
    }
}

async fn read<S: HostShell + Sync>(shell: &S) -> Result<Option<Vec<u8>>, FloorError> {
    let script =
        format!("{LIB}\nif [ -e {0} ]; then echo there; cat {0}; else echo absent; fi\n", files::FLOORS);
    let out = shell.run_root(&script, b"").await?;
    if out.status != 0 {
        return Err(FloorError::Refused(out.stderr_tail(300)));
    }
    if let Some(body) = out.stdout.strip_prefix(b"there\n") {
        return Ok(Some(body.to_vec()));
    }
    Ok(None)
}

/// The host's floors.
pub async fn show<S: HostShell + Sync>(shell: &S) -> Result<Floors, FloorError> {
    let text = read(shell).await?.ok_or(FloorError::Missing)?;
    Floors::parse(&text).map_err(FloorError::Malformed)
}

/// Sets one floor, up or down.
pub async fn set<S: HostShell + Sync>(
    shell: &S,
    profile: &ProfileName,
    epoch: u32,
) -> Result<Change, FloorError> {
    let text = read(shell).await?.ok_or(FloorError::Missing)?;
    let mut floors = Floors::parse(&text).map_err(FloorError::Malformed)?;
    let before = floors.floors.insert(profile.clone(), epoch.max(1));
    let change = Change { profile: profile.clone(), before, after: epoch.max(1) };
    if before != Some(change.after) {
        put(shell, &sha256_hex(&text), &floors, &change).await?;
    }
    Ok(change)
}

/// Writes the whole file anew, whatever is there: the repair of one that is gone or malformed.
pub async fn rebuild<S: HostShell + Sync>(shell: &S, floors: &Floors) -> Result<(), FloorError> {
    let old = read(shell).await?.map_or_else(|| "absent".to_owned(), |t| sha256_hex(&t));
    let mut first = true;
    for (profile, epoch) in &floors.floors {
        let change = Change { profile: profile.clone(), before: None, after: *epoch };
        // The first write replaces the file; the others only record their profile.
        let sum = if first { old.clone() } else { sha256_hex(floors.render().as_bytes()) };
        put(shell, &sum, floors, &change).await?;
        first = false;
    }
    Ok(())
}

async fn put<S: HostShell + Sync>(
    shell: &S,
    old: &str,
    floors: &Floors,
    change: &Change,
) -> Result<(), FloorError> {
    let before = change.before.map_or_else(|| "null".to_owned(), |b| b.to_string());
    let script = format!(
        "{LIB}\n{}\nm_floors_put {} {} {} {before} {}\n",
        include_str!("host/floor.sh"),
        quote(old),
        change.event(),
        change.profile,
        change.after
    );
    let out = shell.run_root(&script, floors.render().as_bytes()).await?;
    if out.status == 0 {
        return Ok(());
    }
    Err(FloorError::Refused(out.stderr_tail(300).replace("muster-provision: ", "")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 7\nfloor: b 1\n";

    #[test]
    fn s8_a_line_of_another_form_is_a_fault_with_its_number() {
        assert_eq!(Floors::parse(GOOD.as_bytes()).unwrap().render(), GOOD);
        for (text, at) in [
            ("", "LF"),
            ("muster-floors: 2\ntime-floor: 2026-11-29T00:00:00Z\n", "line 1"),
            ("muster-floors: 1\ntime-floor: today\n", "line 2"),
            ("muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: b 1\nfloor: a 1\n", "line 4"),
            ("muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 07\n", "line 3"),
            ("muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 0\n", "line 3"),
            ("muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 7", "LF"),
        ] {
            assert!(Floors::parse(text.as_bytes()).unwrap_err().contains(at), "{text}");
        }
    }
}
