//! `muster node list --watch`: what nodes are, again and again.
//!
//! On a terminal one table is drawn over the one before, with each answer as it comes, and a node that does not answer holds up
//! nobody else. Elsewhere one round of all nodes follows the other, so that a pipe and a log have whole ones. It goes on until
//! Ctrl-C, or until nobody reads any more.

use super::status::uptime;
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::nodes::choose::Chosen;
use crate::nodes::session::{Callee, Session, runtime, within};
use crate::printer::{Format, Printer};
use muster_api::node::Node;
use muster_core::Operation;
use serde::Serialize;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Up and to the left, and what was there is gone (ECMA-48: CUP, ED).
const AGAIN: &[u8] = b"\x1b[H\x1b[2J";

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    node: String,
    address: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Node>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

fn row(chosen: Chosen, result: Result<Node, Fault>) -> Row {
    let (node, address) = (chosen.name, chosen.endpoint.to_string());
    match result {
        Ok(status) => Row { node, address, state: word(&status), status: Some(status), error: None },
        Err(fault) => {
            Row { node, address, state: fault.code.word(), status: None, error: Some(fault.to_string()) }
        }
    }
}

/// A node in one word.
pub(crate) fn word(node: &Node) -> &'static str {
    let failed = |v: &Option<String>| v.as_deref() == Some("failed");
    match () {
        () if node.reset.is_some() => "resetting",
        () if failed(&node.health.verdict) || failed(&node.health.greenboot) => "failed",
        () if node.kubernetes.service.is_some() && !node.kubernetes.active => "degraded",
        () if node.bootstrapped => "well",
        () if node.management.waits_for.is_some() => "waits",
        () => "not-built",
    }
}

/// Watches.
pub fn run(session: &Session, every: Duration, printer: &mut Printer) -> Outcome {
    let looks = printer.looks();
    // Only a terminal has a width.
    if looks.format == Format::Table && looks.width.is_some() {
        return runtime()?.block_on(on_a_terminal(session, every, printer));
    }
    loop {
        let results = session.each(Operation::NodeState, |callee| async move {
            callee.told(Operation::NodeState, callee.node.state().await)
        })?;
        let rows: Vec<Row> = results.into_iter().map(|(chosen, result)| row(chosen, result)).collect();
        show(&rows, printer);
        session.keep_meanwhile(&[]);
        if printer.out_gone() {
            return Ok(Exit::Ok);
        }
        std::thread::sleep(every);
    }
}

fn show(rows: &[Row], printer: &mut Printer) {
    if printer.value(&rows) {
        return;
    }
    if printer.looks().format == Format::Name {
        for row in rows.iter().filter(|r| r.status.is_some()) {
            printer.data(&row.node);
        }
        return;
    }
    table(&rows.iter().map(|r| cells(r, None)).collect::<Vec<_>>(), printer);
}

fn table(cells: &[Vec<String>], printer: &mut Printer) {
    printer.table(&["node", "address", "state", "role", "kubernetes", "image", "up"], cells);
}

/// A row for people. Of one that is asked for so long already, what it said last stays.
fn cells(r: &Row, asked_for: Option<Duration>) -> Vec<String> {
    let s = r.status.as_ref();
    let text = |f: fn(&Node) -> Option<String>| s.and_then(f).unwrap_or_default();
    // What somebody should look at stands out without a colour, too.
    let mark = if r.state == "well" || r.state.is_empty() { "" } else { "! " };
    let mut state = format!("{mark}{}", r.state);
    if let Some(age) = asked_for {
        let between = if state.is_empty() { "" } else { " " };
        state.push_str(&format!("{between}… {}", uptime(age.as_secs())));
    }
    vec![
        r.node.clone(),
        r.address.clone(),
        state,
        text(|n| n.role.clone()),
        text(|n| n.kubernetes.version.clone()),
        text(|n| n.os.booted.as_ref().map(super::status::image)),
        text(|n| n.health.uptime_seconds.map(uptime)),
    ]
}

/// One node of the table.
struct Seat {
    row: Row,
    /// Its connection is kept.
    callee: Option<Callee>,
    /// It is asked since.
    since: Option<Instant>,
    /// When it is asked next.
    due: Instant,
    /// How often in a row it has not answered.
    missed: u32,
}

/// Asked for longer than this it is shown so, and keeps no other node waiting, unless it was said how many may be asked at a time.
const SLOW: Duration = Duration::from_secs(1);
/// Answers that come this close after each other are drawn together.
const FRAME: Duration = Duration::from_millis(100);
/// A node that does not answer is asked ever less often, down to this, or to what was said where that is longer.
const RARE: Duration = Duration::from_secs(60);

impl Seat {
    fn new(chosen: &Chosen, now: Instant) -> Self {
        let (node, address) = (chosen.name.clone(), chosen.endpoint.to_string());
        let row = Row { node, address, state: "", status: None, error: None };
        Self { row, callee: None, since: None, due: now, missed: 0 }
    }

    /// How long it is asked already, where that is worth telling: always where nothing else is known.
    fn asked_for(&self, now: Instant) -> Option<Duration> {
        let age = self.since.map(|since| now.duration_since(since));
        if self.row.state.is_empty() { age } else { age.filter(|age| *age >= SLOW) }
    }

