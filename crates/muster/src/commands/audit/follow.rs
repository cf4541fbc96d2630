//! A chain that comes line by line, verified as it comes: one line at a time is handed to the one verifier there is.

use muster_core::audit::{Broken, Head, Report, verify};

/// What was read so far.
pub(super) struct Chain {
    head: Option<Head>,
    first: u64,
    lines: usize,
    known: Vec<Head>,
    torn: usize,
}

impl Chain {
    /// A chain that goes on after `head`, where that is known, and must have these.
    pub(super) fn new(head: Option<Head>, known: Vec<Head>) -> Self {
        Self { head, first: 0, lines: 0, known, torn: 0 }
    }

    /// The next record, without its line feed.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Head, Broken> {
        self.lines += 1;
        let n = self.lines;
        let numbered = |broken| match broken {
            Broken::Form { .. } => Broken::Form { line: n },
            Broken::Number { have, want, .. } => Broken::Number { line: n, have, want },
            Broken::Hash { .. } => Broken::Hash { line: n },
            other => other,
        };
        let text = [line, b"\n"].concat();
        let report = verify(&text, self.head, &[]).map_err(numbered)?;
        // One line has one record, so that is the first and the newest.
        let head = report.head;
        if let Some(bad) = self.known.iter().find(|k| k.seq == head.seq && k.hash != head.hash) {
            return Err(Broken::Rewritten(*bad));
        }
        self.known.retain(|k| k.seq != head.seq);
        if self.first == 0 {
            self.first = report.first;
        }
        self.head = Some(head);
        Ok(head)
    }

    /// Bytes after the last line feed.
    pub(super) fn torn(&mut self, bytes: usize) {
        self.torn = bytes;
    }

    /// The end: what is known and was not read lies before the first record, or was cut off.
    pub(super) fn end(self) -> Result<Report, Broken> {
        let head = self.head.unwrap_or(Head::NONE);
        if let Some(gone) = self.known.iter().find(|k| k.seq > head.seq) {
            return Err(Broken::CutOff(*gone));
        }
        Ok(Report { first: self.first, head, torn: self.torn, before: self.known.len() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_core::audit::Chain as Writer;

    fn written(n: usize) -> (Vec<Vec<u8>>, Vec<Head>) {
        let mut chain = Writer::after(Head::NONE);
        let (mut lines, mut heads) = (Vec::new(), Vec::new());
        for i in 0..n {
            let (mut line, next) = chain.next(&format!("\"event\":\"{i}\"")).unwrap();
            line.pop();
            lines.push(line);
            chain = next;
            heads.push(chain.head());
        }
        (lines, heads)
    }

    fn read(lines: &[Vec<u8>], known: &[Head]) -> Result<Report, Broken> {
        let mut chain = Chain::new(None, known.to_vec());
        for line in lines {
            chain.line(line)?;
        }
        chain.end()
    }

    #[test]
    fn m19_line_by_line_says_what_the_whole_says() {
        let (lines, heads) = written(5);
        let whole = |lines: &[Vec<u8>]| {
            lines.iter().flat_map(|l| [l.as_slice(), b"\n"].concat()).collect::<Vec<u8>>()
        };
        let forged = Head { seq: 2, hash: [1; 32] };
        let later = Head { seq: 9, hash: [1; 32] };
        let without: Vec<_> =
            lines.iter().enumerate().filter(|(n, _)| *n != 2).map(|(_, l)| l.clone()).collect();
        for lines in [&lines[..], &lines[2..], &without[..], &[b"words".to_vec()][..], &[]] {
            for known in [&[][..], &heads[..1], &heads[..], &[forged], &[later]] {
                assert_eq!(
                    read(lines, known),
                    verify(&whole(lines), None, known),
                    "{} {known:?}",
                    lines.len()
                );
            }
        }
    }
}
