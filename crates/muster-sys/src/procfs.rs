//! Processes as `/proc` shows them (proc_pid_stat(5), proc_pid_environ(5)).

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// The environment of a process that is read when searching it, at most.
const ENVIRON_MAX: u64 = 8 << 20;
/// A small file that is read, at most: lists of processes grow with the run.
const SMALL_MAX: u64 = 64 << 20;

/// The text of a small file of a kernel's file system, which says that it is 0 bytes long: a page on
/// the stack takes most of them, and what is kept is as long as the text.
pub(crate) fn small(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let mut file = fs::File::open(path)?.take(SMALL_MAX);
    let mut page = [0u8; 4096];
    let mut out = Vec::new();
    loop {
        match file.read(&mut page) {
            Ok(0) => return Ok(out),
            Ok(n) => out.extend_from_slice(page.get(..n).unwrap_or_default()),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
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
        let state = f.next()?.chars().next().filter(char::is_ascii_alphabetic)?;
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
pub fn numbers(text: &[u8]) -> impl Iterator<Item = i32> {
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

/// Looks for the processes whose environment had `name=value` when they were started. Needs the
/// right to read them (root). A process may overwrite its own record of it.
///
/// Reading a process's environment waits for its memory, and a process can be made to let that wait
/// for ever (a page that is served by userfaultfd(2) or FUSE). So it is read in a thread of its own,
/// root's processes first, each for `EACH` at most and all stalled ones together for `WHOLE`; what did
/// not answer is passed over from then on. A thread that waits for good ends with this process.
#[derive(Debug)]
pub struct Search {
    wanted: Arc<[u8]>,
    stalled: HashSet<i32>,
    left: Duration,
}

/// How long one process is waited for.
const EACH: Duration = Duration::from_millis(250);
/// How long all those are waited for that do not answer.
const WHOLE: Duration = Duration::from_secs(2);
/// Between two looks at how far the reading came.
const LOOK: Duration = Duration::from_millis(1);

/// A list that a thread reads through, and how far it came.
struct Reading {
    list: Vec<i32>,
    wanted: Arc<[u8]>,
    done: AtomicUsize,
    hits: Vec<AtomicBool>,
    /// Nobody listens any more.
    over: AtomicBool,
}

impl Search {
    /// For `name=value`.
    pub fn new(name: &str, value: &str) -> Self {
        Self { wanted: format!("{name}={value}").into_bytes().into(), stalled: HashSet::new(), left: WHOLE }
    }

    /// Those that are there now, but for this process.
    pub fn find(&mut self) -> Vec<i32> {
        let me = crate::system::pid();
        let (mut list, others): (Vec<i32>, Vec<i32>) = pids()
            .into_iter()
            .filter(|p| *p != me && !self.stalled.contains(p))
            .partition(|p| fs::metadata(format!("/proc/{p}")).is_ok_and(|m| m.uid() == 0));
        list.extend(others);
        let mut found = Vec::new();
        while !list.is_empty() && !self.left.is_zero() {
            let read = Arc::new(Reading {
                wanted: self.wanted.clone(),
                done: AtomicUsize::new(0),
                hits: list.iter().map(|_| AtomicBool::new(false)).collect(),
                over: AtomicBool::new(false),
                list,
            });
            if !thread::start(&read) {
                // No thread to be had: read here, and wait for as long as it takes.
                read.through();
            }
            let done = self.wait(&read);
            read.over.store(true, Ordering::SeqCst);
            let hit = read.list.iter().zip(&read.hits).filter(|(_, hit)| hit.load(Ordering::SeqCst));
            found.extend(hit.map(|(p, _)| *p));
            self.stalled.extend(read.list.get(done));
            list = read.list.get(done + 1..).unwrap_or_default().to_vec();
        }
        found
    }

    /// Waits until all are read or one does not answer; how many were read.
    fn wait(&mut self, read: &Reading) -> usize {
        let (mut seen, mut since) = (0, crate::clock::since_boot());
        loop {
            let done = read.done.load(Ordering::SeqCst);
            let now = crate::clock::since_boot();
            if done == read.list.len() {
                return done;
            }
            if done > seen {
                (seen, since) = (done, now);
            }
            if now.saturating_sub(since) >= EACH {
                self.left = self.left.saturating_sub(EACH);
                return done;
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Reading {
    fn through(&self) {
        for (p, hit) in self.list.iter().zip(&self.hits) {
            if self.over.load(Ordering::SeqCst) {
                return;
            }
            hit.store(has_variable(*p, &self.wanted), Ordering::SeqCst);
            self.done.fetch_add(1, Ordering::SeqCst);
        }
    }
}

/// A thread of the C library's. The standard library's would make the shim 25 kB larger, for names,
/// results and guards that nobody asks for here.
mod thread {
    use super::Reading;
    use std::ffi::c_void;
    use std::sync::Arc;

    extern "C" fn body(arg: *mut c_void) -> *mut c_void {
        // SAFETY: `start` gave one count of this very value away, to this call alone.
        #[allow(unsafe_code)]
        let read = unsafe { Arc::from_raw(arg.cast::<Reading>().cast_const()) };
        read.through();
        std::ptr::null_mut()
    }

    /// Reads through it in a thread that nobody waits for; `false` when there is none to be had.
    pub(super) fn start(read: &Arc<Reading>) -> bool {
        let given = Arc::into_raw(read.clone());
        // SAFETY: `body` is a function of the wanted form, the id is written to a live place, and the
        // argument stays valid until `body` takes it over, or until it is taken back here.
        #[allow(unsafe_code)]
        unsafe {
            let mut id: libc::pthread_t = std::mem::zeroed();
            let none = std::ptr::null();
            if libc::pthread_create(&mut id, none, body, given.cast_mut().cast()) != 0 {
                drop(Arc::from_raw(given));
                return false;
            }
            libc::pthread_detach(id);
            true
        }
    }
}

/// [`Search`] once.
pub fn with_environment(name: &str, value: &str) -> Vec<i32> {
    Search::new(name, value).find()
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
        // Of this run alone: another may be going on beside.
        let mark = format!("0123-test-{}", std::process::id());
        let mut c = Command::new("/bin/bash")
            .args(["-c", "(sleep 90 & wait) & wait"])
            .env("MUSTER_RUN_ID", &mark)
            .spawn()
            .unwrap();
        let root = i32::try_from(c.id()).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while descendants(root).len() < 2 && std::time::Instant::now() < deadline {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let mut fast = descendants(root);
        let mut slow = descendants_by_scan(root);
        fast.sort_unstable();
        slow.sort_unstable();
        assert_eq!(fast.len(), 2);
        assert_eq!(fast, slow);
        let mut marked = with_environment("MUSTER_RUN_ID", &mark);
        marked.sort_unstable();
        let mut all = fast.clone();
        all.push(root);
        all.sort_unstable();
        assert_eq!(marked, all);
        assert!(with_environment("MUSTER_RUN_ID", &mark[..mark.len() - 1]).is_empty());
        for p in all {
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_raw(p).unwrap(),
                rustix::process::Signal::KILL,
            );
        }
        c.wait().unwrap();
    }
}
