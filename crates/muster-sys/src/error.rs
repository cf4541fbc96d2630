//! One error type: what was being done, to what, and the system's reason as its source.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A system call failed. `Display` says what was being done and to which path; the system's own
/// words are the source. [`SysError::line`] gives both for a message of one line.
#[derive(Debug)]
pub struct SysError {
    doing: &'static str,
    path: Option<PathBuf>,
    source: io::Error,
}

impl SysError {
    /// An error of `doing` something.
    pub fn new(doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self { doing, path: None, source: source.into() }
    }

    /// An error of `doing` something to `path`.
    pub fn at(doing: &'static str, path: impl AsRef<Path>, source: impl Into<io::Error>) -> Self {
        Self { doing, path: Some(path.as_ref().to_owned()), source: source.into() }
    }

    /// The system's error.
    pub fn io(&self) -> &io::Error {
        &self.source
    }

    /// Whether the thing was not there.
    pub fn is_missing(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }

    /// What, where and why in one line.
    pub fn line(&self) -> String {
        format!("{self}: {}", self.source)
    }
}

impl fmt::Display for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(p) => write!(f, "{} {}", self.doing, p.display()),
            None => f.write_str(self.doing),
        }
    }
}

impl std::error::Error for SysError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}
