//! The journal of a service, and the kernel's: the newest records, and those that come.
//!
//! A stream of [`Record`]s, one on a line. No text of the caller's reaches a command line: a unit is looked up in
//! the list of `super::services`, a time is made of the node's own clock. Whatever is wrong with a request is said before the
//! first byte; after it a stream ends when its records, its hour or its client do.

mod feed;
pub mod record;

use std::io;
use std::time::Duration;

use muster_api::Fault;
use muster_api::logs::{DEFAULT_LINES, FOLLOW_SECONDS, KERNEL, MAX_LINES, Record};
use muster_sys::SysError;
use muster_sys::clock::since_boot;
use muster_sys::command::{Command, Errors, Got, Outcome, Running, Tied};

use super::services::{self, UNITS, Unit};
use super::{Client, Done, Request, tools};
use crate::places::Places;
pub(super) use feed::Feeds;
use feed::{Follower, Had};
use record::{FIELDS, Lines, parse};

/// How often a quiet stream looks whether its client is there.
const TICK: Duration = Duration::from_millis(500);
/// How long after its beginning a feed may bring again what a follower has had.
const OVERLAP: Duration = Duration::from_secs(30);
/// What the journal may take until its first record, or its end.
const FIRST: Duration = Duration::from_secs(20);

/// Whose records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// Of every unit of the list.
    All,
    /// Of one.
    Unit(&'static str),
    /// The kernel's, of this boot.
    Kernel,
}

impl Source {
    fn find(name: Option<&str>) -> Result<Self, Fault> {
        match name {
            None => Ok(Self::All),
            Some(KERNEL) => Ok(Self::Kernel),
            Some(name) => {
                let unit = services::find(name).ok_or_else(|| {
                    let fix = format!("It is one of: {KERNEL}, {}.", services::names());
                    Fault::bad("unknown-unit", "there is no journal of that name to read").fix(fix)
                })?;
                Ok(Self::Unit(unit.name))
            }
        }
    }
}

/// `journalctl` for the records of a source.
fn command(places: &Places, source: Source) -> Command {
    let command = Command::new(places.at("/usr/bin/journalctl")).args([
        "--quiet",
        "--no-pager",
        "--output=json",
        // Fields of over 4096 bytes, too.
        "--all",
        &format!("--output-fields={FIELDS}"),
    ]);
    match source {
        Source::All => command.args(UNITS.iter().map(|Unit { name, .. }| format!("--unit={name}"))),
        Source::Unit(name) => command.arg(format!("--unit={name}")),
        Source::Kernel => command.arg("--dmesg"),
    }
}

/// `GET /v1/logs`.
pub(super) fn open(
    request: &Request<'_>,
    unit: Option<&str>,
    lines: Option<u32>,
    since: Option<u64>,
    follow: bool,
) -> Result<Done, Fault> {
    let source = Source::find(unit)?;
    let lines = count(lines)?;
    let from = start(since)?;
    let longest = Duration::from_secs(FOLLOW_SECONDS);
    let stream = begin(request.places, &request.works.feeds, source, (lines, from), follow)?;
    Ok(Done::Stream(Box::new(move |client| stream.pump(client, longest))))
}

fn count(lines: Option<u32>) -> Result<u32, Fault> {
    match lines {
        Some(0) => Err(Fault::bad("lines", "0 lines are nothing to read; `lines` is 1 or more")),
        lines => Ok(lines.unwrap_or(DEFAULT_LINES).min(MAX_LINES)),
    }
}

/// A time so many seconds ago.
fn start(since: Option<u64>) -> Result<Option<u64>, Fault> {
    match since {
        Some(0) => Err(Fault::bad("since", "`since` is how far back from now: more than nothing")),
        since => Ok(since.map(|s| muster_sys::clock::unix_seconds().saturating_sub(s))),
    }
}

/// A stream of which it is known that the journal can be read.
struct Stream {
    /// What is written already, and the first bytes of it; nothing where nothing is.
    history: Option<(Running, Vec<u8>)>,
    follower: Option<Follower>,
}

