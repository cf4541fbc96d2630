//! `muster node kubeconfig`, `join-token` and `etcd`: what only a node in a cluster has.
//!
//! A kubeconfig and a token go to standard output or to a new file that only the operator can read, and nowhere else: never
//! into a table, a log or an error.

use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::files;
use crate::nodes::session::{Session, Shape, show};
use crate::printer::Printer;
use muster_core::Operation;
use serde_json::Value;
use std::path::Path;

/// What is handed over.
#[derive(Clone, Debug)]
pub enum Secret {
    /// The cluster administrator's.
    Kubeconfig {
        /// What to write as the server.
        server: Option<String>,
    },
    /// For a node that joins.
    JoinToken {
        /// What it shall be.
        role: Option<String>,
        /// How long the token is good for.
        expiry: Option<String>,
    },
}

/// Asks one node and hands it over.
pub fn run(session: &Session, secret: &Secret, to: Option<&Path>, printer: &mut Printer) -> Outcome {
    if session.chosen.len() != 1 {
        return Err(Fault::new(Own::Usage, "this is asked of one node").fix("Name one.").into());
    }
    if let Some(path) = to.filter(|p| p.exists()) {
        return Err(Fault::new(Own::Exists, format!("{} is there already", path.display())).into());
    }
    let operation = match secret {
        Secret::Kubeconfig { .. } => Operation::Kubeconfig,
        Secret::JoinToken { .. } => Operation::JoinToken,
    };
    let asked = secret.clone();
    let results = session.each(operation, move |callee| {
        let asked = asked.clone();
        async move {
            match asked {
                Secret::Kubeconfig { server } => {
                    callee.told(Operation::Kubeconfig, callee.node.kubeconfig(server.as_deref()).await)
                }
                Secret::JoinToken { role, expiry } => callee.told(
                    Operation::JoinToken,
                    callee.node.join_token(role.as_deref(), expiry.as_deref()).await,
                ),
            }
        }
    })?;
    for (_, result) in results {
        let answer = result.map_err(Faults::from)?;
        // What it is worth nobody here knows; that it draws nothing on a terminal, and is text, can be seen.
        let plain = |text: &str| !text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'));
        if !core::str::from_utf8(&answer.body).is_ok_and(plain) {
            let what = "the node's answer is no plain text, and is neither shown nor kept";
            return Err(Fault::new(Own::NodeAnswer, what).into());
        }
        match to {
            Some(path) => {
                files::write_new(path, &answer.body, 0o600)?;
                printer.talk(&format!("{} (only you can read it)", path.display()));
            }
            None => printer.raw(&answer.body),
        }
    }
    Ok(Exit::Ok)
}

/// What each node sees of etcd.
pub fn etcd(session: &Session, printer: &mut Printer) -> Outcome {
    let results = session.each(Operation::EtcdState, |callee| async move {
        callee.told(Operation::EtcdState, callee.node.etcd().await)
    })?;
    show(results, &Shape { columns: &["etcd"], cells: |v: &Value| vec![in_words(v)] }, printer)
}

/// A value as people read it: what is nested deeper than names and their values stays as it is.
fn in_words(value: &Value) -> String {
    let word = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    match value {
        Value::Object(members) => {
            members.iter().map(|(name, v)| format!("{name}={}", word(v))).collect::<Vec<_>>().join(" ")
        }
        other => word(other),
    }
}
