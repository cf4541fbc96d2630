//! UTC seconds and their one text form, `YYYY-MM-DDThh:mm:ssZ`.

use core::fmt;

/// Seconds since 1970-01-01T00:00:00Z. Time is a parameter everywhere; only binaries and
/// `muster-sys` read a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UtcTime(u64);

/// A text that is not `YYYY-MM-DDThh:mm:ssZ` with a real date between 1970 and 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time of the form YYYY-MM-DDThh:mm:ssZ (a real date from 1970 to 9999, seconds 00 to 59)")]
pub struct BadTime;

const DAY: u64 = 86_400;

const fn is_leap(y: u64) -> bool {
    (y.is_multiple_of(4) && !y.is_multiple_of(100)) || y.is_multiple_of(400)
}

const fn days_in_month(y: u64, m: u64) -> u64 {
    match m {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(y) => 29,
        2 => 28,
        _ => 0,
    }
}

/// Days from 1970-01-01 to the first of January of `y` (proleptic Gregorian, `y >= 1970`).
const fn days_before_year(y: u64) -> u64 {
    let p = y - 1;
    (p * 365 + p / 4 - p / 100 + p / 400) - 719_162
}

impl UtcTime {
    /// From seconds since the epoch.
    pub const fn from_unix(secs: u64) -> Self {
        Self(secs)
    }

    /// Seconds since the epoch.
    pub const fn unix(self) -> u64 {
        self.0
    }

    /// From civil UTC fields; `None` when they are not a real time from 1970 to 9999.
    pub const fn from_civil(y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<Self> {
        if y < 1970 || y > 9999 || d == 0 || d > days_in_month(y, mo) || h > 23 || mi > 59 || s > 59 {
            return None;
        }
        let mut days = days_before_year(y) + d - 1;
        let mut m = 1;
        while m < mo {
            days += days_in_month(y, m);
            m += 1;
        }
        Some(Self(days * DAY + h * 3600 + mi * 60 + s))
    }

    /// Reads the one text form.
    pub fn parse(text: &str) -> Result<Self, BadTime> {
        let b = text.as_bytes();
        let shape = b"dddd-dd-ddTdd:dd:ddZ";
        if b.len() != shape.len() {
            return Err(BadTime);
        }
        let fits = b.iter().zip(shape).all(|(&c, &s)| if s == b'd' { c.is_ascii_digit() } else { c == s });
        if !fits {
            return Err(BadTime);
        }
        let num = |from: usize, len: usize| -> u64 {
            b.iter().skip(from).take(len).fold(0, |n, &c| n * 10 + u64::from(c - b'0'))
        };
        Self::from_civil(num(0, 4), num(5, 2), num(8, 2), num(11, 2), num(14, 2), num(17, 2)).ok_or(BadTime)
    }

    /// This time and `secs` more, held at the largest number rather than wrapped.
    pub const fn plus(self, secs: u64) -> Self {
        Self(self.0.saturating_add(secs))
    }
}

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0 / DAY;
        let secs = self.0 % DAY;
        // Past 9999 there is no text form; the number is shown so that nothing is hidden.
        if days >= days_before_year(10_000) {
            return write!(f, "@{}", self.0);
        }
        let mut y = 1970 + days / 366;
        while days >= days_before_year(y + 1) {
            y += 1;
        }
        let mut rest = days - days_before_year(y);
        let mut m = 1;
        while rest >= days_in_month(y, m) {
            rest -= days_in_month(y, m);
            m += 1;
        }
        let (h, mi, s) = (secs / 3600, secs / 60 % 60, secs % 60);
        write!(f, "{y:04}-{m:02}-{:02}T{h:02}:{mi:02}:{s:02}Z", rest + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_points() {
        for (text, secs) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-11-29T00:00:00Z", 1_795_910_400),
            ("2038-01-19T03:14:08Z", 2_147_483_648),
            ("9999-12-31T23:59:59Z", 253_402_300_799),
        ] {
            assert_eq!(UtcTime::parse(text), Ok(UtcTime::from_unix(secs)), "{text}");
            assert_eq!(UtcTime::from_unix(secs).to_string(), text);
        }
    }

    #[test]
    fn refused() {
        for text in [
            "",
            "2026-02-29T00:00:00Z",
            "2100-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:60Z",
            "2026-01-01T00:00:00",
            "2026-01-01t00:00:00z",
            "2026-01-01 00:00:00Z",
            "1969-12-31T23:59:59Z",
            "+026-01-01T00:00:00Z",
            "2026-01-01T00:00:00Z ",
        ] {
            assert_eq!(UtcTime::parse(text), Err(BadTime), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(secs in 0u64..253_402_300_800) {
            let t = UtcTime::from_unix(secs);
            prop_assert_eq!(UtcTime::parse(&t.to_string()), Ok(t));
        }
    }
}
