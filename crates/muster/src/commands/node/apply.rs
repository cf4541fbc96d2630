//! `muster node apply`: what a node that is not built yet shall be.

use super::claim::document;
use crate::exit::Exit;
use crate::fault::Outcome;
use crate::nodes::session::{Session, Shape, show};
use crate::printer::{Printer, clean};
use muster_core::{Operation, UtcTime};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// Checks the document here and sends it.
pub fn run(session: &Session, file: &Path, plan: bool, now: UtcTime, printer: &mut Printer) -> Outcome {
    let text = Arc::new(document(file, now)?);
    if plan {
        for chosen in &session.chosen {
            printer.talk(&format!("{} at {} would get {}", chosen.name, chosen.endpoint, file.display()));
        }
        printer.talk("the document is well formed; nothing was sent");
        return Ok(Exit::Ok);
    }
    let results = session.each(move |callee| {
        let text = Arc::clone(&text);
        async move { callee.told(Operation::ConfigApply, callee.node.config(&text).await) }
    })?;
    for (chosen, result) in &results {
        if let Ok(answer) = result
            && answer.get("api").and_then(Value::as_bool) == Some(false)
        {
            printer.warn(&format!("{}: by this document the API is off from the next boot on", chosen.name));
        }
    }
    let cells = |v: &Value| {
        let text = |name: &str| clean(v.get(name).and_then(Value::as_str).unwrap_or_default());
        vec![text("status"), text("role"), text("path")]
    };
    show(results, &Shape { columns: &["status", "role", "where"], cells }, printer)
}
