//! Work on many hosts at once: at most so many at a time, everything that happens told to one place, questions asked there.
//!
//! Jobs run on the runtime's threads and never write or ask by themselves: a terminal that is stopped (Ctrl-S) must not stop
//! the answers to a host's keepalive, on which a running script depends. Lines of output that the terminal cannot take in time
//! are counted and left off; results never are.
//!
//! Ctrl-C once: no further host is started, what runs goes on. Twice: connections are closed, and hosts end what runs on them.

use super::view::View;
use crate::codes::Own;
use crate::fault::Fault;
use crate::printer::{Printer, Tone};
use crate::secret::Secret;
use crate::stops::Stops;
use crate::terminal;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Events that wait to be shown.
const WAITING: usize = 8192;

/// Open files of this process beside its connections, and for each host that is worked on: two logins, one of them opened anew
/// while the old one is held, and a resolver or an agent that is asked.
const FILES: u64 = 32;
const FILES_OF_HOST: u64 = 4;

/// How many hosts the open files are enough for. Without the limit, hosts would be called unreachable that are not.
fn at_once(wanted: usize, files: u64) -> usize {
    let enough = files.saturating_sub(FILES) / FILES_OF_HOST;
    wanted.min(usize::try_from(enough).unwrap_or(usize::MAX)).max(1)
}

/// What happens on a host.
#[derive(Debug)]
pub enum Event {
    /// What it is at.
    Stage(usize, String),
    /// A line of its output.
    Line(usize, String),
    /// Something that is worth a line of its own.
    Say(usize, String),
    /// Somebody must answer.
    Ask(Question),
}

/// A question without echo.
pub struct Question {
    prompt: String,
    reply: oneshot::Sender<Option<Secret>>,
}

impl core::fmt::Debug for Question {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Question({:?})", self.prompt)
    }
}

/// Tells what happens on one host.
#[derive(Clone, Debug)]
pub struct Reporter {
    host: usize,
    to: mpsc::Sender<Event>,
    lost: Arc<AtomicU64>,
}

impl Reporter {
    /// What the host is at.
    pub fn stage(&self, text: impl Into<String>) {
        let _ = self.to.try_send(Event::Stage(self.host, text.into()));
    }

    /// A line of its output, redacted and clean.
    pub fn line(&self, text: String) {
        if self.to.try_send(Event::Line(self.host, text)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A line about it.
    pub fn say(&self, text: impl Into<String>) {
        let _ = self.to.try_send(Event::Say(self.host, text.into()));
    }
}

/// Asks on the operator's terminal, from any thread, while the table is held still.
#[derive(Clone, Debug)]
pub struct Asker(mpsc::Sender<Event>);

impl Asker {
    /// Asks; `None` when there is nobody, or they would rather not.
    pub async fn ask(&self, prompt: String) -> Option<Secret> {
        let (reply, answer) = oneshot::channel();
        self.0.send(Event::Ask(Question { prompt, reply })).await.ok()?;
        answer.await.ok()?
    }

    /// The same from a thread that may block.
    pub fn ask_blocking(&self, prompt: String) -> Option<Secret> {
        let (reply, answer) = oneshot::channel();
        self.0.blocking_send(Event::Ask(Question { prompt, reply })).ok()?;
        answer.blocking_recv().ok()?
    }
}

/// What a job ends with, as a view shows it.
pub trait Finished: Send + 'static {
    /// One word.
    fn word(&self) -> (&'static str, Tone);
    /// The stable code of what went wrong.
    fn reason(&self) -> Option<&'static str>;
    /// The rest of the line, for who gets no summary that says it.
    fn detail(&self) -> String;
}

/// What became of a job.
#[derive(Debug)]
pub enum Slot<T> {
    /// It ended.
    Done(T),
    /// It was never begun: the operator said stop.
    NotStarted,
    /// It was begun and cut off by the operator.
    Cut,
    /// It broke: a fault of this program.
    Broken,
}

/// A job on one host.
pub type Job<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// Makes the job of a host.
pub type MakeJob<'m, T> = &'m mut dyn FnMut(usize, Reporter) -> Job<T>;

/// The place where everything is told. Made before the jobs, so that keys can ask for their passphrases.
pub struct Fleet {
    to: mpsc::Sender<Event>,
    from: mpsc::Receiver<Event>,
    lost: Arc<AtomicU64>,
}

impl Default for Fleet {
    fn default() -> Self {
        Self::new()
    }
}

impl Fleet {
    /// Nobody listens yet.
    pub fn new() -> Self {
        let (to, from) = mpsc::channel(WAITING);
        Self { to, from, lost: Arc::default() }
    }

    /// For keys and passwords.
    pub fn asker(&self) -> Asker {
        Asker(self.to.clone())
    }

    /// Runs a job for each name, `parallel` at a time, and gives what became of each, in the order of the names.
    pub fn run<T: Finished>(
        mut self,
        (title, names): (&str, &[String]),
        parallel: usize,
        printer: &mut Printer,
        make: MakeJob<'_, T>,
    ) -> Result<Vec<Slot<T>>, Fault> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|e| Fault::new(Own::Fault, "cannot start the runtime").why(e.to_string()))?;
        let wanted = parallel.clamp(1, names.len().max(1));
        let files = muster_sys::system::open_files(FILES + FILES_OF_HOST * wanted as u64);
        let parallel = at_once(wanted, files);
        if parallel < wanted {
            printer.warn(&format!(
                "only {parallel} hosts at a time: this process may have {files} files open; `ulimit -n` lets it have more"
            ));
        }
        let mut view = View::new(title, names, printer);
        let slots = runtime.block_on(self.drive(names.len(), parallel, &mut view, make));
        view.end();
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > 0 {
            let kept = "-o json keeps a host's output with its result";
            printer.warn(&format!("{lost} lines of output came faster than they could be shown; {kept}"));
        }
        // A question to a key that nobody answered may still hold a thread.
        runtime.shutdown_timeout(Duration::from_secs(2));
        Ok(slots)
    }

