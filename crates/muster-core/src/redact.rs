//! Taking secrets out of text that a person or a log will see.

/// What stands where a secret stood.
pub const MARK: &str = "[REDACTED]";

/// Secrets shorter than this are not searched for: replacing every `a` would hide the text and
/// tell the secret. The sender refuses secrets this short instead.
pub const SHORTEST: usize = 8;

/// Replaces every occurrence of each secret in `text`, longest secret first, so that a secret
/// that contains another one is not left half shown. Redact first and cut the text after: a
/// secret that straddles a cut would otherwise leak its tail.
pub fn redact(text: &[u8], secrets: &[&[u8]]) -> Vec<u8> {
    let mut ordered: Vec<&[u8]> = secrets.iter().copied().filter(|s| s.len() >= SHORTEST).collect();
    ordered.sort_by_key(|s| core::cmp::Reverse(s.len()));
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        if let Some(after) = ordered.iter().find_map(|s| rest.strip_prefix(*s)) {
            out.extend_from_slice(MARK.as_bytes());
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
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
    fn short_ones_are_left() {
        assert_eq!(redact(b"abc", &[b"b"]), b"abc");
    }
}
