//! The edge: ends TLS and HTTP, and asks the core.
//!
//! It runs as a user that owns nothing, opens no file, starts no program and connects to nothing but the core's socket; what it
//! needs comes over that socket, and [`confine`] takes the rest away before the first client. It decides nothing: it judges clients only so that
//! strangers get an alert, and hands on the evidence by which the core judges again. What it does decide is what never reaches
//! the core: spellings that are not the one spelling, bodies that are too long, clients that are too many or too slow.
//!
//! - [`ask`]: a request line to an [`crate::wire::Ask`]; pure.
//! - [`heads`]: what of a request hyper would mend; pure. `watched` reads along for it.
//! - `tls`, `conn`, `http`, `body`, `owed`, `patient`: a connection, from its handshake to its last byte.
//! - `link`, `call`, `frames`: the core.
//! - `seats`, `door`: how many may come in.

pub mod ask;
mod body;
mod call;
pub mod confine;
mod conn;
mod door;
mod frames;
pub mod heads;
mod http;
mod link;
mod owed;
mod patient;
mod seats;
mod tls;
mod watched;

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::time::sleep;

use self::link::Link;
use self::seats::Seats;
use crate::shares::Shares;

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A handshake, and the first request of a stranger.
    pub handshake: Duration,
    /// A message head of HTTP/1.1, and the time between two requests there.
    pub head: Duration,
    /// A body.
    pub body: Duration,
    /// A client that takes nothing of what is written to it.
    pub write: Duration,
    /// A connection without a request.
    pub idle: Duration,
    /// The same, where nobody owns the node.
    pub stranger: Duration,
    /// A whole connection, where nobody owns the node.
    pub stranger_whole: Duration,
    /// Answers that have begun, when the edge is told to end.
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            body: Duration::from_secs(60),
            write: Duration::from_secs(30),
            idle: Duration::from_secs(120),
            stranger: Duration::from_secs(10),
            stranger_whole: Duration::from_secs(60),
            drain: Duration::from_secs(5),
        }
    }
}

/// What an edge is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The core's socket.
    pub socket: PathBuf,
    /// How long things may take.
    pub limits: Limits,
    /// Gives up what is not needed. Only a test that runs the edge among other things goes without.
    pub confine: bool,
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// It stays.
    Lives,
    /// It ends when what it is doing is done.
    Leaving,
    /// It ends now.
    Dead,
}

pub(crate) async fn is_leaving(fate: &mut watch::Receiver<Fate>) {
    // An error is an edge that is gone, and then all is over.
    let _ = fate.wait_for(|f| *f >= Fate::Leaving).await;
}

pub(crate) async fn is_dead(fate: &mut watch::Receiver<Fate>) {
    let _ = fate.wait_for(|f| *f == Fate::Dead).await;
}

/// Handles kept that the core dropped before their connection knew them.
const EARLY: usize = 256;
/// Handshakes at once, in all and an address.
const SHAKING: (usize, usize) = (64, 32);
/// Connections of clients that have shown who they are.
const CLIENTS: (usize, usize) = (512, 384);
/// Connections while nobody owns the node.
const STRANGERS: (usize, usize) = (8, 2);
/// Files: a socket each connection, one each call, and some.
const FILES: u64 = 2048;

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Edge {
    pub link: Arc<Link>,
    pub limits: Limits,
    pub calls: Arc<Semaphore>,
    pub bodies: Arc<Semaphore>,
    /// What each client has of both.
    pub calls_of: Arc<Shares>,
    pub bodies_of: Arc<Shares>,
    /// Room for answers that wait for their clients, and what each client has of it.
    pub answers: Arc<Semaphore>,
    pub answers_of: Arc<Shares>,
    inside: Mutex<Inside>,
}

/// Who is inside.
#[derive(Debug)]
struct Inside {
    next: u64,
    connections: HashMap<u64, Connection>,
    shaking: Seats,
    clients: Seats,
    strangers: Seats,
    early: VecDeque<String>,
}

#[derive(Debug)]
struct Connection {
    fate: watch::Sender<Fate>,
    claimed: bool,
    handle: Option<String>,
}

impl Edge {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what becomes of a connection; never back.
    pub(crate) fn doom(&self, id: u64, to: Fate) {
        if let Some(connection) = self.inside().connections.get(&id) {
            connection.doom(to);
        }
    }

    pub(crate) fn is_doomed(&self, id: u64) -> bool {
        self.inside().connections.get(&id).is_none_or(|c| *c.fate.borrow() > Fate::Lives)
    }

