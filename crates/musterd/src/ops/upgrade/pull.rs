//! A pull that goes on whoever watches.
//!
//! It runs on a thread of its own, to its own deadline. Those who asked for it read what it printed from the beginning and then
//! as it comes; one who leaves takes nothing with him, and one who asks for the same image meanwhile reads along.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::Fault;
use muster_api::upgrade::{Image, StageEvent};
use muster_sys::clock::since_boot;
use muster_sys::command::{Got, Outcome, Running};

use super::super::{Client, tools};
use super::{ImageBackend, Reference};

/// What a pull may take: the only clock.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 60);
/// Lines that are kept for those who come late.
const KEPT: usize = 2000;
/// Bytes of the longest line.
const LINE: usize = 1024;
/// How often a watcher looks whether its client is there.
const TICK: Duration = Duration::from_millis(500);

/// One pull.
#[derive(Debug)]
pub(in super::super) struct Pull {
    image: Reference,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Lines that were printed and are kept, and how many before them are not.
    lines: VecDeque<Arc<str>>,
    dropped: usize,
    end: Option<StageEvent>,
}

/// The place of the one pull that there may be.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Slot(Arc<Mutex<Option<Arc<Pull>>>>);

impl Slot {
    /// What is being pulled.
    pub(super) fn running(&self) -> Option<String> {
        let slot = lock(&self.0);
        slot.as_ref().filter(|p| !p.ended()).map(|p| p.image.as_str().to_owned())
    }

    /// The pull of this image that is under way, or a new one.
    pub(super) fn pull(
        &self,
        image: &Reference,
        backend: Box<dyn ImageBackend>,
        longest: Duration,
    ) -> Result<Arc<Pull>, Fault> {
        let mut slot = lock(&self.0);
        if let Some(pull) = slot.as_ref().filter(|p| !p.ended()) {
            if pull.image == *image {
                return Ok(Arc::clone(pull));
            }
            let error = format!("the node is pulling another image: {}", pull.image);
            return Err(Fault::state("staging", error).fix("Wait until it is done."));
        }
        let pull = Arc::new(Pull { image: image.clone(), state: Mutex::default(), changed: Condvar::new() });
        pull.say(&format!("pulling {image}"));
        let mine = Arc::clone(&pull);
        std::thread::Builder::new()
            .name("stage".to_owned())
            .spawn(move || {
                // Also a panic has an end that watchers see.
                let guard = Ends(&mine);
                let end = mine.run(backend.as_ref(), longest);
                guard.0.end(end);
            })
            .map_err(|e| Fault::failed("threads", format!("no thread for a pull: {e}")))?;
        *slot = Some(Arc::clone(&pull));
        Ok(pull)
    }
}

/// Ends a pull that did not end itself.
struct Ends<'p>(&'p Pull);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end(StageEvent::Error("the pull ended in an error of the node's daemon".to_owned()));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole after each of our steps, whoever panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pull {
    fn ended(&self) -> bool {
        lock(&self.state).end.is_some()
    }

    fn say(&self, line: &str) {
        let line = tools::line(line.trim(), LINE);
        if line.is_empty() {
            return;
        }
        let mut state = lock(&self.state);
        state.lines.push_back(line.into());
        if state.lines.len() > KEPT {
            state.lines.pop_front();
            state.dropped += 1;
        }
        self.changed.notify_all();
    }

    fn end(&self, event: StageEvent) {
        let mut state = lock(&self.state);
        state.end.get_or_insert(event);
        self.changed.notify_all();
    }

    fn run(&self, backend: &dyn ImageBackend, longest: Duration) -> StageEvent {
        match self.pulled(backend, longest) {
            Ok(image) => StageEvent::Staged(image),
            Err(fault) => StageEvent::Error(fault.error),
        }
    }

    fn pulled(&self, backend: &dyn ImageBackend, longest: Duration) -> Result<Image, Fault> {
        let running = backend.pull(&self.image, longest)?;
        let (outcome, last) = self.read(running, longest)?;
        match outcome {
            Outcome::Exited(0) => {}
            Outcome::TimedOut => {
                let error =
                    format!("the pull was not done in {} minutes, and was ended", longest.as_secs() / 60);
                return Err(Fault::failed("pull", error));
            }
            // Why is the point of this call, and its last line says it.
            Outcome::Exited(_) | Outcome::Signaled(_) => {
                let last = last.unwrap_or_else(|| "it said nothing".to_owned());
                return Err(Fault::failed("pull", format!("the pull failed: {last}")));
            }
        }
        backend.images()?.staged.ok_or_else(|| {
            Fault::failed(
                "pull",
                "the pull went well and nothing is staged: the node runs this image already",
            )
        })
    }

    /// Reads what a pull prints, to its end or that of its time. Lines end where they are overwritten, too.
    fn read(&self, mut running: Running, longest: Duration) -> Result<(Outcome, Option<String>), Fault> {
        let until = since_boot() + longest;
        let failed = |e: muster_sys::SysError| Fault::failed("pull", e.line());
        let (mut buffer, mut line, mut last) = (vec![0; 16 * 1024], Vec::new(), None);
        loop {
            let left = until.saturating_sub(since_boot());
            match running.read(&mut buffer, left).map_err(failed)? {
                Got::Quiet => return Ok((Outcome::TimedOut, last)),
                Got::End => break,
                Got::Some(n) => {
                    for byte in buffer.iter().take(n) {
                        match byte {
                            b'\n' | b'\r' => self.line(&mut line, &mut last),
                            byte if line.len() < 4 * LINE => line.push(*byte),
                            _ => {}
                        }
                    }
                }
            }
        }
        self.line(&mut line, &mut last);
        let patience = until.saturating_sub(since_boot()).max(Duration::from_secs(1));
        Ok((running.finish(patience).map_err(failed)?, last))
    }

    fn line(&self, bytes: &mut Vec<u8>, last: &mut Option<String>) {
        let text = tools::line(String::from_utf8_lossy(bytes).trim(), LINE);
        bytes.clear();
        if !text.is_empty() {
            self.say(&text);
            *last = Some(text);
        }
    }

    /// Tells a client of it, from the beginning to the end. That the client leaves is no fault of the pull.
    pub(super) fn watch(&self, client: &mut dyn Client) -> io::Result<()> {
        let mut next = 0;
        loop {
            let (lines, end) = {
                let state = lock(&self.state);
                let news = |s: &State| s.dropped + s.lines.len() > next || s.end.is_some();
                let state = if news(&state) {
                    state
                } else {
                    self.changed.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0
                };
                let from = next.saturating_sub(state.dropped);
                let lines: Vec<_> = state.lines.iter().skip(from).cloned().collect();
                next = state.dropped + state.lines.len();
                (lines, state.end.clone())
            };
            for line in &lines {
                tell(client, &StageEvent::Progress(line.to_string()))?;
            }
            if let Some(end) = end {
                tell(client, &end)?;
                return client.flush();
            }
            if !lines.is_empty() {
                client.flush()?;
            }
            if client.gone() {
                return Ok(());
            }
        }
    }
}

fn tell(client: &mut dyn Client, event: &StageEvent) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    client.write_all(&line)
}
