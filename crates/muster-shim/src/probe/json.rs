//! Writing one JSON document (RFC 8259). The shim writes JSON in this one place and reads none,
//! so forty lines stand here instead of a library that every host would carry.

use core::fmt::Write as _;

/// A document being written. Members are written in the order of the calls.
#[derive(Default)]
pub(super) struct Json {
    text: String,
    /// Whether the innermost object or list has a member already.
    more: bool,
}

impl Json {
    /// An object whose members `inside` writes.
    pub(super) fn object(&mut self, inside: impl FnOnce(&mut Self)) {
        self.between('{', '}', inside);
    }

    fn between(&mut self, open: char, close: char, inside: impl FnOnce(&mut Self)) {
        self.text.push(open);
        self.more = false;
        inside(self);
        self.text.push(close);
        self.more = true;
    }

    /// A member whose value `value` writes.
    pub(super) fn member(&mut self, name: &str, value: impl FnOnce(&mut Self)) {
        self.comma();
        self.quoted(name);
        self.text.push(':');
        value(self);
        self.more = true;
    }

    fn comma(&mut self) {
        if core::mem::replace(&mut self.more, true) {
            self.text.push(',');
        }
    }

    /// A text member.
    pub(super) fn string(&mut self, name: &str, value: &str) {
        self.member(name, |j| j.quoted(value));
    }

    /// A text member, `null` when there is none.
    pub(super) fn optional(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(v) => self.string(name, v),
            None => self.member(name, Self::null),
        }
    }

    /// A member that is a list of texts.
    pub(super) fn strings(&mut self, name: &str, values: &[String]) {
        self.member(name, |j| {
            j.between('[', ']', |j| {
                for value in values {
                    j.comma();
                    j.quoted(value);
                }
            });
        });
    }

    /// A number member.
    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.member(name, |j| {
            let _ = write!(j.text, "{value}");
        });
    }

    /// A truth member.
    pub(super) fn boolean(&mut self, name: &str, value: bool) {
        self.member(name, |j| j.text.push_str(if value { "true" } else { "false" }));
    }

    /// A truth member, `null` when it is not known.
    pub(super) fn known(&mut self, name: &str, value: Option<bool>) {
        match value {
            Some(v) => self.boolean(name, v),
            None => self.member(name, Self::null),
        }
    }

    /// The value `null`.
    pub(super) fn null(&mut self) {
        self.text.push_str("null");
    }

    fn quoted(&mut self, text: &str) {
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => {
                    self.text.push('\\');
                    self.text.push(c);
                }
                // Control characters must be escaped; DEL and the C1 ones are, for terminals.
                c if c.is_control() => {
                    let _ = write!(self.text, "\\u{:04x}", c as u32);
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
    }

    /// The document with its final line feed.
    pub(super) fn finish(mut self) -> String {
        self.text.push('\n');
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nesting_commas_and_escapes() {
        let mut j = Json::default();
        j.object(|j| {
            j.member("empty", |j| j.object(|_| ()));
            j.strings("list", &["a".into(), "b\"\\\n\u{9b}\u{e9}".into()]);
            j.strings("none", &[]);
            j.number("n", 7);
            j.known("k", None);
            j.optional("o", None);
            j.member("deep", |j| j.object(|j| j.boolean("t", true)));
            j.string("last", "");
        });
        assert_eq!(
            j.finish(),
            "{\"empty\":{},\"list\":[\"a\",\"b\\\"\\\\\\u000a\\u009b\u{e9}\"],\"none\":[],\"n\":7,\"k\":null,\
             \"o\":null,\"deep\":{\"t\":true},\"last\":\"\"}\n"
        );
    }
}
