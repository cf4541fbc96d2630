//! SSH keys that are let in as accounts that there are.
//!
//! Each account has a file of its own below [`places::SSH_KEYS`], 0644 in a folder 0711: sshd reads it as that account
//! (AUTHORIZED_KEYS FILE FORMAT in sshd(8)), and refuses it silently where a parent is writable by others. That sshd looks
//! there at all is [`sshd`]'s part. Accounts are never made, files in homes never touched, options in front of a key not taken,
//! and a key that was sent is not sent back.

mod sshd;

use std::path::Path;

use muster_api::access::{SshKey, SshKeyRequest, SshKeys, SshRevoked};
use muster_api::{Fault, Kind};
use muster_signing::key::{PublicKey, is_fingerprint};
use muster_sys::state::{Durability, StateDir};

use super::{Done, Request};
use crate::core::disk;
use crate::places::{self, Places};

/// Bytes of the longest file, and keys in it.
const MAX_FILE: u64 = 1 << 20;
const MAX_KEYS: usize = 100;
/// Bytes of the longest comment.
const MAX_COMMENT: usize = 128;

/// `GET /v1/access/ssh`.
pub(super) fn list(request: &Request<'_>) -> Result<Done, Fault> {
    // Without the lock of those who change them: each file is replaced whole, and a systemd or an sshd that is slow holds up no reader.
    Done::json(&SshKeys { keys: all(request.places)?.into_iter().flat_map(|f| f.shown()).collect() })
}

/// `POST /v1/access/ssh`.
pub(super) fn add(request: &Request<'_>) -> Result<Done, Fault> {
    let SshKeyRequest { user, key } = super::body(request)?;
    let _one = request.works.keys.lock();
    // Calls wait there for each other, and whom the node obeys may have changed meanwhile.
    request.owner.still(request.caller.judged_by)?;
    Done::json(&added(request.places, &user, &key)?)
}

/// `DELETE /v1/access/ssh`.
pub(super) fn remove(request: &Request<'_>, fingerprint: &str) -> Result<Done, Fault> {
    let _one = request.works.keys.lock();
    request.owner.still(request.caller.judged_by)?;
    Done::json(&removed(request.places, fingerprint)?)
}

/// A key and what stood behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    key: PublicKey,
    comment: String,
}

impl Line {
    /// Reads `type base64 [comment]`.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(3, ' ');
        let key = PublicKey::from_words(words.next()?, words.next()?).ok()?;
        let comment = words.next().unwrap_or_default().trim();
        (comment.len() <= MAX_COMMENT).then(|| Self { key, comment: comment.to_owned() })
    }

    fn text(&self) -> String {
        let text = format!("{} {}", self.key.line(), self.comment);
        text.trim_end().to_owned()
    }

    fn shown(&self, user: &str) -> SshKey {
        SshKey {
            user: user.to_owned(),
            kind: self.key.kind().name().to_owned(),
            fingerprint: self.key.fingerprint(),
            // What is in the file already is let in, and so it is shown.
            comment: Some(muster_core::hidden::escaped(&self.comment, usize::MAX)).filter(|c| !c.is_empty()),
            warning: None,
        }
    }
}

/// The keys of an account.
#[derive(Debug)]
struct File {
    user: String,
    lines: Vec<Line>,
}

impl File {
    fn shown(&self) -> Vec<SshKey> {
        self.lines.iter().map(|l| l.shown(&self.user)).collect()
    }

    /// Replaces what is on disk; a file without keys is none.
    fn store(&self, dir: &StateDir) -> Result<(), Fault> {
        let failed = |e: muster_sys::SysError| Fault::failed("disk", e.line());
        if self.lines.is_empty() {
            return dir.remove(&self.user).map_err(failed);
        }
        let mut text =
            "# Kept by musterd: `muster node ssh-key`. What is written here by hand is lost.\n".to_owned();
        for line in &self.lines {
            text.push_str(&line.text());
            text.push('\n');
        }
        dir.replace(&self.user, text.as_bytes(), Durability::Durable).map_err(failed)
    }
}

fn folder(places: &Places) -> Result<StateDir, Fault> {
    let failed = |e: String| Fault::failed("disk", e);
    let root = disk::trusted(places).map_err(failed)?;
    StateDir::open_or_make_by_name(root, Path::new(places::SSH_KEYS)).map_err(|e| failed(e.to_string()))
}

fn read(dir: &StateDir, user: &str) -> Result<File, Fault> {
    let text = match dir.read(user, MAX_FILE) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(e) if e.is_missing() => String::new(),
        Err(e) => return Err(Fault::failed("disk", e.to_string())),
    };
    let lines = text.lines().filter_map(Line::parse).collect();
    Ok(File { user: user.to_owned(), lines })
}

/// Every account's, by name.
fn all(places: &Places) -> Result<Vec<File>, Fault> {
    let dir = folder(places)?;
    let failed = |e: std::io::Error| Fault::failed("disk", format!("{}: {e}", places::SSH_KEYS));
    let mut names = Vec::new();
    for entry in std::fs::read_dir(places.at(places::SSH_KEYS)).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        names.extend(name.into_string().ok().filter(|n| is_user(n)));
    }
    names.sort();
    names.iter().map(|name| read(&dir, name)).collect()
}

