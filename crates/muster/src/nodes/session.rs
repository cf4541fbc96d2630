//! Calling nodes, each over its own pinned connection, and what their chains handed out kept after.
//!
//! Invariants: what ends something is asked of one node after the other, and of none after one that failed, so that what is wrong
//! with the first is not done to all; what an operation came to is told whatever becomes of the files here.

use super::choose::Chosen;
use super::fault;
use super::heads::{self, Heads};
use super::pins::Store;
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::printer::Printer;
use crate::stops::Stops;
use muster_client::{Error, Identity, Node, Target, Trust};
use muster_core::audit::Head;
use muster_core::{Danger, Operation};
use muster_tls::Fingerprint;
use serde::Serialize;
use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// How many at once, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Nodes worked on at the same time, where that was said.
    pub parallel: Option<usize>,
    /// How long one may take in all.
    pub timeout: Option<Duration>,
    /// How long connecting may take.
    pub connect: Duration,
}

/// Nodes worked on at the same time where nothing was said.
const AT_ONCE: usize = 16;

/// Whether an operation is asked of one node after the other, and of none after one that failed: what ends something, and what
/// takes away from those who use the node.
pub(crate) const fn in_turn(operation: Operation) -> bool {
    matches!(operation.row().danger, Danger::Destroys)
        || matches!(operation, Operation::Drain | Operation::ServiceRestart | Operation::UpgradeRollback)
}

impl Pace {
    /// How many nodes are worked on at the same time.
    pub fn places(self, operation: Operation) -> usize {
        self.parallel.unwrap_or(if in_turn(operation) { 1 } else { AT_ONCE }).max(1)
    }
}

/// How long is waited for a state file while there is something else to do; at the end it is waited for properly.
const MEANWHILE: Duration = Duration::from_millis(200);

/// Heads that nodes handed out and that are not in the state folder yet: a result does not wait for them.
#[derive(Clone, Debug, Default)]
pub struct Unkept(Arc<Mutex<Heads>>);

impl Unkept {
    /// Takes in one more.
    pub fn saw(&self, node: Fingerprint, head: Head) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).saw(node, head);
    }

    /// Keeps them; what could not be kept is still to be.
    pub fn keep(&self, folder: &Path, patience: Duration) -> Result<(), Fault> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heads::keep(folder, &seen, patience)?;
        *seen = Heads::default();
        Ok(())
    }
}

/// What calls need.
#[derive(Debug)]
pub struct Session {
    /// The nodes.
    pub chosen: Vec<Chosen>,
    /// Who calls.
    pub identity: Arc<Identity>,
    /// Where pins and heads are.
    pub store: Store,
    /// How.
    pub pace: Pace,
    /// What they handed out that is to be kept.
    pub unkept: Unkept,
}

/// A runtime for the calls of one command.
pub fn runtime() -> Result<tokio::runtime::Runtime, Fault> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|e| {
        Fault::new(Own::Fault, "cannot start the runtime that connections need").why(e.to_string())
    })
}

/// What each node came to, in the order in which they were chosen.
pub type Results<T> = Vec<(Chosen, Result<T, Fault>)>;

/// A node that is called, with its name.
#[derive(Clone)]
pub struct Callee {
    /// Which.
    pub chosen: Chosen,
    /// Its client.
    pub node: Arc<Node>,
}

impl Callee {
    /// The result of a call, told with the node's name.
    pub fn told<T>(&self, operation: Operation, result: Result<T, Error>) -> Result<T, Fault> {
        result.map_err(|e| fault::told(&self.chosen.name, Some(operation), &e))
    }
}

impl Session {
    /// The client of one node.
    pub fn callee(&self, chosen: &Chosen) -> Result<Callee, Fault> {
        let target = Target {
            endpoint: chosen.endpoint.clone(),
            trust: Trust::Pinned(chosen.pinned()?),
            identity: Some(Arc::clone(&self.identity)),
            connect: self.pace.connect,
        };
        Ok(Callee { chosen: chosen.clone(), node: Arc::new(Node::new(target)) })
    }

