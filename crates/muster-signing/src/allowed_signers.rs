//! The `allowed_signers` file (`ssh-keygen(1)`, section ALLOWED SIGNERS).
//!
//! Read as OpenSSH 9.2 reads it, with one difference that matters: OpenSSH skips a line that it
//! does not understand; here such a line refuses the whole file and is named, because what was
//! skipped may have been a restriction, or the signer that somebody relies on.

mod options;
mod time;

use crate::{
    FileFault, UtcTime,
    key::{self, KeyKind, PublicKey},
    pattern,
    sshsig::SignerKey,
    verify::SignerId,
    wire::shown,
};
use options::Options;
pub use time::{LocalTime, ZuluOnly, parse_time};

/// A file over this many bytes is not looked at.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Whose rules a file is read by, where Muster's and OpenSSH's differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// A key is a plain key. What a host's trust root is read by.
    Muster,
    /// A certificate may stand in place of a key and then stands for exactly itself, whatever its
    /// dates. For the `ssh-keygen` front only.
    OpenSsh,
}

/// One line: who may sign, with what.
#[derive(Clone, Debug)]
pub struct Entry {
    line: usize,
    principals: String,
    options: Options,
    key: SignerKey,
}

impl Entry {
    /// The line's number, 1-based.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The pattern list, without its quotes.
    pub fn principals(&self) -> &str {
        &self.principals
    }

    /// Whether the key is an authority whose certificates sign, and not itself a signer.
    pub fn is_authority(&self) -> bool {
        self.options.authority
    }

    /// The pattern list of `namespaces=`; `None` means every namespace.
    pub fn namespaces(&self) -> Option<&str> {
        self.options.namespaces.as_deref()
    }

    /// `valid-after`; the first second that is valid.
    pub fn valid_after(&self) -> Option<UtcTime> {
        self.options.valid_after
    }

    /// `valid-before`; the last second that is valid (OpenSSH takes the bound itself as valid).
    pub fn valid_before(&self) -> Option<UtcTime> {
        self.options.valid_before
    }

    /// The key of the line; a certificate only in [`Dialect::OpenSsh`].
    pub fn key(&self) -> &SignerKey {
        &self.key
    }

    pub(crate) fn names(&self, principal: &str) -> bool {
        pattern::list_matches(principal.as_bytes(), self.principals.as_bytes())
    }

    pub(crate) fn allows_namespace(&self, namespace: &str) -> bool {
        self.namespaces().is_none_or(|list| pattern::list_matches(namespace.as_bytes(), list.as_bytes()))
    }
}

/// A whole file, every line of which was understood.
#[derive(Clone, Debug, Default)]
pub struct AllowedSigners {
    entries: Vec<Entry>,
}

impl AllowedSigners {
    /// Reads a host's trust root.
    pub fn parse(file: &[u8], local: &dyn LocalTime) -> Result<Self, FileFault> {
        Self::parse_as(Dialect::Muster, file, local)
    }

    /// Reads a file by the rules of `dialect`.
    pub fn parse_as(dialect: Dialect, file: &[u8], local: &dyn LocalTime) -> Result<Self, FileFault> {
        if file.len() > MAX_BYTES {
            return Err(FileFault::at(0, format!("the file is over {MAX_BYTES} bytes")));
        }
        let mut entries = Vec::new();
        for (n, line) in (1usize..).zip(file.split(|b| *b == b'\n')) {
            let fault = |why: String| FileFault::at(n, why);
            let text = core::str::from_utf8(line).map_err(|_| fault("the line is not UTF-8".to_owned()))?;
            if text.contains('\0') {
                return Err(fault("the line holds a NUL byte".to_owned()));
            }
            let text = text.trim_end_matches('\r').trim_start_matches([' ', '\t']);
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            entries.push(entry(dialect, n, text, local).map_err(fault)?);
        }
        Ok(Self { entries })
    }

    /// Every line, in the order of the file.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The distinct signers that could ever sign as `principal` in `namespace`, whatever the time:
    /// plain keys and authorities, each counted once, keys that are too small left out.
    pub fn identities(&self, principal: &str, namespace: &str) -> Vec<SignerId> {
        let mut out: Vec<SignerId> = self
            .entries
            .iter()
            .filter(|e| e.names(principal) && e.allows_namespace(namespace) && e.key.key().may_sign().is_ok())
            .map(|e| SignerId::of(e.key.key()))
            .collect();
        out.sort();
        out.dedup();
        out
    }
}

fn entry(dialect: Dialect, line: usize, text: &str, local: &dyn LocalTime) -> Result<Entry, String> {
    let (principals, rest) = first_word(text)?;
    if principals.split(',').any(|p| p.len() > pattern::MAX_PATTERN) {
        return Err(format!("a principal pattern is over {} bytes", pattern::MAX_PATTERN));
    }
    let rest = rest.trim_start_matches([' ', '\t']);
    let (options, key_words) = if names_key(rest) {
        (Options::default(), rest)
    } else {
        let (text, rest) = options::split(rest)?;
        (options::parse(text, local)?, rest.trim_start_matches([' ', '\t']))
    };
    let key = read_key(dialect, key_words)?;
    Ok(Entry { line, principals, options, key })
}

/// The principals: up to white space, or up to a closing quote. OpenSSH's tokenizer takes a quote
/// in the middle of a word too, and ends the word where the quote ends.
fn first_word(text: &str) -> Result<(String, &str), String> {
    let stop = text.find([' ', '\t', '\r', '"']).ok_or("the line has a principal and nothing else")?;
    let (head, tail) = text.split_at_checked(stop).unwrap_or((text, ""));
    let Some(quoted) = tail.strip_prefix('"') else {
        return Ok((head.to_owned(), tail.trim_start_matches([' ', '\t', '\r'])));
    };
    let (inner, rest) = quoted.split_once('"').ok_or("a quote in the principals is not closed")?;
    Ok((format!("{head}{inner}"), rest.trim_start_matches([' ', '\t', '\r'])))
}

fn names_key(rest: &str) -> bool {
    let word = rest.split([' ', '\t']).next().unwrap_or_default();
    KeyKind::from_name(word).is_some() || KeyKind::from_certificate_name(word).is_some()
}

fn read_key(dialect: Dialect, text: &str) -> Result<SignerKey, String> {
    let (kind, rest) = text.split_once([' ', '\t']).ok_or("the line has no key")?;
    let blob = rest.trim_start_matches([' ', '\t']).split([' ', '\t']).next().unwrap_or_default();
    if blob.is_empty() {
        return Err("the line has no key".to_owned());
    }
    if KeyKind::from_certificate_name(kind).is_some() {
        if dialect == Dialect::Muster {
            return Err(
                "a certificate stands where a key must: list its key, or its authority with cert-authority"
                    .to_owned(),
            );
        }
        let blob = key::decode_words(kind, blob).map_err(|e| e.to_string())?;
        return SignerKey::from_blob(&blob).map_err(|e| e.to_string());
    }
    if KeyKind::from_name(kind).is_none() {
        return Err(format!(
            "{:?} is not a key type that is accepted, nor an option",
            shown(kind.as_bytes())
        ));
    }
    PublicKey::from_words(kind, blob).map(SignerKey::Plain).map_err(|e| e.to_string())
}
