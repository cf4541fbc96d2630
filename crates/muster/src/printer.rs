//! Everything that `muster` writes: data to stdout, talk to stderr.
//!
//! Invariants: no colour and no bars off a terminal or under `NO_COLOR`; control characters from outside never reach a
//! terminal; known secrets are taken out before anything is cut or encoded; a reader that goes away (`| head`) ends the
//! output, never the work.

use crate::codes::Code;
use crate::fault::{Fault, Faults};
use crate::secret::Secrets;
use muster_core::hidden::is_hidden;
use serde::Serialize;
use std::io::{ErrorKind, Write};

/// How data is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Table,
    /// One JSON document.
    Json,
    /// One YAML document.
    Yaml,
    /// One name a line.
    Name,
}

/// Colours used for one word at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Failed, refused.
    Bad,
    /// Look at this.
    Warn,
    /// Done, allowed.
    Good,
    /// Less important.
    Faint,
    /// Headings and names.
    Strong,
}

/// How the printer is set up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looks {
    /// How data is written.
    pub format: Format,
    /// Colour on stdout.
    pub colour_out: bool,
    /// Colour on stderr.
    pub colour_err: bool,
    /// Whether stderr is a terminal that live lines may be drawn on.
    pub live: bool,
    /// No talk, only faults.
    pub quiet: bool,
    /// Columns of the terminal on stdout, when it is one.
    pub width: Option<u16>,
}

/// The one writer.
pub struct Printer {
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    looks: Looks,
    out_gone: bool,
    out_failed: bool,
    secrets: Secrets,
}

/// What a list command gives: the same rows for people and for programs.
pub struct Listing<T> {
    /// Headings.
    pub columns: &'static [&'static str],
    /// The rows, as data.
    pub rows: Vec<T>,
    /// One row for people, in the order of the headings.
    pub cells: fn(&T) -> Vec<String>,
    /// The name of a row.
    pub name: fn(&T) -> String,
    /// Said on stderr when there are no rows.
    pub empty: &'static str,
}

impl Printer {
    /// Writes to these.
    pub fn new(out: Box<dyn Write + Send>, err: Box<dyn Write + Send>, looks: Looks) -> Self {
        Self { out, err, looks, out_gone: false, out_failed: false, secrets: Secrets::default() }
    }

    /// How it is set up.
    pub fn looks(&self) -> Looks {
        self.looks
    }

    /// From now on these never appear.
    pub fn hide(&mut self, secrets: &Secrets) {
        self.secrets.add_all(secrets);
    }

    /// The secrets that are hidden.
    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// A line of data.
    pub fn data(&mut self, line: &str) {
        let mut text = without_hidden(self.secrets.redact_text(line));
        text.push('\n');
        self.raw(text.as_bytes());
    }

    /// Data as it is: files that the operator asked for.
    pub fn raw(&mut self, bytes: &[u8]) {
        if self.out_gone {
            return;
        }
        if let Err(e) = self.out.write_all(bytes).and_then(|()| self.out.flush()) {
            self.out_gone = true;
            if e.kind() != ErrorKind::BrokenPipe {
                self.out_failed = true;
                self.say("error", Tone::Bad, &format!("cannot write to standard output: {e}"));
            }
        }
    }

    /// Whether the reader of stdout went away or could not be written to.
    pub fn out_gone(&self) -> bool {
        self.out_gone
    }

    /// Whether what was to be written to stdout is not there, though somebody wanted it: a disk that is full, and no reader that left.
    pub fn out_failed(&self) -> bool {
        self.out_failed
    }

    fn err_line(&mut self, line: &str) {
        let mut text = self.secrets.redact_text(line);
        text.push('\n');
        // Where even stderr is gone there is nobody left to tell.
        let _ = self.err.write_all(text.as_bytes()).and_then(|()| self.err.flush());
    }

    fn say(&mut self, label: &str, tone: Tone, text: &str) {
        let label = paint(self.looks.colour_err, tone, label);
        self.err_line(&format!("{label}: {text}"));
    }

    /// A line of talk.
    pub fn talk(&mut self, line: &str) {
        if !self.looks.quiet {
            self.err_line(line);
        }
    }

    /// What somebody is asked about, or would be: shown however little was to be said.
    pub fn question(&mut self, line: &str) {
        self.err_line(line);
    }

    /// A warning.
    pub fn warn(&mut self, text: &str) {
        self.say("warning", Tone::Warn, text);
    }

    /// A hint.
    pub fn hint(&mut self, text: &str) {
        if !self.looks.quiet {
            self.say("hint", Tone::Faint, text);
        }
    }

