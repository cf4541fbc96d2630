//! Calls that begin or change one thing on each node: restart, cordon, drain, reboot, shutdown, reset.

use super::confirm::{Meant, Typed, look, meant};
use super::plan;
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::nodes::session::{Callee, Session, Shape, show};
use crate::printer::Printer;
use muster_api::lifecycle::Status;
use muster_api::services::Service;
use muster_core::Operation;
use std::collections::HashMap;
use std::sync::Arc;

/// What is asked of each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Keep new pods off it.
    Cordon,
    /// Let them on again.
    Uncordon,
    /// Move its pods elsewhere.
    Drain,
    /// Boot it anew.
    Reboot,
    /// Power it off.
    Shutdown,
    /// Make it nobody's.
    Reset,
}

impl Action {
    pub(crate) const fn operation(self) -> Operation {
        match self {
            Self::Cordon => Operation::Cordon,
            Self::Uncordon => Operation::Uncordon,
            Self::Drain => Operation::Drain,
            Self::Reboot => Operation::Reboot,
            Self::Shutdown => Operation::Shutdown,
            Self::Reset => Operation::Reset,
        }
    }

    /// As an order.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Cordon => "cordon",
            Self::Uncordon => "uncordon",
            Self::Drain => "drain",
            Self::Reboot => "reboot",
            Self::Shutdown => "shut down",
            Self::Reset => "reset",
        }
    }

    /// How it is confirmed: a node that is off or nobody's does not come back by itself.
    const fn typed(self) -> Typed {
        match self {
            Self::Shutdown | Self::Reset => Typed::Each,
            Self::Cordon | Self::Uncordon | Self::Drain | Self::Reboot => Typed::Together,
        }
    }

    /// What it means for whoever is asked whether it is meant.
    pub(crate) const fn means(self) -> &'static str {
        match self {
            Self::Cordon | Self::Uncordon => "this changes where pods may run",
            Self::Drain => "this moves the pods off",
            Self::Reboot => "this reboots, and what runs there stops",
            Self::Shutdown => "this powers off, and somebody must be there to switch it on again",
            Self::Reset => {
                "this takes out of the cluster, wipes what belonged to it, makes the node nobody's and reboots it; it does not come back by itself"
            }
        }
    }
}

/// The one call that it is; a reset names the node as the node does.
pub(crate) async fn act(callee: &Callee, action: Action, own_name: Option<&str>) -> Result<Status, Fault> {
    let node = &callee.node;
    let result = match action {
        Action::Cordon => node.cordon().await,
        Action::Uncordon => node.uncordon().await,
        Action::Drain => node.drain().await,
        Action::Reboot => node.reboot().await,
        Action::Shutdown => node.shutdown().await,
        Action::Reset => match own_name {
            Some(name) => node.reset(name).await,
            None => {
                let what = format!("{}: the node does not say what it is called", callee.chosen.name);
                return Err(Fault::new(Own::NodeAnswer, what));
            }
        },
    };
    callee.told(action.operation(), result)
}

const SHAPE: Shape<Status> = Shape {
    columns: &["status", "note"],
    cells: |s| vec![s.status.clone(), s.note.clone().unwrap_or_default()],
};

/// Does it where nothing has to be asked.
pub fn run(session: &Session, action: Action, plan: bool, printer: &mut Printer) -> Outcome {
    if plan {
        return plan::same(&session.chosen, action.word(), printer);
    }
    let results =
        session.each(action.operation(), move |callee| async move { act(&callee, action, None).await })?;
    show(results, &SHAPE, printer)
}

/// Does it when it is meant.
pub fn ending(session: &Session, action: Action, sure: Meant, printer: &mut Printer) -> Outcome {
    let nodes = look(session, action.means(), sure, printer)?;
    if !meant(&nodes, sure, action.typed(), action.word(), printer)? {
        return Ok(Exit::Ok);
    }
    let names: HashMap<String, String> =
        nodes.into_iter().filter_map(|(chosen, node)| Some((chosen.name, node.hostname?))).collect();
    let names = Arc::new(names);
    let results = session.each(action.operation(), move |callee| {
        let names = Arc::clone(&names);
        async move { act(&callee, action, names.get(&callee.chosen.name).map(String::as_str)).await }
    })?;
    if action == Action::Reset && results.iter().any(|(_, r)| r.is_ok()) {
        printer.hint("a node that was reset comes back with another certificate: claim it anew, or `muster node forget` it");
    }
    show(results, &SHAPE, printer)
}

/// Restarts a service of one node.
pub(crate) async fn restart_one(callee: &Callee, unit: &str) -> Result<Service, Fault> {
    callee.told(Operation::ServiceRestart, callee.node.restart(unit).await)
}

/// Restarts a service.
pub fn restart(session: &Session, unit: &str, plan: bool, printer: &mut Printer) -> Outcome {
    if plan {
        return plan::same(&session.chosen, &format!("restart {unit}"), printer);
    }
    let unit = unit.to_owned();
    let results = session.each(Operation::ServiceRestart, move |callee| {
        let unit = unit.clone();
        async move { restart_one(&callee, &unit).await }
    })?;
    let cells = |s: &Service| {
        let since = s.since.clone().unwrap_or_default();
        vec![s.name.clone(), format!("{} ({})", s.active, s.sub), since]
    };
    show(results, &Shape { columns: &["unit", "state", "since"], cells }, printer)
}

/// Makes the image before this one the next to boot.
pub fn rollback(session: &Session, drop_staged: bool, sure: Meant, printer: &mut Printer) -> Outcome {
    let what = if drop_staged {
        "the next boot of these takes the image before this one, and what is staged is dropped"
    } else {
        "the next boot of these takes the image before this one"
    };
    let nodes = look(session, what, sure, printer)?;
    if !meant(&nodes, sure, Typed::Together, "roll back", printer)? {
        return Ok(Exit::Ok);
    }
    let results = session.each(Operation::UpgradeRollback, |callee| async move {
        callee.told(Operation::UpgradeRollback, callee.node.rollback(drop_staged).await)
    })?;
    show(results, &SHAPE, printer)
}
