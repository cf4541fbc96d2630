//! YAML as a tree whose every node knows its line, read within bounds.
//!
//! What is taken is the plain part of YAML 1.2: one document of mappings, lists and scalars. Anchors, aliases,
//! tags and merge keys are refused by line, since each can make a reviewer read something else than the machine.
//! Scalars keep their text, so `1.10` stays `1.10` and `on` stays `on`.
//!
//! Bounds: 8 MiB, 2,000,000 nodes, 32 levels. They are checked while reading, so a hostile file costs little.

use core::fmt;
use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput};

/// Longest file taken.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;
const MAX_NODES: usize = 2_000_000;
const MAX_DEPTH: usize = 32;

/// A node and the line it starts on.
#[derive(Debug, PartialEq, Eq)]
pub struct Node {
    /// From 1.
    pub line: usize,
    /// What it is.
    pub kind: Kind,
}

/// What a node is.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// `~`, `null` or nothing, unquoted.
    Null,
    /// Any other scalar, as written.
    Scalar {
        /// The text after YAML's own escapes.
        text: String,
        /// Whether it was quoted or a block scalar, so that it is text whatever it looks like.
        quoted: bool,
    },
    /// A list.
    List(Vec<Node>),
    /// A mapping, in order; keys are distinct.
    Map(Vec<Entry>),
}

/// One entry of a mapping.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The key's line.
    pub line: usize,
    /// The value.
    pub value: Node,
}

impl Kind {
    /// What a person calls it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Scalar { .. } => "a single value",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

/// What kind of fault a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is no YAML.
    Syntax,
    /// It is YAML of a kind that is not taken.
    Unsupported,
    /// It is over a bound.
    Limits,
    /// A key stands twice in one mapping.
    Duplicate,
    /// A key is not known.
    Key,
    /// A list, a mapping or a single value stands where another of them should.
    Type,
    /// A value does not do.
    Value,
    /// Something that must be there is not.
    Missing,
}

/// One fault of a text, on its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault<R = Reason> {
    /// Its kind.
    pub reason: R,
    /// From 1; 0 is the whole text.
    pub line: usize,
    /// What is wrong, naming the thing.
    pub what: String,
    /// What to do, where it is known better than from the kind.
    pub fix: Option<String>,
    /// How many more faults there are that are not shown.
    pub unshown: usize,
}

impl<R> Fault<R> {
    /// A fault on a line.
    pub fn new(reason: R, line: usize, what: impl Into<String>) -> Self {
        Self { reason, line, what: what.into(), fix: None, unshown: 0 }
    }

    /// With what to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

impl<R> fmt::Display for Fault<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        f.write_str(&self.what)?;
        match &self.fix {
            Some(fix) => write!(f, ". {fix}"),
            None => Ok(()),
        }
    }
}

impl<R: fmt::Debug> core::error::Error for Fault<R> {}

/// Reads the one document of `text`.
pub fn parse(text: &str) -> Result<Node, Fault> {
    reader(text)?.document()
}

/// Reads one block of a document that is otherwise somebody else's: the value of `key` at the top level, `None` where there is
/// no such key. What stands beside it is passed over and may use all of YAML; the block itself may not.
pub fn parse_block(text: &str, key: &str) -> Result<Option<Node>, Fault> {
    reader(text)?.block(key)
}

fn reader(text: &str) -> Result<Reader<'_>, Fault> {
    if text.len() > MAX_BYTES {
        return Err(Fault::new(Reason::Limits, 0, format!("{} bytes are over {MAX_BYTES}", text.len())));
    }
    let mut options = Options::default();
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    options.emit_comments = false;
    Ok(Reader { events: Parser::new_from_str_with_options(text, options), nodes: 0 })
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    nodes: usize,
}

impl<'t> Reader<'t> {
    fn fault(&self, reason: Reason, line: usize, what: impl Into<String>) -> Fault {
        Fault::new(reason, line, what)
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Fault> {
        match self.events.next_event() {
            Some(Ok(one)) => Ok(one),
            Some(Err(e)) => Err(self.fault(Reason::Syntax, e.marker().line(), e.info())),
            None => Err(self.fault(Reason::Syntax, 0, "the file ends too early")),
        }
    }

    fn document(&mut self) -> Result<Node, Fault> {
        let mut root = None;
        loop {
            let (event, span) = self.next()?;
            let line = span.start.line();
            match event {
                Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => return Ok(root.unwrap_or(Node { line: 1, kind: Kind::Null })),
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(self.fault(Reason::Unsupported, line, "a second document begins here"));
                }
                Event::DocumentStart(..) => {}
                event => root = Some(self.node(event, line, 0)?),
            }
        }
    }