    /// Does one job on each node, and gives the results in the order of the nodes.
    ///
    /// Where the operation goes `in_turn`, no node is begun once one has failed; those are told as not asked.
    pub fn each<T, W>(&self, operation: Operation, job: impl Fn(Callee) -> W) -> Result<Results<T>, Fault>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let (results, callees, begun) = runtime()?.block_on(self.work(operation, job));
        self.owe(&callees);
        let stopped = results.iter().enumerate().find_map(|(n, r)| {
            let fault = r.as_ref()?.as_ref().err()?;
            Some((self.chosen.get(n)?.name.clone(), fault.exit()))
        });
        let missing = |n: usize, name: &str| match &stopped {
            Some((first, exit)) if n >= begun => not_asked(name, first, *exit),
            _ => Fault::new(Own::Fault, format!("{name}: the work on it broke off")),
        };
        let chosen = self.chosen.iter().cloned().enumerate();
        let told = chosen.zip(results).map(|((n, chosen), result)| {
            let result = result.unwrap_or_else(|| Err(missing(n, &chosen.name)));
            (chosen, result)
        });
        Ok(told.collect())
    }

    /// What came of each node that was begun, who was called, and how many were begun.
    async fn work<T, W>(
        &self,
        operation: Operation,
        job: impl Fn(Callee) -> W,
    ) -> (Vec<Option<Result<T, Fault>>>, Vec<Callee>, usize)
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let places = self.pace.places(operation);
        let mut tasks = JoinSet::new();
        let mut results: Vec<Option<Result<T, Fault>>> = self.chosen.iter().map(|_| None).collect();
        let mut callees = Vec::new();
        let mut waiting = self.chosen.iter().enumerate();
        // What only reads is ended as any program is.
        let mut stops = (operation.row().danger != Danger::Reads).then(Stops::listen);
        let (mut stop, mut begun) = (false, 0);
        loop {
            while !stop && tasks.len() < places {
                let Some((n, chosen)) = waiting.next() else { break };
                begun = n + 1;
                match self.callee(chosen) {
                    Ok(callee) => {
                        callees.push(callee.clone());
                        let (name, timeout, work) = (chosen.name.clone(), self.pace.timeout, job(callee));
                        tasks.spawn(async move { (n, within(&name, operation, timeout, work).await) });
                    }
                    Err(fault) => {
                        stop = in_turn(operation);
                        results.iter_mut().skip(n).take(1).for_each(|slot| *slot = Some(Err(fault.clone())));
                    }
                }
            }
            let joined = tokio::select! {
                joined = tasks.join_next() => joined,
                () = stopped(&mut stops) => {
                    while let Some(done) = tasks.try_join_next() {
                        if let Ok((n, result)) = done {
                            results.iter_mut().skip(n).take(1).zip([result]).for_each(|(slot, r)| *slot = Some(r));
                        }
                    }
                    let under_way = self.chosen.iter().zip(&mut results).take(begun).filter(|(_, r)| r.is_none());
                    under_way.for_each(|(chosen, slot)| *slot = Some(Err(interrupted(&chosen.name))));
                    return (results, callees, begun);
                }
            };
            match joined {
                None => return (results, callees, begun),
                Some(Ok((n, result))) => {
                    stop |= result.is_err() && in_turn(operation);
                    if let Some(slot) = results.get_mut(n) {
                        *slot = Some(result);
                    }
                }
                // What became of that one nobody knows.
                Some(Err(_)) => stop |= in_turn(operation),
            }
        }
    }

    /// The newest heads that these nodes handed out are to be kept, once what became of their calls is told.
    pub fn owe(&self, callees: &[Callee]) {
        for callee in callees {
            if let (Some(node), Some(head)) = (callee.chosen.pin, callee.node.head()) {
                self.unkept.saw(node, head);
            }
        }
    }

    /// Keeps them while there is more to do; where that fails it is done at the end.
    pub fn keep_meanwhile(&self, callees: &[Callee]) {
        self.owe(callees);
        let _ = self.unkept.keep(self.store.folder(), MEANWHILE);
    }

    /// Keeps them for a command that is there to do so. What fails here is its fault, and not tried again.
    pub fn keep(&self) -> Result<(), Fault> {
        let kept = self.unkept.keep(self.store.folder(), self.store.patience);
        *self.unkept.0.lock().unwrap_or_else(PoisonError::into_inner) = Heads::default();
        kept
    }
}

/// Of a node that was not asked since `first` failed. The exit code is that of what failed: nothing is wrong with this one.
pub(crate) fn not_asked(name: &str, first: &str, exit: Exit) -> Fault {
    Fault::new(Own::NotAsked, format!("{name}: not asked, since {first} failed")).exit_with(exit)
}

/// Of a node that was called when the operator ended it.
fn interrupted(name: &str) -> Fault {
    Fault::new(Own::OutcomeUnknown, format!("{name}: it was interrupted before the answer"))
        .why("it was asked for, and may be done yet")
        .fix(format!("Ask the node what became of it: `muster node status {name}`."))
}

async fn stopped(stops: &mut Option<Stops>) {
    match stops {
        Some(stops) => stops.next().await,
        None => std::future::pending().await,
    }
}

