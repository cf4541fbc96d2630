//! The rules of the house that no compiler checks: which crate may depend on which, what the shim and the command line may
//! pull in, where unsafe code and process spawning live, how long a file may be, that every rule of signed execution
//! has a test of its name, and that no test passes in silence where it cannot run. Each rule was seen to fail on a sample that breaks it; the samples are tests too.
#![allow(clippy::disallowed_methods, reason = "asks cargo for the dependency graph")]
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod auditing;
mod docs;
mod graph;
mod rules;
mod rust;
mod skips;
mod sources;
mod touches;

use std::fs;
use std::path::{Path, PathBuf};

/// Development only: nothing that ships may depend on them, and the rules for shipped code do not hold in them.
const TOOLS: &[&str] = &["muster-fuzz", "muster-gen", "muster-needs", "muster-testbed", "xtask"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the workspace").to_owned()
}

/// Every file below `dir` whose name ends in `end`, build output and hidden folders left out.
fn files(dir: &Path, end: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_dir() {
            if name != "target" && !name.starts_with('.') {
                out.extend(files(&path, end));
            }
        } else if name.ends_with(end) {
            out.push(path);
        }
    }
    out.sort();
    out
}
