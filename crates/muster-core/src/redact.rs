//! Taking secrets out of text that a person or a log will see.

/// What stands where a secret stood.
pub const MARK: &str = "[REDACTED]";

/// Secrets shorter than this are not searched for: replacing every `a` would hide the text and
/// tell the secret. The sender refuses secrets this short instead.
pub const SHORTEST: usize = 8;

/// Replaces every occurrence of each secret in `text`; where several overlap, all that any of them covers is
/// one mark, so that none is left half shown. Redact first and cut the text after: a secret that straddles a cut would
/// otherwise leak its tail.
pub fn redact(text: &[u8], secrets: &[&[u8]]) -> Vec<u8> {
    let secrets: Vec<&[u8]> = secrets.iter().copied().filter(|s| s.len() >= SHORTEST).collect();
    let mut out = Vec::with_capacity(text.len());
    // Bytes from here on that a secret covers.
    let mut covered = 0_usize;
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let longest = secrets.iter().filter(|s| rest.starts_with(s)).map(|s| s.len()).max().unwrap_or(0);
        match covered {
            0 if longest > 0 => out.extend_from_slice(MARK.as_bytes()),
            0 => out.push(first),
            _ => {}
        }
        covered = covered.max(longest).saturating_sub(1);
        rest = tail;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_first_and_no_tail() {
        let out = redact(b"a secretsecret-long b secretsecret c", &[b"secretsecret", b"secretsecret-long"]);
        assert_eq!(out, b"a [REDACTED] b [REDACTED] c");
    }

    #[test]
    fn overlapping_ones_are_covered_whole() {
        let (one, two) = (&b"canary-one-two"[..], &b"one-two-three-canary"[..]);
        assert_eq!(redact(b"x canary-one-two-three-canary y", &[one, two]), b"x [REDACTED] y");
        assert_eq!(redact(b"x canary-one-two-three-canary y", &[two, one]), b"x [REDACTED] y");
        // One in the other, and one that overlaps itself.
        assert_eq!(redact(b"aaaaaaaaaaaa b", &[b"aaaaaaaa"]), b"[REDACTED] b");
        assert_eq!(redact(b"canary-one-twocanary-one-two", &[one]), b"[REDACTED][REDACTED]");
    }

    #[test]
    fn short_ones_are_left() {
        assert_eq!(redact(b"abc", &[b"b"]), b"abc");
    }
}
