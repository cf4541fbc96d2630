//! OpenSSH pattern lists (`ssh_config(5)`, section PATTERNS): `*`, `?`, `!`, commas.

/// OpenSSH gives up on a longer pattern; here a file with one is refused.
pub(crate) const MAX_PATTERN: usize = 1022;

/// Whether `list` selects `text`: at least one pattern matches and no negated one does.
/// Bytes are compared as they are; case counts.
pub(crate) fn list_matches(text: &[u8], list: &[u8]) -> bool {
    // In OpenSSH a comma at the end is followed by nothing, not by an empty pattern; an empty list
    // has no pattern at all, while an empty one in between matches the empty text.
    if list.is_empty() {
        return false;
    }
    let list = list.strip_suffix(b",").unwrap_or(list);
    let mut found = false;
    for pattern in list.split(|b| *b == b',') {
        match pattern.strip_prefix(b"!") {
            Some(negated) if matches(text, negated) => return false,
            Some(_) => {}
            None => found = found || matches(text, pattern),
        }
    }
    found
}

/// One pattern against the whole text. Goes back to the last `*` only, so that the time is at
/// most the product of the two lengths.
pub(crate) fn matches(text: &[u8], pattern: &[u8]) -> bool {
    let (mut t, mut p) = (text, pattern);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (p.split_first(), t.split_first()) {
            (Some((b'*', rest)), _) => {
                p = rest;
                retry = Some((t, rest));
                continue;
            }
            (Some((want, rest_p)), Some((have, rest_t))) if *want == b'?' || want == have => {
                (p, t) = (rest_p, rest_t);
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        // A mismatch: let the last `*` take one byte more.
        match retry.and_then(|(from, after)| Some((from.split_first()?.1, after))) {
            Some((from, after)) => {
                retry = Some((from, after));
                (t, p) = (from, after);
            }
            None => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_recursion(t: &[u8], p: &[u8]) -> bool {
        match (p.split_first(), t.split_first()) {
            (None, None) => true,
            (Some((b'*', p2)), t2) => by_recursion(t, p2) || t2.is_some_and(|(_, t3)| by_recursion(t3, p)),
            (Some((c, p2)), Some((d, t2))) if *c == b'?' || c == d => by_recursion(t2, p2),
            _ => false,
        }
    }

    #[test]
    fn lists() {
        for (text, list, want) in [
            ("a@b", "*@b,!a@b", false),
            ("a@b", "a@b,!z@b", true),
            ("a@b", "!z@b", false),
            ("", "", false),
            ("", "a,", false),
            ("", "*,", true),
            ("", ",", true),
            ("", "a,,", true),
            ("", "a,,b", true),
            ("a", "a,", true),
            ("A", "a", false),
            ("a,b", "a,b", false),
        ] {
            assert_eq!(list_matches(text.as_bytes(), list.as_bytes()), want, "{text:?} {list:?}");
        }
    }

    #[test]
    fn time_is_bounded() {
        let text = vec![b'a'; 60_000];
        let pattern = b"*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b";
        assert!(!matches(&text, pattern));
    }

    proptest! {
        #[test]
        fn as_the_definition(t in "[ab]{0,10}", p in "[ab?*]{0,8}") {
            prop_assert_eq!(matches(t.as_bytes(), p.as_bytes()), by_recursion(t.as_bytes(), p.as_bytes()));
        }
    }
}
