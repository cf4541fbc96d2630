//! `muster ssh-keygen`: stands in for `ssh-keygen` where SSH signatures are made and checked, and hands every other call on.
//!
//! For `git` (`gpg.ssh.program`), scripts and tests that call `ssh-keygen -Y …`. Options, output and exit codes are those of
//! ssh-keygen(1) of OpenSSH 9.2; the `sshsig` regression script of `openssh-tests` is the judge. Verdicts are `muster-signing`'s, which
//! is stricter in the ways that `docs/cli.md` lists.

pub mod options;
mod sign;
mod verify;

use crate::codes::Own;
use crate::fault::Fault;
use crate::settings::World;
use options::{Call, Options};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What `ssh-keygen` ends with when it says no.
const NO: u8 = 255;
/// What it ends with when it is called wrongly.
const WRONG_CALL: u8 = 1;
/// `SSH_ERR_KEY_NOT_FOUND` (-46) as an exit code.
const NOT_FOUND: u8 = 210;

/// Where the system's own program is looked for.
const REAL: [&str; 3] = ["/usr/bin/ssh-keygen", "/usr/local/bin/ssh-keygen", "/bin/ssh-keygen"];

/// Runs one call.
pub fn run(arguments: &[OsString], world: &World) -> u8 {
    let Some(options) = options::parse(arguments) else { return hand_on(arguments) };
    let mut out = Output { quiet: options.quiet };
    match options.call {
        Call::Verify => verify::verify(&options, world, &mut out),
        Call::FindPrincipals => verify::find_principals(&options, world, &mut out),
        Call::MatchPrincipals => verify::match_principals(&options, &mut out),
        Call::CheckNovalidate => verify::check_novalidate(&options, &mut out),
        Call::Sign => match sign::sign(&options, world, &mut out) {
            sign::Done::Code(code) => code,
            sign::Done::HandOn => hand_on(arguments),
        },
    }
}

/// Becomes the system's `ssh-keygen`, with the whole environment; comes back only when it cannot.
fn hand_on(arguments: &[OsString]) -> u8 {
    let Some(real) = REAL.iter().map(Path::new).find(|p| p.exists()) else {
        return ended(&Fault::new(Own::KeygenMissing, Own::KeygenMissing.what()));
    };
    let inherited = crate::settings::inherited();
    let environment: Vec<(&str, OsString)> = inherited.iter().map(|(k, v)| (k.as_str(), v.clone())).collect();
    let failed = muster_sys::command::become_program(real, arguments, &environment);
    ended(&Fault::new(Own::Fault, format!("cannot run {}", real.display())).why(failed.to_string()))
}

/// Says what went wrong with the front itself, as every other command does.
fn ended(fault: &Fault) -> u8 {
    eprint(&format!("error[{}]: {fault}", fault.code));
    fault.exit().code()
}

fn eprint(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Both streams; a reader that went away ends nothing.
struct Output {
    quiet: bool,
}

impl Output {
    fn data(&mut self, line: &str) {
        let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
    }

    fn unless_quiet(&mut self, line: &str) {
        if !self.quiet {
            self.data(line);
        }
    }

    fn talk(&mut self, line: &str) {
        if !self.quiet {
            eprint(line);
        }
    }

    fn error(&mut self, line: &str) {
        eprint(&crate::printer::clean(line));
    }
}

/// A value that the call needs, or the message that it lacks it.
fn need<'o>(
    value: Option<&'o OsString>,
    options: &Options,
    what: &str,
    out: &mut Output,
) -> Result<&'o OsString, u8> {
    value.ok_or_else(|| {
        out.error(&format!("Too few arguments for {}: missing {what}", options.call.word()));
        WRONG_CALL
    })
}

fn path(text: &OsString) -> PathBuf {
    PathBuf::from(text)
}
