//! Text of others on its way to the screen: cleaned, bounded, and cut to columns.

use crate::printer::clean;
use ratatui::text::Span;

/// Most characters of one piece of text that are kept.
pub const LONGEST: usize = 4096;

/// [`clean`], and without what terminals give different widths to: variation selectors, skin tones, tags, and more marks on one letter
/// than any writing has. Bounded.
pub fn tidy(text: &str) -> String {
    let mut out = String::new();
    let mut marks = 0;
    let cleaned = clean(&text.chars().take(LONGEST).collect::<String>());
    for c in cleaned.chars() {
        if matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' | '\u{e0000}'..='\u{e0fff}') {
            continue;
        }
        marks = if columns_of(c) == 0 { marks + 1 } else { 0 };
        if marks <= 3 {
            out.push(c);
        }
    }
    out
}

fn columns_of(c: char) -> usize {
    if c.is_ascii() { 1 } else { Span::raw(c.encode_utf8(&mut [0; 4]) as &str).width() }
}

/// Columns that a text takes.
pub fn columns(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// As much of it as fits, with a `…` where something is missing.
pub fn fit(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut left = width.saturating_sub(1);
    for c in text.chars() {
        let wide = columns_of(c);
        if wide > left {
            break;
        }
        left -= wide;
        out.push(c);
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// The text on as many lines of this width as it takes; broken between words where there are any.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let (mut lines, mut line, mut used) = (Vec::new(), String::new(), 0);
    for word in text.split_inclusive(' ') {
        let bare = columns(word.trim_end());
        if used > 0 && used + bare > width {
            lines.push(core::mem::take(&mut line).trim_end().to_owned());
            used = 0;
        }
        for c in word.chars() {
            let wide = columns_of(c);
            if used + wide > width {
                // A space that does not fit is the break itself.
                if c == ' ' {
                    continue;
                }
                lines.push(core::mem::take(&mut line));
                used = 0;
            }
            line.push(c);
            used += wide;
        }
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// How old something is, in steps that are coarse enough to be looked at; and the milliseconds until it is called otherwise.
pub fn age(ms: u64) -> (String, u64) {
    const TENTH: u64 = 10_000;
    const MINUTE: u64 = 60_000;
    const HOUR: u64 = 60 * MINUTE;
    let (text, step) = match ms {
        0..TENTH => ("now".to_owned(), TENTH),
        TENTH..MINUTE => (format!("{}s", ms / TENTH * 10), TENTH),
        MINUTE..HOUR => (format!("{}m", ms / MINUTE), MINUTE),
        _ => (format!("{}h", ms / HOUR), HOUR),
    };
    (text, step - ms % step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        assert_eq!(tidy("a\u{1b}]0;x\u{7}b\u{202e}c\r\n"), "a\\u{1b}]0;x\\u{7}b\\u{202e}c\\r\\n");
        assert_eq!(tidy("e\u{301}\u{301}\u{301}\u{301}\u{301}x"), "e\u{301}\u{301}\u{301}x");
        assert_eq!(tidy("❤\u{fe0f}"), "❤");
        assert_eq!(tidy(&"x".repeat(LONGEST + 1)).len(), LONGEST);
    }

    #[test]
    fn wide_letters_are_cut_between_and_never_through() {
        assert_eq!(columns("日本"), 4);
        assert_eq!(fit("日本語", 5), "日本…");
        assert_eq!(fit("日本語", 4), "日…");
        assert_eq!(fit("日本語", 6), "日本語");
        assert_eq!((fit("ab", 1), fit("ab", 0)), ("…".to_owned(), String::new()));
        for width in 0..12 {
            assert!(columns(&fit("a日b本c語 d", width)) <= width, "{width}");
        }
    }

    #[test]
    fn lines_are_broken_between_words_and_nothing_is_lost() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(wrap("日本語", 3), ["日", "本", "語"]);
        assert_eq!(wrap("", 3), [""]);
        for width in 1..20 {
            let lines = wrap("a longer line with aVeryLongWordInTheMiddle of it 日本語", width);
            assert!(lines.iter().all(|l| columns(l) <= width.max(2)), "{width}: {lines:?}");
            let bare = |t: &str| t.replace(' ', "");
            assert_eq!(
                bare(&lines.concat()),
                bare("a longer line with aVeryLongWordInTheMiddle of it 日本語")
            );
        }
    }

    #[test]
    fn an_age_is_said_again_only_when_it_is_another() {
        for (ms, text, next) in [
            (0, "now", 10_000),
            (9_999, "now", 1),
            (10_000, "10s", 10_000),
            (59_999, "50s", 1),
            (60_000, "1m", 60_000),
            (3_600_001, "1h", 3_599_999),
        ] {
            assert_eq!(age(ms), (text.to_owned(), next), "{ms}");
        }
    }
}
