//! Answers that come line by line: JSON values, each on its own (`application/x-ndjson`).

use crate::endpoint::Endpoint;
use crate::error::Error;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

/// Longest line: a message of 256 KiB, each byte of which may be escaped as six.
pub const MAX_LINE: usize = 2 << 20;

/// Cuts bytes that come in pieces into lines.
#[derive(Debug, Default)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Where the first line begins that was not taken.
    begin: usize,
    /// Where the search for a line feed goes on.
    seen: usize,
}

/// A line of over [`MAX_LINE`] bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of over {MAX_LINE} bytes")]
pub struct TooLong;

impl Lines {
    /// More bytes.
    ///
    /// # Errors
    /// No line feed within the bound.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        // Once for each piece, and not for each line: a piece may be of line feeds alone.
        self.buffer.drain(..self.begin);
        self.seen = self.seen.saturating_sub(self.begin);
        self.begin = 0;
        let open = self.buffer.len() - self.buffer.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let more = piece.iter().position(|b| *b == b'\n').unwrap_or(piece.len());
        if open + more > MAX_LINE {
            return Err(TooLong);
        }
        self.buffer.extend_from_slice(piece);
        Ok(())
    }

    /// The next whole line, without its line feed.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let rest = self.buffer.get(self.seen..)?;
        let Some(at) = rest.iter().position(|b| *b == b'\n') else {
            self.seen = self.buffer.len();
            return None;
        };
        let end = self.seen + at;
        let line = self.buffer.get(self.begin..end).unwrap_or_default().to_vec();
        self.begin = end + 1;
        self.seen = self.begin;
        Some(line)
    }

    /// What stands after the last line feed.
    pub fn rest(mut self) -> Vec<u8> {
        self.buffer.split_off(self.begin)
    }
}

/// When a stream is given up, and how long it had then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) at: Instant,
    pub(crate) secs: u64,
}

/// A stream from a node. Dropped, it ends, and the node sees its client leave.
pub struct Stream {
    body: Incoming,
    lines: Lines,
    endpoint: Endpoint,
    ends: Ends,
    ended: bool,
    /// Lines since the last one that was read.
    passed: u32,
    /// Some line was read.
    read: bool,
    /// There were lines, and none of them was read.
    strange: bool,
}

/// Lines in a row that may be passed over, so that what is none of a node's streams has an end.
const MAX_PASSED: u32 = 10_000;

impl Stream {
    pub(crate) fn new(body: Incoming, endpoint: Endpoint, ends: Ends) -> Self {
        Self {
            body,
            lines: Lines::default(),
            endpoint,
            ends,
            ended: false,
            passed: 0,
            read: false,
            strange: false,
        }
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// The connection was lost, the time was over, or a line was too long.
    pub async fn line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(line) = self.lines.take() {
                return Ok(Some(line));
            }
            if self.ended {
                let rest = core::mem::take(&mut self.lines).rest();
                return Ok((!rest.is_empty()).then_some(rest));
            }
            let frame = tokio::time::timeout_at(self.ends.at, self.body.frame())
                .await
                .map_err(|_| Error::Deadline { endpoint: self.endpoint.clone(), secs: self.ends.secs })?;
            match frame {
                None => self.ended = true,
                Some(Err(e)) => return Err(Error::lost(&self.endpoint, &e)),
                Some(Ok(frame)) => {
                    let piece: Bytes = frame.into_data().unwrap_or_default();
                    self.lines
                        .push(&piece)
                        .map_err(|e| Error::Answer { endpoint: self.endpoint.clone(), why: e.to_string() })?;
                }
            }
        }
    }

    /// The next line that is a `T`; what is none is passed over, as an older client passes over what a newer node adds.
    ///
    /// # Errors
    /// As [`Stream::line`]; and an answer of which nothing was read, or too much in a row was not: that is no stream of a node.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Error> {
        let unread = |endpoint: &Endpoint, why: String| Error::Answer { endpoint: endpoint.clone(), why };
        while let Some(line) = self.line().await? {
            if let Ok(value) = serde_json::from_slice(&line) {
                (self.passed, self.strange, self.read) = (0, false, true);
                return Ok(Some(value));
            }
            self.strange |= !self.read && !line.is_empty();
            self.passed += 1;
            if self.passed >= MAX_PASSED {
                return Err(unread(&self.endpoint, format!("{MAX_PASSED} lines in a row that are none")));
            }
        }
        match self.strange {
            true => Err(unread(&self.endpoint, "no line of it is a record".to_owned())),
            false => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_come() {
        let text = b"{\"a\":1}\n\n{\"b\":2}\ntail";
        for size in 1..=text.len() {
            let (mut lines, mut got) = (Lines::default(), Vec::new());
            for piece in text.chunks(size) {
                lines.push(piece).expect("short");
                while let Some(line) = lines.take() {
                    got.push(line);
                }
            }
            assert_eq!(got, [&b"{\"a\":1}"[..], b"", b"{\"b\":2}"], "{size}");
            assert_eq!(lines.rest(), b"tail");
        }
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_is_kept() {
        let mut lines = Lines::default();
        let piece = vec![b'x'; MAX_LINE / 2];
        lines.push(&piece).expect("half");
        lines.push(&piece).expect("whole");
        assert_eq!(lines.push(b"x"), Err(TooLong));
        assert_eq!(lines.push(b"\n"), Ok(()));
        assert_eq!(lines.take().map(|l| l.len()), Some(MAX_LINE));
        assert_eq!(lines.push(b"x"), Ok(()));
    }
}
