//! Records of the journal as `journalctl --output=json` prints them: one object on a line.
//!
//! Format: journalctl(1), `json`. Every value is a string, or an array of numbers where it holds bytes that are no text, or an array
//! of values where a field is there more than once, or null. Names beginning with two underscores are the journal's own:
//! systemd.journal-fields(7).
//!
//! Of a line that is longer than is read, beginning and end are looked at (the fields come in any order), and its message is cut: one
//! record, however long, never ends a stream. A line that is no record is passed over.

use muster_api::logs::{KERNEL, MAX_MESSAGE, Record};
use muster_core::UtcTime;
use serde_json::{Map, Value};

use super::super::tools;

/// Bytes of a line that are kept: six for each byte of the longest message, and the other fields.
pub const MAX_LINE: usize = 6 * MAX_MESSAGE + 64 * 1024;
/// Bytes of the end of a longer line that are kept.
const TAIL: usize = 8 * 1024;

/// Fields that are asked for; the journal adds its own, of which cursor and time are read.
pub(super) const FIELDS: &str = "MESSAGE,PRIORITY,_SYSTEMD_UNIT,UNIT,_TRANSPORT";

/// A record, and where it stands in the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// `__CURSOR`.
    pub cursor: Option<String>,
    /// `_BOOT_ID` and `__MONOTONIC_TIMESTAMP`: what the journal's order within a boot is told by, whatever the clock does.
    pub moment: Option<(String, u64)>,
    /// What is told of it.
    pub record: Record,
}

/// Reads a line; or the beginning of one, and its end.
#[must_use]
pub fn parse(line: &[u8], end: Option<&[u8]>) -> Option<Found> {
    match end {
        None => {
            let fields: Map<String, Value> = serde_json::from_slice(line).ok()?;
            let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
            found(text, fields.get("MESSAGE").map(message).unwrap_or_default(), false)
        }
        Some(end) => {
            let text = |name: &str| short(line, name).or_else(|| short(end, name));
            found(text, cut_message(line).unwrap_or_default(), true)
        }
    }
}

fn found(text: impl Fn(&str) -> Option<String>, mut message: String, cut: bool) -> Option<Found> {
    let micros: u64 = text("__REALTIME_TIMESTAMP")?.parse().ok()?;
    let truncated = cut || message.len() > MAX_MESSAGE;
    message.truncate(message.floor_char_boundary(MAX_MESSAGE));
    // What systemd says of a unit names it in another field than what the unit says itself.
    let unit = match (text("_SYSTEMD_UNIT"), text("UNIT")) {
        (Some(own), Some(of)) if own == "init.scope" => Some(of),
        (own, of) => own.or(of),
    };
    let kernel = text("_TRANSPORT").is_some_and(|t| t == "kernel");
    let record = Record {
        time: time(micros)?,
        unit: unit.map(|u| tools::line(&u, 255)).or_else(|| kernel.then(|| KERNEL.to_owned())),
        priority: text("PRIORITY").and_then(|p| p.parse().ok()).filter(|p| *p <= 7).unwrap_or(6),
        message,
        truncated,
        lost: None,
    };
    let monotonic = text("__MONOTONIC_TIMESTAMP").and_then(|t| t.parse().ok());
    Some(Found { cursor: text("__CURSOR"), moment: text("_BOOT_ID").zip(monotonic), record })
}

/// What stands behind the name of a member. A quote within a text has a backslash before it, so a name that follows a brace or a
/// comma and a bare quote is a name.
fn member<'l>(line: &'l [u8], name: &str) -> Option<&'l [u8]> {
    let wanted = format!("\"{name}\":");
    let mut at = 0;
    loop {
        let rest = line.get(at..)?;
        let found = rest.windows(wanted.len()).position(|w| w == wanted.as_bytes())?;
        let before = (at + found).checked_sub(1).and_then(|b| line.get(b));
        if before.is_some_and(|b| matches!(b, b'{' | b',')) {
            return line.get(at + found + wanted.len()..);
        }
        at += found + 1;
    }
}

/// A member that is a short text without escapes.
fn short(line: &[u8], name: &str) -> Option<String> {
    let value = member(line, name)?.strip_prefix(b"\"")?;
    let end = value.iter().take(1024).position(|b| *b == b'"')?;
    let text = std::str::from_utf8(value.get(..end)?).ok()?;
    (!text.contains('\\')).then(|| text.to_owned())
}

