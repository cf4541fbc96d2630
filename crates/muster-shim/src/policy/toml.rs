//! The part of TOML 1.0 (toml.io) that `shim.toml` is written in, read strictly.
//!
//! Taken: comments, tables with bare and quoted names, `key = value` with one key, basic and
//! literal strings of one line, decimal numbers without sign or `_`, booleans, lists of strings
//! over any number of lines, inline tables. Refused, with the line: everything else. What is taken
//! means what TOML says it means; a test lets the `toml` crate judge that.
//!
//! By hand because the crate is 147 kB of code that would run as root, and because its faults in a
//! list name no line of their own: docs/decisions/0032.

use super::PolicyFault;
use std::collections::BTreeMap;

/// A value and the line it begins at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Node {
    Text(String),
    Number(u64),
    Bool(bool),
    List(Vec<(usize, String)>),
    Table(Table),
}

/// A table: what is in it, by name, with the line of each name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) entries: BTreeMap<String, (usize, Node)>,
    /// It had a header or braces of its own, so that it may not have another.
    defined: bool,
    /// It was written in braces, so that nothing may be added.
    closed: bool,
}

/// How deep tables may stand in tables, by name and in braces: reading them and dropping them takes
/// stack.
const MAX_DEPTH: usize = 8;

/// Reads a whole text.
pub(super) fn read(text: &str) -> Result<Table, PolicyFault> {
    let mut r = Reader { rest: text, line: 1, depth: 0 };
    let mut root = Table::default();
    let mut path: Vec<String> = Vec::new();
    loop {
        r.blank(true)?;
        match r.peek() {
            None => return Ok(root),
            Some('[') => {
                path = r.header()?;
                let line = r.line;
                open(&mut root, &path, line, true).map_err(|why| fault(line, why))?;
            }
            Some(_) => {
                let line = r.line;
                let (key, node) = r.pair()?;
                let table = open(&mut root, &path, line, false).map_err(|why| fault(line, why))?;
                put(table, key, line, node)?;
            }
        }
        r.end_of_line()?;
    }
}

fn fault(line: usize, why: impl Into<String>) -> PolicyFault {
    PolicyFault { line, why: why.into() }
}

fn put(table: &mut Table, key: String, line: usize, node: Node) -> Result<(), PolicyFault> {
    if table.entries.contains_key(&key) {
        return Err(fault(line, format!("{key} is there already")));
    }
    table.entries.insert(key, (line, node));
    Ok(())
}

/// The table at `path`, made on the way; with `header`, it must not have had one.
fn open<'t>(
    root: &'t mut Table,
    path: &[String],
    line: usize,
    header: bool,
) -> Result<&'t mut Table, String> {
    let mut at = root;
    for name in path {
        let (_, node) =
            at.entries.entry(name.clone()).or_insert_with(|| (line, Node::Table(Table::default())));
        at = match node {
            Node::Table(t) if !t.closed => t,
            _ => return Err(format!("{name} is there already and is no open table")),
        };
    }
    if header && std::mem::replace(&mut at.defined, true) {
        return Err(format!("[{}] is there already", path.join(".")));
    }
    Ok(at)
}

struct Reader<'t> {
    rest: &'t str,
    line: usize,
    /// Braces around this place.
    depth: usize,
}

