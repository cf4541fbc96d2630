//! Where clients come in.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use super::seats::Seat;
use super::tls::Serving;
use super::{Connection, Edge, Fate, Inside, conn, log};

/// Between two tries to listen, or to go on after the kernel gave nothing.
const AGAIN: Duration = Duration::from_secs(1);

impl Inside {
    /// Whether a seat was found; whoever had it before goes.
    pub(super) fn sat(&self, seat: &Seat) -> bool {
        if let Seat::InsteadOf(other) = seat
            && let Some(other) = self.connections.get(other)
        {
            other.doom(Fate::Dead);
        }
        *seat != Seat::None
    }
}

/// Takes clients in for ever, with what is served at the time.
pub(crate) async fn keep(edge: &Arc<Edge>, mut serving: watch::Receiver<Option<Arc<Serving>>>) {
    let mut listener: Option<(SocketAddr, TcpListener)> = None;
    let mut told = None;
    loop {
        let now = serving.borrow_and_update().clone();
        let Some(now) = now else {
            if serving.changed().await.is_err() {
                return;
            }
            continue;
        };
        // Whoever came while the node was of another kind, with or without an owner, begins anew.
        for connection in edge.inside().connections.values().filter(|c| c.claimed != now.claimed()) {
            connection.doom(Fate::Leaving);
        }
        if listener.as_ref().is_none_or(|(at, _)| *at != now.listen) {
            listener = None;
            match TcpListener::bind(now.listen).await {
                Ok(bound) => {
                    conn::keep_alive(&bound);
                    let at = bound.local_addr().unwrap_or(now.listen);
                    log(
                        6,
                        &format!(
                            "listening at {at}, {}",
                            if now.claimed() { "claimed" } else { "unclaimed" }
                        ),
                    );
                    listener = Some((now.listen, bound));
                }
                Err(e) => {
                    let why = format!("cannot listen at {}: {e}", now.listen);
                    // Once, not at each try.
                    if told.as_ref() != Some(&why) {
                        log(3, &why);
                        told = Some(why);
                    }
                }
            }
        }
        let Some((_, bound)) = &listener else {
            tokio::select! {
                _ = serving.changed() => {}
                () = sleep(AGAIN) => {}
            }
            continue;
        };
        tokio::select! {
            changed = serving.changed() => if changed.is_err() { return },
            // Only what changes ends it.
            () = accept(edge, bound, &now) => {}
        }
    }
}

async fn accept(edge: &Arc<Edge>, listener: &TcpListener, serving: &Arc<Serving>) {
    let mut told = false;
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                told = false;
                admit(edge, stream, from.ip().to_canonical(), serving);
            }
            Err(e) => {
                if !told {
                    log(4, &format!("cannot take a connection: {e}"));
                    told = true;
                }
                // Of one connection, or of the whole process; the second must not spin.
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Gives a connection its seat and its task, or closes it.
fn admit(edge: &Arc<Edge>, stream: TcpStream, from: IpAddr, serving: &Arc<Serving>) {
    let (id, fate) = {
        let mut inside = edge.inside();
        let id = inside.next;
        let seats = if serving.claimed() { &mut inside.shaking } else { &mut inside.strangers };
        let seat = seats.take(id, from);
        if !inside.sat(&seat) {
            return;
        }
        inside.next += 1;
        let (fate, of) = watch::channel(Fate::Lives);
        inside.connections.insert(id, Connection { fate, claimed: serving.claimed(), handle: None });
        (id, of)
    };
    let (leaves, serving) = (Leaves(Arc::clone(edge), id), Arc::clone(serving));
    tokio::spawn(async move {
        conn::serve(Arc::clone(&leaves.0), id, from, stream, serving, fate).await;
        drop(leaves);
    });
}

/// A connection that is over gives back what it had, however it ended.
struct Leaves(Arc<Edge>, u64);

impl Drop for Leaves {
    fn drop(&mut self) {
        let mut inside = self.0.inside();
        inside.connections.remove(&self.1);
        inside.shaking.leave(self.1);
        inside.clients.leave(self.1);
        inside.strangers.leave(self.1);
    }
}
