//! Walking the tree of a file towards typed values (see [`muster_document::walk`]).

use super::told;
use crate::codes::Own;
use crate::fault::Fault;
use core::ops::{Deref, DerefMut};
use muster_document::walk;
pub use muster_document::walk::{Fields, duration, short, show_duration};
use std::path::Path;

/// The walk over one file.
pub struct Walk<'f> {
    file: &'f Path,
    walk: walk::Walk<Own>,
}

impl<'f> Walk<'f> {
    /// A walk over `file`.
    pub fn new(file: &'f Path) -> Self {
        Self { file, walk: walk::Walk::default() }
    }

    /// The faults found.
    pub fn finish(self) -> Vec<Fault> {
        self.walk.finish().into_iter().map(|found| told(found, self.file)).collect()
    }
}

impl Deref for Walk<'_> {
    type Target = walk::Walk<Own>;
    fn deref(&self) -> &Self::Target {
        &self.walk
    }
}

impl DerefMut for Walk<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.walk
    }
}
