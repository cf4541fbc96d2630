//! Writing JSON (RFC 8259), for records and probe. The shim reads none, so this stands in the place
//! of a library that every host would carry.

use std::fmt::Write as _;

/// A JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer.
    Number(u64),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// An object, in the order given.
    Object(Vec<(String, Value)>),
}

impl Value {
    /// A text.
    pub fn text(s: impl Into<String>) -> Self {
        Self::Text(s.into())
    }

    /// A list of texts.
    pub fn texts<S: Into<String>>(list: impl IntoIterator<Item = S>) -> Self {
        Self::List(list.into_iter().map(Self::text).collect())
    }

    /// An object.
    pub fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Object(fields.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    /// The text of `Some`, or `null`.
    pub fn optional(text: Option<impl Into<String>>) -> Self {
        Self::or_null(text, Self::text)
    }

    /// The value of `Some`, or `null`.
    pub fn or_null<T>(value: Option<T>, f: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Null, f)
    }

    fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
            Self::Number(n) => {
                let _ = write!(out, "{n}");
            }
            Self::Text(s) => write_text(out, s),
            Self::List(list) => {
                out.push('[');
                for (i, v) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    v.write(out);
                }
                out.push(']');
            }
            Self::Object(fields) => {
                out.push('{');
                for (i, (k, v)) in fields.iter().enumerate() {
                    if i > 0 {
                        out.push(',');
                    }
                    write_text(out, k);
                    out.push(':');
                    v.write(out);
                }
                out.push('}');
            }
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

fn write_text(out: &mut String, s: &str) {
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            // Controls must be escaped; DEL and what is not ASCII is escaped too, so that a
            // terminal that shows the line is not steered by it.
            ' '..='~' => out.push(c),
            c => {
                let mut pair = [0u16; 2];
                for unit in c.encode_utf16(&mut pair) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_order() {
        let v = Value::object([
            ("b", Value::text("a\"\\\n\u{1b}[31m\u{e9}\u{1f600}")),
            ("a", Value::List(vec![Value::Null, Value::Bool(true), Value::Number(7)])),
            ("c", Value::object::<&str>([])),
        ]);
        assert_eq!(v.to_string(), r#"{"b":"a\"\\\n\u001b[31m\u00e9\ud83d\ude00","a":[null,true,7],"c":{}}"#);
    }
}
