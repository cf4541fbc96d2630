//! The options of a line: `cert-authority`, `namespaces=`, `valid-after=`, `valid-before=`.

use super::time::{LocalTime, parse_time};
use crate::{UtcTime, pattern, wire::shown};

#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) authority: bool,
    pub(super) namespaces: Option<String>,
    pub(super) valid_after: Option<UtcTime>,
    pub(super) valid_before: Option<UtcTime>,
}

/// Splits off the options: up to white space outside of quotes.
pub(super) fn split(text: &str) -> Result<(&str, &str), String> {
    let mut quoted = false;
    let mut escaped = false;
    for (at, b) in text.bytes().enumerate() {
        match b {
            _ if escaped => escaped = false,
            b'\\' if text.as_bytes().get(at.saturating_add(1)) == Some(&b'"') => escaped = true,
            b'"' => quoted = !quoted,
            b' ' | b'\t' if !quoted => {
                return text.split_at_checked(at).ok_or_else(|| "the options are not text".to_owned());
            }
            _ => {}
        }
    }
    Err(if quoted { "a quote in the options is not closed" } else { "the line has no key" }.to_owned())
}

/// Reads a list of options. Names are matched without regard to case, as OpenSSH does; values
/// must be quoted; nothing may come twice, and nothing unknown may come at all.
pub(super) fn parse(text: &str, local: &dyn LocalTime) -> Result<Options, String> {
    let mut out = Options::default();
    let mut rest = text;
    loop {
        rest = one(rest, &mut out, local)?;
        match rest.strip_prefix(',') {
            Some("") => return Err("the options end with a comma".to_owned()),
            Some(more) => rest = more,
            None if rest.is_empty() => break,
            None => return Err(unknown(rest)),
        }
    }
    match (out.valid_after, out.valid_before) {
        (Some(after), Some(before)) if before <= after => {
            Err("valid-before is not later than valid-after".to_owned())
        }
        _ => Ok(out),
    }
}

fn one<'a>(rest: &'a str, out: &mut Options, local: &dyn LocalTime) -> Result<&'a str, String> {
    if let Some(rest) = strip_word(rest, "cert-authority") {
        out.authority = true;
        return Ok(rest);
    }
    for name in ["namespaces", "valid-after", "valid-before"] {
        let Some(rest) = strip_word(rest, name).and_then(|r| r.strip_prefix('=')) else { continue };
        let (value, rest) = unquote(rest).ok_or_else(|| format!("the value of {name} is not in quotes"))?;
        let twice = match name {
            "namespaces" => {
                if value.split(',').any(|p| p.len() > pattern::MAX_PATTERN) {
                    return Err(format!("a namespace pattern is over {} bytes", pattern::MAX_PATTERN));
                }
                out.namespaces.replace(value).is_some()
            }
            "valid-after" => out.valid_after.replace(time(name, &value, local)?).is_some(),
            _ => out.valid_before.replace(time(name, &value, local)?).is_some(),
        };
        return if twice { Err(format!("{name} stands twice")) } else { Ok(rest) };
    }
    // OpenSSH takes an empty option between commas (but not one at the end).
    if rest.starts_with(',') { Ok(rest) } else { Err(unknown(rest)) }
}

fn unknown(rest: &str) -> String {
    let word = rest.split([',', '=']).next().unwrap_or_default();
    format!("option {:?} is not known", shown(word.as_bytes()))
}

fn time(name: &str, value: &str, local: &dyn LocalTime) -> Result<UtcTime, String> {
    parse_time(value, local).ok_or_else(|| {
        let value = shown(value.as_bytes());
        format!("{name}=\"{value}\" is not a real time YYYYMMDD[HHMM[SS]]Z (without Z it is local time, which may not be taken here)")
    })
}

fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, tail) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(tail)
}

/// A quoted value in which `\"` is a quote.
fn unquote(text: &str) -> Option<(String, &str)> {
    let body = text.strip_prefix('"')?;
    let mut out = String::new();
    let mut chars = body.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, body.get(at.saturating_add(1)..)?)),
            '\\' if chars.peek().is_some_and(|(_, next)| *next == '"') => {
                chars.next();
                out.push('"');
            }
            other => out.push(other),
        }
    }
    None
}