/// The beginning of a message that was cut somewhere.
fn cut_message(line: &[u8]) -> Option<String> {
    let value = member(line, "MESSAGE")?;
    // What follows a message that is whole is not looked at.
    let whole = serde_json::Deserializer::from_slice(value).into_iter::<Value>().next();
    if let Some(Ok(value)) = whole {
        return Some(message(&value));
    }
    let read = |mut text: Vec<u8>, end: u8| {
        text.push(end);
        serde_json::from_slice::<Value>(&text).ok()
    };
    let value = if value.starts_with(b"[") {
        let comma = value.iter().rposition(|b| *b == b',')?;
        read(value.get(..comma)?.to_vec(), b']')
    } else {
        // An escape that was cut is at most eleven bytes: two halves of a character.
        (0..12).find_map(|back| read(value.get(..value.len().checked_sub(back)?)?.to_vec(), b'"'))
    };
    value.as_ref().map(message)
}

/// Microseconds since 1970 as text.
fn time(micros: u64) -> Option<String> {
    let seconds = UtcTime::from_unix(micros / 1_000_000).to_string();
    let seconds = seconds.strip_suffix('Z')?;
    Some(format!("{seconds}.{:06}Z", micros % 1_000_000))
}

/// A text; bytes; or, of a field that is there more than once, the first.
fn message(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => {
            let bytes: Option<Vec<u8>> =
                list.iter().map(|n| n.as_u64().and_then(|n| u8::try_from(n).ok())).collect();
            match bytes {
                Some(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
                None => match list.first() {
                    Some(first @ (Value::String(_) | Value::Array(_))) if depth(first) < 2 => message(first),
                    _ => String::new(),
                },
            }
        }
        _ => String::new(),
    }
}

/// Arrays within arrays.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + usize::from(list.first().is_some_and(Value::is_array)),
        _ => 0,
    }
}

/// Cuts what is read into lines, and keeps of each the first [`MAX_LINE`] bytes and the last [`TAIL`].
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    tail: Option<Vec<u8>>,
}

