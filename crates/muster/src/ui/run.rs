//! The dashboard's loop: what is typed and what comes in, what is done about it, and what is drawn.

use super::input::inputs;
use super::model::{Effect, Event, Model};
use super::screen::Screen;
use super::update::update;
use super::view::view;
use super::work::Work;
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::nodes::session::{Session, runtime};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// What comes in faster than this is drawn together.
const FRAME: Duration = Duration::from_millis(20);
/// Events that are taken in before a frame is drawn.
const AT_ONCE: usize = 2048;
/// Heads of audit chains are kept this often, and at the end.
const HEADS: Duration = Duration::from_secs(30);

/// What the dashboard shows, and how.
pub struct Settings {
    /// The nodes, and who calls them.
    pub session: Session,
    /// How often each node is asked.
    pub every: Duration,
    /// Colours may be used.
    pub colour: bool,
    /// Where this is about, for the first line.
    pub about: String,
}

/// Runs it until it is quit.
pub fn run(settings: Settings) -> Outcome {
    let runtime = runtime()?;
    let none = |e: std::io::Error| Faults::from(no_screen(&e));
    ratatui::crossterm::style::force_color_output(settings.colour);
    // Before the screen is taken: no signal finds it taken and nobody there to give it back.
    let signals = {
        let _in_it = runtime.enter();
        Signals::listen()
    };
    let mut screen = Screen::take().map_err(none)?;
    let end = runtime.block_on(drive(settings, signals, &mut screen));
    drop(screen);
    // What is still under way is not waited for.
    runtime.shutdown_background();
    end
}

fn no_screen(error: &std::io::Error) -> Fault {
    Fault::new(Own::TerminalNeeded, "the terminal cannot be used").why(error.to_string())
}

