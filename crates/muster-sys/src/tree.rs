//! Ending everything that a run started.
//!
//! The process becomes a subreaper (prctl(2), `PR_SET_CHILD_SUBREAPER`), so that whatever
//! daemonises below it becomes its child instead of init's. The end is TERM, a grace, the group's
//! `cgroup.kill`, and then the loop {reap all; STOP descendants until the set is stable; KILL;
//! reap} until there is no child any more. Reaping happens inside the scan as well: a process that
//! forks and exits faster than the scan runs leaves zombies that the scan would otherwise wade
//! through.
//!
//! Everything here takes for granted that the calling process has no children but the run's. The
//! calling process and what is above it are never signalled, whatever variables they were given:
//! whoever starts the shim chooses the environment that is searched.

use crate::SysError;
use crate::cgroup::Cgroup;
use crate::child::Exit;
use crate::clock::since_boot;
use crate::procfs;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::HashSet;
use std::time::Duration;

/// Orphans below this process become its children from now on.
pub fn become_subreaper() -> Result<(), SysError> {
    // The argument is a flag to the kernel, any process id will do.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| SysError::new("become a subreaper", e))
}

/// What is left after reaping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// No child, living or dead.
    Nothing,
    /// At least one living child.
    Children,
}

/// What ending a tree took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Living descendants (and members of the group) that were found at the start.
    pub found: usize,
    /// Processes found afterwards by the run's variable in their environment, and killed.
    pub swept: usize,
    /// Processes that would not die before the time was over.
    pub survivors: usize,
}

/// The processes of one run, under a leader.
#[derive(Debug)]
pub struct Tree {
    leader: i32,
    exit: Option<Exit>,
}

/// Time between looks when there is nothing to do but wait.
const PAUSE: Duration = Duration::from_millis(2);
/// Rounds of stopping before the kill comes all the same.
const STOP_ROUNDS: usize = 64;

impl Tree {
    /// A tree whose first process is `leader`, a child of this process.
    pub fn new(leader: i32) -> Self {
        Self { leader, exit: None }
    }

    /// How the leader ended, once it was reaped.
    pub fn leader_exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Reaps every dead child.
    pub fn reap(&mut self) -> Left {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    if pid.as_raw_nonzero().get() == self.leader {
                        self.exit = self.exit.or_else(|| Exit::from_wait(status));
                    }
                }
                Ok(None) => return Left::Children,
                Err(Errno::INTR) => {}
                // ECHILD; the call has no other error.
                Err(_) => return Left::Nothing,
            }
        }
    }

    /// Living descendants now, and members of the group.
    fn living(group: Option<&Cgroup>) -> Vec<i32> {
        let mut all = procfs::descendants(crate::system::pid());
        if let Some(g) = group {
            all.extend(g.pids());
            all.sort_unstable();
            all.dedup();
        }
        all.retain(|&p| procfs::Stat::of(p).is_some_and(|s| s.state != 'Z'));
        all
    }

    /// Processes of the run that are left, after reaping: what outlived its leader. None only when
    /// the kernel says so; the count is of a snapshot that a process which forks and exits slips
    /// through, hence at least one.
    pub fn stragglers(&mut self, group: Option<&Cgroup>) -> usize {
        if self.all_gone(group) { 0 } else { Self::living(group).len().max(1) }
    }

    /// Ends all of it: TERM, up to `grace` for it to work, then the group's kill and the loop, for
    /// at most `limit` more. `mark` is the variable that every process of the run was given.
    pub fn end(
        &mut self,
        group: Option<&Cgroup>,
        mark: (&str, &str),
        grace: Duration,
        limit: Duration,
    ) -> Ended {
        let found = Self::living(group);
        for &p in &found {
            send(p, Signal::TERM);
            // A stopped process sees TERM only when it goes on.
            send(p, Signal::CONT);
        }
        let until = since_boot() + grace;
        while since_boot() < until && !self.all_gone(group) {
            std::thread::sleep(PAUSE);
        }
        self.kill(group, mark, limit, found.len())
    }

    fn all_gone(&mut self, group: Option<&Cgroup>) -> bool {
        self.reap() == Left::Nothing && group.is_none_or(Cgroup::is_empty)
    }

    fn kill(&mut self, group: Option<&Cgroup>, mark: (&str, &str), limit: Duration, found: usize) -> Ended {
        let until = since_boot() + limit;
        while !self.all_gone(group) && since_boot() < until {
            if let Some(g) = group {
                g.kill();
            }
            if self.reap() == Left::Children {
                self.stop_and_kill();
            }
            if self.reap() == Left::Children {
                std::thread::sleep(PAUSE);
            }
        }
        let spared = own_line();
        let mut search = procfs::Search::new(mark.0, mark.1);
        let swept = stop_then_kill(|| marked(&mut search, &spared));
        let survivors = if self.all_gone(group) { 0 } else { Self::living(group).len() };
        Ended { found, swept, survivors }
    }

    /// One round of {STOP until nothing is new; KILL}.
    fn stop_and_kill(&mut self) {
        stop_then_kill(|| {
            let now = procfs::descendants(crate::system::pid());
            if self.reap() == Left::Nothing { Vec::new() } else { now }
        });
    }
}

