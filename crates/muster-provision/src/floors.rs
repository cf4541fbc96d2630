//! Epoch floors over the admin login: look, and set by root's hand.
//!
//! The file and its format are [`muster_core::floors`].
//!
//! Raising in the fleet is a signed intent (phase `floor`) and needs no admin login. Lowering is
//! possible here only (M3), is written to the journal and to the durable run log first (S8), and is
//! refused while a run holds the host.

use crate::files;
use crate::sh::{LIB, quote};
use crate::shell::{HostShell, ShellError};
use crate::spec::sha256_hex;
use muster_core::ProfileName;
pub use muster_core::floors::Floors;

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
