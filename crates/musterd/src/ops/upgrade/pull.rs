//! A pull that goes on whoever watches.
//!
//! It is a unit of the service manager's, with a deadline of its own; a thread here follows what it prints, and how it stands. Those who
//! asked for it read that from the beginning and then as it comes; one who leaves takes nothing with him, and one who asks for the same
//! image meanwhile reads along. What is pulled is on the (volatile) disk before it is begun, so that a core that is started
//! in the middle follows it as its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use muster_api::Fault;
use muster_api::upgrade::{Image, StageEvent};
use muster_sys::SysError;
use muster_sys::clock::since_boot;
use muster_sys::command::Outcome;
use muster_sys::state::{Durability, give_back_head, head};
use serde::{Deserialize, Serialize};

use super::super::{Client, Ended, lifecycle, tools};
use super::{ImageBackend, Reference, Stands};
use crate::core::disk::{self, Disk};
use crate::places::Places;

/// What a pull may take: the only clock.
pub(super) const LONGEST: Duration = Duration::from_secs(30 * 60);
/// What its unit has beyond that to be ended in.
const SPARE: Duration = Duration::from_secs(120);
/// Lines that are kept for those who come late.
const KEPT: usize = 2000;
/// Bytes of the longest line.
const LINE: usize = 1024;
/// How often a watcher looks whether its client is there, and the thread how the pull stands.
const TICK: Duration = Duration::from_millis(500);
/// Bytes of what was printed that stay in memory's file system once they were read.
const MAX_LOG: u64 = 1 << 20;

/// The files of [`STAGING`](crate::places::STAGING) and [`STAGE_LOG`](crate::places::STAGE_LOG), in their folder.
const RECORD: &str = "stage.json";
const LOG: &str = "stage.log";

/// What is on disk as long as a pull may be going on.
#[derive(Serialize, Deserialize)]
struct Staging {
    image: String,
    /// It was followed already, so what comes of it may be what runs.
    #[serde(default)]
    anew: bool,
}

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
        places: &Places,
        image: &Reference,
        backend: Box<dyn ImageBackend>,
        longest: Duration,
        ended: Ended,
    ) -> Result<Arc<Pull>, Fault> {
        let mut slot = lock(&self.0);
        if let Some(pull) = slot.as_ref().filter(|p| !p.ended()) {
            if pull.image == *image {
                return Ok(Arc::clone(pull));
            }
            let error = format!("the node is pulling another image: {}", pull.image);
            return Err(Fault::state("staging", error).fix("Wait until it is done."));
        }
        let unit = Unit::open(places, backend, longest)?;
        let pull = Pull::start(
            image,
            move |pull| unit.begin(&pull.image).and_then(|anew| pull.followed(&unit, anew)),
            move |staged, words| ended(staged, words),
        )?;
        *slot = Some(Arc::clone(&pull));
        Ok(pull)
    }

    /// Follows the pull that the disk says is under way; whether there is one.
    pub(super) fn adopt(
        &self,
        places: &Places,
        backend: Box<dyn ImageBackend>,
        told: impl FnOnce(bool, &str) + Send + 'static,
    ) -> bool {
        // First, and not where somebody has begun one since: what the disk says is of that one then.
        let mut slot = lock(&self.0);
        if slot.is_some() {
            return false;
        }
        let found = || {
            let unit = Unit::open(places, backend, LONGEST).ok()?;
            let Staging { image, anew } = disk::read_json(&unit.disk.run, RECORD).ok()??;
            Some((unit, Reference::parse(&image).ok()?, anew))
        };
        let Some((unit, image, anew)) = found() else { return false };
        match Pull::start(&image, move |pull| pull.followed(&unit, anew), told) {
            Ok(pull) => *slot = Some(pull),
            Err(fault) => {
                lifecycle::record(&fault.error);
                return false;
            }
        }
        true
    }
}

/// Ends a pull, also one whose work panicked, and tells of its end once.
struct Ends<'p, T: FnOnce(bool, &str)>(&'p Pull, Option<T>);

impl<T: FnOnce(bool, &str)> Ends<'_, T> {
    fn with(&mut self, done: Result<Image, Fault>) {
        let Some(told) = self.1.take() else { return };
        let (staged, words) = match &done {
            Ok(image) => {
                let digest = image.digest.as_deref().unwrap_or("an image without a digest");
                (true, format!("{}: the next boot takes {digest}", self.0.image))
            }
            Err(fault) => (false, fault.error.clone()),
        };
        // Whoever hears of the end finds it written down.
        told(staged, &words);
        self.0.end(done.map_or_else(|fault| StageEvent::Error(fault.error), StageEvent::Staged));
    }
}

