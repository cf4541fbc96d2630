//! Walking a YAML tree towards typed values, collecting every fault with its line.
//!
//! A fault never stops the walk: the operator sees all of them at once, up to a bound.

use crate::yaml::{Entry, Fault, Kind, Node, Reason, nearest};
use core::str::FromStr;

/// Faults shown of one file before the rest is only counted.
const MAX_SHOWN: usize = 40;

/// The walk over one text. `R` names a fault to whoever asked for it, and can be made of any [`Reason`].
pub struct Walk<R = Reason> {
    faults: Vec<Fault<R>>,
    unshown: usize,
}

/// The entries of one mapping, taken one by one by their known keys.
pub struct Fields<'n> {
    at: String,
    line: usize,
    entries: Vec<&'n Entry>,
}

impl<R> Default for Walk<R> {
    fn default() -> Self {
        Self { faults: Vec::new(), unshown: 0 }
    }
}

impl<R: From<Reason>> Walk<R> {
    /// Adds a fault on a line.
    pub fn fault(&mut self, reason: impl Into<R>, line: usize, what: impl Into<String>, fix: Option<String>) {
        if self.faults.len() >= MAX_SHOWN {
            self.unshown += 1;
            return;
        }
        let fault = Fault::new(reason.into(), line, what);
        self.faults.push(Fault { fix, ..fault });
    }

    /// The faults found, in the order of the walk; the last says how many more there are.
    pub fn finish(mut self) -> Vec<Fault<R>> {
        if let Some(last) = self.faults.last_mut() {
            last.unshown = self.unshown;
        }
        self.faults
    }

    /// The entries of a mapping; unknown keys are faults that name the nearest known one.
    pub fn fields<'n>(&mut self, node: &'n Node, at: &str, known: &[&str]) -> Option<Fields<'n>> {
        let entries = self.entries(node, at)?;
        for e in entries {
            if !known.contains(&e.key.as_str()) {
                let fix = match nearest(&e.key, known.iter().copied()) {
                    Some(near) => format!("Did you mean {near:?}? {}", one_of(known)),
                    None => one_of(known),
                };
                let what = format!("unknown key {:?} in {at}", e.key);
                self.fault(Reason::Key, e.line, what, Some(fix));
            }
        }
        Some(Fields { at: at.to_owned(), line: node.line, entries: entries.iter().collect() })
    }

    /// The entries of a mapping with free keys; nothing is an empty mapping.
    pub fn entries<'n>(&mut self, node: &'n Node, at: &str) -> Option<&'n [Entry]> {
        match &node.kind {
            Kind::Map(entries) => Some(entries),
            Kind::Null => Some(&[]),
            other => {
                let what = format!("{at} is {}, not a mapping", other.name());
                self.fault(Reason::Type, node.line, what, Some("Write `key: value` lines.".into()));
                None
            }
        }
    }

    /// A single value as text.
    pub fn text(&mut self, node: &Node, at: &str) -> Option<String> {
        match &node.kind {
            Kind::Scalar { text, .. } => Some(text.clone()),
            other => {
                let what = format!("{at} is {}, not a single value", other.name());
                self.fault(Reason::Type, node.line, what, None);
                None
            }
        }
    }

    /// A value that parses, with what it should look like for the message.
    pub fn value<T>(
        &mut self,
        node: &Node,
        at: &str,
        form: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let text = self.text(node, at)?;
        let parsed = parse(&text);
        if parsed.is_none() {
            let what = format!("{at} is {:?}", short(&text));
            self.fault(Reason::Value, node.line, what, Some(format!("Write {form}.")));
        }
        parsed
    }

    /// A value with its own `FromStr`, whose error is the reason.
    pub fn parsed<T: FromStr>(&mut self, node: &Node, at: &str) -> Option<T>
    where
        T::Err: core::fmt::Display,
    {
        let text = self.text(node, at)?;
        match text.parse() {
            Ok(v) => Some(v),
            Err(e) => {
                self.fault(Reason::Value, node.line, format!("{at}: {e}"), None);
                None
            }
        }
    }

    /// `true` or `false`, unquoted and nothing else.
    pub fn flag(&mut self, node: &Node, at: &str) -> Option<bool> {
        self.value(node, at, "true or false", |t| match t {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        })
    }

    /// A list, or one value that stands for a list of one.
    pub fn many<'n>(&mut self, node: &'n Node) -> &'n [Node] {
        match &node.kind {
            Kind::List(items) => items,
            Kind::Null => &[],
            _ => std::slice::from_ref(node),
        }
    }
}

impl<'n> Fields<'n> {
    /// The value of a key, if it is there and not null.
    pub fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|e| e.key == key && e.value.kind != Kind::Null).map(|e| &e.value)
    }

    /// The value of a key that must be there.
    pub fn need<R: From<Reason>>(&self, walk: &mut Walk<R>, key: &str, form: &str) -> Option<&'n Node> {
        let found = self.get(key);
        if found.is_none() {
            let what = format!("{} has no {key:?}", self.at);
            walk.fault(Reason::Missing, self.line, what, Some(format!("Add `{key}:` with {form}.")));
        }
        found
    }

    /// Where the mapping stands, for messages.
    pub fn at(&self, key: &str) -> String {
        format!("{}.{key}", self.at)
    }

    /// The line the mapping starts on.
    pub fn line(&self) -> usize {
        self.line
    }
}

fn one_of(known: &[&str]) -> String {
    format!("Known here: {}.", known.join(", "))
}

/// A value cut for a message.
pub fn short(text: &str) -> String {
    if text.chars().count() <= 60 {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(57).collect();
    cut.push_str("...");
    cut
}

/// A duration such as `90s`, `10m`, `1h30m` or `30d`, in seconds. A bare number is refused: 30 of what?
pub fn duration(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut digits = String::new();
    let mut any = false;
    for c in text.chars() {
        if c.is_ascii_digit() && digits.len() < 10 {
            digits.push(c);
            continue;
        }
        let unit = match c {
            's' => 1,
            'm' => 60,
            'h' => 3600,
            'd' => 86_400,
            _ => return None,
        };
        total = total.checked_add(digits.parse::<u64>().ok()?.checked_mul(unit)?)?;
        digits.clear();
        any = true;
    }
    (any && digits.is_empty()).then_some(total)
}

/// A duration as a person writes it.
pub fn show_duration(mut secs: u64) -> String {
    if secs == 0 {
        return "0s".into();
    }
    let mut out = String::new();
    for (unit, size) in [('d', 86_400), ('h', 3600), ('m', 60), ('s', 1)] {
        if secs >= size {
            out.push_str(&format!("{}{unit}", secs / size));
            secs %= size;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, want) in
            [("90s", Some(90)), ("1h30m", Some(5400)), ("30d", Some(2_592_000)), ("0s", Some(0))]
        {
            assert_eq!(duration(text), want, "{text}");
        }
        for bad in ["", "90", "1.5h", "500ms", "-1s", "m", "99999999999d", "1h30", "1 h"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
        assert_eq!(show_duration(5400), "1h30m");
        assert_eq!(duration(&show_duration(93_784)), Some(93_784));
    }
}
