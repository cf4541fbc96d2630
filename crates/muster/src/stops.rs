//! Ctrl-C while something is under way that must not be left without a word.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and polite requests to end, none of which is missed between two looks.
pub(crate) struct Stops([Option<Signal>; 2]);

impl Stops {
    /// Takes the signals over: they end this process no longer by themselves.
    pub(crate) fn listen() -> Self {
        Self([SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind).ok()))
    }

    /// Waits for one.
    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate] = &mut self.0;
        tokio::select! {
            () = one(interrupt) => {}
            () = one(terminate) => {}
        }
    }
}

async fn one(signal: &mut Option<Signal>) {
    // Without a handler the system's own answer to the signal stands: the process ends.
    let heard = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if heard.is_none() {
        std::future::pending::<()>().await;
    }
}
