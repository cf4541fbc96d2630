//! The programs of the system that operations run, and the small files that they read.
//!
//! What a program says is never told to a client: it may hold what the client has no right to. It is told which program it was
//! and how it ended.

use std::io::Read as _;

use muster_api::Fault;
use muster_sys::command::{Command, Outcome, Output};

use crate::places::Places;

/// Longest of the small files.
const SMALL: u64 = 64 * 1024;

/// `systemctl`, without colours, pager and questions.
pub(super) fn systemctl(places: &Places) -> Command {
    Command::new(places.at("/usr/bin/systemctl")).arg("--no-pager").arg("--no-ask-password")
}

/// Runs a tool to its end, whatever that is.
pub(super) fn run(command: Command, what: &str) -> Result<Output, Fault> {
    command.run().map_err(|e| Fault::failed("tool", format!("`{what}` cannot be run: {}", e.line())))
}

/// Runs a tool that must work.
pub(super) fn must(command: Command, what: &str) -> Result<Output, Fault> {
    let output = run(command, what)?;
    if output.ok() { Ok(output) } else { Err(failed(output.outcome, what)) }
}

/// A tool that did not work.
pub(super) fn failed(outcome: Outcome, what: &str) -> Fault {
    let how = match outcome {
        Outcome::Exited(code) => format!("ended with {code}"),
        Outcome::Signaled(signal) => {
            format!("was ended by the signal {}", muster_sys::signals::name(signal))
        }
        Outcome::TimedOut => "did not end in its time".to_owned(),
    };
    let fault = Fault::failed("tool", format!("`{what}` {how}"));
    fault.fix("The node's journal says more: `muster node logs`.")
}

/// A small file of text without the white space around it; nothing where there is none that can be read.
pub(super) fn text(places: &Places, path: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(places.at(path)).ok()?;
    file.take(SMALL).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    Some(text.trim().to_owned()).filter(|t| !t.is_empty())
}

/// The wall clock, for records.
pub(super) fn now() -> muster_core::UtcTime {
    muster_core::UtcTime::from_unix(muster_sys::clock::unix_seconds())
}

/// One line that can be shown: control characters are spaces, and what is over `max` bytes is cut at a character.
pub(super) fn line(text: &str, max: usize) -> String {
    let mut out = String::with_capacity(text.len().min(max));
    for c in text.chars().map(|c| if c.is_control() { ' ' } else { c }) {
        if out.len() + c.len_utf8() > max {
            break;
        }
        out.push(c);
    }
    out.truncate(out.trim_end().len());
    out
}
