//! Reading the chain as it stands on the disk: the very lines, so that whoever gets them can verify them.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::sync::Arc;

use muster_core::audit::MAX_LINE;
use muster_sys::SysError;
use muster_sys::state::StateDir;

use super::files::{firsts, name};

/// See the module.
pub struct Cursor {
    dir: Arc<StateDir>,
    file: Option<(u64, BufReader<File>)>,
    after: u64,
    line: Vec<u8>,
}

impl Cursor {
    pub(super) fn open(dir: Arc<StateDir>, after: u64) -> Result<Self, SysError> {
        let first = firsts(&dir)?.into_iter().rfind(|f| *f <= after.saturating_add(1));
        let mut cursor = Self { dir, file: None, after, line: Vec::new() };
        match first {
            Some(first) => cursor.enter(first)?,
            None => cursor.next_file()?,
        }
        Ok(cursor)
    }

    /// The number of the last record that was read.
    pub const fn after(&self) -> u64 {
        self.after
    }

    fn enter(&mut self, first: u64) -> Result<(), SysError> {
        self.file = Some((first, BufReader::new(self.dir.open_file(&name(first))?)));
        Ok(())
    }

    fn next_file(&mut self) -> Result<(), SysError> {
        let now = self.file.as_ref().map_or(0, |(first, _)| *first);
        match firsts(&self.dir)?.into_iter().find(|f| *f > now) {
            Some(next) => self.enter(next),
            None => Ok(()),
        }
    }

    /// The next record with its line feed, if it is one of those up to `until`, which are whole and on the disk.
    ///
    /// # Errors
    /// The disk, or a line that is no record.
    pub fn next(&mut self, until: u64) -> io::Result<Option<&[u8]>> {
        while self.after < until {
            let first = self.file.as_ref().map(|(first, _)| *first);
            self.line.clear();
            if let Some((_, file)) = &mut self.file {
                file.by_ref().take(MAX_LINE as u64).read_until(b'\n', &mut self.line)?;
            }
            if self.line.is_empty() {
                self.next_file().map_err(|e| io::Error::other(e.line()))?;
                if self.file.as_ref().map(|(first, _)| *first) == first {
                    return Ok(None);
                }
                continue;
            }
            let seq = number(&self.line).ok_or_else(|| io::Error::other("a line that is no record"))?;
            if seq > self.after {
                self.after = seq;
                return Ok(Some(&self.line));
            }
        }
        Ok(None)
    }
}

/// The number of a whole line.
fn number(line: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    text.strip_prefix("{\"seq\":")?.split(',').next()?.parse().ok()
}