    fn block(&mut self, key: &str) -> Result<Option<Node>, Fault> {
        let mut found = None;
        let mut documents = 0;
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(found),
                Event::DocumentStart(..) if documents > 0 => {
                    return Err(self.fault(
                        Reason::Unsupported,
                        span.start.line(),
                        "a second document begins here",
                    ));
                }
                Event::DocumentStart(..) => documents += 1,
                Event::MappingStart(..) => self.find(key, &mut found)?,
                event => self.skip(&event, span.start.line())?,
            }
        }
    }

    /// Goes through the top mapping.
    fn find(&mut self, key: &str, found: &mut Option<Node>) -> Result<(), Fault> {
        loop {
            let (event, span) = self.next()?;
            let line = span.start.line();
            match &event {
                Event::MappingEnd => return Ok(()),
                Event::Scalar(text, ..) if text == key => {
                    let (event, span) = self.next()?;
                    let node = self.node(event, span.start.line(), 1)?;
                    if let Some(first) = found.replace(node) {
                        let what =
                            format!("key {key:?} stands here again, its value is on line {} too", first.line);
                        return Err(self.fault(Reason::Duplicate, line, what));
                    }
                }
                _ => {
                    self.skip(&event, line)?;
                    let (value, span) = self.next()?;
                    self.skip(&value, span.start.line())?;
                }
            }
        }
    }

    /// Passes over what begins with `event`.
    fn skip(&mut self, event: &Event<'t>, line: usize) -> Result<(), Fault> {
        let mut depth = i32::from(opens(event));
        while depth > 0 {
            let (event, _) = self.next()?;
            depth += i32::from(opens(&event)) - i32::from(closes(&event));
            self.count(line)?;
        }
        Ok(())
    }

    fn count(&mut self, line: usize) -> Result<(), Fault> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self.fault(Reason::Limits, line, format!("more than {MAX_NODES} nodes")));
        }
        Ok(())
    }

    fn node(&mut self, event: Event<'t>, line: usize, depth: usize) -> Result<Node, Fault> {
        self.count(line)?;
        if depth > MAX_DEPTH {
            return Err(self.fault(Reason::Limits, line, format!("deeper than {MAX_DEPTH} levels")));
        }
        let kind = match event {
            Event::Scalar(_, _, anchor, tag)
                if anchor != 0 || tag.as_ref().is_some_and(|t| !t.is_yaml_core_schema_tag("str")) =>
            {
                return Err(self.fault(Reason::Unsupported, line, "an anchor or a tag"));
            }
            Event::Scalar(text, style, _, tag) => scalar(&text, style, tag.is_some()),
            Event::SequenceStart(_, 0, None) => self.list(depth)?,
            Event::MappingStart(_, 0, None) => self.map(depth)?,
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                return Err(self.fault(Reason::Unsupported, line, "an anchor or a tag"));
            }
            Event::Alias(_) => return Err(self.fault(Reason::Unsupported, line, "an alias")),
            _ => return Err(self.fault(Reason::Syntax, line, "something else than a value stands here")),
        };
        Ok(Node { line, kind })
    }

    fn list(&mut self, depth: usize) -> Result<Kind, Fault> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Kind::List(items));
            }
            items.push(self.node(event, span.start.line(), depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Kind, Fault> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut seen = std::collections::HashMap::new();
        loop {
            let (event, span) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                return Ok(Kind::Map(entries));
            }
            let line = span.start.line();
            let key = match self.node(event, line, depth + 1)?.kind {
                Kind::Scalar { text, .. } => text,
                Kind::Null => "null".to_owned(),
                other => {
                    let what = format!("{} stands where a key should", other.name());
                    return Err(self.fault(Reason::Unsupported, line, what));
                }
            };
            if key == "<<" {
                return Err(self.fault(Reason::Unsupported, line, "a merge key `<<`"));
            }
            if let Some(first) = seen.insert(key.clone(), line) {
                let what = format!("key {key:?} stands here again, first on line {first}");
                return Err(self.fault(Reason::Duplicate, line, what));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span.start.line(), depth + 1)?;
            entries.push(Entry { key, line, value });
        }
    }
}

fn opens(event: &Event<'_>) -> bool {
    matches!(event, Event::SequenceStart(..) | Event::MappingStart(..))
}

