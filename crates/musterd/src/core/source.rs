//! A `SecretSource` of the node's document, resolved: a file of root's, or a URL.
//!
//! What is not there yet is waited for as long as the document says; the time between two looks at a URL doubles up to 32 s. What is not
//! yet there: no file, no address for the host's name, no way there, nobody who listens, the statuses of
//! [`Why::is_not_there_yet`](crate::fetch::words::Why), and a fetcher that was killed. All else fails at once. No message repeats what came.
//!
//! The time is a deadline, whatever takes long: each look, with the start of a fetcher, has what is left of it, and the last one, at its
//! end, has [`LAST`]. So it is over no later than [`LAST`] after it. Without a time there is one look, of [`fetching`](super::fetching)'s bounds.

use std::path::Path;
use std::time::Duration;

use muster_document::values::{Place, SecretSource};
use muster_sys::clock::since_boot;
use muster_sys::file::PRIVATE;
use zeroize::Zeroizing;

use super::disk::{Disk, text_of};
use super::fetching::{Bounds, Fetched, fetch};
use super::owner::Patience;

/// Longest text of a source, in bytes.
pub const MAX: u32 = 256 * 1024;
/// Longest file with a bearer token.
const MAX_TOKEN: u64 = 8 * 1024;
/// Before the second look.
const FIRST: Duration = Duration::from_secs(1);
/// Between two looks at a URL, at most.
const LONGEST: Duration = Duration::from_secs(32);
/// For a look for which nothing is left of the time.
pub(super) const LAST: Duration = Duration::from_secs(2);

/// One look.
enum Look {
    Is(Zeroizing<String>),
    NotYet(String),
    /// Nothing came of it in its time.
    Late,
    Ended,
}

/// Gets what a source names. `waits` is told in one line what is waited for, each time it was not there, and how long it is waited
/// for yet. `None`: told to end while waiting.
///
/// # Errors
/// One line that names the key of the document, and why.
pub fn resolve(
    disk: &Disk,
    source: &SecretSource,
    patience: Patience<'_>,
    waits: &dyn Fn(&str, Duration),
) -> Result<Option<Zeroizing<String>>, String> {
    let named = |why: String| format!("{}: {why}", source.reached_through);
    let since = since_boot();
    let waited = || since_boot().saturating_sub(since);
    let left = || source.wait_for.unwrap_or_default().saturating_sub(waited());
    let mut pause = FIRST;
    let mut why = None;
    loop {
        let longest = source.wait_for.map(|_| left().max(LAST));
        why = match look(disk, source, longest, patience).map_err(named)? {
            Look::Is(text) => return Ok(Some(text)),
            Look::Ended => return Ok(None),
            Look::NotYet(now) => Some(now),
            // What it was before says more.
            Look::Late => why,
        };
        let now = why.as_deref().unwrap_or("nobody answered");
        if left().is_zero() {
            return Err(named(format!("{now}, after {} s", waited().as_secs())));
        }
        waits(&named(now.to_owned()), left());
        // The last look is at the end of the time.
        if !patience(pause.min(left())) {
            return Ok(None);
        }
        if matches!(source.place, Place::Url { .. }) {
            pause = (pause * 2).min(LONGEST);
        }
    }
}

fn look(
    disk: &Disk,
    source: &SecretSource,
    longest: Option<Duration>,
    patience: Patience<'_>,
) -> Result<Look, String> {
    match &source.place {
        Place::File(path) => {
            let text = super::documents::text(&disk.root()?, path, MAX.into())?;
            Ok(text.map_or_else(
                || Look::NotYet(format!("{path} does not exist")),
                |text| Look::Is(Zeroizing::new(text)),
            ))
        }
        Place::Url { url, auth_file } => {
            let shown = shown(url);
            let token = match auth_file.as_deref().map(|path| token(disk, path)).transpose()? {
                Some(Err(why)) => return Ok(Look::NotYet(why)),
                Some(Ok(token)) => Some(token),
                None => None,
            };
            let bearer = token.as_ref().map(|t| t.as_str());
            match fetch(disk, url, &Bounds { bearer, max: MAX, longest }, patience) {
                Fetched::Got(bytes) => match std::str::from_utf8(&bytes) {
                    Ok(text) => Ok(Look::Is(Zeroizing::new(text.to_owned()))),
                    Err(_) => Err(format!("{shown}: it answers no text (UTF-8)")),
                },
                Fetched::Not { why, later: true } => Ok(Look::NotYet(format!("{shown}: {why}"))),
                Fetched::Not { why, later: false } => Err(format!("{shown}: {why}")),
                Fetched::Late => Ok(Look::Late),
                Fetched::Ended => Ok(Look::Ended),
            }
        }
    }
}

/// A bearer token (RFC 6750, 2.1), of a file that is root's alone. The inner error: it is not there yet.
fn token(disk: &Disk, path: &str) -> Result<Result<Zeroizing<String>, String>, String> {
    let read = disk.root()?.read_with(Path::new(path), MAX_TOKEN, PRIVATE);
    let Some(text) = text_of(read, path)?.map(Zeroizing::new) else {
        return Ok(Err(format!("authFile {path} does not exist")));
    };
    let token = text.trim_ascii();
    let head = token.trim_end_matches('=');
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~+/".contains(&b);
    if head.is_empty() || !head.bytes().all(plain) {
        return Err(format!(
            "authFile {path} holds no bearer token: one word of letters, digits and -._~+/ is"
        ));
    }
    Ok(Ok(Zeroizing::new(token.to_owned())))
}

/// A URL for messages: what follows a `?` may be a secret.
pub(super) fn shown(url: &str) -> &str {
    url.split('?').next().unwrap_or_default()
}
