//! What the SSH client says, as this program's own codes.

use crate::codes::Own;
use crate::fault::Fault;
use crate::printer::clean;
use muster_ssh::{Cause, ConnectError, ExecError, HopRef, Progress, Status};

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
pub fn connect(error: &ConnectError) -> Fault {
    said(code(error.cause()), &unreached(error), error.cause().advice())
}

/// The operator's time was over before anything was sent: nothing ran. Says what stood in the way until then.
pub fn late(progress: &Progress) -> Fault {
    if let Some(error) = progress.last_failure() {
        return connect(&error)
            .why("the time given with --timeout was over before another try ended; nothing ran");
    }
    let what = match progress.step() {
        Some((at, stage)) => {
            format!(
                "{}: {stage} was not done when the time given with --timeout was over; nothing ran",
                hop(&at)
            )
        }
        None => "the time given with --timeout is over; nothing ran".to_owned(),
    };
    Fault::new(Own::ConnectDeadline, what).fix("Look at the link, or raise --timeout.")
}

/// A command that was not started: nothing ran.
pub fn not_started(error: &ExecError) -> Fault {
    said(Own::SshProtocol, &unended(error), error.why().advice())
}

/// The line of a hop that was not reached, in a report that names the host already.
pub fn unreached(error: &ConnectError) -> String {
    named_once(&line(error), error.hop())
}

/// The same of a command without an outcome.
pub fn unended(error: &ExecError) -> String {
    named_once(&line(error), error.hop())
}

/// A hop in a report that names the host already.
pub fn hop(hop: &HopRef) -> String {
    let HopRef { index, of, endpoint, .. } = hop;
    match (of, index == of) {
        (1, _) => clean(endpoint),
        (_, true) => format!("hop {index} of {of}, the host itself ({})", clean(endpoint)),
        _ => clean(&hop.to_string()),
    }
}

/// How a command ended.
pub fn end(status: &Status) -> String {
    match status {
        Status::Exited(code) => format!("it exited {code}"),
        Status::Signaled { name, .. } => format!("it was ended by SIG{}", clean(name)),
        Status::ConnectionLost { why, hop: at } => format!("connection lost at {}: {}", hop(at), clean(why)),
        _ => "nobody knows how it ended".into(),
    }
}

/// The library begins each line with the hop.
fn named_once(words: &str, at: &HopRef) -> String {
    match words.strip_prefix(&clean(&at.to_string())) {
        Some(rest) => format!("{}{rest}", hop(at)),
        None => words.to_owned(),
    }
}

/// Advice is taken from the library's own list and never looked for in the words, which may be the peer's.
fn said(code: Own, words: &str, advice: Option<&str>) -> Fault {
    match advice.and_then(|fix| Some((words.rsplit_once(&format!("; {fix}"))?, fix))) {
        Some(((what, rest), fix)) => Fault::new(code, format!("{what}{rest}")).fix(sentence(fix)),
        None => Fault::new(code, words),
    }
}

fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().map(|c| c.to_uppercase().collect()).unwrap_or_default();
    let rest: String = chars.collect();
    let end = if rest.ends_with(['.', '`', ')']) { "" } else { "." };
    format!("{first}{rest}{end}")
}
