//! Lines for the journal: standard error with the levels of sd-daemon(3).
//!
//! What becomes of a line is nothing to whoever says it. Standard error may be a terminal that is gone, or the stream of a journal that was
//! stopped: a service that outlives it has a dead one for the rest of its life. What cannot be said there is handed to the journal that there is now.

use std::io::Write as _;

use muster_sys::journal::Entry;

/// What went as it should.
pub(crate) fn info(line: &str) {
    say('6', line);
}

/// What somebody should know of.
pub(crate) fn warning(line: &str) {
    say('4', line);
}

/// What did not work.
pub(crate) fn error(line: &str) {
    say('3', line);
}

fn say(level: char, line: &str) {
    if !confined(level, line) {
        let mut entry = Entry::new();
        entry.field("MESSAGE", line).field("PRIORITY", level.encode_utf8(&mut [0; 4]));
        // Where there is no journal either, nobody is there to be told.
        let _ = entry.field("SYSLOG_IDENTIFIER", "musterd").send();
    }
}

/// The same for who may open no socket any more; whether somebody took it.
pub(crate) fn confined(level: char, line: &str) -> bool {
    // In one piece: a line of another thread's stands before it or after it.
    std::io::stderr().write_all(format!("<{level}>{line}\n").as_bytes()).is_ok()
}

/// Why a command ends, for whoever typed it.
pub(crate) fn ends(why: &str) {
    let _ = std::io::stderr().write_all(format!("musterd: {why}\n").as_bytes());
}
