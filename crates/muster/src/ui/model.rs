//! All that the dashboard knows and shows. Times are milliseconds since it began.

use super::keys::Key;
use super::text::{LONGEST, tidy, wrap};
use crate::commands::node::action::Action;
use crate::commands::node::logs::{LONGER, shown};
use crate::commands::node::watch;
use crate::fault::Fault;
use crate::nodes::choose::Chosen;
use crate::printer::Tone;
use muster_api::logs::Record;
use muster_api::node::Node;
use muster_api::services::Service;
use std::collections::VecDeque;
use std::time::Duration;

/// Most lines of a journal that are kept to scroll back to, and most bytes of them.
pub(crate) const MAX_LINES: usize = 5000;
pub(crate) const MAX_BYTES: usize = 4 << 20;
/// Most lines of one message.
const MAX_OF_ONE: usize = 100;
/// A node that does not answer is asked less and less often, down to once in this time.
const SELDOM: u64 = 60_000;

/// What came in.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key.
    Key(Key),
    /// Pasted text.
    Paste(String),
    /// Columns and rows of the terminal.
    Resize(u16, u16),
    /// Time has passed.
    Tick,
    /// What a node answered to being asked what it is.
    State(usize, Box<Result<Node, Fault>>),
    /// Its services.
    Services(u64, Result<Vec<Service>, Fault>),
    /// Its newest audit records, a line each.
    Audit(u64, Result<Vec<String>, Fault>),
    /// A record of the journal that is followed.
    Record(u64, Box<Record>),
    /// The journal ended.
    Ended(u64, Result<(), Fault>),
    /// What a node is, before something is done to it.
    Looked(u64, Box<Result<Node, Fault>>),
    /// What became of what was done.
    Done(usize, Result<String, Fault>),
}

/// What is to be done. Numbers of views let what comes late be told from what is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Ask a node what it is.
    Ask(usize),
    /// Ask for its services.
    Services(usize, u64),
    /// Ask for its newest audit records.
    Audit(usize, u64),
    /// Follow a journal, instead of the one before.
    Follow { node: usize, unit: Option<String>, view: u64 },
    /// Follow none.
    Unfollow,
    /// Ask a node what it is, before this is done to it.
    Look(usize, u64),
    /// Do it.
    Do(usize, Deed),
    /// Give the terminal to the shell for a while.
    Suspend,
    /// End, having been interrupted or not.
    Quit { interrupted: bool },
}

/// What may be done to a node from here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Restart a service.
    Restart(String),
    /// One of the node's actions.
    Act(Action),
}

impl Deed {
    /// As an order, with its object.
    pub(crate) fn words(&self, name: &str) -> String {
        match self {
            Self::Restart(unit) => format!("restart {} on {name}", tidy(unit)),
            Self::Act(action) => format!("{} {name}", action.word()),
        }
    }
}

/// One node of the list.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) chosen: Chosen,
    /// The newest that it said, and when.
    pub(crate) told: Option<(Node, u64)>,
    /// Why it has not said anything since.
    pub(crate) fault: Option<Fault>,
    /// It is being asked.
    pub(crate) asked: bool,
    /// When it is to be asked again.
    pub(crate) due: u64,
    pub(crate) misses: u32,
}

impl Row {
    pub(crate) fn node(&self) -> Option<&Node> {
        self.told.as_ref().map(|(node, _)| node)
    }

    /// In one word, and how bad that is.
    pub(crate) fn word(&self) -> (&'static str, Option<Tone>) {
        match (&self.fault, self.node()) {
            (Some(fault), _) => (fault.code.word(), Some(Tone::Bad)),
            (None, None) => ("asking", None),
            (None, Some(node)) => match watch::word(node) {
                "well" => ("well", Some(Tone::Good)),
                word @ "failed" => (word, Some(Tone::Bad)),
                word => (word, Some(Tone::Warn)),
            },
        }
    }

    /// What stands before the name for eyes that see no colour.
    pub(crate) fn mark(&self) -> char {
        match self.word().1 {
            Some(Tone::Bad) => '!',
            Some(Tone::Warn) => '*',
            _ => ' ',
        }
    }
}

/// What is asked for when its view opens.
#[derive(Debug, Default)]
pub(crate) enum Loaded<T> {
    #[default]
    Asking,
    There(T),
    Not(Fault),
}

impl<T> Loaded<T> {
    pub(crate) fn of(result: Result<T, Fault>) -> Self {
        match result {
            Ok(value) => Self::There(value),
            Err(fault) => Self::Not(fault),
        }
    }
}

/// Parts of a node's view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tab {
    Status,
    Services,
    Journal,
    Audit,
}

