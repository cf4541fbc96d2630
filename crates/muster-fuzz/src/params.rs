//! Parameter blocks of both envelopes.

use crate::{Said, refused};
use muster_signing::params::{self, Param};

fn check(params: &[Param], may: fn(&str) -> bool) {
    for pair in params.windows(2) {
        if let [(a, _), (b, _)] = pair {
            assert!(a < b, "{a} and {b} are not in ascending order");
        }
    }
    for (name, value) in params {
        assert!(may(name), "{name:?} is no name of a parameter");
        assert!(name.starts_with("KPSSH_") || name.starts_with("MUSTER_"), "{name:?} is not ours");
        assert!(!value.iter().any(|b| matches!(b, 0 | b'\n')), "{name} holds NUL or a line break");
    }
}

/// Envelope 1: what is taken is written and read back as the same parameters.
pub fn one(input: &[u8]) -> Said {
    match params::parse_v1(input) {
        Err(why) => refused(&why),
        Ok(read) => {
            check(&read, params::is_name_v1);
            let block = params::render_v1(&read).expect("what was read can be written");
            assert_eq!(params::parse_v1(&block), Ok(read));
            Said::Accepted
        }
    }
}

/// Envelope 2 has one spelling: what is taken is written back as the same bytes.
pub fn two(input: &[u8]) -> Said {
    match params::parse_v2(input) {
        Err(why) => refused(&why),
        Ok(read) => {
            check(&read, params::is_name);
            assert_eq!(params::render(&read).as_deref(), Ok(input), "two spellings of one block");
            Said::Accepted
        }
    }
}