/// The work, in the time that the operator gave it. What changes something may have been done when that is over.
pub(crate) async fn within<T>(
    name: &str,
    operation: Operation,
    timeout: Option<Duration>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let Some(timeout) = timeout else { return work.await };
    if let Ok(done) = tokio::time::timeout(timeout, work).await {
        return done;
    }
    let what = format!("{name}: not done within {} s", timeout.as_secs());
    Err(match operation.row().danger {
        Danger::Reads => Fault::new(Own::NodeDeadline, what),
        _ => Fault::new(Own::OutcomeUnknown, what)
            .why("it was asked for, and may be done yet")
            .fix(format!("Ask the node what became of it: `muster node status {name}`.")),
    })
}

/// A node's row of a result: what it came to, or why to nothing.
#[derive(Serialize)]
pub struct Row<T> {
    node: String,
    #[serde(flatten)]
    value: Option<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// How results look to people.
pub struct Shape<T> {
    /// Headings after the node's.
    pub columns: &'static [&'static str],
    /// The cells of a success.
    pub cells: fn(&T) -> Vec<String>,
}

/// Shows what each node came to; every failure is a line on standard error and counts in the exit code.
pub fn show<T: Serialize>(results: Results<T>, shape: &Shape<T>, printer: &mut Printer) -> Outcome {
    let exits: Vec<Exit> =
        results.iter().map(|(_, r)| r.as_ref().map_or_else(|f| f.exit(), |_| Exit::Ok)).collect();
    let faults: Vec<Fault> = results.iter().filter_map(|(_, r)| r.as_ref().err().cloned()).collect();
    let rows: Vec<Row<T>> = results
        .into_iter()
        .map(|(chosen, result)| {
            let (error, reason) = match &result {
                Ok(_) => (None, None),
                Err(fault) => (Some(fault.to_string()), Some(fault.code.word())),
            };
            Row { node: chosen.name, value: result.ok(), error, reason }
        })
        .collect();
    let done = rows.iter().any(|r| r.value.is_some());
    let columns: Vec<&str> = core::iter::once("node").chain(shape.columns.iter().copied()).collect();
    let people = !printer.value(&rows);
    if people && printer.looks().format == crate::printer::Format::Name {
        for row in rows.iter().filter(|r| r.value.is_some()) {
            printer.data(&row.node);
        }
    } else if people && done {
        let cells = |r: &Row<T>| {
            let own = r.value.as_ref().map(shape.cells);
            let own = own.unwrap_or_else(|| vec![r.reason.unwrap_or_default().to_owned()]);
            core::iter::once(r.node.clone()).chain(own).collect::<Vec<_>>()
        };
        let width = columns.len();
        let mut cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
        cells.iter_mut().for_each(|row| row.resize(width, String::new()));
        printer.table(&columns, &cells);
    }
    for fault in &faults {
        printer.fault(fault);
    }
    explain(faults.iter().map(|f| f.code.word()), printer);
    Ok(Exit::of_many(exits))
}

/// Where more is said of each of these codes.
pub fn explain<'c>(codes: impl Iterator<Item = &'c str>, printer: &mut Printer) {
    let mut codes: Vec<&str> = codes.collect();
    codes.sort_unstable();
    codes.dedup();
    for code in codes {
        printer.hint(&format!("`muster explain {code}` says more"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_or_takes_away_goes_one_node_at_a_time_unless_it_was_said() {
        let pace = |parallel| Pace { parallel, timeout: None, connect: Duration::from_secs(1) };
        for operation in Operation::ALL {
            let name = operation.row().name;
            let one = [
                "service-restart",
                "drain",
                "upgrade-apply",
                "upgrade-rollback",
                "reboot",
                "shutdown",
                "reset",
                "ca-rotate",
            ];
            assert_eq!(pace(None).places(*operation), if one.contains(&name) { 1 } else { 16 }, "{name}");
            assert_eq!(pace(Some(3)).places(*operation), 3, "{name}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_that_is_over_is_an_unknown_outcome_for_all_but_what_reads() {
        for operation in Operation::ALL {
            let never = std::future::pending::<Result<(), Fault>>();
            let fault = within("a", *operation, Some(Duration::from_secs(60)), never).await.unwrap_err();
            let reads = operation.row().danger == Danger::Reads;
            assert_eq!(
                fault.exit(),
                if reads { Exit::Deadline } else { Exit::OutcomeUnknown },
                "{operation:?}"
            );
            assert!(fault.what.starts_with("a: not done within 60 s"), "{fault}");
        }
    }
}
