//! Which characters a text that a person reviews may hold.
//!
//! Trust files and values are read by people in a diff and by programs in several formats. A
//! character that one of them takes for the end of a line, or does not show, makes the two disagree:
//! a comment then holds a line of its own. Sources: YAML 1.1 section 4.2 (line breaks, byte order
//! mark), Unicode Standard Annex 9 (directional formatting) and chapter 23 (invisible characters).

/// Whether `c` ends a line somewhere, cannot be seen, or turns around what is seen. LF and TAB are plain.
pub fn is_hidden(c: char) -> bool {
    !matches!(c, '\n' | '\t') && muster_core::hidden::is_hidden(c)
}

/// The first such character of `text`, as words for a fault.
pub fn why_hidden(text: &str) -> Option<String> {
    text.lines().zip(1usize..).find_map(|(l, n)| {
        let c = l.chars().find(|c| is_hidden(*c))?;
        Some(format!("line {n} holds U+{:04X}, which hides or breaks a line: take it out", u32::from(c)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_or_hides_a_line_is_named_with_its_line() {
        for c in [
            '\u{85}', '\u{2028}', '\u{2029}', '\u{feff}', '\u{202e}', '\u{2066}', '\0', '\u{ffff}',
            '\u{200b}',
        ] {
            let why = why_hidden(&format!("a\n# b{c}c\n"));
            assert!(why.is_some_and(|w| w.starts_with("line 2 holds U+")), "{c:?}");
        }
        assert_eq!(why_hidden("a\tb\u{a0}\u{e9}\u{65e5}\r\n\n"), None);
    }
}