fn begin(
    places: &Places,
    feeds: &Feeds,
    source: Source,
    (lines, from): (u32, Option<u64>),
    follow: bool,
) -> Result<Stream, Fault> {
    let failed = |e: SysError| Fault::failed("journal", format!("the journal cannot be read: {}", e.line()));
    // First the place in the feed, then what is there already: nothing falls between the two.
    let follower = follow.then(|| feeds.follow(places, source)).transpose().map_err(failed)?;
    let history = command(places, source).arg(format!("--lines={lines}"));
    let history = history.args(from.map(|t| format!("--since=@{t}")));
    let mut history = history.start(Errors::Dropped, Tied::Free).map_err(failed)?;
    let mut first = vec![0; 64 * 1024];
    match history.read(&mut first, FIRST).map_err(failed)? {
        Got::Some(n) => {
            first.truncate(n);
            Ok(Stream { history: Some((history, first)), follower })
        }
        Got::Quiet => Err(Fault::failed("journal", "the journal does not answer")),
        Got::End => match history.finish(Duration::from_secs(5)).map_err(failed)? {
            Outcome::Exited(0) => Ok(Stream { history: None, follower }),
            outcome => Err(tools::failed(outcome, "journalctl")),
        },
    }
}

impl Stream {
    /// Sends it, following for at most so long. That the client leaves is a normal end.
    fn pump(self, client: &mut dyn Client, longest: Duration) -> io::Result<()> {
        let mut had = Had::default();
        if let Some((history, first)) = self.history {
            let had = self.follower.is_some().then_some(&mut had);
            if !send_history(history, &first, client, had)? {
                return Ok(());
            }
        }
        match self.follower {
            Some(follower) => send_news(follower, had, client, longest),
            None => Ok(()),
        }
    }
}

/// Sends what is there already, and notes it in `had`. Whether the client is still there.
fn send_history(
    mut history: Running,
    first: &[u8],
    client: &mut dyn Client,
    mut had: Option<&mut Had>,
) -> io::Result<bool> {
    let mut lines = Lines::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut bytes = first;
    loop {
        let mut sent = Ok(());
        lines.push(bytes, |text, end| {
            let Some(found) = parse(text, end) else { return };
            if let Some(had) = &mut had {
                had.add(&found);
            }
            if let (Ok(()), Some(line)) = (&sent, feed::line(&found.record)) {
                sent = client.write_all(&line);
            }
        });
        sent?;
        bytes = match history.read(&mut buffer, TICK).map_err(|e| io::Error::other(e.line()))? {
            Got::End => return client.flush().map(|()| true),
            Got::Quiet => &[],
            Got::Some(n) => buffer.get(..n).unwrap_or_default(),
        };
        if client.gone() {
            return Ok(false);
        }
    }
}

fn send_news(
    mut follower: Follower,
    mut had: Had,
    client: &mut dyn Client,
    longest: Duration,
) -> io::Result<()> {
    let start = since_boot();
    loop {
        let news = follower.news(TICK, 512);
        let mut lost = news.lost;
        for item in &news.items {
            if had.pass_over(item) {
                continue;
            }
            if lost == 0 {
                client.write_all(&item.line)?;
            } else {
                client.write_all(&with_lost(&item.line, lost)?)?;
                lost = 0;
            }
        }
        if !news.items.is_empty() {
            client.flush()?;
        }
        if since_boot() - start > OVERLAP {
            had.forget();
        }
        if news.ended || client.gone() || since_boot() - start >= longest {
            return Ok(());
        }
    }
}

/// A record that says how many before it were lost.
fn with_lost(line: &[u8], lost: u64) -> io::Result<Vec<u8>> {
    let mut record: Record = serde_json::from_slice(line)?;
    record.lost = Some(lost);
    let mut line = serde_json::to_vec(&record)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
#[path = "logs/tests.rs"]
mod tests;
