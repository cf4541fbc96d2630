//! Calling nodes: several at a time, each over its own pinned connection, and what their chains handed out kept after.

use super::choose::Chosen;
use super::pins::Store;
use super::{fault, heads};
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::printer::Printer;
use muster_client::{Error, Identity, Node, Target, Trust};
use muster_core::Operation;
use serde::Serialize;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// How many at once, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Nodes worked on at the same time.
    pub parallel: usize,
    /// How long one may take in all.
    pub timeout: Option<Duration>,
    /// How long connecting may take.
    pub connect: Duration,
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
    pub fn each<T, W>(&self, job: impl Fn(Callee) -> W) -> Result<Results<T>, Fault>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        runtime()?.block_on(async {
            let places = Arc::new(Semaphore::new(self.pace.parallel.max(1)));
            let mut tasks = JoinSet::new();
            let mut results: Vec<Option<Result<T, Fault>>> = Vec::new();
            let mut callees = Vec::new();
            for (n, chosen) in self.chosen.iter().enumerate() {
                let callee = match self.callee(chosen) {
                    Ok(callee) => callee,
                    Err(fault) => {
                        results.push(Some(Err(fault)));
                        continue;
                    }
                };
                results.push(None);
                callees.push(callee.clone());
                let (work, places, timeout) = (job(callee), Arc::clone(&places), self.pace.timeout);
                let name = chosen.name.clone();
                tasks.spawn(async move {
                    // It is never closed.
                    let _place = places.acquire_owned().await;
                    (n, within(&name, timeout, work).await)
                });
            }
            while let Some(done) = tasks.join_next().await {
                if let Ok((n, result)) = done
                    && let Some(slot) = results.get_mut(n)
                {
                    *slot = Some(result);
                }
            }
            self.keep_heads(&callees)?;
            let broken = || Err(Fault::new(Own::Fault, "the work on a node broke off"));
            let results = results.into_iter().map(|r| r.unwrap_or_else(broken));
            Ok(self.chosen.iter().cloned().zip(results).collect())
        })
    }

    /// Keeps the newest heads that these nodes handed out.
    pub fn keep_heads(&self, callees: &[Callee]) -> Result<(), Fault> {
        let seen: Vec<_> = callees.iter().filter_map(|c| Some((c.chosen.pin?, c.node.head()?))).collect();
        heads::keep(self.store.folder(), &seen)
    }
}

/// The work, in the time that the operator gave it.
pub(crate) async fn within<T>(
    name: &str,
    timeout: Option<Duration>,
    work: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let Some(timeout) = timeout else { return work.await };
    match tokio::time::timeout(timeout, work).await {
        Ok(done) => done,
        Err(_) => {
            Err(Fault::new(Own::NodeDeadline, format!("{name}: not done within {} s", timeout.as_secs())))
        }
    }
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
    let mut codes: Vec<&str> = faults.iter().map(|f| f.code.word()).collect();
    codes.sort_unstable();
    codes.dedup();
    for code in codes {
        printer.hint(&format!("`muster explain {code}` says more"));
    }
    Ok(Exit::of_many(exits))
}