    /// A fault, with its hints after it.
    pub fn fault(&mut self, fault: &Fault) {
        let label = paint(self.looks.colour_err, Tone::Bad, "error");
        self.err_line(&format!("{label}[{}]: {}", fault.code, clean(&fault.to_string())));
        for h in &fault.hints {
            self.hint(&clean(h));
        }
    }

    /// All faults, and where to read more.
    pub fn faults(&mut self, faults: &Faults) {
        for f in faults.iter() {
            self.fault(f);
        }
    }

    /// What to do about a reason that hosts failed with, unless their lines `said` it, and where to read more.
    pub fn explain(&mut self, code: &str, said: bool) {
        let fix = Code::from_word(code).filter(|_| !said).map_or(String::new(), |c| format!("{} ", c.fix()));
        self.hint(&format!("{code}: {fix}`muster explain {code}` says more"));
    }

    /// A word in a tone, for data on stdout.
    pub fn tint(&self, tone: Tone, word: &str) -> String {
        paint(self.looks.colour_out, tone, word)
    }

    /// A value for programs, where the format asks for one; `false` when people want to read it.
    pub fn value<T: Serialize>(&mut self, value: &T) -> bool {
        let text = match self.looks.format {
            Format::Json => {
                let redacted = self.redacted(value);
                serde_json::to_string_pretty(&redacted).unwrap_or_default()
            }
            Format::Yaml => {
                let redacted = self.redacted(value);
                yaml(&redacted).trim_end().to_owned()
            }
            Format::Table | Format::Name => return false,
        };
        self.raw(format!("{}\n", without_hidden(text)).as_bytes());
        true
    }

    /// Secrets are taken out of every text before it is encoded: JSON's escapes would hide them from a search after.
    fn redacted<T: Serialize>(&self, value: &T) -> serde_json::Value {
        let mut tree = serde_json::to_value(value).unwrap_or(serde_json::Value::Null);
        redact_tree(&mut tree, &self.secrets);
        tree
    }

    /// A listing in the format that was asked for.
    pub fn listing<T: Serialize>(&mut self, listing: &Listing<T>) {
        if self.value(&listing.rows) {
            return;
        }
        if self.looks.format == Format::Name {
            for row in &listing.rows {
                self.data(&clean(&(listing.name)(row)));
            }
            return;
        }
        if listing.rows.is_empty() {
            self.talk(listing.empty);
            return;
        }
        let rows = listing.rows.iter().map(listing.cells).collect::<Vec<_>>();
        self.table(listing.columns, &rows);
    }

    /// A table for people.
    pub fn table(&mut self, columns: &[&str], rows: &[Vec<String>]) {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::NOTHING);
        match self.looks.width {
            Some(w) => table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic).set_width(w),
            None => table.set_content_arrangement(comfy_table::ContentArrangement::Disabled),
        };
        table.set_header(columns.iter().map(|c| c.to_uppercase()));
        for row in rows {
            table.add_row(row.iter().map(|c| self.secrets.redact_text(&clean(c))));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for line in table.to_string().lines() {
            self.data(line.trim_end());
        }
    }
}

fn redact_tree(tree: &mut serde_json::Value, secrets: &Secrets) {
    match tree {
        serde_json::Value::String(s) => *s = secrets.redact_text(s),
        serde_json::Value::Array(items) => items.iter_mut().for_each(|i| redact_tree(i, secrets)),
        serde_json::Value::Object(map) => map.values_mut().for_each(|v| redact_tree(v, secrets)),
        _ => {}
    }
}

fn paint(on: bool, tone: Tone, word: &str) -> String {
    if !on {
        return word.to_owned();
    }
    let code = match tone {
        Tone::Bad => "1;31",
        Tone::Warn => "1;33",
        Tone::Good => "32",
        Tone::Faint => "2",
        Tone::Strong => "1",
    };
    format!("\u{1b}[{code}m{word}\u{1b}[0m")
}

/// What JSON may carry as it is and a terminal obeys (DEL, and the second set of controls of ISO 6429: U+009B is CSI), or a reader does not
/// see or sees turned around, written as JSON writes it. To a program that reads JSON nothing changes. Our own colours have none of them.
fn without_hidden(text: String) -> String {
    let is_one = |c| c >= '\u{7f}' && is_hidden(c);
    if !text.contains(is_one) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_one(c) {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        } else {
            out.push(c);
        }
    }
    out
}

/// YAML in blocks. Where a text has something that is to be written out, JSON, which is YAML too and puts every text in quotes: in a plain
/// scalar an escape would be its own characters. YAML writes what is over 16 bits in one escape (YAML 1.2.2, 5.7).
fn yaml(value: &serde_json::Value) -> String {
    let blocks = serde_saphyr::to_string(value).unwrap_or_default();
    if !blocks.contains(|c| c >= '\u{7f}' && is_hidden(c)) {
        return blocks;
    }
    let quoted = serde_json::to_string_pretty(value).unwrap_or_default();
    quoted.chars().fold(String::with_capacity(quoted.len()), |mut out, c| {
        if c > '\u{ffff}' && is_hidden(c) {
            out.push_str(&format!("\\U{:08x}", u32::from(c)));
        } else {
            out.push(c);
        }
        out
    })
}

