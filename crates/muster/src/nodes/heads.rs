//! The newest head of each node's audit chain that was handed out, in the state folder: `audit-heads`, one node a line:
//! `SHA256:… SEQ:HASH`, by the node's certificate.
//!
//! A chain proves nothing to somebody who never saw it: these lines are what was seen. They only ever move forward, and a node
//! that was set up anew has another certificate, and so a line of its own.

use crate::codes::Own;
use crate::fault::Fault;
use crate::state;
use muster_core::audit::Head;
use muster_tls::Fingerprint;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const FILE: &str = "audit-heads";
const MAX_FILE: usize = 16 << 20;

/// By certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heads(BTreeMap<Fingerprint, Head>);

impl Heads {
    /// Reads the file's text.
    pub fn parse(text: &str, file: &Path) -> Result<Self, Fault> {
        let mut heads = BTreeMap::new();
        for (n, line) in (1usize..).zip(text.lines()) {
            let read =
                line.split_once(' ').and_then(|(node, head)| Some((node.parse().ok()?, head.parse().ok()?)));
            let Some((node, head)) = read else {
                return Err(Fault::new(Own::StateUnusable, "the line is not `SHA256:… SEQ:HASH`").at(file, n));
            };
            heads.insert(node, head);
        }
        Ok(Self(heads))
    }

    /// The text, which [`Heads::parse`] reads back to the same.
    pub fn render(&self) -> String {
        self.0.iter().map(|(node, head)| format!("{node} {head}\n")).collect()
    }

    /// Takes in what was seen now.
    pub fn saw(&mut self, node: Fingerprint, head: Head) {
        let newest = self.0.entry(node).or_insert(head);
        // A lower number is an older answer, or a chain that was cut off: what was seen before must not be forgotten for it.
        if head.seq > newest.seq {
            *newest = head;
        }
    }

    /// What was last seen of a node.
    pub fn of(&self, node: Fingerprint) -> Option<Head> {
        self.0.get(&node).copied()
    }
}

/// What was seen so far.
pub fn read(folder: &Path) -> Result<Heads, Fault> {
    match state::read(folder, FILE, MAX_FILE)? {
        Some(text) => Heads::parse(&text, &folder.join(FILE)),
        None => Ok(Heads::default()),
    }
}

/// Keeps what was seen now, where it is newer. Waits for who else does.
pub fn keep(folder: &Path, seen: &Heads, patience: Duration) -> Result<(), Fault> {
    if seen.0.is_empty() {
        return Ok(());
    }
    let held = state::hold(folder, FILE, patience)?;
    let mut heads = read(folder)?;
    let before = heads.clone();
    seen.0.iter().for_each(|(node, head)| heads.saw(*node, *head));
    if heads == before {
        return Ok(());
    }
    state::write(&held, folder, FILE, heads.render().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locks;

    #[test]
    fn m19_heads_only_move_forward_and_are_kept_by_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (Fingerprint::of(b"a"), Fingerprint::of(b"b"));
        let head = |seq, byte| Head { seq, hash: [byte; 32] };
        let seen = |all: &[(Fingerprint, Head)]| Heads(all.iter().copied().collect());
        keep(dir.path(), &seen(&[(a, head(7, 1)), (b, head(1, 1))]), locks::STATE).unwrap();
        keep(dir.path(), &seen(&[(a, head(5, 2))]), locks::STATE).unwrap();
        // Another hash for a number that was seen: the first one stands, so that the rewriting shows.
        keep(dir.path(), &seen(&[(a, head(7, 3)), (b, head(2, 2))]), locks::STATE).unwrap();
        let heads = read(dir.path()).unwrap();
        assert_eq!((heads.of(a), heads.of(b)), (Some(head(7, 1)), Some(head(2, 2))));
        assert_eq!(heads.of(Fingerprint::of(b"c")), None);
        for bad in ["x", &format!("{a}"), &format!("{a} 1:zz"), &format!("{a}  1:{}", "0".repeat(64))] {
            assert!(Heads::parse(bad, Path::new("h")).is_err(), "{bad}");
        }
    }
}
