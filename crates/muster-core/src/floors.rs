//! The epoch floors of a host, `/var/lib/muster/shim/floors`: the one reader and writer of the file,
//! for the shim that keeps it and for whoever sets it as root.
//!
//! ```text
//! muster-floors: 1
//! time-floor: 2026-11-29T00:00:00Z
//! floor: tls-bootstrap 7
//! ```
//!
//! Lines of `floor` ascend by profile; epochs are 1 to 4294967295 without leading zero. Anything
//! else is a fault and never "start from nothing": whoever can spoil the file would otherwise lower
//! every floor.

use crate::{ProfileName, UtcTime};
use core::fmt::Write as _;
use std::collections::BTreeMap;

/// The content of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floors {
    /// The newest `not-before` of any intent that was accepted here: signed times only.
    pub time_floor: UtcTime,
    /// The floor of each profile that has one.
    pub floors: BTreeMap<ProfileName, u32>,
}

impl Default for Floors {
    fn default() -> Self {
        Self { time_floor: UtcTime::from_unix(0), floors: BTreeMap::new() }
    }
}

impl Floors {
    /// Reads the text; the error names the line.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text = core::str::from_utf8(text).map_err(|_| "the file is not UTF-8".to_owned())?;
        let body = text.strip_suffix('\n').ok_or("the last line has no LF at its end")?;
        let mut lines = body.split('\n').zip(1usize..);
        let mut next = |prefix: &str| match lines.next() {
            Some((line, n)) => line.strip_prefix(prefix).ok_or(format!("line {n}: wanted `{prefix}`")),
            None => Err(format!("wanted `{prefix}` before the end")),
        };
        if next("muster-floors: ")? != "1" {
            return Err("line 1: wanted `muster-floors: 1`".to_owned());
        }
        let time_floor = UtcTime::parse(next("time-floor: ")?).map_err(|e| format!("line 2: {e}"))?;
        let mut floors = BTreeMap::new();
        for (line, n) in lines {
            let (name, epoch) = floor_line(line).ok_or(format!("line {n}: wanted `floor: PROFILE EPOCH`"))?;
            if floors.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(format!(
                    "line {n}: {name} repeats a profile or does not stand in ascending order"
                ));
            }
            floors.insert(name, epoch);
        }
        Ok(Self { time_floor, floors })
    }

    /// The text, which [`Floors::parse`] reads back to the same.
    pub fn render(&self) -> String {
        let mut out = format!("muster-floors: 1\ntime-floor: {}\n", self.time_floor);
        for (name, epoch) in &self.floors {
            let _ = writeln!(out, "floor: {name} {epoch}");
        }
        out
    }

    /// The floor of a profile, if it has one.
    pub fn get(&self, profile: &ProfileName) -> Option<u32> {
        self.floors.get(profile).copied()
    }

    /// Every floor, ascending by profile.
    pub fn iter(&self) -> impl Iterator<Item = (&ProfileName, u32)> {
        self.floors.iter().map(|(n, e)| (n, *e))
    }

    /// Sets a floor, up or down: root's, on the machine. The shim itself only [raises](Self::raised).
    pub fn set(&mut self, profile: ProfileName, epoch: u32) {
        self.floors.insert(profile, epoch);
    }

    /// Floors after an intent was accepted; `None` when nothing rises, so that nothing needs writing.
    #[must_use]
    pub fn raised(&self, profile: &ProfileName, epoch: u32, not_before: UtcTime) -> Option<Self> {
        let mut next = self.clone();
        next.time_floor = next.time_floor.max(not_before);
        let floor = next.floors.entry(profile.clone()).or_insert(epoch);
        *floor = (*floor).max(epoch);
        (next != *self).then_some(next)
    }
}

/// `floor: PROFILE EPOCH`, epoch 1 to 4294967295 without leading zero.
fn floor_line(line: &str) -> Option<(ProfileName, u32)> {
    let (name, epoch) = line.strip_prefix("floor: ")?.split_once(' ')?;
    let plain = epoch.bytes().all(|b| b.is_ascii_digit()) && !epoch.starts_with('0');
    Some((ProfileName::new(name).ok()?, epoch.parse().ok().filter(|_| plain)?))
}