/// STOP to whatever `find` gives until it gives nothing new, so that nothing can fork itself out
/// of sight; then KILL. How many were found.
fn stop_then_kill(mut find: impl FnMut() -> Vec<i32>) -> usize {
    let mut stopped: HashSet<i32> = HashSet::new();
    for _ in 0..STOP_ROUNDS {
        let fresh: Vec<i32> = find().into_iter().filter(|p| !stopped.contains(p)).collect();
        if fresh.is_empty() {
            break;
        }
        for p in fresh {
            send(p, Signal::STOP);
            stopped.insert(p);
        }
    }
    if stopped.is_empty() {
        return 0;
    }
    let now: HashSet<i32> = find().into_iter().collect();
    for &p in &stopped {
        // Whoever is not found any more is dead, or a stranger who got a dead one's number
        // between the look and the signal: a stranger goes on.
        send(p, if now.contains(&p) { Signal::KILL } else { Signal::CONT });
    }
    for &p in &now {
        send(p, Signal::KILL);
    }
    stopped.union(&now).count()
}

fn send(pid: i32, signal: Signal) {
    if let Some(p) = Pid::from_raw(pid).filter(|_| pid > 1) {
        // It may be gone already, which is what is wanted.
        let _ = rustix::process::kill_process(p, signal);
    }
}

/// This process and everything above it.
fn own_line() -> HashSet<i32> {
    let mut line = HashSet::new();
    let mut at = crate::system::pid();
    // A number that is seen again means that the line changed under the walk.
    while at > 0 && line.insert(at) {
        at = procfs::Stat::of(at).map_or(0, |s| s.ppid);
    }
    line
}

/// Processes that were started with the variable that is searched for, and what those have started without it;
/// none of `spared`, and nothing for being below one of those.
fn marked(search: &mut procfs::Search, spared: &HashSet<i32>) -> Vec<i32> {
    let mut found = search.find();
    found.retain(|p| !spared.contains(p));
    for p in found.clone() {
        found.extend(procfs::descendants(p));
    }
    found.retain(|p| !spared.contains(p));
    found.sort_unstable();
    found.dedup();
    found
}

/// Ends what is left of a run whose supervisor is gone: its group, and every process with `mark`
/// in its environment, until none is left. `false` when some are left after `limit`.
pub fn end_orphans(group: Option<&Cgroup>, mark: (&str, &str), limit: Duration) -> bool {
    let until = since_boot() + limit;
    let spared = own_line();
    let mut search = procfs::Search::new(mark.0, mark.1);
    loop {
        if let Some(g) = group {
            g.kill();
        }
        let found = stop_then_kill(|| {
            let mut all = marked(&mut search, &spared);
            all.extend(group.map(Cgroup::pids).unwrap_or_default().iter().filter(|p| !spared.contains(p)));
            all
        });
        let mut members = group.map(Cgroup::pids).unwrap_or_default();
        members.retain(|p| !spared.contains(p));
        if found == 0 && members.is_empty() {
            return true;
        }
        if since_boot() >= until {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
}