impl Reader<'_> {
    fn fail<T>(&self, why: impl Into<String>) -> Result<T, PolicyFault> {
        Err(fault(self.line, why))
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        if c == '\n' {
            self.line += 1;
        }
        Some(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let hit = self.peek() == Some(c);
        if hit {
            self.take();
        }
        hit
    }

    /// A line break: LF, or CR LF.
    fn newline(&mut self) -> bool {
        if self.rest.starts_with("\r\n") {
            self.take();
        }
        self.eat('\n')
    }

    /// Skips blanks; with `lines`, comments and line breaks too.
    fn blank(&mut self, lines: bool) -> Result<(), PolicyFault> {
        loop {
            if self.eat(' ') || self.eat('\t') || (lines && self.newline()) {
                continue;
            }
            if !lines || self.peek() != Some('#') {
                return Ok(());
            }
            self.comment()?;
        }
    }

    fn comment(&mut self) -> Result<(), PolicyFault> {
        while let Some(c) = self.peek() {
            if c == '\n' || self.rest.starts_with("\r\n") {
                break;
            }
            if c.is_ascii_control() && c != '\t' {
                return self.fail("a control character in a comment");
            }
            self.take();
        }
        Ok(())
    }

    fn end_of_line(&mut self) -> Result<(), PolicyFault> {
        self.blank(false)?;
        if self.peek() == Some('#') {
            self.comment()?;
        }
        match self.peek() {
            None => Ok(()),
            Some(_) if self.newline() => Ok(()),
            Some(c) => self.fail(format!("{c:?} where the line should end")),
        }
    }

    /// `[a.b."c"]`
    fn header(&mut self) -> Result<Vec<String>, PolicyFault> {
        self.take();
        if self.peek() == Some('[') {
            return self.fail("lists of tables are not taken here");
        }
        let mut path = Vec::new();
        loop {
            if path.len() == MAX_DEPTH {
                return self.fail("a table's name has too many parts");
            }
            self.blank(false)?;
            path.push(self.key()?);
            self.blank(false)?;
            if self.eat(']') {
                return Ok(path);
            }
            if !self.eat('.') {
                return self.fail("wanted `.` or `]` in a table's name");
            }
        }
    }

    fn key(&mut self) -> Result<String, PolicyFault> {
        if let Some('"' | '\'') = self.peek() {
            return self.text();
        }
        let mut key = String::new();
        while let Some(c) = self.peek().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')) {
            key.push(c);
            self.take();
        }
        if key.is_empty() { self.fail("wanted a name") } else { Ok(key) }
    }

    fn pair(&mut self) -> Result<(String, Node), PolicyFault> {
        let key = self.key()?;
        self.blank(false)?;
        if self.peek() == Some('.') {
            return self.fail("names with dots are not taken here; write a [table]");
        }
        if !self.eat('=') {
            return self.fail(format!("wanted `=` after {key}"));
        }
        self.blank(false)?;
        Ok((key, self.value()?))
    }

    fn value(&mut self) -> Result<Node, PolicyFault> {
        match self.peek() {
            Some('"' | '\'') => self.text().map(Node::Text),
            Some('[') => self.list().map(Node::List),
            Some('{') if self.depth == MAX_DEPTH => self.fail("tables in tables in tables: too deep"),
            Some('{') => {
                self.depth += 1;
                let table = self.inline()?;
                self.depth -= 1;
                Ok(Node::Table(table))
            }
            Some(c) if c.is_ascii_alphanumeric() => self.word(),
            _ => self.fail("wanted a value: a \"text\", a number, true, false, a [list] or a { table }"),
        }
    }

    fn word(&mut self) -> Result<Node, PolicyFault> {
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '+' | '-' | ':')));
        let word = self.rest.get(..end.unwrap_or(self.rest.len())).unwrap_or_default().to_owned();
        self.rest = self.rest.get(word.len()..).unwrap_or_default();
        let plain = word.bytes().all(|b| b.is_ascii_digit()) && (word == "0" || !word.starts_with('0'));
        match word.as_str() {
            "true" => Ok(Node::Bool(true)),
            "false" => Ok(Node::Bool(false)),
            w if plain => match w.parse() {
                // TOML's numbers are 64 bits with a sign.
                Ok(n) if i64::try_from(n).is_ok() => Ok(Node::Number(n)),
                _ => self.fail(format!("{w} is too large")),
            },
            w => self.fail(format!("{w:?} is no value here; a text stands in quotes")),
        }
    }

    /// A list of strings, over any number of lines.
    fn list(&mut self) -> Result<Vec<(usize, String)>, PolicyFault> {
        self.take();
        let mut out = Vec::new();
        loop {
            self.blank(true)?;
            if self.eat(']') {
                return Ok(out);
            }
            let line = self.line;
            if !matches!(self.peek(), Some('"' | '\'')) {
                return self.fail("wanted a \"text\" or `]` in a list");
            }
            out.push((line, self.text()?));
            self.blank(true)?;
            if !self.eat(',') && self.peek() != Some(']') {
                return self.fail("wanted `,` or `]` in a list");
            }
        }
    }

    /// `{ a = 1, b = 2 }` on one line.
    fn inline(&mut self) -> Result<Table, PolicyFault> {
        self.take();
        let mut table = Table { defined: true, closed: true, ..Table::default() };
        self.blank(false)?;
        if self.eat('}') {
            return Ok(table);
        }
        loop {
            self.blank(false)?;
            let line = self.line;
            let (key, node) = self.pair()?;
            put(&mut table, key, line, node)?;
            self.blank(false)?;
            if self.eat('}') {
                return Ok(table);
            }
            if !self.eat(',') {
                return self.fail("wanted `,` or `}` in a table in braces");
            }
        }
    }

    /// A string in double or single quotes, on one line.
    fn text(&mut self) -> Result<String, PolicyFault> {
        let Some(quote) = self.take() else { return self.fail("wanted a text") };
        let mut out = String::new();
        loop {
            let line = self.line;
            let Some(c) = self.take() else { return Err(fault(line, "a text without its closing quote")) };
            match c {
                c if c == quote => break,
                '\\' if quote == '"' => out.push(self.escape()?),
                '\n' | '\r' => return Err(fault(line, "a text without its closing quote")),
                c if c.is_ascii_control() && c != '\t' => {
                    return Err(fault(line, "a control character in a text"));
                }
                c => out.push(c),
            }
        }
        if out.is_empty() && self.peek() == Some(quote) {
            return self.fail("texts over several lines are not taken here");
        }
        Ok(out)
    }

    fn escape(&mut self) -> Result<char, PolicyFault> {
        let digits = match self.take() {
            Some('b') => return Ok('\u{8}'),
            Some('t') => return Ok('\t'),
            Some('n') => return Ok('\n'),
            Some('f') => return Ok('\u{c}'),
            Some('r') => return Ok('\r'),
            Some(c @ ('"' | '\\')) => return Ok(c),
            Some('u') => 4,
            Some('U') => 8,
            _ => return self.fail("an escape that TOML does not know"),
        };
        let mut n = 0u32;
        for _ in 0..digits {
            let Some(d) = self.take().and_then(|c| c.to_digit(16)) else {
                return self.fail(format!("wanted {digits} hexadecimal digits"));
            };
            n = n.wrapping_mul(16).wrapping_add(d);
        }
        char::from_u32(n).map_or_else(|| self.fail("an escape that is no character"), Ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(ours: &Table, theirs: &toml::Table) -> bool {
        ours.entries.len() == theirs.len()
            && ours.entries.iter().all(|(k, (_, node))| theirs.get(k).is_some_and(|v| equal(node, v)))
    }

    fn equal(node: &Node, v: &toml::Value) -> bool {
        match (node, v) {
            (Node::Text(a), toml::Value::String(b)) => a == b,
            (Node::Number(a), toml::Value::Integer(b)) => i64::try_from(*a) == Ok(*b),
            (Node::Bool(a), toml::Value::Boolean(b)) => a == b,
            (Node::List(a), toml::Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|((_, t), v)| v.as_str() == Some(t))
            }
            (Node::Table(a), toml::Value::Table(b)) => same(a, b),
            _ => false,
        }
    }

    /// Whatever we take, the crate takes and reads alike.
    fn judged(text: &str) -> bool {
        match read(text) {
            Err(_) => false,
            Ok(ours) => {
                let theirs: toml::Table = toml::from_str(text).unwrap_or_else(|e| panic!("{text:?}: {e}"));
                assert!(same(&ours, &theirs), "{text:?}: {ours:?} {theirs:?}");
                true
            }
        }
    }

    #[test]
    fn taken_and_read_as_toml_reads_it() {
        for text in [
            "",
            "# c",
            "a = 1",
            "a = 1\r\nb = 2 # x\r\n",
            "a = \"\"\nb = 'it\\n'\nc = \"\\t\\\"\\\\\\u00e9\\U0001f600\"\n",
            "a-b = true\n_ = false\n1 = 0\n",
            "l = [\n 'a', # one\n \"b\",\n]\nm = []\n",
            "t = { a = 1, b = { c = \"d\" } }\nu = {}\n",
            "[a]\nx = 1\n[a.b]\ny = 2\n[c.'d.e'.\"f g\"]\n[c]\nz = 3\n",
            "[ a . b ]\n\t x\t=\t9223372036854775807\n",
            "\"quoted key\" = 1\n",
        ] {
            assert!(judged(text), "{text:?}: {:?}", read(text));
        }
    }

    #[test]
    fn depth_is_bounded() {
        let braces = |n: usize| format!("a = {}1{}\n", "{ a = ".repeat(n), " }".repeat(n));
        let name = |n: usize| format!("[{}a]\n", "a.".repeat(n));
        assert!(judged(&braces(8)) && judged(&name(7)));
        for n in [9, 150_000] {
            assert!(read(&braces(n)).unwrap_err().why.contains("deep"), "{n}");
            assert!(read(&name(n)).unwrap_err().why.contains("parts"), "{n}");
        }
    }

    #[test]
    fn refused_with_its_line() {
        for (text, line) in [
            ("a", 1),
            ("a =", 1),
            ("\na = b\n", 2),
            ("a = 1 b = 2\n", 1),
            ("a.b = 1\n", 1),
            ("a = 1\na = 2\n", 2),
            ("[a]\n[a]\n", 2),
            ("a = 1\n[a]\n", 2),
            ("a = {}\n[a.b]\n", 2),
            ("[[a]]\n", 1),
            ("[a\n", 1),
            ("[]\n", 1),
            ("a = 01\n", 1),
            ("a = 1_000\n", 1),
            ("a = -1\n", 1),
            ("a = +1\n", 1),
            ("a = 1.5\n", 1),
            ("a = 0x10\n", 1),
            ("a = 2026-11-29\n", 1),
            ("a = 9223372036854775808\n", 1),
            ("a = \"x\nb\"\n", 1),
            ("a = \"\"\"x\"\"\"\n", 1),
            ("a = '''x'''\n", 1),
            ("a = \"\\x41\"\n", 1),
            ("a = \"\\ud800\"\n", 1),
            ("a = \"\u{1}\"\n", 1),
            ("# \u{1}\n", 1),
            ("a = [1]\n", 1),
            ("a = ['x' 'y']\n", 1),
            ("a = ['x',\n 'y'\n", 3),
            ("a = { b = 1,\n c = 2 }\n", 1),
            ("a = { b = 1, }\n", 1),
            ("a = true1\n", 1),
            ("\r", 1),
        ] {
            let e = read(text).expect_err(text);
            assert_eq!(e.line, line, "{text:?}: {e}");
        }
    }

    proptest! {
        #[test]
        fn never_takes_what_toml_does_not(text in "([a-c\"'.=\\[\\]{}#, \n\r\t0-2\\\\un-]|true){0,40}") {
            judged(&text);
        }

        #[test]
        fn any_text(text in ".*") {
            let _ = read(&text);
        }
    }
}
