//! Short texts: times and names.

use crate::{Said, refused};
use muster_core::{HostName, PoolName, ProfileName, UtcTime};
use muster_signing::{
    allowed_signers::{LocalTime, ZuluOnly, parse_time},
    intent::Target,
};

/// A place nine hours ahead of UTC, all year.
pub(crate) struct Ahead;

impl LocalTime for Ahead {
    fn to_utc(&self, y: u64, mo: u64, d: u64, h: u64, mi: u64, s: u64) -> Option<UtcTime> {
        let there = UtcTime::from_civil(y, mo, d, h, mi, s).expect("only real times are asked for");
        there.unix().checked_sub(9 * 3600).map(UtcTime::from_unix)
    }
}

/// `YYYYMMDDhhmmssZ`, as a trust file has it. `None` past the year 9999, which has no such form.
pub(crate) fn compact(time: UtcTime) -> Option<String> {
    let text = time.to_string();
    (!text.starts_with('@')).then(|| text.replace(['-', ':', 'T'], ""))
}

/// Both forms of a time: what is read is written back as the same instant, and a reader that takes
/// no local time takes nothing that the other refuses.
pub fn times(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let strict = UtcTime::parse(text);
    if let Ok(time) = strict {
        assert_eq!(time.to_string(), text, "a time reads back as another text");
        return Said::Accepted;
    }
    let zulu = parse_time(text, &ZuluOnly);
    let local = parse_time(text, &Ahead);
    if let Some(time) = zulu {
        assert_eq!(local, zulu, "where one stands changes what a time with Z means");
        let again = compact(time).expect("a time from text has a text");
        assert_eq!(parse_time(&again, &ZuluOnly), zulu, "{text:?} became {again:?}");
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        assert!(again.starts_with(&digits), "{text:?} became {again:?}");
    }
    match (zulu, local, strict) {
        (None, None, Err(why)) => refused(&why),
        _ => Said::Accepted,
    }
}

/// Names and targets: what is taken is ASCII of at most 63 bytes, safe as a file name, and written
/// back as it was.
pub fn names(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let profile = ProfileName::new(text);
    if let Ok(name) = &profile {
        assert_eq!(name.as_str(), text);
        assert!(HostName::new(text).is_ok(), "a profile name that is no host name: {text:?}");
    }
    let host = HostName::new(text);
    assert_eq!(host.is_ok(), PoolName::new(text).is_ok(), "hosts and pools have one form of name");
    if let Ok(name) = &host {
        assert_eq!(name.to_string(), text);
        assert!(!text.is_empty() && text.len() <= 63 && !text.starts_with('.') && !text.contains('/'));
        let target: Target = format!("host={text}").parse().expect("a host name makes a target");
        assert_eq!(target, Target::Host(name.clone()));
    }
    let target = text.parse::<Target>();
    if let Ok(target) = &target {
        assert_eq!(target.to_string(), text, "a target is written back as another text");
    }
    match (profile, host, target) {
        (Err(why), Err(_), Err(_)) => refused(&why),
        _ => Said::Accepted,
    }
}
