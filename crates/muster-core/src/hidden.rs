//! Characters that a person does not see, or that change how what is beside them is seen.
//!
//! A name that holds one looks like another name, or turns the rest of its line around. The one list of them is here. Sources: Unicode
//! Standard Annex 9 (directional formatting), chapter 23 (invisible characters, tags), `Default_Ignorable_Code_Point`; ISO 6429 (controls).
//! Variation selectors are not in it: they choose between two pictures of what stands before them, and are part of ordinary text.

/// Whether `c` is a control (LF and TAB too), ends a line somewhere, cannot be seen, or turns around what is seen.
#[must_use]
pub fn is_hidden(c: char) -> bool {
    match c {
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' => true,
        '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => true,
        '\u{fdd0}'..='\u{fdef}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => c.is_control() || u32::from(c) & 0xfffe == 0xfffe,
    }
}

/// For people, at most `most` characters: what is hidden is written as `\u{202e}`, a backslash as two, so that no two texts are written
/// alike. What does not fit whole is left out with all behind it.
#[must_use]
pub fn escaped(text: &str, most: usize) -> String {
    let mut out = String::new();
    let mut left = most;
    for c in text.chars() {
        let word = match c {
            '\\' => "\\\\".to_owned(),
            c if is_hidden(c) => c.escape_unicode().to_string(),
            c => c.to_string(),
        };
        let Some(rest) = left.checked_sub(word.chars().count()) else { break };
        left = rest;
        out.push_str(&word);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_or_turns_around_is_written_out_and_the_rest_stays() {
        assert_eq!(
            escaped("alice \u{e9}\u{65e5}\u{2764}\u{fe0f}", 64),
            "alice \u{e9}\u{65e5}\u{2764}\u{fe0f}"
        );
        assert_eq!(escaped("a\u{202e}b\u{9b}\n\u{e0041}", 64), "a\\u{202e}b\\u{9b}\\u{a}\\u{e0041}");
        assert_ne!(escaped("a\\u{202e}", 64), escaped("a\u{202e}", 64));
        assert_eq!(escaped("ab\u{202e}cd", 9), "ab", "no half of an escape");
        assert_eq!(escaped("\u{feff}".repeat(64).as_str(), 64).chars().count(), 64);
        for c in ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}').chain('\u{200b}'..='\u{200f}') {
            assert!(is_hidden(c), "{c:?}");
        }
        for c in
            ('\u{80}'..='\u{9f}').chain('\u{e0000}'..='\u{e007f}').chain(['\u{feff}', '\u{2028}', '\u{2029}'])
        {
            assert!(is_hidden(c), "{c:?}");
        }
    }
}
