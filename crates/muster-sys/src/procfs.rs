//! Processes as `/proc` shows them (proc_pid_stat(5), proc_pid_environ(5)).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// The environment of a process that is read when searching it, at most.
const ENVIRON_MAX: u64 = 8 << 20;
/// A small file that is read, at most: lists of processes grow with the run.
const SMALL_MAX: u64 = 64 << 20;

/// The text of a small file of a kernel's file system, which says that it is 0 bytes long: one
/// read of a page is enough for most, and the standard library would begin with 32 bytes.
pub(crate) fn small(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(4096);
    fs::File::open(path)?.take(SMALL_MAX).read_to_end(&mut out)?;
    Ok(out)
}

/// One process, from `/proc/PID/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Process id.
    pub pid: i32,
    /// Its short name, at most 15 bytes; a process chooses its own.
    pub comm: String,
    /// State letter, `Z` for a zombie.
    pub state: char,
    /// Parent's process id.
    pub ppid: i32,
    /// Session id.
    pub session: i32,
    /// Start, in clock ticks since boot: with the pid, names a process for this boot.
    pub start: u64,
}

impl Stat {
    /// Reads it; `None` when there is no such process.
    pub fn of(pid: i32) -> Option<Self> {
        Self::parse(&small(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Reads the one line of the file.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(text);
        // The name stands in parentheses and may hold any byte, parentheses too.
        let (pid, rest) = text.split_once(" (")?;
        let (comm, rest) = rest.rsplit_once(") ")?;
        let mut f = rest.split_ascii_whitespace();
        let state = f.next()?.chars().next()?;
        let ppid = f.next()?.parse().ok()?;
        let _pgrp = f.next()?;
        let session = f.next()?.parse().ok()?;
        // Fields 7 to 21 lie between the session (6) and the start time (22).
        let start = f.nth(15)?.parse().ok()?;
        Some(Self { pid: pid.parse().ok()?, comm: comm.to_owned(), state, ppid, session, start })
    }
}

/// Whether `/proc` is a proc file system that shows this process.
pub fn is_mounted() -> bool {
    fs::metadata("/proc/self/stat").is_ok() && fs::metadata("/proc/self/fd").is_ok()
}

/// Every process id now.
pub fn pids() -> Vec<i32> {
    let Ok(dir) = fs::read_dir("/proc") else { return Vec::new() };
    dir.filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// Direct children of `pid`, by the kernel's own list where it keeps one
/// (`CONFIG_PROC_CHILDREN`); `None` where it does not.
fn children(pid: i32) -> Option<Vec<i32>> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut out = Vec::new();
    for t in tasks.flatten() {
        match small(t.path().join("children")) {
            Ok(text) => out.extend(numbers(&text)),
            // A thread that ended meanwhile has no children; a kernel without the file never has.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && t.path().exists() => return None,
            Err(_) => {}
        }
    }
    Some(out)
}

/// The numbers in a list of process ids.
pub(crate) fn numbers(text: &[u8]) -> impl Iterator<Item = i32> {
    text.split(u8::is_ascii_whitespace).filter_map(|w| std::str::from_utf8(w).ok()?.parse().ok())
}

/// Living and dead (zombie) descendants of `root`, not `root` itself. A snapshot of things that
/// move: callers ask again until nothing is new.
pub fn descendants(root: i32) -> Vec<i32> {
    if children(root).is_none() {
        return descendants_by_scan(root);
    }
    let mut out = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut todo = vec![root];
    while let Some(p) = todo.pop() {
        for c in children(p).unwrap_or_default() {
            if seen.insert(c) {
                out.push(c);
                todo.push(c);
            }
        }
    }
    out
}

fn descendants_by_scan(root: i32) -> Vec<i32> {
    let mut by_parent: HashMap<i32, Vec<i32>> = HashMap::new();
    for s in pids().into_iter().filter_map(Stat::of) {
        by_parent.entry(s.ppid).or_default().push(s.pid);
    }
    let mut out = Vec::new();
    let mut seen = HashSet::from([root]);
    let mut todo = vec![root];
    while let Some(p) = todo.pop() {
        for c in by_parent.remove(&p).unwrap_or_default() {
            if seen.insert(c) {
                out.push(c);
                todo.push(c);
            }
        }
    }
    out
}

/// Processes other than this one whose environment had `name=value` when they were started.
/// Needs the right to read them (root). A process may overwrite its own record of it.
pub fn with_environment(name: &str, value: &str) -> Vec<i32> {
    let wanted = format!("{name}={value}");
    let me = crate::system::pid();
    pids().into_iter().filter(|&p| p != me && has_variable(p, wanted.as_bytes())).collect()
}

fn has_variable(pid: i32, wanted: &[u8]) -> bool {
    let Ok(f) = fs::File::open(format!("/proc/{pid}/environ")) else { return false };
    let mut text = Vec::new();
    // What was read before an error is searched all the same.
    let _ = f.take(ENVIRON_MAX).read_to_end(&mut text);
    text.split(|&b| b == 0).any(|v| v == wanted)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods, reason = "tests start real processes")]
    use super::*;
    use std::process::Command;

    #[test]
    fn stat_of_odd_names() {
        let line = b"12 (a) b (c) S 3 12 11 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 777 9 10";
        let s = Stat::parse(line).unwrap();
        assert_eq!(
            (s.pid, s.comm.as_str(), s.state, s.ppid, s.session, s.start),
            (12, "a) b (c", 'S', 3, 11, 777)
        );
        assert_eq!(Stat::parse(b"12 (a"), None);
        assert_eq!(Stat::parse(b"12 (a) S 3"), None);
    }

    #[test]
    fn this_process_is_found() {
        let me = crate::system::pid();
        let s = Stat::of(me).unwrap();
        assert_eq!(s.pid, me);
        assert!(s.start > 0 && is_mounted());
        assert_eq!(Stat::of(i32::MAX), None);
    }

    #[test]
    fn descendants_and_environment_are_found_both_ways() {
        let mut c = Command::new("/bin/bash")
            .args(["-c", "(sleep 30 & wait) & wait"])
            .env("MUSTER_RUN_ID", "0123-test")
            .spawn()
            .unwrap();
        let root = i32::try_from(c.id()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while descendants(root).len() < 2 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut fast = descendants(root);
        let mut slow = descendants_by_scan(root);
        fast.sort_unstable();
        slow.sort_unstable();
        assert_eq!(fast.len(), 2);
        assert_eq!(fast, slow);
        let mut marked = with_environment("MUSTER_RUN_ID", "0123-test");
        marked.sort_unstable();
        let mut all = fast.clone();
        all.push(root);
        all.sort_unstable();
        assert_eq!(marked, all);
        assert!(with_environment("MUSTER_RUN_ID", "0123-tes").is_empty());
        for p in all {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(p).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
        c.wait().unwrap();
    }
}
