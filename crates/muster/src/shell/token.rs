//! A careful reader of bash text: words, operators, here-documents, expansions, with line numbers.
//!
//! It reads, it never expands. The grammar followed is that of bash(1), sections QUOTING, EXPANSION and REDIRECTION. Where it
//! cannot follow a script it says from which line, and never guesses silently. Recursion is bounded.

mod nest;

use nest::Nest;

/// Where the reader lost the thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) line: usize,
    pub(crate) why: &'static str,
}

/// One piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Literal text; `quoted` when it stood in quotes or behind a backslash.
    Text { text: String, quoted: bool },
    /// `$NAME` or `${NAME…}`; `guarded` when the expansion has a default (`:-`, `-`, `:=`, `=`, `:+`, `+`).
    Param { name: String, quoted: bool, guarded: bool, line: usize },
    /// `$(…)`, backticks or `<(…)`: commands of their own.
    Commands { tokens: Vec<Token>, quoted: bool, process: bool },
    /// `$((…))` or `((…))`: the names that stand in it.
    Arithmetic { names: Vec<String>, line: usize },
    /// The words of an array `(…)` after `=`.
    Array(Vec<Token>),
}

/// A word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) line: usize,
    pub(crate) parts: Vec<Part>,
}

impl Word {
    /// The text, when the word is literal throughout.
    pub(crate) fn literal(&self) -> Option<String> {
        let mut out = String::new();
        for p in &self.parts {
            match p {
                Part::Text { text, .. } => out.push_str(text),
                _ => return None,
            }
        }
        Some(out)
    }

    /// The text, when the word is one unquoted literal: only such a word is a reserved word.
    pub(crate) fn bare(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [Part::Text { text, quoted: false }] => Some(text),
            _ => None,
        }
    }

    /// The literal text up to the first expansion.
    pub(crate) fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text { text, .. }) => text,
            _ => "",
        }
    }
}

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(Word),
    Op {
        text: &'static str,
        line: usize,
    },
    Newline {
        line: usize,
    },
    /// The body of a here-document whose delimiter was not quoted: it is expanded like a quoted string.
    HereDoc(Word),
}

const MAX_DEPTH: usize = 24;
/// Bytes that may be read a second time to find out what each `((` is; a script is far shorter.
const MAX_WASTED: usize = 16 << 20;
/// Longest first, so that the first match is the right one.
const OPS: [&str; 22] = [
    ";;&", "&>>", "<<<", "<<-", ";;", ";&", "&&", "&>", "||", "|&", "<<", "<&", "<>", ">>", ">&", ">|", ";",
    "&", "|", "<", ">", "(",
];

/// Reads a whole script.
pub(crate) fn tokens(script: &[u8]) -> Result<Vec<Token>, Lost> {
    let mut reader = Reader { src: script, pos: 0, line: 1, depth: 0, wasted: 0 };
    reader.run(End::Eof)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Eof,
    Paren,
}

struct Reader<'s> {
    src: &'s [u8],
    pos: usize,
    line: usize,
    depth: usize,
    /// Bytes that were read as arithmetic and turned out to be none.
    wasted: usize,
}

struct Waiting {
    delimiter: String,
    expand: bool,
    tabs: bool,
}

impl<'s> Reader<'s> {
    fn lost<T>(&self, why: &'static str) -> Result<T, Lost> {
        Err(Lost { line: self.line, why })
    }

    fn peek(&self) -> Option<u8> {
        self.src.get(self.pos).copied()
    }

    fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.src.get(self.pos + ahead).copied()
    }

    fn starts(&self, text: &str) -> bool {
        self.src.get(self.pos..).is_some_and(|rest| rest.starts_with(text.as_bytes()))
    }

    fn bump(&mut self) -> Option<u8> {
        let b = self.peek()?;
        self.pos += 1;
        if b == b'\n' {
            self.line += 1;
        }
        Some(b)
    }

    fn deeper(&mut self) -> Result<(), Lost> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { self.lost("expansions are nested too deep") } else { Ok(()) }
    }

    fn run(&mut self, end: End) -> Result<Vec<Token>, Lost> {
        let mut out = Vec::new();
        let mut waiting: Vec<Waiting> = Vec::new();
        let mut here: Option<bool> = None;
        let mut nest = Nest { at_start: true, ..Nest::default() };
        loop {
            self.skip_blank();
            let line = self.line;
            match self.peek() {
                None if end == End::Eof => return Ok(out),
                None => return self.lost("a `(` is not closed"),
                Some(b'\n') => {
                    self.bump();
                    nest.at_start = true;
                    out.push(Token::Newline { line });
                    for w in waiting.drain(..) {
                        if let Some(body) = self.here_document(&w)? {
                            out.push(Token::HereDoc(body));
                        }
                    }
                }
                Some(b')') => {
                    self.bump();
                    if nest.close() {
                        return if end == End::Paren { Ok(out) } else { self.lost("a `)` closes nothing") };
                    }
                    out.push(Token::Op { text: ")", line });
                }
                Some(_) => {
                    if nest.at_start
                        && self.starts("((")
                        && let Some(names) = self.try_arithmetic(2)?
                    {
                        out.push(Token::Word(Word { line, parts: vec![Part::Arithmetic { names, line }] }));
                        nest.at_start = false;
                        continue;
                    }
                    if let Some(op) = self.operator() {
                        if op == "(" && nest.cases.last() != Some(&true) {
                            nest.parens += 1;
                        }
                        here = match op {
                            "<<" => Some(false),
                            "<<-" => Some(true),
                            _ => None,
                        };
                        nest.op(op);
                        out.push(Token::Op { text: op, line });
                        continue;
                    }
                    let word = self.word()?;
                    if let Some(tabs) = here.take() {
                        waiting.push(delimiter(&word, tabs));
                    }
                    nest.word(&word);
                    out.push(Token::Word(word));
                }
            }
        }
    }

    fn skip_blank(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r') => self.pos += 1,
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => {
                    self.bump();
                    self.bump();
                }
                Some(b'#') => {
                    while self.peek().is_some_and(|b| b != b'\n') {
                        self.pos += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn operator(&mut self) -> Option<&'static str> {
        // `<(` and `>(` begin a word.
        if (self.starts("<(") || self.starts(">(")) && !self.starts("<((") {
            return None;
        }
        let op = OPS.into_iter().find(|op| self.starts(op))?;
        self.pos += op.len();
        Some(op)
    }

    fn word(&mut self) -> Result<Word, Lost> {
        let line = self.line;
        let mut parts = Vec::new();
        loop {
            match self.peek() {
                None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b')' | b'\r') => break,
                Some(b'<' | b'>') if self.peek_at(1) == Some(b'(') => {
                    self.pos += 2;
                    let tokens = self.nested()?;
                    parts.push(Part::Commands { tokens, quoted: true, process: true });
                }
                Some(b'<' | b'>') => break,
                Some(b'(') => match last_byte(&parts) {
                    Some(b'=') => {
                        self.pos += 1;
                        parts.push(Part::Array(self.nested()?));
                    }
                    Some(b'?' | b'*' | b'+' | b'@' | b'!') => {
                        self.pos += 1;
                        self.nested()?;
                        push_text(&mut parts, "()", false);
                    }
                    _ => break,
                },
                Some(_) => self.piece(&mut parts, false)?,
            }
        }
        if parts.is_empty() {
            return self.lost("a character that begins no word");
        }
        Ok(Word { line, parts })
    }

    /// One piece inside or outside double quotes.
    fn piece(&mut self, parts: &mut Vec<Part>, quoted: bool) -> Result<(), Lost> {
        match self.peek() {
            Some(b'\\') => {
                self.bump();
                match self.bump() {
                    Some(b'\n') | None => {}
                    Some(b) => push_text(parts, &char::from(b).to_string(), true),
                }
            }
            Some(b'\'') if !quoted => {
                self.bump();
                let text = self.until(b'\'', b"")?;
                push_text(parts, &text, true);
            }
            Some(b'"') if !quoted => {
                let line = self.line;
                self.bump();
                push_text(parts, "", true);
                while self.peek() != Some(b'"') {
                    if self.peek().is_none() {
                        return Err(Lost { line, why: "a double quote that opens here is not closed" });
                    }
                    self.piece(parts, true)?;
                }
                self.bump();
            }
            Some(b'`') => {
                self.bump();
                let line = self.line;
                let text = self.until(b'`', b"`$\\")?;
                self.deeper()?;
                let mut inner = Reader { src: text.as_bytes(), pos: 0, line, depth: self.depth, wasted: 0 };
                let tokens = inner.run(End::Eof)?;
                self.depth -= 1;
                parts.push(Part::Commands { tokens, quoted, process: false });
            }
            Some(b'$') => self.dollar(parts, quoted)?,
            Some(b) => {
                self.bump();
                push_text(parts, &char::from(b).to_string(), quoted);
            }
            None => {}
        }
        Ok(())
    }

    fn nested(&mut self) -> Result<Vec<Token>, Lost> {
        self.deeper()?;
        let tokens = self.run(End::Paren)?;
        self.depth -= 1;
        Ok(tokens)
    }

    /// Text up to `stop`. A backslash takes the byte after it where that byte is in `escapes`, and stays otherwise.
    fn until(&mut self, stop: u8, escapes: &[u8]) -> Result<String, Lost> {
        let opened = self.line;
        let mut text = Vec::new();
        loop {
            match self.bump() {
                None => return Err(Lost { line: opened, why: "a quote that opens here is not closed" }),
                Some(b) if b == stop => return Ok(String::from_utf8_lossy(&text).into_owned()),
                Some(b'\\') if self.peek().is_some_and(|b| escapes.contains(&b)) => text.extend(self.bump()),
                Some(b) => text.push(b),
            }
        }
    }

    fn dollar(&mut self, parts: &mut Vec<Part>, quoted: bool) -> Result<(), Lost> {
        let line = self.line;
        self.bump();
        match self.peek() {
            Some(b'\'') if !quoted => {
                self.bump();
                let text = self.until(b'\'', b"'\\")?;
                push_text(parts, &text, true);
            }
            Some(b'"') if !quoted => {}
            Some(b'{') => {
                self.bump();
                self.deeper()?;
                self.braces(parts, quoted, line)?;
                self.depth -= 1;
            }
            Some(b'(') => {
                if self.peek_at(1) == Some(b'(')
                    && let Some(names) = self.try_arithmetic(2)?
                {
                    parts.push(Part::Arithmetic { names, line });
                    return Ok(());
                }
                self.bump();
                let tokens = self.nested()?;
                parts.push(Part::Commands { tokens, quoted, process: false });
            }
            Some(b) if b.is_ascii_alphabetic() || b == b'_' => {
                let name = self.name();
                parts.push(Part::Param { name, quoted, guarded: false, line });
            }
            Some(b @ (b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!')) => {
                self.bump();
                let name = char::from(b).to_string();
                parts.push(Part::Param { name, quoted, guarded: false, line });
            }
            _ => push_text(parts, "$", quoted),
        }
        Ok(())
    }

    fn name(&mut self) -> String {
        let mut name = String::new();
        while let Some(b) = self.peek().filter(|b| b.is_ascii_alphanumeric() || *b == b'_') {
            name.push(char::from(b));
            self.pos += 1;
        }
        name
    }

    /// After `${`: the name, then everything up to the matching `}`.
    fn braces(&mut self, parts: &mut Vec<Part>, quoted: bool, line: usize) -> Result<(), Lost> {
        let mut length = false;
        if matches!(self.peek(), Some(b'#' | b'!')) && self.peek_at(1) != Some(b'}') {
            length = self.peek() == Some(b'#');
            self.pos += 1;
        }
        let mut name = self.name();
        if name.is_empty()
            && let Some(b) = self.peek().filter(|b| *b != b'}')
        {
            name.push(char::from(b));
            self.pos += 1;
        }
        let mut rest = Vec::new();
        let guarded = matches!(
            (self.peek(), self.peek_at(1)),
            (Some(b'-' | b'=' | b'+'), _) | (Some(b':'), Some(b'-' | b'=' | b'+'))
        );
        if self.peek() == Some(b'[') {
            let names = self.subscript()?;
            rest.push(Part::Arithmetic { names, line });
        }
        loop {
            match self.peek() {
                None => return self.lost("a `${` is not closed"),
                Some(b'}') => break,
                // Inside double quotes a `'` is literal; bash(1), Parameter Expansion.
                Some(_) => self.piece(&mut rest, quoted)?,
            }
        }
        self.bump();
        // A length is a number and cannot split.
        parts.push(Part::Param { name, quoted: quoted || length, guarded, line });
        // What stands in the braces is read too, but its literal text is not text of the word.
        parts.extend(rest.into_iter().filter(|p| !matches!(p, Part::Text { .. })));
        Ok(())
    }

    fn subscript(&mut self) -> Result<Vec<String>, Lost> {
        let mut names = Vec::new();
        let mut depth = 0usize;
        loop {
            match self.bump() {
                None => return self.lost("a subscript is not closed"),
                Some(b'[') => depth += 1,
                Some(b']') => {
                    depth -= 1;
                    if depth == 0 {
                        return Ok(names);
                    }
                }
                Some(b) if b.is_ascii_alphabetic() || b == b'_' => {
                    self.pos -= 1;
                    names.push(self.name());
                }
                Some(_) => {}
            }
        }
    }

    /// The names in `((…))`; `None`, with nothing taken, when it is a subshell in a subshell instead. Finding that out may
    /// read to the end of the script each time, so that it is done often, but not without end.
    fn try_arithmetic(&mut self, skip: usize) -> Result<Option<Vec<String>>, Lost> {
        let back = (self.pos, self.line);
        self.pos += skip;
        if let Ok(names) = self.arithmetic() {
            return Ok(Some(names));
        }
        self.wasted += self.pos - back.0;
        (self.pos, self.line) = back;
        if self.wasted > MAX_WASTED {
            return self.lost("too many `((` that are not arithmetic");
        }
        Ok(None)
    }

    /// After `((`: the names up to the matching `))`.
    fn arithmetic(&mut self) -> Result<Vec<String>, Lost> {
        let mut names = Vec::new();
        let mut depth = 0usize;
        loop {
            match self.peek() {
                None => return self.lost("a `((` is not closed"),
                Some(b')') if depth == 0 => {
                    self.bump();
                    if self.bump() != Some(b')') {
                        return self.lost("a `((` is not closed by `))`");
                    }
                    return Ok(names);
                }
                Some(b')') => {
                    depth -= 1;
                    self.bump();
                }
                Some(b'(') => {
                    depth += 1;
                    self.bump();
                }
                Some(b) if b.is_ascii_alphabetic() || b == b'_' => names.push(self.name()),
                Some(_) => {
                    self.bump();
                }
            }
        }
    }

    fn here_document(&mut self, waiting: &Waiting) -> Result<Option<Word>, Lost> {
        let (line, start) = (self.line, self.pos);
        let mut end = start;
        loop {
            if self.peek().is_none() {
                return self.lost("a here-document is not closed");
            }
            end = end.max(self.pos);
            let mut text = Vec::new();
            while let Some(b) = self.bump().filter(|b| *b != b'\n') {
                text.push(b);
            }
            let shown = String::from_utf8_lossy(&text).into_owned();
            let shown = if waiting.tabs { shown.trim_start_matches('\t') } else { &shown };
            if shown == waiting.delimiter {
                break;
            }
            end = self.pos;
        }
        if !waiting.expand {
            return Ok(None);
        }
        let body = self.src.get(start..end).unwrap_or_default();
        self.deeper()?;
        let mut inner = Reader { src: body, pos: 0, line, depth: self.depth, wasted: 0 };
        let mut parts = Vec::new();
        while inner.peek().is_some() {
            match inner.peek() {
                Some(b'$' | b'`' | b'\\') => inner.piece(&mut parts, true)?,
                _ => {
                    inner.bump();
                }
            }
        }
        self.depth -= 1;
        Ok(Some(Word { line, parts }))
    }
}

fn delimiter(word: &Word, tabs: bool) -> Waiting {
    let expand = word.parts.iter().all(|p| matches!(p, Part::Text { quoted: false, .. }));
    Waiting { delimiter: word.literal().unwrap_or_default(), expand, tabs }
}

fn last_byte(parts: &[Part]) -> Option<u8> {
    match parts.last() {
        Some(Part::Text { text, quoted: false }) => text.bytes().last(),
        _ => None,
    }
}

fn push_text(parts: &mut Vec<Part>, more: &str, quoted: bool) {
    if let Some(Part::Text { text, quoted: q }) = parts.last_mut()
        && *q == quoted
    {
        text.push_str(more);
        return;
    }
    parts.push(Part::Text { text: more.to_owned(), quoted });
}

#[cfg(test)]
mod tests;