impl Lines {
    /// Takes bytes, and hands on each line that is whole: its beginning, and where that is not all of it, its end.
    pub(super) fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8], Option<&[u8]>)) {
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            let (line, rest) = bytes.split_at(end);
            self.keep(line);
            each(&self.line, self.tail.as_deref());
            self.line.clear();
            // What one long line needed is not kept for ever.
            self.line.shrink_to(64 * 1024);
            self.tail = None;
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.keep(bytes);
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MAX_LINE.saturating_sub(self.line.len());
        let (line, more) = bytes.split_at(room.min(bytes.len()));
        self.line.extend_from_slice(line);
        if more.is_empty() {
            return;
        }
        let tail = self.tail.get_or_insert_default();
        tail.extend_from_slice(more.get(more.len().saturating_sub(TAIL)..).unwrap_or_default());
        let over = tail.len().saturating_sub(TAIL);
        tail.drain(..over);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str) -> String {
        format!(
            r#"{{"__CURSOR":"s=1;i=2","__REALTIME_TIMESTAMP":"1000000000000001","_SYSTEMD_UNIT":"kubelet.service","PRIORITY":"3","MESSAGE":{message}}}"#
        )
    }

    fn read(text: &str) -> Record {
        parse(text.as_bytes(), None).unwrap().record
    }

    #[test]
    fn a_record_is_told_under_the_names_of_the_contract() {
        let found = parse(line(r#""started""#).as_bytes(), None).unwrap();
        assert_eq!(found.cursor.as_deref(), Some("s=1;i=2"));
        assert_eq!(
            serde_json::to_string(&found.record).unwrap(),
            r#"{"time":"2001-09-09T01:46:40.000001Z","unit":"kubelet.service","priority":3,"message":"started"}"#
        );
    }

    #[test]
    fn what_is_missing_has_its_default_and_what_is_no_record_is_passed_over() {
        let bare = read(r#"{"__REALTIME_TIMESTAMP":"0"}"#);
        assert_eq!((bare.priority, bare.message.as_str(), bare.unit), (6, "", None));
        assert_eq!(read(r#"{"__REALTIME_TIMESTAMP":"0","PRIORITY":"9"}"#).priority, 6);
        let of_systemd =
            r#"{"__REALTIME_TIMESTAMP":"0","UNIT":"kubelet.service","_SYSTEMD_UNIT":"init.scope"}"#;
        assert_eq!(read(of_systemd).unit.as_deref(), Some("kubelet.service"));
        let kernel = r#"{"__REALTIME_TIMESTAMP":"0","_TRANSPORT":"kernel"}"#;
        assert_eq!(read(kernel).unit.as_deref(), Some("kernel"));
        for bad in ["", "x", "[]", "{}", r#"{"__REALTIME_TIMESTAMP":1}"#, r#"{"__REALTIME_TIMESTAMP":"-1"}"#]
        {
            assert_eq!(parse(bad.as_bytes(), None), None, "{bad}");
        }
    }

    #[test]
    fn a_message_that_is_no_text_is_shown_as_far_as_it_is() {
        assert_eq!(read(&line("[104,105,255]")).message, "hi\u{fffd}");
        assert_eq!(read(&line(r#"["one","two"]"#)).message, "one");
        assert_eq!(read(&line("[[104,105],[255]]")).message, "hi");
        for odd in ["null", "7", "[]", "[256]", "[-1]", "[[[104]]]", r#"{"a":1}"#] {
            assert_eq!(read(&line(odd)).message, "", "{odd}");
        }
    }

    #[test]
    fn a_record_over_256_kib_is_cut_and_never_ends_the_stream() {
        let long = "ä".repeat(MAX_MESSAGE);
        let shown = read(&line(&format!("{long:?}")));
        assert!(shown.truncated && shown.message.len() == MAX_MESSAGE);
        let text = |filling: &str| format!("\"{}\"", filling.repeat(2 * MAX_LINE / filling.len()));
        for (message, wanted) in [
            (text("\\u001b"), '\u{1b}'),
            (text("\\ud83d\\ude00"), '\u{1f600}'),
            (text("ä"), 'ä'),
            (text("\\\","), '"'),
            (format!("[{}1]", "255,".repeat(MAX_LINE)), '\u{fffd}'),
        ] {
            // The journal's fields come in any order: the time is before the message, and behind it.
            let before = line(&message);
            let behind = before.replacen("\"__REALTIME_TIMESTAMP\":\"1000000000000001\",", "", 1);
            let behind =
                behind.trim_end_matches('}').to_owned() + ",\"__REALTIME_TIMESTAMP\":\"1000000000000001\"}";
            for long in [before, behind] {
                let mut lines = Lines::default();
                let mut found = Vec::new();
                for piece in (long + "\n" + &line("\"next\"") + "\n").as_bytes().chunks(10_007) {
                    lines.push(piece, |line, end| found.extend(parse(line, end)));
                }
                let [first, second] = found.as_slice() else {
                    panic!("{} records of {wanted:?}", found.len())
                };
                assert!(first.record.truncated && first.record.message.starts_with(wanted), "{wanted:?}");
                assert!(
                    first.record.message.len() > MAX_MESSAGE / 2 && first.record.message.len() <= MAX_MESSAGE
                );
                assert_eq!((first.record.priority, first.cursor.as_deref()), (3, Some("s=1;i=2")));
                assert_eq!((second.record.message.as_str(), second.record.truncated), ("next", false));
            }
        }
    }

    #[test]
    fn a_message_cannot_speak_for_the_journal() {
        let said = r#""x,\"__REALTIME_TIMESTAMP\":\"7\",\"PRIORITY\":\"0\"""#;
        let text = line(said).replace("\"PRIORITY\":\"3\",", "");
        let record = parse(text.as_bytes(), Some(b"")).unwrap().record;
        assert_eq!((record.time.as_str(), record.priority), ("2001-09-09T01:46:40.000001Z", 6));
        let of_unit =
            r#"{"__REALTIME_TIMESTAMP":"0","UNIT":"kubelet.service","_SYSTEMD_UNIT":"crio.service"}"#;
        assert_eq!(read(of_unit).unit.as_deref(), Some("crio.service"));
    }
}