/// The signals that end it, the one that wants the terminal for somebody else, the one that says that somebody else had it, and the one that
/// says that it has another size.
struct Signals {
    ending: Vec<(&'static str, Signal)>,
    stopped: Option<Signal>,
    continued: Option<Signal>,
    resized: Option<Signal>,
}

impl Signals {
    fn listen() -> Self {
        let kinds = [
            ("SIGINT", SignalKind::interrupt()),
            ("SIGTERM", SignalKind::terminate()),
            ("SIGHUP", SignalKind::hangup()),
            ("SIGQUIT", SignalKind::quit()),
        ];
        let ending = kinds.into_iter().filter_map(|(name, kind)| Some((name, signal(kind).ok()?))).collect();
        // signal(7): 18 on every Linux of ours.
        let continued = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw())).ok();
        let stopped = signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw())).ok();
        let resized = signal(SignalKind::window_change()).ok();
        Self { ending, stopped, continued, resized }
    }

    async fn end(ending: &mut [(&'static str, Signal)]) -> &'static str {
        std::future::poll_fn(|cx| {
            for (name, signal) in ending.iter_mut() {
                if signal.poll_recv(cx).is_ready() {
                    return std::task::Poll::Ready(*name);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }

    async fn one(signal: &mut Option<Signal>) {
        let came = match signal {
            Some(signal) => signal.recv().await.is_some(),
            None => false,
        };
        if !came {
            std::future::pending::<()>().await;
        }
    }
}

/// What the loop was woken by.
enum Woken {
    Event(Event),
    Signal(&'static str),
    /// Somebody else wants the terminal.
    Stopped,
    /// Somebody else had the terminal.
    Continued,
    /// It has another size.
    Resized,
    /// Nothing can be typed any more.
    Gone,
}

async fn drive(settings: Settings, mut signals: Signals, screen: &mut Screen) -> Outcome {
    let begun = Instant::now();
    let now = || u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let Settings { session, every, colour, about } = settings;
    let session = Arc::new(session);
    let mut model = Model::new(
        session.chosen.clone(),
        every,
        session.pace.places(muster_core::Operation::NodeState),
        screen.size(),
    );
    (model.colour, model.about) = (colour, about);
    let mut typed = inputs();
    let (to, mut came) = mpsc::channel(AT_ONCE);
    let mut work = Work::new(session, to);
    let mut kept = Instant::now();
    let mut next = Woken::Event(Event::Tick);
    loop {
        let mut more = AT_ONCE;
        let mut waiting = Some(next);
        while let Some(woken) = waiting {
            let event = match woken {
                Woken::Event(event) => event,
                Woken::Stopped | Woken::Continued | Woken::Resized => {
                    if let Err(e) = taken(&woken, screen) {
                        return broke(&model, &work, no_screen(&e));
                    }
                    let (columns, rows) = screen.size();
                    Event::Resize(columns, rows)
                }
                Woken::Signal(name) => return interrupted(&model, &work, Some(name)),
                Woken::Gone => return interrupted(&model, &work, None),
            };
            for effect in update(&mut model, now(), event) {
                match effect {
                    Effect::Quit { interrupted: true } => return interrupted(&model, &work, Some("Ctrl-C")),
                    Effect::Quit { interrupted: false } => {
                        work.keep_heads();
                        return Ok(Exit::Ok);
                    }
                    Effect::Suspend => {
                        if let Err(e) = screen.suspend(true) {
                            return broke(&model, &work, no_screen(&e));
                        }
                    }
                    other => work.begin(other),
                }
            }
            more -= 1;
            // What is taken out is worked on; where it is enough for now, it is left in.
            waiting = match more {
                0 => None,
                _ => typed.try_recv().or_else(|_| came.try_recv()).ok().map(Woken::Event),
            };
        }
        if work.broken() {
            return broke(&model, &work, Fault::new(Own::Fault, "the work on a node broke off"));
        }
        if let Err(e) = screen.draw(|frame| view(&model, frame)) {
            return broke(&model, &work, no_screen(&e));
        }
        if kept.elapsed() > HEADS {
            work.keep_heads();
            kept = Instant::now();
        }
        tokio::time::sleep(FRAME).await;
        let wake = model.wake().map(|at| begun + Duration::from_millis(at));
        next = tokio::select! {
            biased;
            name = Signals::end(&mut signals.ending) => Woken::Signal(name),
            () = Signals::one(&mut signals.stopped) => Woken::Stopped,
            () = Signals::one(&mut signals.continued) => Woken::Continued,
            () = Signals::one(&mut signals.resized) => Woken::Resized,
            event = typed.recv() => event.map_or(Woken::Gone, Woken::Event),
            Some(event) = came.recv() => Woken::Event(event),
            () = until(wake) => Woken::Event(Event::Tick),
        };
    }
}

/// What is done with the screen before it is drawn on again.
fn taken(woken: &Woken, screen: &mut Screen) -> std::io::Result<()> {
    match woken {
        Woken::Stopped => screen.suspend(false),
        Woken::Continued => screen.again(),
        _ => Ok(()),
    }
}

async fn until(wake: Option<Instant>) {
    match wake {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// It cannot go on. Where something was sent and not answered, that is what must be known of it, and not why the screen is gone.
fn broke(model: &Model, work: &Work, fault: Fault) -> Outcome {
    if model.doing.is_some() {
        return interrupted(model, work, Some(&fault.what));
    }
    work.keep_heads();
    Err(fault.into())
}

/// Ended from outside, or with Ctrl-C. What was sent and not answered has an outcome that nobody knows.
fn interrupted(model: &Model, work: &Work, by: Option<&str>) -> Outcome {
    work.keep_heads();
    if let Some(doing) = &model.doing {
        let by = by.unwrap_or("the end of the terminal");
        let what = format!("{doing}: it was sent, and {by} came before the answer");
        return Err(Fault::new(Own::OutcomeUnknown, what).fix("Ask the node: `muster node status`.").into());
    }
    Ok(Exit::Interrupted)
}
