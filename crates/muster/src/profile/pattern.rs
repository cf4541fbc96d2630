//! What can be said about a parameter's pattern.

use regex_lite::Regex;

/// Whether a pattern is one that an intent takes; the error says why not.
pub fn check(pattern: &str) -> Result<(), String> {
    if pattern.is_empty() || pattern.len() > 1024 || !pattern.bytes().all(|b| (0x20..=0x7e).contains(&b)) {
        return Err("a pattern is 1 to 1024 printable ASCII characters".into());
    }
    if pattern.starts_with(' ') || pattern.ends_with(' ') {
        return Err("a pattern neither begins nor ends with a space".into());
    }
    // The host's own word: alone and wrapped, and within its bound for a compiled pattern.
    muster_signing::intent::check_pattern(pattern)
}

fn whole(pattern: &str) -> Result<Regex, String> {
    Regex::new(&format!(r"\A(?:{pattern})\z")).map_err(|e| format!("the pattern does not compile: {e}"))
}

/// Whether a pattern admits only a finite list of texts that can be read off it: literals, `|`, groups and `?`.
///
/// Only such a pattern keeps the signer's decision his own where a name decides whom a host obeys.
pub fn is_closed(pattern: &str) -> bool {
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '.' | '*' | '+' | '{' | '[' | '^' | '$' => return false,
            '\\' => match chars.next() {
                Some(e) if !e.is_ascii_alphanumeric() => {}
                _ => return false,
            },
            _ => {}
        }
    }
    // `(?i)` and the like would widen it without showing.
    !pattern.contains("(?")
}

/// Whether a pattern takes about anything: shell syntax, spaces, options and paths all match.
pub fn is_wide(pattern: &str) -> bool {
    let Ok(regex) = whole(pattern) else { return false };
    ["$(reboot)", "; rm -rf /", "--config=/etc/x y"].iter().all(|probe| regex.is_match(probe))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_the_host_would_refuse_is_refused_here() {
        assert!(check("[a-z]{1,64}").is_ok());
        for (bad, why) in [("a)|(b", "does not compile"), ("[A-Za-z0-9_-]{1,6280}", "exceeded size limit")] {
            assert!(check(bad).is_err_and(|e| e.contains(why)), "{bad}");
        }
    }

    #[test]
    fn m1_a_closed_pattern_is_a_list_of_texts() {
        for p in ["a", r"https://10\.0\.0\.5:6443", "(a|b)c?", "edge-1|edge-2"] {
            assert!(is_closed(p), "{p}");
        }
        for p in ["https://.+", "a*", "[ab]", r"\d", "(?i)a", "https://10.0.0.5", "^a$", r"a\x41", "a{2}"] {
            assert!(!is_closed(p), "{p}");
        }
    }

    #[test]
    fn wide_and_checked() {
        assert!(is_wide(".*") && is_wide(".+") && is_wide(r"[\s\S]*") && is_wide("[ -~]+"));
        assert!(!is_wide("[a-z0-9.-]+") && !is_wide("a|b"));
        for bad in ["", "a)|(b", "(", " a", "a\u{e9}", &"a".repeat(1025)] {
            assert!(check(bad).is_err(), "{bad}");
        }
        assert!(check("[a-z]+").is_ok());
    }
}