impl<T: FnOnce(bool, &str)> Drop for Ends<'_, T> {
    fn drop(&mut self) {
        self.with(Err(Fault::failed("pull", "the pull ended in an error of the node's daemon")));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in there is whole after each of our steps, whoever panicked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(e: &SysError) -> Fault {
    Fault::failed("pull", e.line())
}

/// The unit of a pull, and what is on the disk of it.
struct Unit {
    backend: Box<dyn ImageBackend>,
    disk: Disk,
    longest: Duration,
}

impl Unit {
    fn open(places: &Places, backend: Box<dyn ImageBackend>, longest: Duration) -> Result<Self, Fault> {
        let disk = Disk::open(places).map_err(|e| Fault::failed("disk", e))?;
        Ok(Self { backend, disk, longest })
    }

    /// Begins it. Where the machine is pulling this image already, by whoever's word, that is it. Whether it was followed already.
    fn begin(&self, image: &Reference) -> Result<bool, Fault> {
        let (run, text) = (&self.disk.run, image.as_str());
        match self.backend.stands()? {
            Stands::Nothing => {}
            Stands::Ended(_) => self.backend.forget()?,
            Stands::Runs => {
                let known: Option<Staging> = disk::read_json(run, RECORD).unwrap_or_default();
                if let Some(known) = known.filter(|k| k.image == text) {
                    return Ok(known.anew);
                }
                return Err(Fault::state("staging", "the node is pulling an image already"));
            }
        }
        run.remove(LOG).map_err(|e| failed(&e))?;
        let anew = self.backend.images()?.followed.as_deref() == Some(text);
        let record = Staging { image: text.to_owned(), anew };
        disk::write_json(run, RECORD, &record, Durability::Volatile).map_err(|e| Fault::failed("pull", e))?;
        // Made here, so that it is private from its beginning.
        run.open_growing(LOG).map_err(|e| failed(&e))?;
        self.backend.pull(image, anew, self.longest).inspect_err(|_| self.forget())?;
        Ok(anew)
    }

    /// Its end was seen. The unit first: a record without a unit is one of a pull that ended.
    fn forget(&self) {
        if let Err(fault) = self.backend.forget() {
            lifecycle::record(&format!("the unit of a pull stays behind: {}", fault.error));
        }
        let _ = self.disk.run.remove(RECORD);
        let _ = self.disk.run.remove(LOG);
    }
}

/// What the unit has printed, read as it grows. Its writers are never made to write elsewhere: of a file that is cut off, what is
/// written between the last look and the cut is lost, and that may be why the pull failed. So the room of what was read is given back,
/// and the file's end stays where it is.
struct Log {
    file: File,
    at: u64,
    /// Given back up to here.
    gone: u64,
    line: Vec<u8>,
    last: Option<String>,
}

impl Log {
    fn open(disk: &Disk) -> Result<Self, Fault> {
        let file = disk.run.open_growing(LOG).map_err(|e| failed(&e))?;
        // One that was followed before has no beginning.
        let at = head(&file);
        Ok(Self { file, at, gone: at, line: Vec::new(), last: None })
    }

    /// Gives the lines that came. They end where they are overwritten on a terminal, too.
    fn read(&mut self, mut say: impl FnMut(&str)) -> io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        self.file.seek(io::SeekFrom::Start(self.at))?;
        loop {
            let n = self.file.read(&mut buffer)?;
            if n == 0 {
                break;
            }
            self.at += n as u64;
            for byte in buffer.iter().take(n) {
                match byte {
                    b'\n' | b'\r' => self.end_line(&mut say),
                    // What was given back, as far as the file system did not say.
                    0 => {}
                    byte if self.line.len() < 4 * LINE => self.line.push(*byte),
                    _ => {}
                }
            }
            if self.at - self.gone > MAX_LOG {
                // Where it cannot be, the file grows until the pull ends.
                let _ = give_back_head(&self.file, self.at);
                self.gone = self.at;
            }
        }
        Ok(())
    }

    fn end_line(&mut self, say: &mut impl FnMut(&str)) {
        let text = tools::line(String::from_utf8_lossy(&self.line).trim(), LINE);
        self.line.clear();
        if !text.is_empty() {
            say(&text);
            self.last = Some(text);
        }
    }
}

impl Pull {
    /// Does the work on a thread, and tells of its end.
    fn start(
        image: &Reference,
        work: impl FnOnce(&Self) -> Result<Image, Fault> + Send + 'static,
        told: impl FnOnce(bool, &str) + Send + 'static,
    ) -> Result<Arc<Self>, Fault> {
        let pull = Arc::new(Self { image: image.clone(), state: Mutex::default(), changed: Condvar::new() });
        pull.say(&format!("pulling {image}"));
        let mine = Arc::clone(&pull);
        std::thread::Builder::new()
            .name("stage".to_owned())
            .spawn(move || {
                let mut guard = Ends(&mine, Some(told));
                let done = work(&mine);
                guard.with(done);
            })
            .map_err(|e| Fault::failed("threads", format!("no thread for a pull: {e}")))?;
        Ok(pull)
    }

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

    /// To its end, and what is staged then.
    fn followed(&self, unit: &Unit, anew: bool) -> Result<Image, Fault> {
        let (outcome, last) = self.follow(unit)?;
        let staged = Self::judged(unit, anew, outcome, last);
        unit.forget();
        staged
    }