/// Text from outside with everything that could move a cursor, change a colour or reorder the line written out as an escape.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\t' {
            out.push(' ');
        } else if is_hidden(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
pub(crate) mod testing {
    //! A printer that keeps what was written.
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Bytes that can be looked at while somebody else writes them.
    #[derive(Clone, Default)]
    pub(crate) struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Kept {
        pub(crate) fn text(&self) -> String {
            String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
        }
    }

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    pub(crate) fn printer(looks: Looks) -> (Printer, Kept, Kept) {
        let (out, err) = (Kept::default(), Kept::default());
        (Printer::new(Box::new(out.clone()), Box::new(err.clone()), looks), out, err)
    }
}

#[cfg(test)]
mod tests {
    use super::testing::printer;
    use super::*;
    use crate::codes::Own;
    use std::path::Path;

    #[test]
    fn a_fault_is_one_line_and_its_hints_are_apart() {
        let (mut p, out, err) = printer(Looks::default());
        let fault = Fault::new(Own::ConfigKey, "unknown key \"adress\" in hosts.edge-1.ssh")
            .at(Path::new("inventory.yaml"), 12)
            .fix("Did you mean \"address\"?")
            .hint("`muster explain config-key` says more");
        p.fault(&fault);
        assert_eq!(out.text(), "");
        assert_eq!(
            err.text(),
            "error[config-key]: inventory.yaml:12: unknown key \"adress\" in hosts.edge-1.ssh. Did you mean \"address\"?\n\
             hint: `muster explain config-key` says more\n"
        );
    }

    #[test]
    fn a_reader_that_goes_away_does_not_end_the_work() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let err = super::testing::Kept::default();
        let mut p = Printer::new(Box::new(Gone), Box::new(err.clone()), Looks::default());
        p.data("a");
        p.data("b");
        assert!(p.out_gone());
        assert_eq!(err.text(), "");
    }

    #[test]
    fn bg10_terminal_escapes_from_outside_are_written_out() {
        assert_eq!(clean("\u{61c}\u{e0041}"), "\\u{61c}\\u{e0041}", "marks of direction, and tags");
        assert_eq!(clean("a\u{1b}[31mb\r\nc\u{202e}d\u{9b}"), "a\\u{1b}[31mb\\r\\nc\\u{202e}d\\u{9b}");
    }

    #[test]
    fn bg10_what_programs_read_has_no_control_that_a_terminal_obeys_and_is_the_same_value() {
        let value = serde_json::json!({"a": "x\u{9b}31m\u{7f}\u{1b}[2J\u{85}日\u{202e}\u{2066}\u{feff}\u{2028}\u{e0041}"});
        let (mut p, out, _) = printer(Looks { format: Format::Json, ..Looks::default() });
        p.value(&value);
        p.data(&value.to_string());
        let text = out.text();
        assert!(text.chars().all(|c| c == '\n' || !is_hidden(c)), "{text:?}");
        let (pretty, line) = text.trim_end().rsplit_once('\n').unwrap();
        for one in [pretty, line] {
            assert_eq!(serde_json::from_str::<serde_json::Value>(one).unwrap(), value);
        }
        let (mut p, out, _) = printer(Looks { format: Format::Yaml, ..Looks::default() });
        p.value(&value);
        let text = out.text();
        assert!(text.chars().all(|c| c == '\n' || !is_hidden(c)), "{text:?}");
        assert_eq!(serde_saphyr::from_str::<serde_json::Value>(&text).unwrap(), value);
    }

    #[test]
    fn secrets_are_out_of_tables_json_and_yaml() {
        for format in [Format::Table, Format::Json, Format::Yaml, Format::Name] {
            let (mut p, out, _) = printer(Looks { format, ..Looks::default() });
            let mut s = Secrets::default();
            s.add(b"hunter2\"hunter2");
            p.hide(&s);
            p.listing(&Listing {
                columns: &["name"],
                rows: vec![serde_json::json!({"name": "x hunter2\"hunter2 y"})],
                cells: |r| vec![r["name"].as_str().unwrap_or_default().into()],
                name: |r| r["name"].as_str().unwrap_or_default().into(),
                empty: "",
            });
            assert!(!out.text().contains("hunter2"), "{format:?}: {}", out.text());
            assert!(out.text().contains("[REDACTED]"), "{format:?}: {}", out.text());
        }
    }
}
