//! Becoming root over a login that may need a sudo password, without the password ever being on a
//! command line, in an environment, or in front of a script.
//!
//! Hazards, each tried with sudo 1.9.13:
//! - `sudo -S` under NOPASSWD, or with a cached ticket, does not read the password: the line would
//!   be the first line of the script, and in the log of a host with `log_input`.
//! - `sudo -S` after a wrong password asks again and eats the next lines of standard input as
//!   further tries: a script is fed to PAM, and one typing error costs three tries of `faillock`.
//! - With `timestamp_timeout=0` a password that was right leaves no ticket.
//!
//! So a small unprivileged stage reads the password line by itself, asks `sudo -n` whether a
//! password is needed at all, proves it with one line and then end of file (one try), and only then
//! hands it over in front of the rest. The root stage drops every line before the one that holds
//! the marker, which only the caller knows. Results come back between two markers, so neither the
//! noise of a login shell nor a lost connection can be taken for an outcome.

use crate::shell::{ShellError, ShellOutput, one_line_tail};
use core::fmt;

/// A sudo password. It is not printed, and its bytes are overwritten when it is dropped.
pub struct SudoPassword(Vec<u8>);

impl SudoPassword {
    /// Takes one line; an empty one, or one with LF, CR or NUL, could not be a line for sudo.
    pub fn new(text: &str) -> Result<Self, ElevateError> {
        if text.is_empty() || text.len() > 1024 || text.contains(['\n', '\r', '\0']) {
            return Err(ElevateError::PasswordForm);
        }
        Ok(Self(text.as_bytes().to_vec()))
    }
}

impl fmt::Debug for SudoPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SudoPassword(..)")
    }
}

impl Drop for SudoPassword {
    fn drop(&mut self) {
        self.0.fill(0);
        // Without this the compiler may leave out writes to memory that is freed next.
        core::hint::black_box(&self.0);
    }
}

/// How the admin login becomes root.
#[derive(Debug)]
pub enum Elevation {
    /// It is root.
    Root,
    /// sudo asks for nothing.
    NoPassword,
    /// sudo may ask for this password.
    Password(SudoPassword),
}

/// Why a script did not start as root.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElevateError {
    /// The password has a form that sudo could not read.
    #[error("a sudo password is one line of 1 to 1024 bytes")]
    PasswordForm,
    /// A marker is 16 to 64 letters and digits.
    #[error("the marker must be 16 to 64 ASCII letters and digits that nobody can guess")]
    MarkerForm,
    /// sudo wants a password and none was given.
    #[error("sudo wants a password for this login: give one (prompt or file), or allow NOPASSWD")]
    PasswordNeeded,
    /// sudo did not take the password. It was tried once.
    #[error("sudo did not take the password (one try): {0}")]
    PasswordWrong(String),
    /// The policy does not let this login run a shell as root.
    #[error("sudo does not let this login become root: {0}")]
    NotAllowed(String),
    /// `Defaults requiretty`.
    #[error("sudo demands a terminal on this host: take `requiretty` off for this login")]
    NeedsTty,
    /// There is no sudo.
    #[error("sudo is not installed on the host: log in as root, or install it")]
    NoSudo,
    /// Nothing that is known fits.
    #[error("the root side did not start: {0}")]
    Other(String),
}

/// What to execute and what to write to its standard input. The command holds no secret and no
/// part of the script; the input holds both.
pub struct Remote {
    /// One command line for the login shell: single-quoted words without quotes, `!` or backslash
    /// inside, so that sh, bash, zsh, fish and csh read it alike.
    pub command: String,
    /// Everything that goes to standard input, then end of file.
    pub stdin: Vec<u8>,
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Remote({:?}, {} bytes)", self.command, self.stdin.len())
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.stdin.fill(0);
        core::hint::black_box(&self.stdin);
    }
}

/// The root stage: skip to the marker line, take the script by its length, run it with the rest of
/// standard input, and tell how it ended. A subshell, so that the script's `exit` is not ours.
const ROOT: &str = concat!(
    r#"while IFS= read -r l; do case "$l" in "MARK "*) break;; esac; done; n=${l#"MARK "}; "#,
    r#"test -n "$n" || exit 97; s=$(head -c "$n"; echo .); s=${s%.}; "#,
    r#"echo "MARK begin"; echo "MARK begin" >&2; (eval "$s"); r=$?; echo; echo "MARK end $r"; exit "$r""#
);

/// The unprivileged stage of [`Elevation::Password`]; `$1` is the root stage. No `exec sudo` there:
/// without a tty sudo binds its ticket to the parent process, which `exec` would change.
const ASK: &str = concat!(
    r#"IFS= read -r p; command -v sudo >/dev/null || exit 96; "#,
    r#"if sudo -n -- /bin/sh -c : </dev/null >/dev/null 2>&1; then p=; sudo -n -- /bin/sh -c "$1"; exit $?; fi; "#,
    r#"printf "%s\n" "$p" | sudo -S -p "" -v || exit 98; "#,
    r#"if sudo -n -- /bin/sh -c : </dev/null >/dev/null 2>&1; then p=; sudo -n -- /bin/sh -c "$1"; exit $?; fi; "#,
    r#"{ printf "%s\n" "$p"; p=; exec cat; } | sudo -S -p "" -- /bin/sh -c "$1""#
);

