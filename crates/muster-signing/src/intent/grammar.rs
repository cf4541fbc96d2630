//! Reading an intent, line by line, in the one order that there is.

use super::{
    Draft, Intent, MAX_BYTES, MAX_DEADLINE, MAX_LINE, MAX_NAMES, MAX_TARGETS, MAX_VALUE, OnDisconnect,
    ParamLine, Target, ValueLine, check,
};
use crate::{FileFault, UtcTime, base64, params, wire::shown};
use muster_core::{Phase, ProfileName};
use sha2::{Digest, Sha256};

impl Intent {
    /// Reads an intent, by the letter of its grammar.
    pub fn parse(text: &[u8]) -> Result<Self, FileFault> {
        let mut lines = Lines::new(text)?;
        lines.exactly("muster-intent", "1")?;
        let profile = lines.field("profile", |v| ProfileName::new(v).map_err(|e| e.to_string()))?;
        let phase = lines.field("phase", signed_phase)?;
        let script_sha256 = lines.field("script-sha256", |v| script_digest(v, phase))?;
        let targets = targets(&mut lines)?;
        let (values, params) = names(&mut lines)?;
        let epoch = lines.field("epoch", |v| number(v, u32::MAX))?;
        let not_before = lines.field("not-before", time)?;
        let not_after = lines.field("not-after", |v| match time(v)? {
            after if after > not_before => Ok(after),
            _ => Err("not-after is not later than not-before".to_owned()),
        })?;
        let deadline = lines.field("deadline", |v| number(v, MAX_DEADLINE))?;
        let on_disconnect = match lines.optional("on-disconnect") {
            None => OnDisconnect::End,
            Some("end") => OnDisconnect::End,
            Some("finish") => OnDisconnect::Finish,
            Some(_) => return Err(lines.fault("on-disconnect is end or finish")),
        };
        lines.end()?;
        let fields = Draft {
            profile,
            phase,
            script_sha256,
            targets,
            values,
            params,
            epoch,
            not_before,
            not_after,
            deadline,
            on_disconnect,
        };
        Ok(Self { fields, digest: Sha256::digest(text).into() })
    }
}

/// The lines of a text whose bytes and bounds were checked.
struct Lines<'a> {
    rest: core::str::Split<'a, char>,
    next: Option<&'a str>,
    /// Number of the line last taken.
    at: usize,
}

impl<'a> Lines<'a> {
    fn new(text: &'a [u8]) -> Result<Self, FileFault> {
        if text.len() > MAX_BYTES {
            return Err(FileFault::at(0, format!("it is over {MAX_BYTES} bytes")));
        }
        for (n, line) in (1usize..).zip(text.split(|b| *b == b'\n')) {
            if let Some(b) = line.iter().find(|b| !matches!(b, 0x20..=0x7e)) {
                return Err(FileFault::at(n, format!("byte 0x{b:02x} is not printable ASCII")));
            }
            if line.len() > MAX_LINE {
                return Err(FileFault::at(n, format!("the line is over {MAX_LINE} bytes")));
            }
            if line.starts_with(b" ") || line.ends_with(b" ") {
                return Err(FileFault::at(n, "the line begins or ends with a space"));
            }
        }
        // Every byte was seen to be ASCII.
        let text = core::str::from_utf8(text).map_err(|_| FileFault::at(0, "it is not ASCII"))?;
        let body =
            text.strip_suffix('\n').ok_or_else(|| FileFault::at(0, "the last line does not end in LF"))?;
        let mut rest = body.split('\n');
        let next = rest.next();
        Ok(Self { rest, next, at: 0 })
    }

    fn fault(&self, why: impl Into<String>) -> FileFault {
        FileFault::at(self.at, why)
    }

    /// The value of the next line, if that is its name.
    fn optional(&mut self, name: &str) -> Option<&'a str> {
        let value = self.next?.strip_prefix(name)?.strip_prefix(": ")?;
        self.next = self.rest.next();
        self.at = self.at.saturating_add(1);
        Some(value)
    }

    fn required(&mut self, name: &str) -> Result<&'a str, FileFault> {
        let got = self.next;
        self.optional(name).ok_or_else(|| {
            let found = match got {
                None => "the end".to_owned(),
                Some("") => "an empty line".to_owned(),
                Some(line) => format!("{:?}", shown(line.split(": ").next().unwrap_or_default().as_bytes())),
            };
            FileFault::at(self.at.saturating_add(1), format!("{name:?} must stand here, not {found}"))
        })
    }

    fn field<T>(&mut self, name: &str, read: impl FnOnce(&str) -> Result<T, String>) -> Result<T, FileFault> {
        let value = self.required(name)?;
        read(value).map_err(|why| self.fault(format!("{name}: {why}")))
    }

    fn exactly(&mut self, name: &str, value: &str) -> Result<(), FileFault> {
        self.field(name, |v| if v == value { Ok(()) } else { Err(format!("only {value} is known")) })
    }

    fn end(&self) -> Result<(), FileFault> {
        match self.next {
            None => Ok(()),
            Some(line) => {
                let word = shown(line.split(": ").next().unwrap_or_default().as_bytes());
                Err(FileFault::at(
                    self.at.saturating_add(1),
                    format!("{word:?} is unknown, repeated or out of place"),
                ))
            }
        }
    }
}

