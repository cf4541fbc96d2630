//! Does what the dashboard wants done, and makes events of what comes of it.
//!
//! Every call is the command's own. A node has two connections here: one for being asked again and again, one for whoever looks at it
//! or does something to it, so that neither waits for the other; a journal is a third, which ends when nobody looks.

use super::model::{Deed, Effect, Event};
use super::text::tidy;
use crate::commands::audit::tail;
use crate::commands::node::{action, logs};
use crate::fault::Fault;
use crate::nodes::heads;
use crate::nodes::session::{Callee, Session, within};
use muster_core::Operation;
use serde_json::Value;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

/// Audit records that are shown.
const RECORDS: u64 = 200;
/// Lines of a journal that a view begins with.
const LINES: u32 = 500;

/// See the module.
pub(super) struct Work {
    session: Arc<Session>,
    to: mpsc::Sender<Event>,
    /// By node: the connection for the list.
    asked: HashMap<usize, Callee>,
    /// By node: the connection for the one who looks.
    looked_at: HashMap<usize, Callee>,
    tasks: JoinSet<()>,
    followed: Option<AbortHandle>,
}

impl Work {
    pub(super) fn new(session: Arc<Session>, to: mpsc::Sender<Event>) -> Self {
        let (asked, looked_at, tasks) = (HashMap::new(), HashMap::new(), JoinSet::new());
        Self { session, to, asked, looked_at, tasks, followed: None }
    }

    /// Begins what is to be done.
    pub(super) fn begin(&mut self, effect: Effect) {
        match effect {
            Effect::Ask(node) => {
                let callee = callee(&self.session, &mut self.asked, node);
                self.state(callee, move |result| Event::State(node, Box::new(result)));
            }
            Effect::Look(node, view) => {
                let callee = callee(&self.session, &mut self.looked_at, node);
                self.state(callee, move |result| Event::Looked(view, Box::new(result)));
            }
            Effect::Services(node, view) => {
                let callee = callee(&self.session, &mut self.looked_at, node);
                let call = |c: Callee| async move {
                    c.told(Operation::Services, c.node.services().await).map(|s| s.services)
                };
                self.call(callee, Operation::Services, call, move |result| Event::Services(view, result));
            }
            Effect::Audit(node, view) => {
                let callee = callee(&self.session, &mut self.looked_at, node);
                let folder = self.session.store.folder().to_owned();
                let call = |c: Callee| async move {
                    let seen = heads::read(&folder)?;
                    let known = c.chosen.pin.and_then(|p| seen.of(p));
                    let mut lines = Vec::new();
                    tail::read(&c, RECORDS, false, known, &mut |line| {
                        lines.extend(record(line));
                        true
                    })
                    .await?;
                    Ok(lines)
                };
                self.call(callee, Operation::AuditRead, call, move |result| Event::Audit(view, result));
            }
            Effect::Do(node, deed) => {
                let callee = callee(&self.session, &mut self.looked_at, node);
                let operation = match &deed {
                    Deed::Restart(_) => Operation::ServiceRestart,
                    Deed::Act(action) => action.operation(),
                };
                self.call(callee, operation, |c| act(c, deed), move |result| Event::Done(node, result));
            }
            Effect::Follow { node, unit, view } => {
                self.unfollow();
                let callee = callee(&self.session, &mut self.looked_at, node);
                let to = self.to.clone();
                self.followed = Some(self.tasks.spawn(follow(callee, unit, view, to)));
            }
            Effect::Unfollow => self.unfollow(),
            Effect::Suspend | Effect::Quit { .. } => {}
        }
    }

    fn unfollow(&mut self) {
        if let Some(task) = self.followed.take() {
            task.abort();
        }
    }

    fn state(
        &mut self,
        callee: Result<Callee, Fault>,
        event: impl FnOnce(Result<muster_api::node::Node, Fault>) -> Event + Send + 'static,
    ) {
        let call = |c: Callee| async move { c.told(Operation::NodeState, c.node.state().await) };
        self.call(callee, Operation::NodeState, call, event);
    }

    /// One call, within the time that the operator gave it.
    fn call<T, W>(
        &mut self,
        callee: Result<Callee, Fault>,
        operation: Operation,
        call: impl FnOnce(Callee) -> W + Send + 'static,
        event: impl FnOnce(Result<T, Fault>) -> Event + Send + 'static,
    ) where
        T: Send + 'static,
        W: Future<Output = Result<T, Fault>> + Send + 'static,
    {
        let (to, timeout) = (self.to.clone(), self.session.pace.timeout);
        self.tasks.spawn(async move {
            let result = match callee {
                Ok(callee) => {
                    let name = callee.chosen.name.clone();
                    within(&name, operation, timeout, call(callee)).await
                }
                Err(fault) => Err(fault),
            };
            // The other end is gone only at the end of everything.
            let _ = to.send(event(result)).await;
        });
    }

    /// Takes in tasks that ended; says whether one broke off, which is a fault of this program.
    pub(super) fn broken(&mut self) -> bool {
        let mut broken = false;
        while let Some(end) = self.tasks.try_join_next() {
            broken |= end.is_err_and(|e| e.is_panic());
        }
        broken
    }

    /// Keeps the newest heads that nodes handed out.
    pub(super) fn keep_heads(&self) {
        let callees: Vec<Callee> = self.asked.values().chain(self.looked_at.values()).cloned().collect();
        self.session.keep_meanwhile(&callees);
    }
}

fn callee(session: &Session, kept: &mut HashMap<usize, Callee>, node: usize) -> Result<Callee, Fault> {
    if let Some(callee) = kept.get(&node) {
        return Ok(callee.clone());
    }
    let chosen = session.chosen.get(node).ok_or_else(|| {
        Fault::new(crate::codes::Own::Fault, "a node that is not in the list was to be called")
    })?;
    let callee = session.callee(chosen)?;
    kept.insert(node, callee.clone());
    Ok(callee)
}

/// What is done to a node, and what became of it in words.
async fn act(callee: Callee, deed: Deed) -> Result<String, Fault> {
    let name = callee.chosen.name.clone();
    Ok(match deed {
        Deed::Restart(unit) => {
            let service = action::restart_one(&callee, &unit).await?;
            format!("{name}: {} is {} ({})", service.name, service.active, service.sub)
        }
        Deed::Act(action) => {
            // A reset names the node; it is done by command alone.
            let status = action::act(&callee, action, None).await?;
            let note = status.note.map(|n| format!(": {n}")).unwrap_or_default();
            format!("{name}: {}{note}", status.status)
        }
    })
}

/// An audit record as a line; what is none is passed over, as by `muster audit tail`.
fn record(line: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(line).ok()?;
    Some(tidy(&tail::in_words(&value, |_, decision| decision.to_owned())))
}

async fn follow(callee: Result<Callee, Fault>, unit: Option<String>, view: u64, to: mpsc::Sender<Event>) {
    let end = match callee {
        Err(fault) => Err(fault),
        Ok(callee) => {
            let wanted = muster_client::Logs { unit, lines: Some(LINES), since: None, follow: true };
            let (records, mut from) = mpsc::channel(logs::WAITING);
            let read = async {
                let end = logs::read(&callee, &wanted, &records).await;
                drop(records);
                end
            };
            let pass = async {
                while let Some((_, event)) = from.recv().await {
                    if let logs::Event::Record(record) = event
                        && to.send(Event::Record(view, record)).await.is_err()
                    {
                        break;
                    }
                }
            };
            tokio::join!(read, pass).0
        }
    };
    let _ = to.send(Event::Ended(view, end)).await;
}
