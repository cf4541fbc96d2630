//! What a command ends with when it did not do its job: one clear line each.
//!
//! A line says what, where (file and line), why, and what to do. Hints are apart, so that a line stays one line.

use crate::codes::{Code, Own};
use crate::exit::Exit;
use crate::printer::clean;
use core::fmt;
use std::path::Path;

/// Longest part of a message, in characters: what is quoted from outside may be megabytes.
const MAX_PART: usize = 600;

/// One line that a terminal and a log can take as it is.
fn line(text: impl Into<String>) -> String {
    let text = clean(&text.into());
    if text.chars().count() <= MAX_PART {
        return text;
    }
    let mut cut: String = text.chars().take(MAX_PART - 1).collect();
    cut.push('…');
    cut
}

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file as the operator named it, `-` for standard input.
    pub file: String,
    /// Line from 1; 0 means the whole file.
    pub line: usize,
}

impl Place {
    /// A line of a file.
    pub fn line(file: &Path, line: usize) -> Self {
        Self { file: clean(&file.display().to_string()), line }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => f.write_str(&self.file),
            n => write!(f, "{}:{n}", self.file),
        }
    }
}

/// One fault. See the module documentation. Boxed, so that a result stays small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(Box<Body>);

impl core::ops::Deref for Fault {
    type Target = Body;
    fn deref(&self) -> &Body {
        &self.0
    }
}

impl core::ops::DerefMut for Fault {
    fn deref_mut(&mut self) -> &mut Body {
        &mut self.0
    }
}

/// What a [`Fault`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The stable code.
    pub code: Code,
    /// Where.
    pub place: Option<Place>,
    /// What, naming the thing.
    pub what: String,
    /// Why it is so, or why it matters.
    pub why: Option<String>,
    /// What to do; the code's own fix unless said otherwise.
    pub fix: Option<String>,
    /// Further help, shown on lines of their own.
    pub hints: Vec<String>,
    /// The exit code, when it is not the code's own.
    pub exit: Option<Exit>,
}

impl Fault {
    /// A fault of this code about `what`.
    pub fn new(code: impl Into<Code>, what: impl Into<String>) -> Self {
        let (code, what) = (code.into(), line(what));
        Self(Box::new(Body { code, place: None, what, why: None, fix: None, hints: Vec::new(), exit: None }))
    }

    /// Where it is.
    #[must_use]
    pub fn at(mut self, file: &Path, line: usize) -> Self {
        self.place = Some(Place::line(file, line));
        self
    }

    /// Why.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(line(why));
        self
    }

    /// What to do.
    #[must_use]
    pub fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(line(fix));
        self
    }

    /// One more hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(line(hint));
        self
    }

    /// Another exit code than the code's own.
    #[must_use]
    pub fn exit_with(mut self, exit: Exit) -> Self {
        self.exit = Some(exit);
        self
    }

    /// Whether its line ends with what the code itself advises.
    pub fn says_the_fix(&self) -> bool {
        self.fix.as_deref().is_none_or(|fix| fix == self.code.fix())
    }

    /// The exit code.
    pub fn exit(&self) -> Exit {
        self.exit.unwrap_or(self.code.exit())
    }

    /// A system error on a file.
    pub fn io(file: &Path, doing: &str, error: &std::io::Error) -> Self {
        let code = match (error.kind(), doing) {
            (_, "write" | "create" | "rename" | "remove") => Own::FileWrite,
            (std::io::ErrorKind::NotFound, _) => Own::FileMissing,
            _ => Own::FileUnreadable,
        };
        Self::new(code, format!("cannot {doing} {}", file.display())).why(error.to_string())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(self.what.trim_end_matches('.'))?;
        if let Some(why) = &self.why {
            write!(f, ": {}", why.trim_end_matches('.'))?;
        }
        write!(f, ". {}", self.fix.as_deref().unwrap_or(self.code.fix()))
    }
}

/// One or more faults: what a command returns instead of success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Never empty.
    all: Vec<Fault>,
}

impl Faults {
    /// Ok when there are none.
    pub fn check(all: Vec<Fault>) -> Result<(), Self> {
        if all.is_empty() { Ok(()) } else { Err(Self { all }) }
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.all.iter()
    }

    /// All of them, owned.
    pub fn into_vec(self) -> Vec<Fault> {
        self.all
    }

    /// The exit code: that of the first.
    pub fn exit(&self) -> Exit {
        self.all.first().map_or(Exit::Internal, |f| f.exit())
    }
}

impl From<Fault> for Faults {
    fn from(one: Fault) -> Self {
        Self { all: vec![one] }
    }
}

/// What every command returns.
pub type Outcome = Result<Exit, Faults>;
