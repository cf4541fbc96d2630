//! What this crate needs of a transport: run a script as root, and prove a login.

use std::future::Future;

/// What a script did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellOutput {
    /// The script's own exit code, as the root side reported it.
    pub status: i32,
    /// Its standard output, without anything that a login shell printed in front.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
}

impl ShellOutput {
    /// Standard output as text; bytes that are no UTF-8 are shown as U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The last lines of standard error on one line, control characters escaped, at most `most`
    /// bytes: fit for an error message.
    pub fn stderr_tail(&self, most: usize) -> String {
        one_line_tail(&self.stderr, most)
    }
}

/// Why a script's outcome is not known, or why it did not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShellError {
    /// The connection was lost; the script may have run to any point.
    #[error("connection lost: {0}")]
    Lost(String),
    /// The connection could not be opened; the script did not run.
    #[error("not connected: {0}")]
    Unreachable(String),
    /// sudo did not make us root; the script did not run.
    #[error(transparent)]
    Elevate(#[from] crate::elevate::ElevateError),
}

impl ShellError {
    /// Whether the script certainly did not start.
    pub fn nothing_ran(&self) -> bool {
        !matches!(self, Self::Lost(_))
    }
}

/// The admin login of one host.
///
/// One connection should stay open for the whole of a provisioning: it is the door that stays
/// open while the second login is proven. An implementor may reconnect when it was lost.
pub trait HostShell {
    /// Runs a POSIX sh script as root with `stdin` on its standard input.
    ///
    /// Neither may appear on a command line; [`crate::elevate`] builds the command and the bytes.
    fn run_root(
        &self,
        script: &str,
        stdin: &[u8],
    ) -> impl Future<Output = Result<ShellOutput, ShellError>> + Send;
}

/// Why a login was not proven.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {why}")]
pub struct ProofFailure {
    /// Which login: `pool login` or `admin login`.
    pub what: &'static str,
    /// One line.
    pub why: String,
}

/// Proves logins over connections of their own, opened after the reload.
///
/// Both calls must end by themselves within [`crate::run::Options::confirm_within`]; after that the
/// host puts everything back.
pub trait Prover {
    /// Opens the pool login with a controller key and has `probe` answered. The text says what was
    /// seen (shim version, host name).
    fn pool_login(&self) -> impl Future<Output = Result<String, ProofFailure>> + Send;

    /// Opens a second admin connection and has `true` answered.
    fn admin_login(&self) -> impl Future<Output = Result<String, ProofFailure>> + Send;
}

/// See [`ShellOutput::stderr_tail`].
pub(crate) fn one_line_tail(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let joined =
        text.split(['\n', '\r']).map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("; ");
    let clean: String = joined
        .chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect::<Vec<_>>() } else { vec![c] })
        .collect();
    let mut start = clean.len().saturating_sub(most);
    while !clean.is_char_boundary(start) {
        start += 1;
    }
    match clean.get(start..) {
        Some(tail) if start > 0 => format!("…{tail}"),
        _ => clean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_are_one_line_and_escaped() {
        assert_eq!(one_line_tail(b"a\r\nb\n\n", 80), "a; b");
        assert_eq!(one_line_tail(b"x\x1b[31mred", 80), "x\\u{1b}[31mred");
        assert_eq!(one_line_tail("ééé".as_bytes(), 3), "…é");
    }
}
