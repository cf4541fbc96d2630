//! YAML as a tree whose every node knows its line, read within bounds.
//!
//! What is taken is the plain part of YAML 1.2: one document of mappings, lists and scalars. Anchors, aliases,
//! tags and merge keys are refused by line, since each can make a reviewer read something else than the machine.
//! Scalars keep their text, so `1.10` stays `1.10` and `on` stays `on`.
//!
//! Bounds: 8 MiB, 2,000,000 nodes, 32 levels. They are checked while reading, so a hostile file costs little.

pub mod walk;

use crate::codes::Own;
use crate::fault::Fault;
use serde_saphyr::granit_parser::{Event, Options, Parser, ScalarStyle, Span, StrInput};
use std::path::Path;

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

/// Reads the one document of `text`; `file` is for messages only.
pub fn parse(text: &str, file: &Path) -> Result<Node, Fault> {
    if text.len() > MAX_BYTES {
        let what = format!("{} is {} bytes", file.display(), text.len());
        return Err(Fault::new(Own::YamlLimits, what).at(file, 0));
    }
    let mut options = Options::default();
    options.flow_nesting_limit = MAX_DEPTH;
    options.block_nesting_limit = MAX_DEPTH;
    options.emit_comments = false;
    let mut reader = Reader { events: Parser::new_from_str_with_options(text, options), file, nodes: 0 };
    reader.document()
}

struct Reader<'t> {
    events: Parser<'t, StrInput<'t>>,
    file: &'t Path,
    nodes: usize,
}

impl<'t> Reader<'t> {
    fn fault(&self, code: Own, line: usize, what: impl Into<String>) -> Fault {
        Fault::new(code, what).at(self.file, line)
    }

    fn next(&mut self) -> Result<(Event<'t>, Span), Fault> {
        match self.events.next_event() {
            Some(Ok(one)) => Ok(one),
            Some(Err(e)) => Err(self.fault(Own::YamlSyntax, e.marker().line(), e.info())),
            None => Err(self.fault(Own::YamlSyntax, 0, "the file ends too early")),
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
                    return Err(self.fault(Own::YamlUnsupported, line, "a second document begins here"));
                }
                Event::DocumentStart(..) => {}
                event => root = Some(self.node(event, line, 0)?),
            }
        }
    }

    fn node(&mut self, event: Event<'t>, line: usize, depth: usize) -> Result<Node, Fault> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(self.fault(Own::YamlLimits, line, format!("more than {MAX_NODES} nodes")));
        }
        if depth > MAX_DEPTH {
            return Err(self.fault(Own::YamlLimits, line, format!("deeper than {MAX_DEPTH} levels")));
        }
        let kind = match event {
            Event::Scalar(_, _, anchor, tag)
                if anchor != 0 || tag.as_ref().is_some_and(|t| !t.is_yaml_core_schema_tag("str")) =>
            {
                return Err(self.fault(Own::YamlUnsupported, line, "an anchor or a tag"));
            }
            Event::Scalar(text, style, _, tag) => scalar(&text, style, tag.is_some()),
            Event::SequenceStart(_, 0, None) => self.list(depth)?,
            Event::MappingStart(_, 0, None) => self.map(depth)?,
            Event::SequenceStart(..) | Event::MappingStart(..) => {
                return Err(self.fault(Own::YamlUnsupported, line, "an anchor or a tag"));
            }
            Event::Alias(_) => return Err(self.fault(Own::YamlUnsupported, line, "an alias")),
            _ => return Err(self.fault(Own::YamlSyntax, line, "something else than a value stands here")),
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
                    return Err(self.fault(Own::YamlUnsupported, line, what));
                }
            };
            if key == "<<" {
                return Err(self.fault(Own::YamlUnsupported, line, "a merge key `<<`"));
            }
            if let Some(first) = seen.insert(key.clone(), line) {
                let what = format!("key {key:?} stands here again, first on line {first}");
                return Err(self.fault(Own::ConfigDuplicate, line, what));
            }
            let (event, span) = self.next()?;
            let value = self.node(event, span.start.line(), depth + 1)?;
            entries.push(Entry { key, line, value });
        }
    }
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
        parse(text, Path::new("x.yaml")).map_err(|f| f.to_string())
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
            ("a: 1\na: 2\n", "x.yaml:2: key \"a\" stands here again, first on line 1"),
            ("a: &x 1\nb: *x\n", "x.yaml:1: an anchor or a tag"),
            ("b: *x\n", "x.yaml:1: "),
            ("a: !secret 1\n", "x.yaml:1: an anchor or a tag"),
            ("a: 1\n---\nb: 2\n", "x.yaml:2: a second document begins here"),
            ("a:\n  <<: {}\n", "x.yaml:2: a merge key"),
            ("a: [1,\nb: 2\n", "x.yaml:"),
            ("\"a\n", "x.yaml:"),
            ("? [a]\n: 1\n", "x.yaml:1: a list stands where a key should"),
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