    async fn drive<T: Finished>(
        &mut self,
        count: usize,
        parallel: usize,
        view: &mut View<'_>,
        make: MakeJob<'_, T>,
    ) -> Vec<Slot<T>> {
        let mut slots: Vec<Slot<T>> = (0..count).map(|_| Slot::NotStarted).collect();
        let mut waiting = 0..count;
        let mut running = JoinSet::new();
        let mut which = HashMap::new();
        let mut stops = 0u8;
        let mut signals = Stops::listen();
        loop {
            while stops == 0 && running.len() < parallel {
                let Some(host) = waiting.next() else { break };
                view.begin(host);
                let reporter = Reporter { host, to: self.to.clone(), lost: Arc::clone(&self.lost) };
                which.insert(running.spawn(make(host, reporter)).id(), host);
            }
            tokio::select! {
                biased;
                Some(event) = self.from.recv() => {
                    if show(view, event) {
                        stops += 1;
                        stop(stops, view, waiting.len(), &mut running);
                    }
                }
                ended = running.join_next_with_id() => {
                    let Some(ended) = ended else { break };
                    let id = match &ended { Ok((id, _)) => *id, Err(e) => e.id() };
                    let Some(&host) = which.get(&id) else { continue };
                    let slot = match ended {
                        Ok((_, done)) => { view.done(host, &done); Slot::Done(done) }
                        Err(e) if e.is_cancelled() => Slot::Cut,
                        Err(_) => Slot::Broken,
                    };
                    if let Some(place) = slots.get_mut(host) {
                        *place = slot;
                    }
                }
                () = signals.next() => {
                    stops += 1;
                    stop(stops, view, waiting.len(), &mut running);
                }
            }
        }
        while let Ok(event) = self.from.try_recv() {
            show(view, event);
        }
        slots
    }
}

/// The operator said stop, for the first time or again.
fn stop<T: 'static>(times: u8, view: &mut View<'_>, waiting: usize, running: &mut JoinSet<T>) {
    if times == 1 {
        view.say(&format!(
            "stopping: {waiting} not begun; {} go on. Ctrl-C again closes their connections, and the hosts end what runs there",
            running.len()
        ));
    } else {
        running.abort_all();
    }
}

/// Whether the operator answered a question with Ctrl-C, which the terminal then gave as a byte and not as a signal.
fn show(view: &mut View<'_>, event: Event) -> bool {
    match event {
        Event::Stage(host, text) => view.stage(host, text),
        Event::Line(host, text) => view.line(host, &text),
        Event::Say(host, text) => view.say_of(host, &text),
        Event::Ask(question) => {
            let answer = view.aside(|| terminal::passphrase(&question.prompt));
            let interrupted = matches!(&answer, Err(fault) if fault.code == Own::Interrupted.into());
            // Whoever asked may be gone by now.
            let _ = question.reply.send(answer.ok());
            return interrupted;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_open_files_mean_few_hosts_at_a_time() {
        for (wanted, files, parallel) in
            [(16, 1024, 16), (50, 132, 25), (50, 20, 1), (1024, u64::MAX, 1024), (1, 0, 1)]
        {
            assert_eq!(at_once(wanted, files), parallel, "{wanted} {files}");
        }
    }
}