    fn answered(&mut self, chosen: Chosen, result: Result<Node, Fault>, now: Instant, every: Duration) {
        self.missed = if result.is_ok() { 0 } else { self.missed.saturating_add(1) };
        self.since = None;
        self.due = now + pause(every, self.missed);
        self.row = row(chosen, result);
    }
}

/// Asks those whose turn it is, as many at a time as there are places.
fn begin(
    session: &Session,
    seats: &mut [Seat],
    tasks: &mut JoinSet<(usize, Result<Node, Fault>)>,
    every: Duration,
) {
    let now = Instant::now();
    let strict = session.pace.parallel.is_some();
    let takes_a_place = |s: &Seat| s.since.is_some_and(|since| strict || now.duration_since(since) < SLOW);
    let places = session.pace.places(Operation::NodeState);
    let mut free = places.saturating_sub(seats.iter().filter(|s| takes_a_place(s)).count());
    // Who waits for longest comes first, so that the end of a long list is not asked last each time.
    let mut turn: Vec<usize> =
        (0..).zip(seats.iter()).filter(|(_, s)| s.since.is_none() && s.due <= now).map(|(n, _)| n).collect();
    turn.sort_by_key(|n| seats.get(*n).map(|s| s.due));
    for n in turn {
        if free == 0 {
            return;
        }
        let (Some(seat), Some(chosen)) = (seats.get_mut(n), session.chosen.get(n)) else { continue };
        let callee = match seat.callee.clone().map_or_else(|| session.callee(chosen), Ok) {
            Ok(callee) => callee,
            Err(fault) => {
                seat.answered(chosen.clone(), Err(fault), now, every);
                continue;
            }
        };
        (seat.callee, seat.since) = (Some(callee.clone()), Some(now));
        free -= 1;
        let timeout = session.pace.timeout;
        tasks.spawn(async move {
            let work = async { callee.told(Operation::NodeState, callee.node.state().await) };
            (n, within(&callee.chosen.name, Operation::NodeState, timeout, work).await)
        });
    }
}

fn pause(every: Duration, missed: u32) -> Duration {
    every.saturating_mul(1 << missed.saturating_sub(1).min(16)).min(every.max(RARE))
}

/// The table on a terminal, drawn anew with each answer and, while somebody is waited for, each second.
async fn on_a_terminal(session: &Session, every: Duration, printer: &mut Printer) -> Outcome {
    let mut seats: Vec<Seat> = session.chosen.iter().map(|c| Seat::new(c, Instant::now())).collect();
    let mut tasks = JoinSet::new();
    let mut kept = Instant::now();
    loop {
        begin(session, &mut seats, &mut tasks, every);
        let now = Instant::now();
        let rows: Vec<_> = seats.iter().map(|s| cells(&s.row, s.asked_for(now))).collect();
        printer.raw(AGAIN);
        table(&rows, printer);
        if printer.out_gone() {
            return Ok(Exit::Ok);
        }
        if now.duration_since(kept) >= every {
            session.keep_meanwhile(&seats.iter().filter_map(|s| s.callee.clone()).collect::<Vec<_>>());
            kept = now;
        }
        tokio::time::sleep(FRAME).await;
        let next =
            seats.iter().map(|s| if s.since.is_some() || s.due <= now { now + SLOW } else { s.due }).min();
        let wake = tokio::time::sleep_until(next.unwrap_or(now + every).into());
        let mut done = tokio::select! {
            Some(done) = tasks.join_next() => Some(done),
            () = wake => None,
        };
        while let Some(one) = done {
            let (n, result) = one.map_err(|_| Fault::new(Own::Fault, "the work on a node broke off"))?;
            if let (Some(seat), Some(chosen)) = (seats.get_mut(n), session.chosen.get(n)) {
                seat.answered(chosen.clone(), result, Instant::now(), every);
            }
            done = tasks.try_join_next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::node::{Kubernetes, Management, NodeHealth};

    #[test]
    fn who_does_not_answer_is_asked_less_often_and_never_more_often_than_was_said() {
        let s = Duration::from_secs;
        assert_eq!([0, 1, 2, 3, 5, u32::MAX].map(|n| pause(s(5), n)), [5, 5, 10, 20, 60, 60].map(s));
        assert_eq!([0, 1, 9].map(|n| pause(s(300), n)), [s(300); 3]);
    }

    #[test]
    fn a_node_is_one_word() {
        let built = || Node { bootstrapped: true, ..Node::default() };
        let kubelet =
            |active| Kubernetes { service: Some("kubelet.service".into()), active, ..Kubernetes::default() };
        for (node, want) in [
            (Node::default(), "not-built"),
            (
                Node {
                    management: Management { waits_for: Some("document".into()), ..Management::default() },
                    ..Node::default()
                },
                "waits",
            ),
            (built(), "well"),
            (Node { kubernetes: kubelet(true), ..built() }, "well"),
            (Node { kubernetes: kubelet(false), ..built() }, "degraded"),
            (
                Node {
                    health: NodeHealth { verdict: Some("failed".into()), ..NodeHealth::default() },
                    ..built()
                },
                "failed",
            ),
        ] {
            assert_eq!(word(&node), want);
        }
    }
}
