//! From tokens to simple commands, as far as the lint rules need it.
//!
//! Every simple command of the script is listed once, also those in substitutions, with what it is piped into. Control
//! structure is dropped: a rule asks "is this ever run", never "in which order".

use super::token::{Part, Token, Word};

/// How bash treats the words of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An ordinary command: unquoted expansions are split and globbed.
    Simple,
    /// `[[ … ]]`: no splitting; `-eq` and its like evaluate arithmetic.
    Test,
    /// `case WORD` and assignments: no splitting.
    NoSplit,
    /// `((…))`.
    Arithmetic,
}

/// One simple command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    /// Leading `NAME=value` words.
    pub(crate) assigns: Vec<Word>,
    pub(crate) words: Vec<Word>,
    /// Words after `<`, `>` and the like; here-strings too.
    pub(crate) redirects: Vec<Word>,
    /// Followed by `|`.
    pub(crate) piped: bool,
    /// Followed by `&`.
    pub(crate) background: bool,
    /// How deep in substitutions it stands; 0 is the script itself.
    pub(crate) depth: usize,
}

impl Command {
    /// The command's name when it is literal, without its folder.
    pub(crate) fn name(&self) -> Option<String> {
        let text = self.words.first()?.literal()?;
        Some(text.rsplit('/').next().unwrap_or(&text).to_owned())
    }

    /// The words after wrappers such as `sudo`, `env`, `exec`, `command`, `nice`, with their options and assignments.
    pub(crate) fn unwrapped(&self) -> &[Word] {
        let mut rest = self.words.as_slice();
        loop {
            let Some((head, tail)) = rest.split_first() else { return rest };
            let name = head.literal().unwrap_or_default();
            let name = name.rsplit('/').next().unwrap_or_default();
            if !matches!(
                name,
                "sudo"
                    | "env"
                    | "exec"
                    | "command"
                    | "builtin"
                    | "nice"
                    | "nohup"
                    | "setsid"
                    | "time"
                    | "doas"
            ) {
                return rest;
            }
            let skip = tail.iter().take_while(|w| w.prefix().starts_with('-') || is_assignment(w)).count();
            rest = tail.get(skip..).unwrap_or_default();
        }
    }
}

