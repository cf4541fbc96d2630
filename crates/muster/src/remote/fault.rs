//! What the SSH client says, as this program's own codes.

use crate::codes::{Code, Own};
use crate::fault::Fault;
use crate::printer::clean;
use muster_ssh::{Cause, ConnectError, ExecError};

/// A library's message as one clean line. Its words for what to do stand at its end already.
pub fn line(error: &dyn core::fmt::Display) -> String {
    clean(&error.to_string())
}

/// The code of a hop that was not reached.
pub fn code(cause: &Cause) -> Own {
    match cause {
        Cause::Unreachable { .. } | Cause::Lost { .. } => Own::ConnectUnreachable,
        Cause::DroppedBeforeBanner { .. } => Own::ConnectDropped,
        Cause::Deadline { .. } => Own::ConnectDeadline,
        Cause::HostKeyChanged { .. }
        | Cause::HostKeyKindGone { .. }
        | Cause::HostKeyRefused { .. }
        | Cause::HostCertificateRefused(_) => Own::HostKeyChanged,
        Cause::AuthRefused { .. } => Own::AuthRefused,
        _ => Own::SshProtocol,
    }
}

/// A hop that was not reached: nothing ran.
pub fn connect(host: &str, error: &ConnectError) -> Fault {
    said(host, code(error.cause()).into(), line(error))
}

/// A command that was not started: nothing ran.
pub fn not_started(host: &str, error: &ExecError) -> Fault {
    said(host, Own::SshProtocol.into(), line(error))
}

/// A fault about a host in somebody else's words, of which the last say what to do.
pub fn said(host: &str, code: Code, words: String) -> Fault {
    let fault = Fault::new(code, host.to_owned());
    match words.rsplit_once("; ") {
        Some((what, fix)) if fix.len() > 12 => fault.why(what).fix(sentence(fix)),
        _ => fault.why(words),
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let rest: String = chars.collect();
    let end = if rest.ends_with(['.', '`', ')']) { "" } else { "." };
    format!("{first}{rest}{end}")
}
