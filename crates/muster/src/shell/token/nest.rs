//! Telling a `)` that closes a substitution from that of a case pattern or a subshell.

use super::Word;

/// What surrounds the next token: enough to know a closing `)` from that of a case pattern or a subshell.
#[derive(Default)]
pub(super) struct Nest {
    /// Open `(` of subshells and function definitions.
    pub(super) parens: usize,
    /// One entry per open `case`: whether a pattern is expected next.
    pub(super) cases: Vec<bool>,
    /// `case` was read and its `in` not yet.
    pub(super) case_head: bool,
    /// A command may start here.
    pub(super) at_start: bool,
}

impl Nest {
    pub(super) fn word(&mut self, word: &Word) {
        let bare = word.bare();
        if self.case_head && bare == Some("in") {
            self.case_head = false;
            self.cases.push(true);
        } else if self.cases.last() == Some(&true) {
            if bare == Some("esac") {
                self.cases.pop();
            }
        } else if self.at_start && bare == Some("case") {
            self.case_head = true;
        } else if self.at_start && bare == Some("esac") {
            self.cases.pop();
        }
        self.at_start = matches!(
            bare,
            Some("if" | "then" | "else" | "elif" | "while" | "until" | "do" | "!" | "time" | "{" | "esac")
        );
    }

    pub(super) fn op(&mut self, op: &str) {
        if matches!(op, ";;" | ";&" | ";;&")
            && let Some(last) = self.cases.last_mut()
        {
            *last = true;
        }
        self.at_start = !op.starts_with(['<', '>']) && op != "&>" && op != "&>>";
    }

    /// Takes a `)`; true when it closes what surrounds this reader.
    pub(super) fn close(&mut self) -> bool {
        self.at_start = true;
        if let Some(pattern) = self.cases.last_mut()
            && *pattern
        {
            *pattern = false;
            return false;
        }
        if self.parens > 0 {
            self.parens -= 1;
            return false;
        }
        true
    }
}
