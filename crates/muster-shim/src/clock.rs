//! Whether this host's clock can be believed.
//!
//! The lower bound is made of times that somebody signed or that were built in, never of wall
//! time that was seen: one jump into the future would otherwise be remembered for ever.

use muster_core::{Reason, UtcTime};
use muster_signing::Refusal;

/// When this shim was built, from `SOURCE_DATE_EPOCH` or the constant in `build.rs`.
pub fn build_date() -> UtcTime {
    const TEXT: &str = env!("MUSTER_BUILD_DATE");
    // The build script writes a number; anything else would be no floor, which is the safe reading
    // of none: an intent's own validity still counts.
    UtcTime::from_unix(TEXT.parse().unwrap_or(0))
}

/// The clock may be this far after the build and no more: 20 years, in seconds.
const LONGEST_LIFE: u64 = 20 * 31_557_600;

/// Refuses a clock before the build or the newest signed time, or 20 years after the build (6).
pub fn check(now: UtcTime, build: UtcTime, time_floor: UtcTime) -> Result<(), Refusal> {
    let floor = build.max(time_floor);
    if now < floor {
        return Err(Refusal::new(
            Reason::ClockBehind,
            format!("the clock says {now}, it was {floor} before{}", sync_note()),
        ));
    }
    let ceiling = build.plus(LONGEST_LIFE);
    if now > ceiling {
        return Err(Refusal::new(
            Reason::ClockAhead,
            format!(
                "the clock says {now}, this shim was built {build} and believes no time after {ceiling}{}",
                sync_note()
            ),
        ));
    }
    Ok(())
}

/// What the kernel says of the clock, as an addition to a verdict about time.
pub fn sync_note() -> &'static str {
    match muster_sys::clock::synchronised() {
        Some(true) => "; the kernel says it is synchronised",
        Some(false) => "; the kernel says it is not synchronised",
        None => "; the kernel does not say whether it is synchronised",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(s: &str) -> UtcTime {
        UtcTime::parse(s).unwrap()
    }

    #[test]
    fn m14_the_floor_is_the_later_of_build_and_signed_time() {
        let (build, signed) = (t("2026-11-01T00:00:00Z"), t("2026-12-01T00:00:00Z"));
        let none = UtcTime::from_unix(0);
        let code = |now: &str, floor| check(t(now), build, floor).map_err(|r| r.reason);
        assert_eq!(code("2026-10-31T23:59:59Z", none), Err(Reason::ClockBehind));
        assert_eq!(code("2026-11-01T00:00:00Z", none), Ok(()));
        assert_eq!(code("2026-11-15T00:00:00Z", signed), Err(Reason::ClockBehind));
        assert_eq!(code("2026-12-01T00:00:00Z", signed), Ok(()));
        assert_eq!(code("2046-10-30T00:00:00Z", none), Ok(()));
        assert_eq!(code("2046-11-03T00:00:00Z", none), Err(Reason::ClockAhead));
        let e = check(t("1970-01-01T00:00:05Z"), build, none).unwrap_err();
        assert!(
            e.detail.contains("1970-01-01T00:00:05Z") && e.detail.contains("2026-11-01T00:00:00Z"),
            "{e}"
        );
        assert!(e.detail.contains("kernel"), "{e}");
    }

    #[test]
    fn m14_a_build_date_is_built_in() {
        assert!(build_date() >= t("2026-11-01T00:00:00Z"));
    }
}