impl Tab {
    pub(crate) const ALL: [Self; 4] = [Self::Status, Self::Services, Self::Journal, Self::Audit];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Services => "services",
            Self::Journal => "journal",
            Self::Audit => "audit",
        }
    }
}

/// One node, in full.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) node: usize,
    pub(crate) tab: Tab,
    pub(crate) services: Loaded<Vec<Service>>,
    /// The services are to be asked for again.
    pub(crate) services_due: u64,
    pub(crate) services_asked: bool,
    pub(crate) audit: Loaded<Vec<String>>,
    pub(crate) journal: Journal,
    /// The line under the cursor, or the first that is shown, of the part that is open.
    pub(crate) at: usize,
}

/// A line of a journal, ready to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Its number: they only grow.
    pub(crate) number: u64,
    pub(crate) text: String,
    pub(crate) tone: Option<Tone>,
}

/// A journal as it comes, with a bounded part of what came before.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub(crate) unit: Option<String>,
    pub(crate) lines: VecDeque<Line>,
    bytes: usize,
    next: u64,
    /// The line at the bottom; the newest when not held.
    pub(crate) held: Option<u64>,
    pub(crate) filter: String,
    pub(crate) wrap: bool,
    pub(crate) end: Option<Result<(), Fault>>,
    /// Lines that were let go, the oldest first.
    pub(crate) gone: u64,
}

impl Journal {
    pub(crate) fn of(unit: Option<String>) -> Self {
        Self { unit, ..Self::default() }
    }

    /// One more record.
    pub(crate) fn take(&mut self, record: &Record) {
        let shown = shown(&Record {
            // Before it is cleaned and cut into lines, so that no message costs more than it is shown of.
            message: record.message.chars().take(LONGEST * 4).collect(),
            ..record.clone()
        });
        if let Some(lost) = shown.lost {
            self.push(format!("-- {lost}"), Some(Tone::Warn));
        }
        let more = shown.truncated || shown.lines.len() > MAX_OF_ONE;
        for (n, line) in shown.lines.iter().take(MAX_OF_ONE).enumerate() {
            let text = if n == 0 {
                format!("{} {line}", shown.head).trim_end().to_owned()
            } else {
                format!("    {line}")
            };
            self.push(text, shown.tone);
        }
        if more {
            self.push(format!("    {LONGER}"), shown.tone);
        }
    }

    fn push(&mut self, text: String, tone: Option<Tone>) {
        let text = tidy(&text);
        self.bytes += text.len();
        self.lines.push_back(Line { number: self.next, text, tone });
        self.next += 1;
        while self.lines.len() > MAX_LINES || self.bytes > MAX_BYTES {
            let Some(old) = self.lines.pop_front() else { break };
            self.bytes -= old.text.len();
            self.gone += 1;
        }
    }

    /// The numbers of the lines that the filter lets through, which of them is at the bottom of a page, and which is the first that can
    /// be: a page is full where there are lines for it.
    pub(crate) fn place(&self, page: usize, width: usize) -> (Vec<u64>, usize, usize) {
        let numbers: Vec<u64> = self.shown().map(|l| l.number).collect();
        let last = numbers.len().saturating_sub(1);
        let mut left = page;
        let fits = |line: &&Line| {
            let rows = if self.wrap { wrap(&line.text, width).len() } else { 1 };
            let fits = rows <= left;
            left = left.saturating_sub(rows);
            fits
        };
        let first = self.shown().take_while(fits).count().saturating_sub(1);
        let held = |held| numbers.partition_point(|n| *n <= held).saturating_sub(1).max(first);
        let at = self.held.map_or(last, held).min(last);
        (numbers, at, first)
    }

    /// The lines that the filter lets through, oldest first.
    pub(crate) fn shown(&self) -> impl DoubleEndedIterator<Item = &Line> {
        let wanted = self.filter.to_lowercase();
        self.lines.iter().filter(move |l| wanted.is_empty() || l.text.to_lowercase().contains(&wanted))
    }
}

/// What stands over everything else.
#[derive(Debug)]
pub(crate) enum Over {
    /// The help, scrolled by so many lines.
    Help(usize),
    /// Something to be read.
    Said { title: String, text: String },
    /// A node is asked what it is before something is done to it.
    Looking { node: usize, action: Action, view: u64 },
    /// Asked for a `y`.
    Ask { node: usize, deed: Deed },
    /// Asked for the node's name.
    Typed { node: usize, action: Action, radius: String, word: String, typed: String },
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) at: u64,
    pub(crate) every: u64,
    pub(crate) parallel: usize,
    pub(crate) size: (u16, u16),
    pub(crate) colour: bool,
    /// Which nodes and as whom, for the first line.
    pub(crate) about: String,
    pub(crate) rows: Vec<Row>,
    /// The row under the cursor.
    pub(crate) cursor: usize,
    pub(crate) filter: String,
    /// A filter is being typed.
    pub(crate) typing: bool,
    pub(crate) view: Option<View>,
    pub(crate) over: Option<Over>,
    /// Said on the last line until a key is pressed.
    pub(crate) message: Option<String>,
    /// What is under way, in words: at most one thing.
    pub(crate) doing: Option<String>,
    /// The number of the newest view.
    pub(crate) number: u64,
}

