//! The pairing code: eight symbols of Crockford's base32 (digits and capital letters without I, L, O and U), 40 bits,
//! shown as `XXXX-XXXX`.

use std::fmt;

use zeroize::Zeroize;

/// Symbols of a code.
pub const SYMBOLS: usize = 8;
/// Crockford's alphabet, <https://www.crockford.com/base32.html>, without the check symbols.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// A pairing code. Not printed by `Debug`, not comparable and not serializable: [`Code::expose`] is the one way out.
#[derive(Clone)]
pub struct Code([u8; SYMBOLS]);

/// Why a text is no code. Never says the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCode {
    /// Not eight symbols after `-` and spaces are taken out.
    #[error(
        "a pairing code has 8 symbols, as in XXXX-XXXX, but {0} were typed; read it again from the console"
    )]
    Length(usize),
    /// A symbol that no code has, at this place (1-based).
    #[error(
        "symbol {0} of the pairing code is none that a code has (digits and letters without I, L, O, U); read it again from the console"
    )]
    Symbol(usize),
}

impl Code {
    /// A fresh code from eight random bytes; 256 is a multiple of 32, so no symbol is likelier than another.
    #[must_use]
    pub fn from_random(bytes: [u8; SYMBOLS]) -> Self {
        Self(bytes.map(|b| ALPHABET.get(usize::from(b % 32)).copied().unwrap_or(b'0')))
    }

    /// A code as a person types it: any case, with `-` and spaces anywhere.
    ///
    /// # Errors
    /// Another number of symbols, or one that is not in the alphabet. I, L, O and U are not taken for what they resemble:
    /// the console shows none of them, so they are a slip that is better named.
    pub fn parse(typed: &str) -> Result<Self, BadCode> {
        let symbols: Vec<char> = typed.trim().chars().filter(|c| !matches!(c, '-' | ' ')).collect();
        if symbols.len() != SYMBOLS {
            return Err(BadCode::Length(symbols.len()));
        }
        let mut code = [0; SYMBOLS];
        for (at, (slot, c)) in code.iter_mut().zip(&symbols).enumerate() {
            let upper = c.to_ascii_uppercase();
            *slot = u8::try_from(upper)
                .ok()
                .filter(|b| ALPHABET.contains(b))
                .ok_or(BadCode::Symbol(at.saturating_add(1)))?;
        }
        Ok(Self(code))
    }

    /// The code as it is shown, `XXXX-XXXX`: for the console and the state file of the machine that minted it, nowhere else.
    #[must_use]
    pub fn expose(&self) -> String {
        let text = String::from_utf8_lossy(&self.0);
        let (head, tail) = text.split_at_checked(SYMBOLS / 2).unwrap_or((&text, ""));
        format!("{head}-{tail}")
    }

    /// The normalised symbols, which are the password of the exchange.
    pub(crate) fn symbols(&self) -> &[u8; SYMBOLS] {
        &self.0
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(…)")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_spelling_of_a_code_is_the_code() {
        for typed in ["K7QM-93XF", "k7qm93xf", " K7 qm-93-Xf\n", "K-7-Q-M-9-3-X-F"] {
            assert_eq!(Code::parse(typed).unwrap().expose(), "K7QM-93XF", "{typed}");
        }
    }

    #[test]
    fn what_is_no_code_says_where() {
        for (typed, why) in [
            ("", BadCode::Length(0)),
            ("K7QM-93X", BadCode::Length(7)),
            ("K7QM-93XF0", BadCode::Length(9)),
            ("I7QM93XF", BadCode::Symbol(1)),
            ("K7QL93XF", BadCode::Symbol(4)),
            ("K7QM93Xo", BadCode::Symbol(8)),
            ("K7QM93Xu", BadCode::Symbol(8)),
            ("K7QM93Xé", BadCode::Symbol(8)),
            ("K7QM_93XF", BadCode::Length(9)),
        ] {
            assert_eq!(Code::parse(typed).unwrap_err(), why, "{typed}");
        }
    }

    #[test]
    fn neither_the_code_nor_what_was_typed_is_in_debug_or_errors() {
        assert_eq!(format!("{:?}", Code::parse("K7QM-93XF").unwrap()), "Code(…)");
        let error = Code::parse("K7QM-93XU").unwrap_err().to_string();
        assert!(!error.contains("K7QM"), "{error}");
    }

    #[test]
    fn each_symbol_is_as_likely_as_another() {
        let mut seen = [0; 256];
        for b in 0..=255 {
            let shown = Code::from_random([b; SYMBOLS]).expose();
            seen[usize::from(shown.as_bytes()[0])] += 1;
        }
        for symbol in ALPHABET {
            assert_eq!(seen[usize::from(*symbol)], 8, "{}", char::from(*symbol));
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_typed(bytes: [u8; SYMBOLS]) {
            let code = Code::from_random(bytes);
            let typed = Code::parse(&code.expose()).unwrap();
            prop_assert_eq!(typed.symbols(), code.symbols());
        }

        #[test]
        fn no_text_panics(typed in ".{0,64}") {
            let _ = Code::parse(&typed);
        }
    }
}