    pub(crate) fn fate(&self, id: u64) -> Option<watch::Receiver<Fate>> {
        self.inside().connections.get(&id).map(|c| c.fate.subscribe())
    }

    /// This connection has that handle.
    pub(crate) fn register(&self, id: u64, handle: &str) {
        let mut inside = self.inside();
        let early = inside.early.iter().any(|h| h == handle);
        if let Some(connection) = inside.connections.get_mut(&id) {
            connection.handle = Some(handle.to_owned());
            if early {
                connection.doom(Fate::Dead);
            }
        }
    }

    /// The core knows this handle no longer.
    fn dropped(&self, handle: String) {
        let mut inside = self.inside();
        match inside.connections.values().find(|c| c.handle.as_ref() == Some(&handle)) {
            Some(connection) => connection.doom(Fate::Dead),
            None => {
                inside.early.push_back(handle);
                if inside.early.len() > EARLY {
                    inside.early.pop_front();
                }
            }
        }
    }

    /// The client has shown who it is: it gives back the seat of a handshake for one of a client.
    pub(crate) fn seated(&self, id: u64, from: IpAddr) -> bool {
        let mut inside = self.inside();
        inside.shaking.leave(id);
        let seat = inside.clients.take(id, from);
        inside.sat(&seat)
    }
}

impl Connection {
    fn doom(&self, to: Fate) {
        self.fate.send_if_modified(|fate| {
            let worse = to > *fate;
            *fate = to.max(*fate);
            worse
        });
    }
}

/// The edge as a program: until it is told to end.
#[must_use]
pub fn main(socket: PathBuf) -> ExitCode {
    match run(&Options { socket, limits: Limits::default(), confine: true }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            log(3, &why);
            ExitCode::FAILURE
        }
    }
}

/// Runs an edge until it is told to end.
///
/// # Errors
/// Why it cannot: one line.
pub fn run(options: &Options) -> Result<(), String> {
    muster_sys::system::open_files(FILES);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot make an event loop: {e}"))?;
    runtime.block_on(async {
        let listen = |kind| signal(kind).map_err(|e| format!("cannot wait for signals: {e}"));
        let (mut end, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
        if options.confine {
            log(6, &confine::confine()?);
        }
        let told = async {
            tokio::select! {
                _ = end.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        serve(options, told).await;
        Ok(())
    })
}

/// Serves until `end`, and then lets what has begun come to its end.
pub async fn serve(options: &Options, end: impl Future<Output = ()>) {
    let (link, serving, mut dropped) = Link::new(options.socket.clone());
    let edge = Arc::new(Edge {
        link: Arc::clone(&link),
        limits: options.limits,
        calls: Arc::new(Semaphore::new(http::CALLS)),
        bodies: Arc::new(Semaphore::new(http::UNITS)),
        calls_of: Shares::new(http::CLIENT_CALLS),
        bodies_of: Shares::new(http::CLIENT_UNITS),
        answers: Arc::new(Semaphore::new(http::ANSWER_UNITS)),
        answers_of: Shares::new(http::CLIENT_ANSWER_UNITS),
        inside: Mutex::new(Inside {
            next: 0,
            connections: HashMap::new(),
            shaking: Seats::new(SHAKING.0, SHAKING.1),
            clients: Seats::new(CLIENTS.0, CLIENTS.1),
            strangers: Seats::new(STRANGERS.0, STRANGERS.1),
            early: VecDeque::new(),
        }),
    });
    let drops = async {
        while let Some(handle) = dropped.recv().await {
            edge.dropped(handle);
        }
    };
    // The link is kept while the last answers go out.
    let all = async {
        tokio::join!(link.keep(), drops);
    };
    let until = async {
        tokio::select! {
            () = door::keep(&edge, serving) => {}
            () = end => {}
        }
        for connection in edge.inside().connections.values() {
            connection.doom(Fate::Leaving);
        }
        let _ = tokio::time::timeout(options.limits.drain, async {
            while !edge.inside().connections.is_empty() {
                sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    };
    tokio::select! {
        () = all => {}
        () = until => {}
    }
}

/// A line for the journal, with its priority (sd-daemon(3)).
pub(crate) fn log(priority: u8, line: &str) {
    // Nobody to tell that nobody listens.
    let _ = crate::say::confined(char::from(b'0' + priority), &format!("edge: {line}"));
}