/// Builds the command and the bytes. `marker` is a fresh random word, 16 to 64 letters and digits;
/// it need not stay secret, only not turn up by accident.
pub fn remote(how: &Elevation, marker: &str, script: &str, stdin: &[u8]) -> Result<Remote, ElevateError> {
    if !(16..=64).contains(&marker.len()) || !marker.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(ElevateError::MarkerForm);
    }
    let root = ROOT.replace("MARK", marker);
    let mut bytes = Vec::with_capacity(script.len() + stdin.len() + 128);
    let command = match how {
        Elevation::Root => format!("exec env LC_ALL=C /bin/sh -c '{root}'"),
        Elevation::NoPassword => format!("exec env LC_ALL=C sudo -n -- /bin/sh -c '{root}'"),
        Elevation::Password(p) => {
            bytes.extend_from_slice(&p.0);
            bytes.push(b'\n');
            format!("exec env LC_ALL=C /bin/sh -c '{ASK}' muster '{root}'")
        }
    };
    bytes.extend_from_slice(format!("{marker} {}\n", script.len()).as_bytes());
    bytes.extend_from_slice(script.as_bytes());
    bytes.extend_from_slice(stdin);
    Ok(Remote { command, stdin: bytes })
}

/// Reads what came back. `status` is the exit code of the channel, `None` where there was none
/// (signal, connection gone).
pub fn outcome(
    marker: &str,
    status: Option<i32>,
    stdout: &[u8],
    stderr: &[u8],
) -> Result<ShellOutput, ShellError> {
    let begin = format!("{marker} begin\n");
    let Some(body) = after(stdout, begin.as_bytes()) else {
        return Err(match status {
            None => ShellError::Lost("before the root side started".into()),
            Some(code) => ShellError::Elevate(classify(code, stderr)),
        });
    };
    let end = format!("\n{marker} end ");
    let Some(at) = rfind(body, end.as_bytes()) else {
        return Err(ShellError::Lost("the script's end was not reported".into()));
    };
    let (out, rest) = body.split_at(at);
    let code = rest
        .get(end.len()..)
        .and_then(|r| core::str::from_utf8(r).ok())
        .and_then(|r| r.strip_suffix('\n'))
        .and_then(|r| r.parse::<i32>().ok())
        .ok_or_else(|| ShellError::Lost("the script's end was cut off".into()))?;
    let err = after(stderr, begin.as_bytes()).unwrap_or(stderr);
    Ok(ShellOutput { status: code, stdout: out.to_vec(), stderr: err.to_vec() })
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|w| w == needle)
}

fn rfind(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).rposition(|w| w == needle)
}

fn after<'a>(hay: &'a [u8], needle: &[u8]) -> Option<&'a [u8]> {
    find(hay, needle).and_then(|at| hay.get(at + needle.len()..))
}

/// sudo's words, in the C locale that the command sets.
fn classify(code: i32, stderr: &[u8]) -> ElevateError {
    let text = String::from_utf8_lossy(stderr);
    let tail = one_line_tail(stderr, 300);
    let says = |words: &[&str]| words.iter().any(|w| text.contains(w));
    if says(&["must have a tty", "no tty present"]) {
        ElevateError::NeedsTty
    } else if says(&["not in the sudoers file", "may not run sudo", "is not allowed to"]) {
        ElevateError::NotAllowed(tail)
    } else if says(&[
        "incorrect password",
        "Sorry, try again",
        "no password was provided",
        "Authentication failed",
    ]) {
        ElevateError::PasswordWrong(tail)
    } else if says(&["password is required", "interactive authentication is required"]) {
        ElevateError::PasswordNeeded
    } else if code == 96 || (code == 127 && says(&["sudo"])) {
        ElevateError::NoSudo
    } else {
        ElevateError::Other(format!("exit {code}: {tail}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = "m0123456789abcdef";

    #[test]
    fn commands_hold_no_secret_and_survive_any_login_shell() {
        let secret = "pass word'$(x)";
        for how in
            [Elevation::Root, Elevation::NoPassword, Elevation::Password(SudoPassword::new(secret).unwrap())]
        {
            let r = remote(&how, MARK, "echo 'script text'", b"file bytes").unwrap();
            for hidden in [secret, "script text", "file bytes"] {
                assert!(!r.command.contains(hidden), "{how:?}");
                assert!(!format!("{how:?}{r:?}").contains(hidden));
            }
            assert!(r.command.is_ascii() && !r.command.contains(['!', '\n']), "{}", r.command);
            // Single quotes only as word delimiters: every one is next to a blank or at the end.
            let parts: Vec<&str> = r.command.split('\'').collect();
            assert!(parts.len() == 3 || parts.len() == 5);
        }
    }

    #[test]
    fn outcomes() {
        let ok = format!("motd noise\n{MARK} begin\nline\nno newline\n{MARK} end 3\n");
        let out = outcome(MARK, Some(3), ok.as_bytes(), format!("lecture\n{MARK} begin\nwarn\n").as_bytes())
            .unwrap();
        assert_eq!(
            (out.status, &out.stdout[..], &out.stderr[..]),
            (3, &b"line\nno newline"[..], &b"warn\n"[..])
        );
        for cut in ["", "x"] {
            let lost = format!("{MARK} begin\nline\n{cut}");
            assert!(matches!(outcome(MARK, Some(0), lost.as_bytes(), b""), Err(ShellError::Lost(_))));
        }
        let half = format!("{MARK} begin\nline\n{MARK} end 1");
        assert!(matches!(outcome(MARK, Some(0), half.as_bytes(), b""), Err(ShellError::Lost(_))));
        assert!(matches!(outcome(MARK, None, b"", b""), Err(ShellError::Lost(_))));
    }

    #[test]
    fn passwords_that_could_not_be_a_line_are_refused() {
        for bad in ["", "a\nb", "a\rb", "a\0b", &"x".repeat(1025)] {
            assert_eq!(SudoPassword::new(bad).unwrap_err(), ElevateError::PasswordForm);
        }
        assert_eq!(remote(&Elevation::Root, "short", "", b"").unwrap_err(), ElevateError::MarkerForm);
    }
}
