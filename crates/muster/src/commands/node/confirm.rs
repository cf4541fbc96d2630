//! What a command would end, shown before it does: the blast radius, and the name typed.

use super::plan::{self, Planned};
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

/// How it is confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Typed {
    /// The name of one; of many, how many they are.
    Together,
    /// The name of each, one after the other: what does not come back by itself.
    Each,
}

/// Asks each node what it is. A node that does not answer ends the command: nothing is ended half blind.
pub fn ask(session: &Session) -> Result<Vec<(Chosen, Node)>, Faults> {
    let results = session.each(Operation::NodeState, |callee| async move {
        callee.told(Operation::NodeState, callee.node.state().await)
    })?;
    let mut nodes = Vec::new();
    let mut faults = Vec::new();
    for (chosen, result) in results {
        match result {
            Ok(node) => nodes.push((chosen, node)),
            Err(fault) => faults.push(fault),
        }
    }
    Faults::check(faults)?;
    Ok(nodes)
}

/// Lines about what would be ended: talk where it was said to be meant, and part of the question where it was not.
pub fn tell(sure: Meant, line: &str, printer: &mut Printer) {
    match sure.yes {
        true => printer.talk(line),
        false => printer.question(line),
    }
}

/// Asks each node what it is, and shows it; as a plan it is shown by [`meant`].
pub fn look(
    session: &Session,
    doing: &str,
    sure: Meant,
    printer: &mut Printer,
) -> Result<Vec<(Chosen, Node)>, Faults> {
    let nodes = ask(session)?;
    if !sure.plan {
        tell(sure, &clean(&format!("{doing}:")), printer);
        for (chosen, node) in &nodes {
            tell(sure, &format!("  {}", clean(&radius(chosen, node))), printer);
        }
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
    typed: Typed,
    doing: &str,
    printer: &mut Printer,
) -> Result<bool, Faults> {
    if meant.plan {
        plan::show(nodes.iter().map(|(c, n)| Planned::seen(c, n, doing)).collect(), printer)?;
        return Ok(false);
    }
    if meant.yes {
        return Ok(true);
    }
    let words: Vec<String> = match typed {
        Typed::Together => vec![word(nodes)],
        Typed::Each => nodes.iter().map(|one| word(core::slice::from_ref(one))).collect(),
    };
    for word in &words {
        let typed = terminal::ask(&question(word, doing));
        // Without a terminal none of them is confirmed, so all are named.
        let word = if typed.is_none() { &words.join(", ") } else { word };
        judge(typed.as_deref(), word, doing)?;
    }
    Ok(true)
}

/// What is to be typed: the node's own name, which a wrong line of the inventory cannot change; of many, how many they are.
pub(crate) fn word(nodes: &[(Chosen, Node)]) -> String {
    match nodes {
        [(chosen, node)] => {
            let told = node.hostname.clone().filter(|name| !name.trim().is_empty());
            told.unwrap_or_else(|| chosen.name.clone())
        }
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
        // Before all else: a node may say that it has no name.
        Some("") => Err(Fault::new(Own::Declined, what)),
        Some(typed) if typed == word => Ok(()),
        Some(typed) => {
            Err(Fault::new(Own::NameDiffers, format!("{typed} was typed, and {word} was asked for")))
        }
        None => Err(Fault::new(Own::ConfirmNeeded, format!("{what}, and nobody is there to confirm it"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_typed_is_a_no_whatever_a_node_calls_itself() {
        for word in ["", "edge-1"] {
            assert_eq!(judge(Some(""), word, "reset").unwrap_err().code, Own::Declined.into(), "{word:?}");
            assert_eq!(judge(None, word, "reset").unwrap_err().code, Own::ConfirmNeeded.into(), "{word:?}");
        }
        assert_eq!(judge(Some("edge-2"), "edge-1", "reset").unwrap_err().code, Own::NameDiffers.into());
        assert!(judge(Some("edge-1"), "edge-1", "reset").is_ok());
    }
}
