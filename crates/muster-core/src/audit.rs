//! The audit chain: lines of JSON, each of which names the hash of the line before.
//!
//! ```text
//! {"seq":7,"prev":"<SHA-256 of line 6, lower-case hex>", … what happened … }\n
//! ```
//!
//! The first two members are the chain's, always there, in this form and order; the rest is the writer's. The hash is over a
//! line's bytes without its line feed. The first line of all has `seq` 1 and a `prev` of zeros; a file that follows another goes on
//! with its numbers and hashes.
//!
//! What a chain proves: nothing before a head that somebody has seen was changed, taken out or put in. What it does not: whoever
//! may write the file can cut off or make up what comes after the last head that anybody saw. So heads are handed out, and
//! a reader brings those that it knows.

use core::fmt;
use core::str::FromStr;
use sha2::{Digest, Sha256};

/// Longest line, line feed included.
pub const MAX_LINE: usize = 16 * 1024;

/// A line of a chain, by its number and hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Head {
    /// From 1; 0 is before the first.
    pub seq: u64,
    /// SHA-256 of the line.
    pub hash: [u8; 32],
}

impl Head {
    /// Before the first line.
    pub const NONE: Self = Self { seq: 0, hash: [0; 32] };
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, Hex(&self.hash))
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a head is a number, a colon and 64 lower-case hex digits")]
pub struct BadHead;

impl FromStr for Head {
    type Err = BadHead;

    fn from_str(text: &str) -> Result<Self, BadHead> {
        let (seq, hash) = text.split_once(':').ok_or(BadHead)?;
        Ok(Self { seq: number(seq).ok_or(BadHead)?, hash: unhex(hash).ok_or(BadHead)? })
    }
}

struct Hex<'b>(&'b [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain)
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut out = [0; 32];
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let digit = |b: &u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    for (byte, pair) in out.iter_mut().zip(digits.chunks(2)) {
        *byte = pair.iter().try_fold(0, |sum, b| Some(sum << 4 | digit(b)?))?;
    }
    Some(out)
}

fn hash(line: &[u8]) -> [u8; 32] {
    Sha256::digest(line).into()
}

/// Why a line cannot be appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// JSON has none: a line feed would end the line, and what follows would be a line of its own.
    #[error("a control character in a record")]
    Control,
    /// Over [`MAX_LINE`].
    #[error("a record of more than 16 KiB")]
    Long,
    /// No number is left.
    #[error("a chain of 2^64 records")]
    Full,
    /// Nothing to say.
    #[error("an empty record")]
    Empty,
}

/// The writer's end of a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    head: Head,
}

impl Chain {
    /// A chain that goes on after `head`; [`Head::NONE`] begins one.
    pub const fn after(head: Head) -> Self {
        Self { head }
    }

    /// The last line's.
    pub const fn head(&self) -> Head {
        self.head
    }

    /// The next line, with its line feed. `members` are the record's own members of a JSON object, without the braces.
    /// The caller writes the line durably, and then takes the chain that comes with it; if it cannot, the old chain stands.
    pub fn next(&self, members: &str) -> Result<(Vec<u8>, Self), Refused> {
        if members.trim().is_empty() {
            return Err(Refused::Empty);
        }
        if members.bytes().any(|b| b.is_ascii_control()) {
            return Err(Refused::Control);
        }
        let seq = self.head.seq.checked_add(1).ok_or(Refused::Full)?;
        let mut line =
            format!("{{\"seq\":{seq},\"prev\":\"{}\",{members}}}", Hex(&self.head.hash)).into_bytes();
        if line.len() >= MAX_LINE {
            return Err(Refused::Long);
        }
        let next = Self { head: Head { seq, hash: hash(&line) } };
        line.push(b'\n');
        Ok((line, next))
    }
}

/// Where a chain is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// A line that is no record of a chain.
    #[error("line {line} is no record of a chain")]
    Form {
        /// From 1.
        line: usize,
    },
    /// A record is missing, or there twice.
    #[error("line {line} has number {have} where {want} should be: records were taken out, put in, or moved")]
    Number {
        /// From 1.
        line: usize,
        /// Its number.
        have: u64,
        /// The next number.
        want: u64,
    },
    /// A record does not name the hash of the one before.
    #[error("line {line} does not name the hash of the record before: that one was changed")]
    Hash {
        /// From 1.
        line: usize,
    },
    /// A head that was handed out is not the chain's.
    #[error("record {0} was handed out with another hash: the chain was written anew")]
    Rewritten(Head),
    /// A head that was handed out is not there any more.
    #[error("record {0} was handed out and is not there: the chain was cut off")]
    CutOff(Head),
}

/// What a whole chain says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The number of the first record that was read; 0 where there is none.
    pub first: u64,
    /// The last whole record.
    pub head: Head,
    /// Bytes after the last line feed: a record whose writing was interrupted.
    pub torn: usize,
    /// How many of the known heads lie before the first record that was read, so that nothing is proven of them.
    pub before: usize,
}