/// A name that is safe as that of a file, and as sshd puts it in the place of `%u`: useradd(8) takes no others.
fn is_user(name: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    (1..=32).contains(&name.len())
        && name.bytes().next().is_some_and(word)
        && name.bytes().all(|b| word(b) || matches!(b, b'-' | b'.'))
}

/// Whether passwd(5) has an account of that name.
fn is_account(places: &Places, user: &str) -> bool {
    use std::io::{BufRead as _, Read as _};
    let Ok(file) = std::fs::File::open(places.at("/etc/passwd")) else { return false };
    let lines = std::io::BufReader::new(file.take(4 << 20)).split(b'\n');
    lines.map_while(Result::ok).any(|line| line.split(|b| *b == b':').next() == Some(user.as_bytes()))
}

fn added(places: &Places, user: &str, key: &str) -> Result<SshKey, Fault> {
    let plain = |line: &Line| !line.comment.contains(muster_core::hidden::is_hidden);
    let line = Line::parse(key.trim()).filter(plain).ok_or_else(|| {
        Fault::bad(
            "bad-key",
            "the key is not one line of an OpenSSH public key with a comment of at most 128 bytes",
        )
        .fix("Send the content of a .pub file: type, key, comment. Options and certificates are not taken.")
    })?;
    line.key
        .may_sign()
        .map_err(|why| Fault::bad("weak-key", why).fix("Use Ed25519: `ssh-keygen -t ed25519`."))?;
    if !is_user(user) || !is_account(places, user) {
        return Err(Fault::state("no-such-account", "the node has no account of that name")
            .fix("Name one that there is; this API makes none."));
    }
    let dir = folder(places)?;
    let mut file = read(&dir, user)?;
    file.lines.retain(|l| l.key != line.key);
    if file.lines.len() >= MAX_KEYS {
        return Err(Fault::state("too-many-keys", format!("{MAX_KEYS} keys are let in as {user} already"))
            .fix("Take one away first: `muster node ssh-key`."));
    }
    // Before the key is written: a key that is listed is one that works.
    sshd::looks_there(places, user)?;
    let shown = line.shown(user);
    file.lines.push(line);
    file.store(&dir)?;
    let warning = label(places, &[user]).err().map(|why| format!("sshd may not read the key: {why}"));
    if let Some(warning) = &warning {
        super::lifecycle::record(warning);
    }
    Ok(SshKey { warning, ..shown })
}

fn removed(places: &Places, fingerprint: &str) -> Result<SshRevoked, Fault> {
    if !is_fingerprint(fingerprint) {
        return Err(Fault::bad("fingerprint", "a fingerprint is `SHA256:` and 43 characters of base64")
            .fix("As `ssh-keygen -l` and `muster node ssh-key` print it."));
    }
    let dir = folder(places)?;
    let mut gone = Vec::new();
    for mut file in all(places)? {
        let (out, kept) = file.lines.into_iter().partition(|l| l.key.fingerprint() == fingerprint);
        file.lines = kept;
        let out: Vec<Line> = out;
        if !out.is_empty() {
            file.store(&dir)?;
            gone.extend(out.iter().map(|l| l.shown(&file.user)));
            // What it still has is a new file.
            if !file.lines.is_empty()
                && let Err(why) = label(places, &[&file.user])
            {
                super::lifecycle::record(&format!("sshd may not read the keys of {}: {why}", file.user));
            }
        }
    }
    if gone.is_empty() {
        return Err(Fault::new(Kind::Missing, "no-such-key", "no key of that fingerprint was let in here"));
    }
    Ok(SshRevoked { status: "revoked".to_owned(), removed: gone })
}

/// Takes every key away, and sshd's eyes from the folder: for a reset. What was let in another way stays.
pub(super) fn forget(places: &Places) -> Result<(), Fault> {
    let dir = folder(places)?;
    for file in all(places)? {
        File { lines: Vec::new(), ..file }.store(&dir)?;
    }
    sshd::look_away(places)
}

/// Labels the files anew, at the start of the core: one that was made under another policy, or that somebody relabelled
/// (restorecon(8) gives them the type of their folder's place), would be refused by sshd in silence until then.
pub fn relabel(places: &Places) {
    if !has_labels(places) || !places.at(places::SSH_KEYS).is_dir() {
        return;
    }
    let done = all(places).map_err(|fault| fault.error).and_then(|files| {
        let users: Vec<&str> = files.iter().map(|f| f.user.as_str()).collect();
        label(places, &users)
    });
    if let Err(why) = done {
        super::lifecycle::record(&format!("sshd may not read the SSH keys of this API: {why}"));
    }
}

/// Whether SELinux is on: the kernel shows its file system there only then, and `enforce` in it (selinux(8)).
fn has_labels(places: &Places) -> bool {
    places.at("/sys/fs/selinux/enforce").exists()
}

/// Where SELinux is on, sshd may read what carries this type (sshd_selinux(8)): the folder, and the files of these accounts.
fn label(places: &Places, users: &[&str]) -> Result<(), String> {
    if !has_labels(places) {
        return Ok(());
    }
    let folder = places.at(places::SSH_KEYS);
    let files = users.iter().map(|user| folder.join(user));
    for path in core::iter::once(folder.clone()).chain(files) {
        muster_sys::label::set_type(&path, "ssh_home_t").map_err(|e| e.line())?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "access/tests.rs"]
mod tests;