impl Model {
    pub(crate) fn new(chosen: Vec<Chosen>, every: Duration, parallel: usize, size: (u16, u16)) -> Self {
        let row = |chosen| Row { chosen, told: None, fault: None, asked: false, due: 0, misses: 0 };
        Self {
            at: 0,
            every: u64::try_from(every.as_millis()).unwrap_or(u64::MAX).max(1),
            parallel: parallel.max(1),
            size,
            colour: false,
            about: String::new(),
            rows: chosen.into_iter().map(row).collect(),
            cursor: 0,
            filter: String::new(),
            typing: false,
            view: None,
            over: None,
            message: None,
            doing: None,
            number: 0,
        }
    }

    /// The rows that the filter lets through.
    pub(crate) fn listed(&self) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let holds = |row: &Row| {
            let node = row.node();
            let text = [
                Some(row.chosen.name.clone()),
                Some(row.word().0.to_owned()),
                node.and_then(|n| n.hostname.clone()),
                node.and_then(|n| n.role.clone()),
                node.and_then(|n| n.cluster.clone()),
            ];
            text.into_iter().flatten().any(|t| t.to_lowercase().contains(&wanted))
        };
        (0..).zip(&self.rows).filter(|(_, row)| wanted.is_empty() || holds(row)).map(|(n, _)| n).collect()
    }

    /// The node that a key is about.
    pub(crate) fn subject(&self) -> Option<usize> {
        match &self.view {
            Some(view) => Some(view.node),
            None => self.listed().contains(&self.cursor).then_some(self.cursor),
        }
    }

    pub(crate) fn name(&self, node: usize) -> String {
        self.rows.get(node).map(|r| tidy(&r.chosen.name)).unwrap_or_default()
    }

    /// What a node answered.
    pub(crate) fn told(&mut self, node: usize, result: Result<Node, Fault>) {
        let (at, every) = (self.at, self.every);
        let Some(row) = self.rows.get_mut(node) else { return };
        row.asked = false;
        match result {
            Ok(node) => {
                (row.told, row.fault, row.misses) = (Some((node, at)), None, 0);
                row.due = at.saturating_add(every);
            }
            Err(fault) => {
                row.misses = row.misses.saturating_add(1);
                let wait = every.saturating_mul(1 << row.misses.min(4)).min(SELDOM.max(every));
                // What is not pinned is not called, however often one tries.
                row.due = if row.chosen.pin.is_none() { u64::MAX } else { at.saturating_add(wait) };
                row.fault = Some(fault);
            }
        }
    }

    /// Whom to ask now: whoever waits longest, the one that is looked at first, and never more at once than was said.
    pub(crate) fn ask(&mut self) -> Vec<Effect> {
        let under_way = self.rows.iter().filter(|r| r.asked).count();
        let looked_at = self.subject();
        let mut due: Vec<(bool, u64, usize)> = (0..)
            .zip(&self.rows)
            .filter(|(_, r)| !r.asked && r.due <= self.at)
            .map(|(n, r)| (Some(n) != looked_at, r.due, n))
            .collect();
        due.sort_unstable();
        due.truncate(self.parallel.saturating_sub(under_way));
        due.iter()
            .filter_map(|(_, _, n)| {
                self.rows.get_mut(*n)?.asked = true;
                Some(Effect::Ask(*n))
            })
            .collect()
    }

    /// When something is to be asked, or to be called older than it is on the screen.
    pub(crate) fn wake(&self) -> Option<u64> {
        let full = self.rows.iter().filter(|r| r.asked).count() >= self.parallel;
        let due = self.rows.iter().filter(|r| !full && !r.asked && r.due != u64::MAX).map(|r| r.due);
        let older = self.rows.iter().filter_map(|r| {
            let (_, at) = r.told.as_ref()?;
            Some(self.at + super::text::age(self.at.saturating_sub(*at)).1)
        });
        let services = self.view.iter().filter(|v| v.tab == Tab::Services && !v.services_asked);
        due.chain(older).chain(services.map(|v| v.services_due)).min()
    }
}