fn closes(event: &Event<'_>) -> bool {
    matches!(event, Event::SequenceEnd | Event::MappingEnd)
}

fn scalar(text: &str, style: ScalarStyle, forced: bool) -> Kind {
    let quoted = forced || style != ScalarStyle::Plain;
    if !quoted && matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Kind::Null;
    }
    Kind::Scalar { text: text.to_owned(), quoted }
}

/// The known word nearest to `word`, when it is near enough to be a slip of the hand.
pub fn nearest<'w>(word: &str, known: impl IntoIterator<Item = &'w str>) -> Option<&'w str> {
    let limit = match word.chars().count() {
        0..=2 => 1,
        3..=5 => 2,
        _ => 3,
    };
    known
        .into_iter()
        .map(|k| (distance(word, k), k))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// Levenshtein distance with neighbours swapped counted once, cut off for words over 64 characters.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().replace('_', "-").chars().take(64).collect();
    let b: Vec<char> = b.to_lowercase().chars().take(64).collect();
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, cb) in b.iter().enumerate() {
            let at = |r: &[usize], k: usize| r.get(k).copied().unwrap_or(usize::MAX / 2);
            let change = at(&last, j) + usize::from(ca != cb);
            let mut best = change.min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(cb) && b.get(j - 1) == Some(ca);
            if swapped {
                best = best.min(at(&before_last, j - 1) + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Node, String> {
        parse(text).map_err(|f| f.to_string())
    }

    #[test]
    fn text_stays_text_and_lines_are_known() {
        let node = read("a: 1.10\nb:\n  - on\n  - 'null'\nc: ~\n").unwrap();
        let Kind::Map(entries) = node.kind else { panic!() };
        assert_eq!(entries[0].value.kind, Kind::Scalar { text: "1.10".into(), quoted: false });
        let Kind::List(items) = &entries[1].value.kind else { panic!() };
        assert_eq!((items[0].line, items[1].line), (3, 4));
        assert_eq!(items[1].kind, Kind::Scalar { text: "null".into(), quoted: true });
        assert_eq!(entries[2].value.kind, Kind::Null);
        assert_eq!(entries[2].line, 5);
    }

    #[test]
    fn what_is_not_taken_is_named_by_line() {
        for (text, want) in [
            ("a: 1\na: 2\n", "line 2: key \"a\" stands here again, first on line 1"),
            ("a: &x 1\nb: *x\n", "line 1: an anchor or a tag"),
            ("b: *x\n", "line 1: "),
            ("a: !secret 1\n", "line 1: an anchor or a tag"),
            ("a: 1\n---\nb: 2\n", "line 2: a second document begins here"),
            ("a:\n  <<: {}\n", "line 2: a merge key"),
            ("a: [1,\nb: 2\n", "line "),
            ("\"a\n", "line "),
            ("? [a]\n: 1\n", "line 1: a list stands where a key should"),
        ] {
            let got = read(text).unwrap_err();
            assert!(got.starts_with(want), "{text:?}: {got}");
        }
    }

    #[test]
    fn cl5_five_megabytes_and_a_thousand_documents_are_bounded() {
        let mut big = String::from("hosts:\n");
        while big.len() < 5 * 1024 * 1024 {
            big.push_str(&format!("  h{}: {{ssh: {{address: 10.0.0.1, user: muster}}}}\n", big.len()));
        }
        let started = std::time::Instant::now();
        assert!(read(&big).is_ok());
        let many = "a: 1\n---\n".repeat(1000);
        assert!(read(&many).unwrap_err().contains("second document"));
        let deep = "[".repeat(100_000);
        assert!(read(&deep).is_err());
        let block = (0..10_000).map(|i| format!("{}a:\n", " ".repeat(i.min(2000)))).collect::<String>();
        assert!(read(&block).is_err());
        assert!(read(&"x".repeat(MAX_BYTES + 1)).unwrap_err().contains("bytes"));
        let wide = format!("[{}]", "1,".repeat(MAX_NODES + 1));
        assert!(read(&wide).unwrap_err().contains("nodes"));
        // Not a timed test: a guard against something quadratic, far above what a loaded machine needs.
        assert!(started.elapsed().as_secs() < 120);
    }

    #[test]
    fn a_slip_finds_its_word() {
        let known = ["address", "port", "user", "host-key", "via"];
        assert_eq!(nearest("adress", known), Some("address"));
        assert_eq!(nearest("host_key", known), Some("host-key"));
        assert_eq!(nearest("prot", known), Some("port"));
        assert_eq!(nearest("kubernetes", known), None);
    }
}