fn signed_phase(word: &str) -> Result<Phase, String> {
    match Phase::from_word(word) {
        Some(phase) if phase != Phase::Probe => Ok(phase),
        _ => Err("it is install, join, leave, uninstall or floor".to_owned()),
    }
}

fn script_digest(text: &str, phase: Phase) -> Result<Option<[u8; 32]>, String> {
    match (text, phase.is_scripted()) {
        ("-", false) => Ok(None),
        ("-", true) => Err("only the phase floor has no script".to_owned()),
        (_, false) => Err("the phase floor has no script: \"-\" must stand here".to_owned()),
        (hex, true) => {
            digest(hex).map(Some).ok_or_else(|| "it is 64 lower-case hexadecimal digits".to_owned())
        }
    }
}

fn digest(hex: &str) -> Option<[u8; 32]> {
    let nibble = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = hex.as_bytes().as_chunks::<2>();
    let bytes: Option<Vec<u8>> =
        pairs.iter().map(|[hi, lo]| Some(nibble(*hi)? << 4 | nibble(*lo)?)).collect();
    if rest.is_empty() { bytes?.try_into().ok() } else { None }
}

fn targets(lines: &mut Lines<'_>) -> Result<Vec<Target>, FileFault> {
    let mut out = Vec::new();
    let mut before: Option<&str> = None;
    let mut value = lines.required("target")?;
    loop {
        let target: Target = value.parse().map_err(|why| lines.fault(format!("target: {why}")))?;
        if before.is_some_and(|b| b >= value) {
            return Err(lines.fault("target: repeated, or not in ascending order"));
        }
        if out.len() == MAX_TARGETS {
            return Err(lines.fault(format!("more than {MAX_TARGETS} targets")));
        }
        out.push(target);
        before = Some(value);
        match lines.optional("target") {
            Some(next) => value = next,
            None => break,
        }
    }
    // "*" sorts before "host=" and "pool=", so that it can only come first.
    if out.first() == Some(&Target::Any) && out.len() > 1 {
        return Err(lines.fault("target: * stands alone"));
    }
    Ok(out)
}

fn names(lines: &mut Lines<'_>) -> Result<(Vec<ValueLine>, Vec<ParamLine>), FileFault> {
    let (mut values, mut params) = (Vec::<ValueLine>::new(), Vec::<ParamLine>::new());
    let mut before: Option<String> = None;
    loop {
        let name = if let Some(text) = lines.optional("value") {
            let line = value_line(text).map_err(|why| lines.fault(format!("value: {why}")))?;
            values.push(line.clone());
            line.name
        } else if let Some(text) = lines.optional("param") {
            let line = param_line(text).map_err(|why| lines.fault(format!("param: {why}")))?;
            params.push(line.clone());
            line.name
        } else {
            return Ok((values, params));
        };
        if before.as_ref().is_some_and(|b| *b >= name) {
            return Err(lines.fault(format!("{name} repeats a name or does not stand in ascending order")));
        }
        if values.len().saturating_add(params.len()) > MAX_NAMES {
            return Err(lines.fault(format!("more than {MAX_NAMES} value and param lines")));
        }
        before = Some(name);
    }
}

fn value_line(text: &str) -> Result<ValueLine, String> {
    let (name, encoded) = split_name(text)?;
    let value =
        base64::decode(encoded.as_bytes()).ok_or_else(|| format!("{name} is not standard padded base64"))?;
    if value.is_empty() || value.len() > MAX_VALUE || value.iter().any(|b| matches!(b, 0 | b'\n')) {
        return Err(format!("{name} is empty, over {MAX_VALUE} bytes, or holds NUL or a line break"));
    }
    Ok(ValueLine { name: name.to_owned(), value })
}

fn param_line(text: &str) -> Result<ParamLine, String> {
    let (word, pattern) = text.split_once(' ').ok_or("NAME, a space and a pattern must follow")?;
    let (name, optional) = match word.strip_suffix('?') {
        Some(name) => (name, true),
        None => (word, false),
    };
    check_name(name)?;
    check::compile(pattern).map_err(|why| format!("{name}: {why}"))?;
    Ok(ParamLine { name: name.to_owned(), optional, pattern: pattern.to_owned() })
}

fn split_name(text: &str) -> Result<(&str, &str), String> {
    let (name, rest) = text.split_once(' ').ok_or("NAME, a space and base64 must follow")?;
    check_name(name)?;
    Ok((name, rest))
}

fn check_name(name: &str) -> Result<(), String> {
    if params::is_name(name) {
        return Ok(());
    }
    let shown = shown(name.as_bytes());
    Err(format!("{shown:?} is not (MUSTER|KPSSH)_[A-Za-z0-9_]{{1,120}}, or is a name that the shim sets"))
}

/// 1 to `max`, without sign or leading zero.
fn number(text: &str, max: u32) -> Result<u32, String> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
    let value = if plain { text.parse::<u32>().ok() } else { None };
    value.filter(|n| *n <= max).ok_or_else(|| format!("it is a number from 1 to {max} without leading zero"))
}

fn time(text: &str) -> Result<UtcTime, String> {
    UtcTime::parse(text).map_err(|e| e.to_string())
}
