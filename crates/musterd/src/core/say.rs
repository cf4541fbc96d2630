//! Lines for the journal: standard error with the levels of sd-daemon(3).

/// What went as it should.
pub(super) fn info(line: &str) {
    eprintln!("<6>{line}");
}

/// What somebody should know of.
pub(super) fn warning(line: &str) {
    eprintln!("<4>{line}");
}