/// Whether a word has the form `NAME=…` or `NAME+=…`.
pub(crate) fn is_assignment(word: &Word) -> bool {
    let Some(Part::Text { text, quoted: false }) = word.parts.first() else { return false };
    let Some((name, _)) = text.split_once('=') else { return false };
    let name = name.strip_suffix('+').unwrap_or(name);
    let name = name.split('[').next().unwrap_or(name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Every simple command, in the order of the text.
pub(crate) fn commands(tokens: &[Token]) -> Vec<Command> {
    let mut out = Vec::new();
    collect(tokens, 0, &mut out);
    out
}

fn fresh(line: usize, depth: usize) -> Command {
    Command {
        line,
        kind: Kind::Simple,
        assigns: Vec::new(),
        words: Vec::new(),
        redirects: Vec::new(),
        piped: false,
        background: false,
        depth,
    }
}

fn collect(tokens: &[Token], depth: usize, out: &mut Vec<Command>) {
    let mut state =
        State { now: fresh(0, depth), redirect: false, in_test: false, patterns: 0, head: Head::None };
    for token in tokens {
        match token {
            Token::Newline { .. } => state.end(out, depth, ""),
            Token::Op { text, .. } => state.op(text, out, depth),
            Token::HereDoc(body) => {
                let mut c = fresh(body.line, depth);
                c.kind = Kind::NoSplit;
                c.redirects.push(body.clone());
                out.push(c);
                inner(body, depth, out);
            }
            Token::Word(word) => {
                inner(word, depth, out);
                state.word(word, out, depth);
            }
        }
    }
    state.end(out, depth, "");
}

/// Commands inside a word.
fn inner(word: &Word, depth: usize, out: &mut Vec<Command>) {
    for part in &word.parts {
        match part {
            Part::Commands { tokens, .. } => collect(tokens, depth + 1, out),
            Part::Array(tokens) => {
                for t in tokens {
                    if let Token::Word(w) = t {
                        inner(w, depth, out);
                    }
                }
            }
            _ => {}
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Head {
    None,
    /// After `case`: the word, then `in`.
    Case,
    /// After `for` or `select`: a name, then perhaps `in` and words.
    For,
    /// After `function`: a name.
    Function,
}

struct State {
    now: Command,
    redirect: bool,
    in_test: bool,
    /// Open `case`s whose next words are patterns, as a stack of booleans in one number would hide it: a plain count
    /// of those that expect a pattern now (0 or 1) is enough, since a pattern cannot hold a `case`.
    patterns: usize,
    head: Head,
}

impl State {
    fn end(&mut self, out: &mut Vec<Command>, depth: usize, by: &str) {
        if self.in_test {
            return;
        }
        let mut done = std::mem::replace(&mut self.now, fresh(0, depth));
        self.redirect = false;
        self.head = Head::None;
        if done.words.is_empty() && done.assigns.is_empty() && done.redirects.is_empty() {
            return;
        }
        if done.words.is_empty() && done.kind == Kind::Simple {
            done.kind = Kind::NoSplit;
        }
        done.piped = matches!(by, "|" | "|&");
        done.background = by == "&";
        out.push(done);
    }

    fn op(&mut self, text: &'static str, out: &mut Vec<Command>, depth: usize) {
        if self.in_test {
            return;
        }
        match text {
            ")" if self.patterns > 0 => {
                self.patterns = 0;
                self.now = fresh(0, depth);
            }
            _ if self.patterns > 0 => {}
            ";;" | ";&" | ";;&" => {
                self.end(out, depth, text);
                self.patterns = 1;
            }
            "<" | ">" | ">>" | ">|" | "<>" | "<&" | ">&" | "&>" | "&>>" | "<<<" | "<<" | "<<-" => {
                // A file descriptor number before the operator is not an argument.
                if self
                    .now
                    .words
                    .last()
                    .and_then(Word::bare)
                    .is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit()))
                {
                    self.now.words.pop();
                }
                self.redirect = true;
            }
            "(" => self.now = fresh(0, depth),
            other => self.end(out, depth, other),
        }
    }

    fn word(&mut self, word: &Word, out: &mut Vec<Command>, depth: usize) {
        let bare = word.bare();
        if self.patterns > 0 {
            if bare == Some("esac") {
                self.patterns = 0;
            }
            return;
        }
        if self.now.line == 0 {
            self.now.line = word.line;
        }
        if self.redirect {
            self.redirect = false;
            self.now.redirects.push(word.clone());
            return;
        }
        let starting = self.now.words.is_empty() && self.now.assigns.is_empty() && self.head == Head::None;
        match (self.head, bare) {
            (Head::Case, Some("in")) => {
                self.end(out, depth, "");
                self.patterns = 1;
                return;
            }
            (Head::Function, _) => {
                self.now = fresh(0, depth);
                self.head = Head::None;
                return;
            }
            _ => {}
        }
        if starting && self.reserved(bare) {
            return;
        }
        if let [Part::Arithmetic { .. }] = word.parts.as_slice()
            && self.now.words.is_empty()
        {
            self.now.kind = Kind::Arithmetic;
        }
        if self.in_test && bare == Some("]]") {
            self.in_test = false;
        }
        if self.now.words.is_empty() && self.now.kind == Kind::Simple && is_assignment(word) {
            self.now.assigns.push(word.clone());
        } else {
            self.now.words.push(word.clone());
        }
    }

    /// Takes a reserved word at the start of a command; true when nothing is left to do with it.
    fn reserved(&mut self, bare: Option<&str>) -> bool {
        match bare {
            Some(
                "if" | "then" | "else" | "elif" | "while" | "until" | "do" | "!" | "{" | "}" | "fi" | "done"
                | "esac" | "time",
            ) => {
                self.now.line = 0;
                true
            }
            Some("case") => {
                self.head = Head::Case;
                self.now.kind = Kind::NoSplit;
                true
            }
            Some("for" | "select") => {
                self.head = Head::For;
                false
            }
            Some("function") => {
                self.head = Head::Function;
                true
            }
            Some("[[") => {
                self.in_test = true;
                self.now.kind = Kind::Test;
                false
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::token::tokens;

    fn names(script: &str) -> Vec<String> {
        commands(&tokens(script.as_bytes()).unwrap())
            .iter()
            .map(|c| c.name().unwrap_or_else(|| format!("{:?}", c.kind)))
            .collect()
    }

    #[test]
    fn every_command_is_found_once() {
        assert_eq!(names("if a; then b | c; fi; d && e &"), ["a", "b", "c", "d", "e"]);
        assert_eq!(names("x=$(inner) outer 2>/dev/null"), ["inner", "outer"]);
        assert_eq!(names("case $x in a|b) one ;; *) two ;; esac; three"), ["NoSplit", "one", "two", "three"]);
        assert_eq!(names("f() { g; }; function h { i; }"), ["g", "i"]);
        assert_eq!(names("for i in a b; do c; done"), ["for", "c"]);
        assert_eq!(names("[[ a && b ]] || c"), ["[[", "c"]);
        assert_eq!(names("(cd /; ls)"), ["cd", "ls"]);
        assert_eq!(names("while read -r x; do y; done < <(z)"), ["read", "y", "z", "NoSplit"]);
    }

    #[test]
    fn pipes_background_and_wrappers() {
        let all = commands(&tokens(b"curl x | sudo -E env A=b bash -s\nsleep 9 &\n").unwrap());
        assert!(all[0].piped && !all[1].piped && all[2].background);
        assert_eq!(all[1].unwrapped()[0].literal().as_deref(), Some("bash"));
    }
}
