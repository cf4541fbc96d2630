//! Threads that are kept for a while after what they did: making one and taking it down costs more than a short call.
//!
//! Who has work for a thread gets one that waits, or a new one; none waits for another's work to end. A thread that nobody
//! needs for two seconds leaves, and of those that wait few are kept, so that a node that is asked nothing has none.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a thread waits for more.
const WAITS: Duration = Duration::from_secs(2);
/// Threads that wait at most: as many as some clients' calls need, one after another.
const KEPT: usize = 8;
/// Of a thread's stack. Touched pages count, not this.
const STACK: usize = 2 * 1024 * 1024;

type Work = Box<dyn FnOnce() + Send>;

/// See the module.
#[derive(Default)]
pub(crate) struct Crew {
    inside: Mutex<Inside>,
    came: Condvar,
}

#[derive(Default)]
struct Inside {
    /// Never more than wait for it.
    work: VecDeque<Work>,
    waiting: usize,
}

impl Crew {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Nothing is done under the lock but to count and to queue.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has it done at once, by a thread of this name if a new one is needed.
    ///
    /// # Errors
    /// The system gives no thread. Nothing was done.
    pub(crate) fn take(self: &Arc<Self>, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let work: Work = Box::new(work);
        {
            let mut inside = self.inside();
            if inside.waiting > inside.work.len() {
                inside.work.push_back(work);
                self.came.notify_one();
                return Ok(());
            }
        }
        let crew = Arc::clone(self);
        let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(STACK);
        // One that panics ends by it, as it would have without a crew; it is not among those that wait.
        thread.spawn(move || crew.live(work)).map(drop)
    }

    fn live(&self, first: Work) {
        let mut next = Some(first);
        while let Some(work) = next {
            work();
            next = self.more();
        }
    }

    fn more(&self) -> Option<Work> {
        let mut inside = self.inside();
        if inside.waiting >= KEPT {
            return None;
        }
        inside.waiting += 1;
        let waited = self.came.wait_timeout_while(inside, WAITS, |inside| inside.work.is_empty());
        let mut inside = waited.unwrap_or_else(PoisonError::into_inner).0;
        inside.waiting -= 1;
        // Also after the time: what was queued for this thread is nobody else's.
        inside.work.pop_front()
    }

    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.inside().waiting
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::mpsc::{channel, sync_channel};
    use std::thread::{self, ThreadId};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    fn settled(crew: &Crew, waiting: usize) {
        let begun = std::time::Instant::now();
        while crew.waiting() != waiting {
            assert!(begun.elapsed() < SOON, "{} wait", crew.waiting());
            thread::yield_now();
        }
    }

    #[test]
    fn work_that_follows_is_done_by_the_same_thread() {
        let crew = Arc::new(Crew::default());
        let (tell, told) = channel::<ThreadId>();
        for _ in 0..50 {
            let tell = tell.clone();
            crew.take("t", move || tell.send(thread::current().id()).expect("heard")).expect("a thread");
            told.recv_timeout(SOON).expect("done");
            settled(&crew, 1);
        }
        drop(tell);
        assert_eq!(told.iter().count(), 0);
    }

    #[test]
    fn nobody_waits_for_the_end_of_what_another_does() {
        let crew = Arc::new(Crew::default());
        let (tell, told) = channel::<ThreadId>();
        let doors: Vec<_> = (0..3 * KEPT)
            .map(|_| {
                let (open, door) = sync_channel::<()>(0);
                let tell = tell.clone();
                let work = move || {
                    tell.send(thread::current().id()).expect("heard");
                    let _ = door.recv();
                };
                crew.take("t", work).expect("a thread");
                open
            })
            .collect();
        // All of them have begun, and none has ended.
        let all: HashSet<_> = doors.iter().map(|_| told.recv_timeout(SOON).expect("begun")).collect();
        assert_eq!(all.len(), doors.len());
        assert_eq!(crew.waiting(), 0);
        drop(doors);
        settled(&crew, KEPT);
    }

    #[test]
    fn work_that_panics_takes_its_thread_and_no_other() {
        let crew = Arc::new(Crew::default());
        let (tell, told) = channel();
        let again = tell.clone();
        crew.take("t", move || tell.send(()).expect("heard")).expect("a thread");
        told.recv_timeout(SOON).expect("done");
        settled(&crew, 1);
        crew.take("t", || std::panic::resume_unwind(Box::new("of a test"))).expect("a thread");
        settled(&crew, 0);
        crew.take("t", move || again.send(()).expect("heard")).expect("a thread");
        told.recv_timeout(SOON).expect("done");
        settled(&crew, 1);
    }
}