/// Verifies the text of a chain: that it holds together, and that every known head is in it.
///
/// `after` is the end of the file before this one; without it the first record's word is taken for what came before.
pub fn verify(text: &[u8], after: Option<Head>, known: &[Head]) -> Result<Report, Broken> {
    let whole = text.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
    let (lines, torn) = text.split_at_checked(whole).unwrap_or((text, &[]));
    let mut head = after;
    let mut first = 0;
    let mut left: Vec<Head> = known.to_vec();
    for (index, line) in lines.split_inclusive(|b| *b == b'\n').enumerate() {
        let n = index + 1;
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let (seq, prev) = record(line).ok_or(Broken::Form { line: n })?;
        // Without what came before, the first record is believed about it.
        let last = head.unwrap_or(Head { seq: seq.saturating_sub(1), hash: prev });
        if Some(seq) != last.seq.checked_add(1) {
            return Err(Broken::Number { line: n, have: seq, want: last.seq.saturating_add(1) });
        }
        if prev != last.hash {
            return Err(Broken::Hash { line: n });
        }
        let this = Head { seq, hash: hash(line) };
        if first == 0 {
            first = seq;
        }
        if let Some(bad) = left.iter().find(|k| k.seq == seq && k.hash != this.hash) {
            return Err(Broken::Rewritten(*bad));
        }
        left.retain(|k| k.seq != seq);
        head = Some(this);
    }
    let head = head.unwrap_or(Head::NONE);
    if let Some(gone) = left.iter().find(|k| k.seq > head.seq) {
        return Err(Broken::CutOff(*gone));
    }
    Ok(Report { first, head, torn: torn.len(), before: left.len() })
}

