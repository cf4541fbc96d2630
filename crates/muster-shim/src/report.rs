//! What the caller reads on standard error: one line a refusal or verdict.

use crate::called::CalledAs;
use muster_core::ShimExit;
use muster_signing::Refusal;
use std::time::Duration;

/// Longest line; what comes from outside is cut, not the verdict before it.
const MAX_LINE: usize = 1000;
/// How long a line waits for room.
const PATIENCE: Duration = Duration::from_secs(1);

/// Writes lines of this shim.
#[derive(Clone, Copy, Debug)]
pub struct Reporter {
    called: CalledAs,
}

impl Reporter {
    /// For the name that the shim was called by.
    pub fn new(called: CalledAs) -> Self {
        Self { called }
    }

    /// One line. Nobody may be there to read it any more, or nobody may want to: which changes
    /// nothing.
    pub fn line(self, text: &str) {
        self.write(text, PATIENCE);
    }

    /// One line if there is room for it now: said while the lock is held, so nobody is waited for.
    pub fn line_if_room(self, text: &str) {
        self.write(text, Duration::ZERO);
    }

    fn write(self, text: &str, patience: Duration) {
        let line = format!("{}: {}\n", self.called.name(), one_line(text));
        let [_, _, stderr] = muster_sys::watch::standard_streams();
        let _ = muster_sys::watch::write_soon(stderr, line.as_bytes(), patience);
    }

    /// The line of a refusal. The words `signature rejected` are those of the bash shim.
    pub fn refusal(self, r: &Refusal) {
        let words = match (self.called, r.reason.exit()) {
            (CalledAs::Kpssh, ShimExit::SignatureRejected) => "signature rejected: ",
            _ => "",
        };
        self.line(&format!("refused [{}]: {words}{r}", r.reason.code()));
    }
}

/// The text as printable ASCII, cut to a length that fits a line.
pub fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MAX_LINE));
    for c in text.chars() {
        if out.len() >= MAX_LINE {
            out.push_str("...");
            break;
        }
        match c {
            ' '..='~' => out.push(c),
            c => out.extend(c.escape_default()),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_steers_a_terminal() {
        assert_eq!(one_line("a\n\u{1b}[2J\u{e9}"), "a\\n\\u{1b}[2J\\u{e9}");
        assert!(one_line(&"x".repeat(5000)).len() <= MAX_LINE + 3);
    }
}
