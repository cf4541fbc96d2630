//! `muster node apply`: what a node that is not built yet shall be.

use super::claim::document;
use super::plan;
use crate::fault::Outcome;
use crate::nodes::session::{Session, Shape, show};
use crate::printer::Printer;
use muster_api::ownership::ConfigAnswer;
use muster_core::{Operation, UtcTime};
use std::path::Path;
use std::sync::Arc;

/// Checks the document here and sends it.
pub fn run(session: &Session, file: &Path, plan: bool, now: UtcTime, printer: &mut Printer) -> Outcome {
    let text = Arc::new(document(file, now)?);
    if plan {
        return plan::same(
            &session.chosen,
            &format!("get {}, which is well formed", file.display()),
            printer,
        );
    }
    let results = session.each(Operation::ConfigApply, move |callee| {
        let text = Arc::clone(&text);
        async move { callee.told(Operation::ConfigApply, callee.node.config(&text).await) }
    })?;
    for (chosen, result) in &results {
        if result.as_ref().is_ok_and(|answer| !answer.api) {
            printer.warn(&format!("{}: by this document the API is off from the next boot on", chosen.name));
        }
    }
    let cells = |a: &ConfigAnswer| {
        let what = if a.released { "it is being built now" } else { "it still waits" };
        vec![a.status.clone(), a.role.clone().unwrap_or_default(), what.to_owned()]
    };
    show(results, &Shape { columns: &["status", "role", ""], cells }, printer)
}
