//! Times as OpenSSH's tools write them: `YYYYMMDD[HHMM[SS]][Z]`, with `UTC` for `Z` too.

use crate::UtcTime;

/// How civil time without `Z` becomes UTC. Whoever calls decides; this crate knows no time zone.
pub trait LocalTime {
    /// Seconds since 1970 of a local civil time; `None` when the time does not exist, or when
    /// local times are not taken here.
    fn to_utc(&self, y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<UtcTime>;
}

/// Takes no local time: a `valid-after` or `valid-before` without `Z` refuses the file.
#[derive(Clone, Copy, Debug)]
pub struct ZuluOnly;

impl LocalTime for ZuluOnly {
    fn to_utc(&self, _: u64, _: u64, _: u64, _: u64, _: u64, _: u64) -> Option<UtcTime> {
        None
    }
}

/// Reads a time. Only real dates, hours 00 to 23 and seconds 00 to 59 are taken: OpenSSH lets
/// February 30 run over into March, and 61 seconds into the next minute. The first second of 1970
/// is no bound, as in OpenSSH, where it stands for "none".
pub fn parse_time(text: &str, local: &dyn LocalTime) -> Option<UtcTime> {
    let utc_tail = |n: usize, tail: &str| {
        let (head, end) = text.split_at_checked(text.len().checked_sub(n)?)?;
        (!head.is_empty() && end.eq_ignore_ascii_case(tail)).then_some(head)
    };
    let (digits, utc) = match utc_tail(1, "Z").or_else(|| utc_tail(3, "UTC")) {
        Some(head) => (head, true),
        None => (text, false),
    };
    if !matches!(digits.len(), 8 | 12 | 14) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize, to: usize| -> Option<u64> {
        match digits.get(from..to) {
            Some(d) => d.parse().ok(),
            None => Some(0),
        }
    };
    let (y, mo, d) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (h, mi, s) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    // A real civil time first, so that nothing is normalised by whoever knows the zone.
    let as_utc = UtcTime::from_civil(y, mo, d, h, mi, s)?;
    let time = if utc { as_utc } else { local.to_utc(y, mo, d, h, mi, s)? };
    (time.unix() != 0).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Tokyo;
    impl LocalTime for Tokyo {
        fn to_utc(&self, y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<UtcTime> {
            let t = UtcTime::from_civil(y, mo, d, h, mi, s)?.unix();
            Some(UtcTime::from_unix(t.checked_sub(9 * 3600)?))
        }
    }

    #[test]
    fn forms() {
        for (text, want) in [
            ("20200101Z", Some("2020-01-01T00:00:00Z")),
            ("20200101z", Some("2020-01-01T00:00:00Z")),
            ("20200101UTC", Some("2020-01-01T00:00:00Z")),
            ("20200101utc", Some("2020-01-01T00:00:00Z")),
            ("202001011330Z", Some("2020-01-01T13:30:00Z")),
            ("20200101133059Z", Some("2020-01-01T13:30:59Z")),
            ("20200101", Some("2019-12-31T15:00:00Z")),
            ("202001010900", Some("2020-01-01T00:00:00Z")),
            ("20200230Z", None),
            ("20200101235960Z", None),
            ("202001012400Z", None),
            ("2020 1 1Z", None),
            ("19700101Z", None),
            ("2020010100Z", None),
            ("+2020101Z", None),
            ("Z", None),
            ("UTC", None),
            ("", None),
            ("20200101 Z", None),
            ("2020-01-01", None),
            ("\u{e9}\u{e9}\u{e9}\u{e9}", None),
        ] {
            assert_eq!(parse_time(text, &Tokyo).map(|t| t.to_string()).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn s1_a_bound_without_z_is_refused_where_local_time_is_not_taken() {
        assert_eq!(parse_time("20270101", &ZuluOnly), None);
        assert!(parse_time("20270101Z", &ZuluOnly).is_some());
    }
}
