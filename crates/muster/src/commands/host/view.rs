//! What is seen while hosts are worked on: a live table on a terminal, plain lines elsewhere.
//!
//! All of it is talk and goes to stderr; `-q` leaves only what went wrong. Nothing is drawn off a terminal.

use super::fleet::Finished;
use crate::printer::{Format, Printer, Tone};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Hosts that have a line of their own in the live table; of the others only the count is seen.
const LINES: usize = 24;

/// What is seen.
pub struct View<'p> {
    printer: &'p mut Printer,
    names: Vec<String>,
    width: usize,
    live: Option<Live>,
    stream: bool,
    /// A table of all hosts follows.
    summary: bool,
    begun: HashMap<usize, Instant>,
    done: usize,
    bad: usize,
}

struct Live {
    all: MultiProgress,
    total: ProgressBar,
    bars: HashMap<usize, ProgressBar>,
}

impl<'p> View<'p> {
    /// For these hosts. A report that holds the output itself needs no stream of it.
    pub fn new(title: &str, names: &[String], printer: &'p mut Printer) -> Self {
        let looks = printer.looks();
        let width = names.iter().map(String::len).max().unwrap_or(0).min(40);
        let live = (looks.live && !looks.quiet).then(|| Live::new(title, names.len()));
        let stream = !looks.quiet && !matches!(looks.format, Format::Json | Format::Yaml);
        let summary = looks.format == Format::Table;
        let names = names.to_vec();
        Self { printer, names, width, live, stream, summary, begun: HashMap::new(), done: 0, bad: 0 }
    }

    fn name(&self, host: usize) -> &str {
        self.names.get(host).map_or("?", String::as_str)
    }

    /// A host's turn has come.
    pub fn begin(&mut self, host: usize) {
        self.begun.insert(host, Instant::now());
        let name = format!("{:width$}", self.name(host), width = self.width);
        if let Some(live) = self.live.as_mut().filter(|l| l.bars.len() < LINES) {
            live.bars.insert(host, live.line(name));
        }
    }

    /// What it is at.
    pub fn stage(&mut self, host: usize, text: String) {
        if let Some(bar) = self.live.as_ref().and_then(|l| l.bars.get(&host)) {
            bar.set_message(self.printer.secrets().redact_text(&text));
        }
    }

    /// A line of its output.
    pub fn line(&mut self, host: usize, text: &str) {
        if self.stream {
            let line = format!("{} | {text}", self.name(host));
            self.talk(&line);
        }
    }

    /// A line about it.
    pub fn say_of(&mut self, host: usize, text: &str) {
        let line = format!("{}: {text}", self.name(host));
        self.talk(&line);
    }

    /// A line about the whole.
    pub fn say(&mut self, text: &str) {
        self.talk(text);
    }

    /// It is done. The summary of a table says the rest of it, and once is enough; a list of names does not, and of JSON and YAML
    /// the reader is a program.
    pub fn done(&mut self, host: usize, end: &dyn Finished) {
        let (word, tone) = end.word();
        self.done += 1;
        self.bad += usize::from(tone == Tone::Bad);
        let took = self.begun.remove(&host).map(|b| b.elapsed()).unwrap_or_default();
        if let Some(live) = &mut self.live {
            if let Some(bar) = live.bars.remove(&host) {
                bar.finish_and_clear();
            }
            live.total.set_position(self.done as u64);
            if self.bad > 0 {
                live.total.set_message(format!("{} failed", self.bad));
            }
        }
        let reason = end.reason().map_or(String::new(), |code| format!(" [{code}]"));
        let detail = if self.summary { String::new() } else { end.detail() };
        let dash = if detail.is_empty() { "" } else { ": " };
        let line = format!("{}: {word}{reason} in {}{dash}{detail}", self.name(host), seconds(took));
        self.talk(&line);
    }

    /// Does something with the terminal while nothing is drawn on it.
    pub fn aside<T>(&mut self, work: impl FnOnce() -> T) -> T {
        match &self.live {
            Some(live) => live.all.suspend(work),
            None => work(),
        }
    }

    fn talk(&mut self, line: &str) {
        let line = crate::printer::clean(line);
        match &self.live {
            Some(live) => live.all.suspend(|| self.printer.talk(&line)),
            None => self.printer.talk(&line),
        }
    }

    /// Takes the table off the terminal.
    pub fn end(self) {
        if let Some(live) = self.live {
            live.total.finish_and_clear();
            // What cannot be drawn cannot be cleared either.
            let _ = live.all.clear();
        }
    }
}

impl Live {
    fn new(title: &str, count: usize) -> Self {
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let total = all.add(ProgressBar::new(count as u64).with_prefix(title.to_owned()));
        let style = ProgressStyle::with_template("{prefix} {bar:24} {pos}/{len} {elapsed} {msg}");
        total.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { all, total, bars: HashMap::new() }
    }

    fn line(&self, name: String) -> ProgressBar {
        let bar = self.all.add(ProgressBar::new_spinner().with_prefix(name));
        let style = ProgressStyle::with_template("  {prefix} {spinner} {elapsed:>4} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }
}

/// A time as people say it.
pub fn seconds(took: Duration) -> String {
    match took.as_secs() {
        0..100 => format!("{:.1} s", took.as_secs_f32()),
        s @ 100..3600 => format!("{} min {} s", s / 60, s % 60),
        s => format!("{} h {} min", s / 3600, s % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        for (ms, text) in
            [(40, "0.0 s"), (12_340, "12.3 s"), (100_000, "1 min 40 s"), (7_260_000, "2 h 1 min")]
        {
            assert_eq!(seconds(Duration::from_millis(ms)), text);
        }
    }
}
