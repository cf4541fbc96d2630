//! What a command would end, shown before it does: the blast radius, and the name typed.

use super::status::uptime;
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::nodes::choose::Chosen;
use crate::nodes::session::Session;
use crate::printer::{Printer, clean};
use crate::terminal;
use muster_api::node::Node;
use muster_core::Operation;

/// Whether it is meant.
#[derive(Clone, Copy, Debug)]
pub struct Meant {
    /// Only look.
    pub plan: bool,
    /// It was said on the command line.
    pub yes: bool,
}

/// Asks each node what it is, and shows it. A node that does not answer ends the command: nothing is ended half blind.
pub fn look(session: &Session, doing: &str, printer: &mut Printer) -> Result<Vec<(Chosen, Node)>, Faults> {
    let results =
        session.each(|callee| async move { callee.told(Operation::NodeState, callee.node.state().await) })?;
    let mut nodes = Vec::new();
    let mut faults = Vec::new();
    for (chosen, result) in results {
        match result {
            Ok(node) => nodes.push((chosen, node)),
            Err(fault) => faults.push(fault),
        }
    }
    Faults::check(faults)?;
    printer.talk(&format!("{doing}:"));
    for (chosen, node) in &nodes {
        printer.talk(&format!("  {}", clean(&radius(chosen, node))));
    }
    Ok(nodes)
}

/// One node as the one who ends something should know it.
pub(crate) fn radius(chosen: &Chosen, node: &Node) -> String {
    let mut out = format!("{} at {}", chosen.name, chosen.endpoint);
    if let Some(name) = node.hostname.as_ref().filter(|n| **n != chosen.name) {
        out += &format!(", calls itself {name}");
    }
    out += &match (&node.role, &node.cluster) {
        (Some(role), Some(cluster)) => format!(", {role} of the cluster {cluster}"),
        (Some(role), None) => format!(", {role}"),
        _ => ", in no cluster".to_owned(),
    };
    if let Some(secs) = node.health.uptime_seconds {
        out += &format!(", up {}", uptime(secs));
    }
    if node.os.staged.is_some() {
        out += ", with an image staged that the next boot takes";
    }
    out
}

/// Goes on only where it is meant: said on the command line, or typed. `false` where it was only to be looked at.
pub fn meant(
    nodes: &[(Chosen, Node)],
    meant: Meant,
    doing: &str,
    printer: &mut Printer,
) -> Result<bool, Fault> {
    if meant.plan {
        printer.talk("nothing was done");
        return Ok(false);
    }
    if meant.yes {
        return Ok(true);
    }
    let word = word(nodes);
    let typed = terminal::ask(&question(&word, doing));
    judge(typed.as_deref(), &word, doing).map(|()| true)
}

/// What is to be typed: the node's own name, which a wrong line of the inventory cannot change; of many, how many they are.
pub(crate) fn word(nodes: &[(Chosen, Node)]) -> String {
    match nodes {
        [(chosen, node)] => node.hostname.clone().unwrap_or_else(|| chosen.name.clone()),
        many => format!("{} nodes", many.len()),
    }
}

/// What is asked.
pub(crate) fn question(word: &str, doing: &str) -> String {
    format!("Type `{}` to {doing}:", clean(word))
}

/// Whether what was typed is what was asked for; nothing typed is a no, and nobody there is not a yes.
pub(crate) fn judge(typed: Option<&str>, word: &str, doing: &str) -> Result<(), Fault> {
    let what = format!("this would {doing} {word}");
    match typed {
        Some(typed) if typed == word => Ok(()),
        Some("") => Err(Fault::new(Own::Declined, what)),
        Some(typed) => {
            Err(Fault::new(Own::NameDiffers, format!("{typed} was typed, and {word} was asked for")))
        }
        None => Err(Fault::new(Own::ConfirmNeeded, format!("{what}, and nobody is there to confirm it"))),
    }
}
