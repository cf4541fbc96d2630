//! Who waits for the disk: a thread of its own, so that nobody else waits for longer than he was told.
//!
//! A disk that is full says so; one that hangs says nothing, and a write that has begun cannot be taken back (fdatasync(2)). So what must be
//! durable is handed to this thread, and after [`LONGEST`] its caller goes on as with a disk that takes nothing. While the thread hangs in one
//! write, everybody else hears so at once. What nobody waits for any more is not written; what was in the middle of it can be: an intent whose
//! call is then told to have been denied (`audit`).
//!
//! The thread leaves when there was nothing to do for a while, and comes again when there is.

use std::collections::VecDeque;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use muster_core::audit::Head;

use super::files::Room;
use super::{Audit, NotKept};

/// How long anybody waits for the disk. A call can wait twice, for its intent and for its outcome; the edge, which waits a little longer than the
/// operation may take, then says `core-lost` of one that took nearly all its time.
pub(super) const LONGEST: Duration = Duration::from_secs(10);
/// How long the thread waits for more.
const IDLE: Duration = Duration::from_secs(2);

/// What is to be on the disk.
pub(super) enum Work {
    /// This record, and all that waits.
    First(String, Room),
    /// What waits.
    Flush,
}

struct Job {
    audit: Arc<Audit>,
    work: Work,
    /// Nobody waits for it from then on.
    until: Instant,
    tell: SyncSender<Result<Head, NotKept>>,
}

/// See the module.
pub(super) struct Hand {
    /// [`LONGEST`], but in tests of a disk that hangs.
    longest: Duration,
    inside: Mutex<Inside>,
    came: Condvar,
}

#[derive(Default)]
struct Inside {
    jobs: VecDeque<Job>,
    /// The thread is there.
    works: bool,
    /// When it took up what it does now.
    since: Option<Instant>,
}

impl Hand {
    pub(super) fn new(longest: Duration) -> Self {
        Self { longest, inside: Mutex::default(), came: Condvar::new() }
    }

    /// The thread is in one write for too long.
    fn hangs(&self, inside: &Inside) -> bool {
        inside.since.is_some_and(|since| since.elapsed() >= self.longest)
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Each change is whole before anything can panic.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next thing to do; `None` when there was none for a while, and then the thread counts as gone.
    fn next(&self) -> Option<Job> {
        let mut inside = self.inside();
        inside.since = None;
        if inside.jobs.is_empty() {
            let idle = self.came.wait_timeout_while(inside, IDLE, |inside| inside.jobs.is_empty());
            inside = idle.unwrap_or_else(PoisonError::into_inner).0;
        }
        let job = inside.jobs.pop_front();
        inside.since = job.is_some().then(Instant::now);
        inside.works = job.is_some();
        job
    }
}

/// However the thread ends, another can come.
struct Leaves<'a>(&'a Hand);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut inside = self.0.inside();
            (inside.works, inside.since) = (false, None);
        }
    }
}

impl Hand {
    fn keeps_writing(&self) {
        let _leaves = Leaves(self);
        while let Some(Job { audit, work, until, tell }) = self.next() {
            if Instant::now() >= until {
                continue;
            }
            let done = match work {
                Work::First(members, room) => audit.first_now(members, room),
                Work::Flush => audit.flush_now(),
            };
            // Between two works the thread keeps no file open.
            drop(audit);
            // Whoever left was told that it hangs.
            let _ = tell.send(done);
        }
    }

    /// Whether the thread is there.
    #[cfg(test)]
    pub(super) fn works(&self) -> bool {
        self.inside().works
    }

    /// Whether everybody hears at once that the disk hangs.
    #[cfg(test)]
    pub(super) fn is_given_up(&self) -> bool {
        self.hangs(&self.inside())
    }
}

impl Audit {
    /// Has it done, and waits for it no longer than [`LONGEST`].
    ///
    /// # Errors
    /// The disk, also one that does not answer.
    pub(super) fn in_time(self: &Arc<Self>, work: Work) -> Result<Head, NotKept> {
        let (tell, told) = sync_channel(1);
        {
            let mut inside = self.hand.inside();
            if self.hand.hangs(&inside) {
                return Err(NotKept::Hangs);
            }
            if !inside.works {
                let hand = Arc::clone(&self.hand);
                let spawned =
                    std::thread::Builder::new().name("disk".to_owned()).spawn(move || hand.keeps_writing());
                spawned.map_err(|e| NotKept::Disk(format!("no thread for it: {e}")))?;
                inside.works = true;
            }
            let (audit, until) = (Arc::clone(self), Instant::now() + self.hand.longest);
            inside.jobs.push_back(Job { audit, work, until, tell });
        }
        self.hand.came.notify_one();
        match told.recv_timeout(self.hand.longest) {
            Ok(done) => done,
            Err(RecvTimeoutError::Timeout) => Err(NotKept::Hangs),
            // Passed over because it was late by a hair, or the thread's own fault, of which its panic tells.
            Err(RecvTimeoutError::Disconnected) => {
                Err(NotKept::Disk("it was not written in time".to_owned()))
            }
        }
    }
}