    fn judged(unit: &Unit, anew: bool, outcome: Outcome, last: Option<String>) -> Result<Image, Fault> {
        match outcome {
            Outcome::Exited(0) => {}
            Outcome::TimedOut => {
                let minutes = unit.longest.as_secs() / 60;
                let error = format!("the pull was not done in {minutes} minutes, and was ended");
                return Err(Fault::failed("pull", error));
            }
            // Why is the point of this call, and its last line says it.
            Outcome::Exited(_) | Outcome::Signaled(_) => {
                let last = last.unwrap_or_else(|| "it said nothing".to_owned());
                return Err(Fault::failed("pull", format!("the pull failed: {last}")));
            }
        }
        let images = unit.backend.images()?;
        // Nothing newer is behind the name: the next boot takes what runs.
        let next = images.staged.or(images.booted.filter(|_| anew && !images.rollback_queued));
        next.ok_or_else(|| Fault::failed("pull", "the pull went well and nothing is staged"))
    }

    /// Reads what the pull prints until its unit has ended.
    fn follow(&self, unit: &Unit) -> Result<(Outcome, Option<String>), Fault> {
        let until = since_boot() + unit.longest + SPARE;
        let mut log = Log::open(&unit.disk)?;
        loop {
            // Asked before it is read: what was printed before the end is in the file then.
            let stands = unit.backend.stands();
            log.read(|line| self.say(line)).map_err(|e| Fault::failed("pull", e.to_string()))?;
            match stands {
                Ok(Stands::Ended(outcome)) => {
                    log.end_line(&mut |line: &str| self.say(line));
                    return Ok((outcome, log.last));
                }
                Ok(Stands::Nothing) => {
                    unit.forget();
                    return Err(Fault::failed("pull", "the pull was ended by somebody on the node"));
                }
                Ok(Stands::Runs) if since_boot() < until => {}
                // A service manager that is just being replaced answers again.
                Err(_) if since_boot() < until => {}
                Ok(Stands::Runs) => {
                    return Err(Fault::failed("pull", "the pull does not end, and is left alone"));
                }
                Err(fault) => return Err(fault),
            }
            std::thread::sleep(TICK);
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

/// Begins a pull as a core does that is killed then.
#[cfg(test)]
pub(super) fn begin_and_die(places: &Places, image: &str) -> Result<(), Fault> {
    let backend = super::backend(places).expect("a back end");
    Unit::open(places, backend, LONGEST)?.begin(&Reference::parse(image).expect("an image")).map(drop)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::ops::testing::Fake;

    /// A writer that rests only until the last kill, and a reader that is another one in the middle: each line comes once, and in its place.
    #[test]
    fn no_line_is_lost_while_the_room_of_what_was_read_is_given_back() {
        const LINES: usize = 400_000;
        // In memory, as on a node.
        let fake = Fake::within("/dev/shm");
        let disk = Disk::open(&fake.places).unwrap();
        let mut log = Log::open(&disk).unwrap();
        let mut writer = disk.run.open_growing(LOG).unwrap();
        // Who begins after the last line sees none of them, so the second half comes after the last kill.
        let (killed, kills) = std::sync::mpsc::channel();
        let writes = std::thread::spawn(move || {
            for n in 0..LINES {
                if n == LINES / 2 {
                    kills.recv().unwrap();
                }
                writer
                    .write_all(format!("line {n} of a pull that has very much to tell\n").as_bytes())
                    .unwrap();
            }
            writer.write_all(b"error: why it failed").unwrap();
        });
        let line = |n: usize| match n {
            LINES => "error: why it failed".to_owned(),
            n => format!("line {n} of a pull that has very much to tell"),
        };
        // Which one is next; who begins in the middle may first see the end of one.
        let (mut next, mut took, mut again) = (Some(0), 0, 0);
        loop {
            let over = writes.is_finished();
            let mut check = |said: &str| match next {
                Some(n) => {
                    assert_eq!(said, line(n));
                    next = Some(n + 1);
                }
                None => {
                    assert!(!said.contains('\0'), "{said:?}");
                    let number = said.strip_prefix("line ").and_then(|l| l.split(' ').next()?.parse().ok());
                    next = number.filter(|n| said == line(*n)).map(|n| n + 1);
                }
            };
            log.read(&mut check).unwrap();
            // Without what came since, which is as much as the scheduler likes.
            let is = log.file.metadata().unwrap();
            took = took.max((is.blocks() * 512).saturating_sub(is.len() - log.at));
            if over {
                log.end_line(&mut check);
                break;
            }
            // The core is killed.
            if again < 3 && log.gone > again * MAX_LOG {
                (again, next) = (again + 1, None);
                let gone = log.gone;
                log = Log::open(&disk).unwrap();
                assert!(log.at <= gone && log.at + 64 * 1024 > gone, "{} {gone}", log.at);
                if again == 3 {
                    killed.send(()).unwrap();
                }
            }
        }
        writes.join().unwrap();
        assert_eq!((next, log.last), (Some(LINES + 1), Some(line(LINES))));
        assert!(log.gone > 2 * MAX_LOG, "{}", log.gone);
        // All lines are more than 18 MiB. What was read is given back above MAX_LOG; the rest is for pages that have only begun.
        assert!(took > 0 && took < 2 * MAX_LOG, "{took}");
    }
}