/// The number and the link of a line, if it is a record's.
fn record(line: &[u8]) -> Option<(u64, [u8; 32])> {
    if line.len() >= MAX_LINE {
        return None;
    }
    let text = core::str::from_utf8(line).ok()?;
    let (seq, rest) = text.strip_prefix("{\"seq\":")?.split_once(",\"prev\":\"")?;
    let (prev, rest) = rest.split_once("\",")?;
    let members = rest.strip_suffix('}')?;
    let seq = number(seq).filter(|n| *n > 0)?;
    (!members.trim().is_empty() && !line.iter().any(u8::is_ascii_control)).then_some((seq, unhex(prev)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(n: usize) -> (Vec<Vec<u8>>, Vec<Head>) {
        let mut chain = Chain::after(Head::NONE);
        let (mut lines, mut heads) = (Vec::new(), Vec::new());
        for i in 0..n {
            let (line, next) = chain.next(&format!("\"event\":\"{i}\"")).expect("a record");
            lines.push(line);
            chain = next;
            heads.push(chain.head());
        }
        (lines, heads)
    }

    #[test]
    fn m19_a_whole_chain_holds_and_knows_its_heads() {
        let (lines, heads) = chain(5);
        let report = verify(&lines.concat(), None, &heads).expect("whole");
        assert_eq!(report, Report { first: 1, head: heads[4], torn: 0, before: 0 });
        let text = String::from_utf8(lines[0].clone()).expect("text");
        assert_eq!(text, format!("{{\"seq\":1,\"prev\":\"{}\",\"event\":\"0\"}}\n", "0".repeat(64)));
        assert_eq!(verify(b"", None, &[]), Ok(Report { first: 0, head: Head::NONE, torn: 0, before: 0 }));
        for head in &heads {
            assert_eq!(head.to_string().parse(), Ok(*head));
        }
        // What sha256sum(1) prints of the first line without its line feed.
        let sum = "3c8bf963ffefa7eb5eb446d558e5b3151135fc419605cd8cb9d76f48bf48ad7d";
        assert_eq!(heads[0].to_string(), format!("1:{sum}"));
        assert!(String::from_utf8_lossy(&lines[1]).contains(&format!("\"prev\":\"{sum}\"")));
    }

    #[test]
    fn m19_every_change_of_one_bit_is_seen() {
        let (lines, heads) = chain(4);
        let text = lines.concat();
        // With the line feed before it, which can make one record of the last two.
        let last = text.len() - lines[3].len() - 1;
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut changed = text.clone();
                changed[at] ^= 1 << bit;
                let known = [heads[3]];
                assert!(verify(&changed, None, &known).is_err(), "byte {at} bit {bit}");
                // Without a head that was handed out, only the last record can be made up.
                assert!(at >= last || verify(&changed, None, &[]).is_err(), "byte {at} bit {bit}");
            }
        }
    }

    #[test]
    fn m19_records_taken_out_put_in_moved_or_cut_off() {
        let (lines, heads) = chain(5);
        let without = |gone: &[usize]| -> Vec<u8> {
            lines.iter().enumerate().filter(|(i, _)| !gone.contains(i)).flat_map(|(_, l)| l.clone()).collect()
        };
        assert_eq!(verify(&without(&[2]), None, &[]), Err(Broken::Number { line: 3, have: 4, want: 3 }));
        let swapped = [&lines[0], &lines[2], &lines[1]].map(Clone::clone).concat();
        assert!(matches!(verify(&swapped, None, &[]), Err(Broken::Number { line: 2, have: 3, want: 2 })));
        let twice = [&lines[0], &lines[0]].map(Clone::clone).concat();
        assert!(matches!(verify(&twice, None, &[]), Err(Broken::Number { line: 2, have: 1, want: 2 })));
        assert_eq!(verify(&without(&[3, 4]), None, &heads), Err(Broken::CutOff(heads[3])));
        assert!(verify(&without(&[3, 4]), None, &heads[..3]).is_ok(), "nobody saw what was cut off");
        // Written anew from the second record on, with hashes that fit.
        let mut forged = lines[0].clone();
        let (line, next) = Chain::after(heads[0]).next("\"event\":\"forged\"").expect("a record");
        forged.extend(line);
        assert_eq!(verify(&forged, None, &heads[..1]).map(|r| r.head), Ok(next.head()));
        assert_eq!(verify(&forged, None, &heads[..2]), Err(Broken::Rewritten(heads[1])));
    }

    #[test]
    fn m19_a_torn_tail_is_told_and_mended_by_a_record() {
        let (mut lines, heads) = chain(3);
        let torn = lines.pop().expect("three");
        let mut text = lines.concat();
        text.extend(&torn[..20]);
        let report = verify(&text, None, &heads[..2]).expect("what is whole");
        assert_eq!((report.head, report.torn), (heads[1], 20));
        // The writer cuts the torn bytes off and says so.
        text.truncate(text.len() - report.torn);
        let (line, next) =
            Chain::after(report.head).next("\"event\":\"torn-tail\",\"bytes\":20").expect("a record");
        text.extend(line);
        assert_eq!(verify(&text, None, &heads[..2]).map(|r| (r.head, r.torn)), Ok((next.head(), 0)));
    }

    #[test]
    fn m19_a_file_goes_on_where_the_one_before_ended() {
        let (lines, heads) = chain(6);
        let (old, new) = (lines[..3].concat(), lines[3..].concat());
        let first = verify(&old, None, &heads[..3]).expect("the old one");
        let second = verify(&new, Some(first.head), &heads[3..]).expect("the new one");
        assert_eq!((second.first, second.head), (4, heads[5]));
        // By itself it is whole, and says nothing of what came before it.
        assert_eq!(verify(&new, None, &heads).map(|r| (r.first, r.before)), Ok((4, 3)));
        assert_eq!(verify(&new, Some(heads[1]), &[]), Err(Broken::Number { line: 1, have: 4, want: 3 }));
        assert_eq!(verify(&new, Some(Head { seq: 3, hash: [1; 32] }), &[]), Err(Broken::Hash { line: 1 }));
    }

    #[test]
    fn m19_what_is_no_record_is_refused() {
        let chain = Chain::after(Head::NONE);
        assert_eq!(chain.next(" "), Err(Refused::Empty));
        assert_eq!(chain.next("\"a\":\"\n{\"seq\":2\""), Err(Refused::Control));
        assert_eq!(chain.next(&format!("\"a\":\"{}\"", "x".repeat(MAX_LINE))), Err(Refused::Long));
        let zeros = "0".repeat(64);
        for bad in [
            "\n".to_owned(),
            "words\n".to_owned(),
            format!("{{\"seq\":0,\"prev\":\"{zeros}\",\"a\":1}}\n"),
            format!("{{\"seq\":01,\"prev\":\"{zeros}\",\"a\":1}}\n"),
            format!("{{\"seq\":+1,\"prev\":\"{zeros}\",\"a\":1}}\n"),
            format!("{{\"seq\":1,\"prev\":\"{}\",\"a\":1}}\n", "0".repeat(63)),
            format!("{{\"seq\":1,\"prev\":\"{}\",\"a\":1}}\n", "A".repeat(64)),
            format!("{{\"seq\":1,\"prev\":\"{zeros}\"}}\n"),
            format!("{{\"seq\":1,\"prev\":\"{zeros}\",\"a\":1}}\r\n"),
            format!("{{ \"seq\":1,\"prev\":\"{zeros}\",\"a\":1}}\n"),
            format!("{{\"seq\":18446744073709551616,\"prev\":\"{zeros}\",\"a\":1}}\n"),
        ] {
            assert_eq!(verify(bad.as_bytes(), None, &[]), Err(Broken::Form { line: 1 }), "{bad:?}");
        }
        let last = format!("{{\"seq\":{},\"prev\":\"{zeros}\",\"a\":1}}\n", u64::MAX);
        assert!(
            verify(last.repeat(2).as_bytes(), None, &[]).is_err()
                && verify(last.as_bytes(), None, &[]).is_ok()
        );
        assert_eq!(Chain::after(Head { seq: u64::MAX, hash: [0; 32] }).next("\"a\":1"), Err(Refused::Full));
        for bad in
            ["", "1", "1:", ":00", &format!("01:{zeros}"), &format!("-1:{zeros}"), &format!("1:{zeros}0")]
        {
            assert_eq!(bad.parse::<Head>(), Err(BadHead), "{bad}");
        }
    }
}
