//! The epoch floors of this host: reading, checking, writing. The format is
//! [`muster_core::floors`]; floors rise here and are lowered by root alone.

use crate::paths;
pub use muster_core::floors::Floors;
use muster_core::{ProfileName, Reason};
use muster_signing::Refusal;
use muster_sys::file::Root;
use muster_sys::state::{Durability, StateDir};
use std::path::Path;

/// Whether an intent of this epoch may run: `floor <= epoch <= max(floor, 1) + step`, where the
/// floor is the higher of the file's and the policy's. Without either, any epoch is taken.
/// Gives the floor that counted.
pub fn check(
    floors: &Floors,
    profile: &ProfileName,
    epoch: u32,
    least: Option<u32>,
    step: u32,
) -> Result<Option<u32>, Refusal> {
    let Some(floor) = floors.get(profile).max(least) else { return Ok(None) };
    if epoch < floor {
        let detail = format!("profile {profile}: epoch {epoch}, floor {floor}");
        return Err(Refusal::new(Reason::EpochFloor, detail));
    }
    if epoch > floor.max(1).saturating_add(step) {
        let detail = format!("profile {profile}: epoch {epoch}, floor {floor}, largest step {step}");
        return Err(Refusal::new(Reason::EpochStep, detail));
    }
    Ok(Some(floor))
}

/// The folder of durable state; (1) when it is not there or not root's alone.
pub fn state_dir() -> Result<StateDir, Refusal> {
    let root = Root::system().map_err(|e| Refusal::new(Reason::InternalFault, e.line()))?;
    StateDir::open(root, Path::new(paths::STATE))
        .map_err(|e| Refusal::new(Reason::StateMissing, e.to_string()))
}

/// Reads the floors of this host.
pub fn read(dir: &StateDir) -> Result<Floors, Refusal> {
    let text = dir.read(paths::FLOORS, paths::STATE_MAX).map_err(|e| {
        let reason = if e.is_missing() { Reason::FloorsMissing } else { Reason::FloorsMalformed };
        Refusal::new(reason, e.to_string())
    })?;
    Floors::parse(&text).map_err(|why| {
        Refusal::new(Reason::FloorsMalformed, format!("{}/{}: {why}", paths::STATE, paths::FLOORS))
    })
}

/// Writes the floors, durable when it returns. The caller holds the lock.
pub fn write(dir: &StateDir, floors: &Floors) -> Result<(), Refusal> {
    dir.replace(paths::FLOORS, floors.render().as_bytes(), Durability::Durable)
        .map_err(|e| Refusal::new(Reason::InternalFault, e.line()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_core::UtcTime;

    fn name(s: &str) -> ProfileName {
        ProfileName::new(s).unwrap()
    }

    fn at(s: &str) -> UtcTime {
        UtcTime::parse(s).unwrap()
    }

    const TEXT: &str =
        "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 7\nfloor: b 4294967295\n";

    #[test]
    fn s8_reads_what_it_writes_and_nothing_else() {
        let f = Floors::parse(TEXT.as_bytes()).unwrap();
        assert_eq!(f.render(), TEXT);
        assert_eq!(f.get(&name("a")), Some(7));
        let empty = Floors::default();
        assert_eq!(Floors::parse(empty.render().as_bytes()).unwrap(), empty);
        for bad in [
            "",
            "\n",
            "muster-floors: 1\n",
            "muster-floors: 2\ntime-floor: 2026-11-29T00:00:00Z\n",
            "muster-floors: 1\ntime-floor: never\n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\n\n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 0\n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 07\n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a +7\n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 4294967296\n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: A 7\n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: b 7\nfloor: a 7\n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 7\nfloor: a 8\n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\nfloor: a 7 \n",
            "muster-floors: 1\ntime-floor: 2026-11-29T00:00:00Z\r\n",
        ] {
            assert!(Floors::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
        let e = Floors::parse(TEXT.replace("b 42", "b x42").as_bytes()).unwrap_err();
        assert!(e.starts_with("line 4:"), "{e}");
    }

    #[test]
    fn m3_epoch_step_is_refused_and_first_contact_takes_any() {
        let f = Floors::parse(TEXT.as_bytes()).unwrap();
        let code = |epoch, least| check(&f, &name("a"), epoch, least, 1000).map_err(|r| r.reason);
        assert_eq!(code(6, None), Err(Reason::EpochFloor));
        assert_eq!(code(7, None), Ok(Some(7)));
        assert_eq!(code(1007, None), Ok(Some(7)));
        assert_eq!(code(1008, None), Err(Reason::EpochStep));
        assert_eq!(code(u32::MAX, None), Err(Reason::EpochStep));
        assert_eq!(check(&f, &name("new"), u32::MAX, None, 1000), Ok(None));
        // At the top of the range nothing overflows.
        assert_eq!(check(&f, &name("b"), u32::MAX, None, 1000), Ok(Some(u32::MAX)));
    }

    #[test]
    fn m4_min_epoch_is_a_floor_of_its_own() {
        let f = Floors::parse(TEXT.as_bytes()).unwrap();
        let code = |p: &str, epoch, least| check(&f, &name(p), epoch, least, 1000).map_err(|r| r.reason);
        assert_eq!(code("a", 7, Some(9)), Err(Reason::EpochFloor));
        assert_eq!(code("a", 9, Some(9)), Ok(Some(9)));
        assert_eq!(code("a", 7, Some(2)), Ok(Some(7)));
        assert_eq!(code("new", 1, Some(5)), Err(Reason::EpochFloor));
        assert_eq!(code("new", 2000, Some(5)), Err(Reason::EpochStep));
        assert_eq!(code("new", 1005, Some(5)), Ok(Some(5)));
    }

    #[test]
    fn m5_equal_epoch_is_taken_and_writes_nothing() {
        let f = Floors::parse(TEXT.as_bytes()).unwrap();
        assert_eq!(f.raised(&name("a"), 7, at("2026-11-29T00:00:00Z")), None);
        assert_eq!(f.raised(&name("a"), 3, at("2020-01-01T00:00:00Z")), None, "never lowered");
        let up = f.raised(&name("a"), 8, at("2026-11-28T00:00:00Z")).unwrap();
        assert_eq!((up.get(&name("a")), up.time_floor), (Some(8), f.time_floor));
        let later = f.raised(&name("a"), 7, at("2026-11-30T00:00:00Z")).unwrap();
        assert_eq!((later.get(&name("a")), later.time_floor), (Some(7), at("2026-11-30T00:00:00Z")));
        assert_eq!(f.raised(&name("new"), 1, at("2020-01-01T00:00:00Z")).unwrap().get(&name("new")), Some(1));
    }
}
