//! A host's output on its way to a person: whole lines, secrets out first, then control characters escaped, then cut.
//!
//! A secret is one line, so a whole line can be searched for it. Where a line is too long to be kept whole, as many bytes are
//! left off its end as the longest form of a secret has: the beginning of one may stand there.

use crate::printer::clean;
use crate::secret::Secrets;

/// Longest line that is kept; what is over it is left off and said so.
const MAX_LINE: usize = 64 * 1024;
/// What stands where bytes were left off.
pub const CUT: &str = "[cut]";

/// Splits one output into lines.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    over: bool,
}

impl Lines {
    /// Takes what came, and gives each line that is whole now.
    pub fn push(&mut self, bytes: &[u8], secrets: &Secrets, each: &mut dyn FnMut(String)) {
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let (text, ended) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = MAX_LINE.saturating_sub(self.line.len());
            self.over |= text.len() > room;
            self.line.extend_from_slice(text.get(..text.len().min(room)).unwrap_or_default());
            if ended {
                self.end(secrets, each);
            }
        }
    }

    /// The last line, where it did not end.
    pub fn finish(&mut self, secrets: &Secrets, each: &mut dyn FnMut(String)) {
        if !self.line.is_empty() {
            self.end(secrets, each);
        }
    }

    fn end(&mut self, secrets: &Secrets, each: &mut dyn FnMut(String)) {
        let line = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        let text = if self.over { head(line, secrets) } else { shown(line, secrets) };
        self.line.clear();
        self.over = false;
        each(text);
    }
}

/// A whole text without secrets and control characters.
pub fn shown(bytes: &[u8], secrets: &Secrets) -> String {
    clean(&String::from_utf8_lossy(&secrets.redact(bytes)))
}

/// The same for bytes of which more followed.
fn head(bytes: &[u8], secrets: &Secrets) -> String {
    let mut text = secrets.redact(bytes);
    text.truncate(text.len().saturating_sub(secrets.longest()));
    format!("{}{CUT}", clean(&String::from_utf8_lossy(&text)))
}

/// Several lines, for a report: line breaks and tabs stay, all else as in [`shown`]. `more` says that bytes followed which
/// are not here.
pub fn block(bytes: &[u8], more: bool, secrets: &Secrets) -> String {
    let mut text = secrets.redact(bytes);
    if more {
        text.truncate(text.len().saturating_sub(secrets.longest()));
    }
    let mut out = String::with_capacity(text.len());
    for (i, line) in String::from_utf8_lossy(&text).split('\n').enumerate() {
        if i > 0 {
            out.push('\n');
        }
        out.push_str(&clean(line.strip_suffix('\r').unwrap_or(line)));
    }
    if more {
        out.push_str(CUT);
    }
    out
}

/// The last words of an output on one line, at most `most` bytes, for an error message.
pub fn last_words(bytes: &[u8], most: usize, secrets: &Secrets) -> String {
    let text = String::from_utf8_lossy(&secrets.redact(bytes)).into_owned();
    let lines: Vec<&str> = text.split(['\n', '\r']).map(str::trim).filter(|l| !l.is_empty()).collect();
    let clean = clean(&lines.join("; "));
    let mut from = clean.len().saturating_sub(most);
    while !clean.is_char_boundary(from) {
        from += 1;
    }
    let tail = clean.get(from..).unwrap_or_default();
    if from > 0 { format!("…{tail}") } else { tail.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let mut s = Secrets::default();
        s.add(b"canary-canary-canary");
        s
    }

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut l, mut out) = (Lines::default(), Vec::new());
        for c in chunks {
            l.push(c, &secrets(), &mut |t| out.push(t));
        }
        l.finish(&secrets(), &mut |t| out.push(t));
        out
    }

    #[test]
    fn a_secret_that_straddles_two_reads_is_hidden() {
        assert_eq!(lines(&[b"a canary-ca", b"nary-canary b\r\nlast"]), ["a [REDACTED] b", "last"]);
    }

    #[test]
    fn bg10_control_characters_are_written_out() {
        assert_eq!(lines(&[b"\x1b]0;owned\x07\n\n\xff\n"]), ["\\u{1b}]0;owned\\u{7}", "", "\u{fffd}"]);
    }

    #[test]
    fn a_secret_that_straddles_a_cut_leaks_nothing() {
        for shift in 0..24 {
            let mut long = vec![b'x'; MAX_LINE - shift];
            long.extend_from_slice(b"canary-canary-canary and more\nnext\n");
            let out = lines(&[&long]);
            assert_eq!(out.len(), 2);
            assert!(
                !out[0].contains("can") && out[0].ends_with(CUT),
                "{shift}: …{}",
                &out[0][out[0].len() - 60..]
            );
            assert_eq!(out[1], "next");
            let kept = &long[..MAX_LINE - shift + 9];
            assert!(!block(kept, true, &secrets()).contains("can"));
        }
    }

    #[test]
    fn last_words_are_one_line() {
        assert_eq!(last_words(b"a\n\n b\r\n", 80, &secrets()), "a; b");
        assert_eq!(last_words("x éé".as_bytes(), 3, &secrets()), "…é");
        assert_eq!(last_words(b"tok canary-canary-canary", 8, &secrets()), "…EDACTED]");
    }
}
