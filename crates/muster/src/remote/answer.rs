//! What a host's shim answered: exit code, refusal line, probe.
//!
//! The exit code is the shim's word (sshd passes it on). The refusal line stands on standard error, where a script could print
//! the like of it, so it is believed only where it fits the exit code, and no script ran for a code that refuses.

use crate::printer::clean;
use muster_core::{Reason, ShimExit};

/// How the lines of a shim begin, by the name that it was called by.
const PREFIXES: [&str; 2] = ["muster-shim: ", "kpssh-shim: "];

/// A verdict of the shim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How it exited.
    pub exit: ShimExit,
    /// The reason that it named.
    pub reason: Option<Reason>,
    /// Its own line, control characters escaped.
    pub line: Option<String>,
}

/// Why an answer is not the shim's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTheShim {
    /// In one clause.
    pub why: String,
}

impl Verdict {
    /// Reads an exit code and what stood on standard error.
    pub fn read(code: u32, stderr: &str) -> Result<Self, NotTheShim> {
        let known = u8::try_from(code).ok().and_then(ShimExit::from_code);
        let Some(exit) = known else {
            let why = match code {
                126 | 127 => format!("exit {code}: the login found no shim to run"),
                255 => "exit 255: sshd could not run the login's command".to_owned(),
                _ => format!("exit {code}, which the shim never gives"),
            };
            return Err(NotTheShim { why });
        };
        // The line that names a run says nothing of its end.
        let mut lines = stderr
            .lines()
            .rev()
            .filter(|l| PREFIXES.iter().any(|p| l.starts_with(p)) && run_of_line(l).is_none());
        let fits = |l: &&str| exit != ShimExit::Ok && reason_of(l).is_none_or(|r| r.exit() == exit);
        let line = lines.find(fits);
        let refuses =
            !matches!(exit, ShimExit::Ok | ShimExit::ScriptFailed | ShimExit::Deadline | ShimExit::PeerGone);
        if refuses && line.is_none() {
            // Any program may exit so; without the shim's line nobody knows whose it is, nor that nothing ran (busy is sent again).
            let words = stderr.lines().rev().find(|l| !l.trim().is_empty()).map(clean).unwrap_or_default();
            let said = if words.is_empty() { String::new() } else { format!(": {words}") };
            return Err(NotTheShim { why: format!("exit {code} without a line of the shim's{said}") });
        }
        Ok(Self { exit, reason: line.and_then(reason_of), line: line.map(clean) })
    }
}

/// The id of the run, which the shim says before the script starts: nothing of the script's can stand before it.
pub fn run_id(stderr: &str) -> Option<String> {
    stderr.lines().find_map(run_of_line).map(str::to_owned)
}

fn run_of_line(line: &str) -> Option<&str> {
    let id = PREFIXES.iter().find_map(|p| line.strip_prefix(p))?.strip_prefix("run ")?;
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    (id.len() == 32 && id.bytes().all(is_hex)).then_some(id)
}

/// The reason in the brackets of a line.
fn reason_of(line: &str) -> Option<Reason> {
    let rest = PREFIXES.iter().find_map(|p| line.strip_prefix(p))?;
    let (_, after) = rest.split_once('[')?;
    let (word, _) = after.split_once(']')?;
    Reason::from_code(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(code: u32, stderr: &str) -> Result<(ShimExit, Option<Reason>), String> {
        Verdict::read(code, stderr).map(|v| (v.exit, v.reason)).map_err(|n| n.why)
    }

    #[test]
    fn the_shims_own_line_is_found_among_others() {
        let stderr = "noise\nmuster-shim: refused [epoch-floor]: below: 6 < 7\n";
        assert_eq!(read(6, stderr), Ok((ShimExit::IntentRefused, Some(Reason::EpochFloor))));
        let v =
            Verdict::read(2, "kpssh-shim: refused [key-unknown]: signature rejected: x\u{1b}[2J\n").unwrap();
        assert_eq!(
            v.line.as_deref(),
            Some("kpssh-shim: refused [key-unknown]: signature rejected: x\\u{1b}[2J")
        );
        let busy = "kpssh-shim: refused [busy]: another run is going on\n";
        assert_eq!(read(7, busy), Ok((ShimExit::Busy, Some(Reason::BusyRun))));
    }

    #[test]
    fn a_script_cannot_make_its_failure_look_like_a_refusal() {
        let stderr = "muster-shim: refused [busy]: another run\nmuster-shim: script exited 3\n";
        assert_eq!(read(10, stderr), Ok((ShimExit::ScriptFailed, None)));
        assert_eq!(read(0, stderr), Ok((ShimExit::Ok, None)));
    }

    #[test]
    fn the_line_that_names_a_run_is_the_first_and_no_verdict() {
        let (id, other) = ("0123456789abcdef".repeat(2), "f".repeat(32));
        let stderr = format!("sudo: noise\nmuster-shim: run {id}\nmuster-shim: run {other}\n");
        assert_eq!(run_id(&stderr), Some(id.clone()));
        for none in
            ["", "run 00", "muster-shim: run 0123", &format!("muster-shim: run {}\n", id.to_uppercase())]
        {
            assert_eq!(run_id(none), None, "{none}");
        }
        assert_eq!(Verdict::read(10, &stderr).unwrap().line, None);
        assert!(read(2, &stderr).is_err(), "it is no refusal");
    }

    #[test]
    fn what_no_shim_gives_is_not_taken_for_one() {
        assert!(read(1, "sudo: a password is required\n").unwrap_err().contains("a password is required"));
        for (code, stderr) in [
            (2, ""),
            (7, ""),
            (7, "muster-shim: refused [key-unknown]: x\n"),
            (1, "muster-shim: refused [busy]: x\n"),
            (127, "sh: not found"),
            (255, ""),
            (300, ""),
            (8, ""),
        ] {
            assert!(read(code, stderr).is_err(), "{code}");
        }
    }
}
