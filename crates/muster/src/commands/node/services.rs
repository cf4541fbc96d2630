//! `muster node services`

use crate::exit::Exit;
use crate::fault::Outcome;
use crate::nodes::session::{Session, Shape, show};
use crate::printer::{Format, Printer};
use muster_api::services::Services;
use muster_core::Operation;

/// Lists the services of each node.
pub fn run(session: &Session, printer: &mut Printer) -> Outcome {
    let results = session.each(Operation::Services, |callee| async move {
        callee.told(Operation::Services, callee.node.services().await)
    })?;
    if !matches!(printer.looks().format, Format::Table | Format::Name) {
        let cells = |s: &Services| vec![s.services.len().to_string()];
        return show(results, &Shape { columns: &["services"], cells }, printer);
    }
    let exits: Vec<Exit> =
        results.iter().map(|(_, r)| r.as_ref().map_or_else(|f| f.exit(), |_| Exit::Ok)).collect();
    let (mut rows, mut faults) = (Vec::new(), Vec::new());
    for (chosen, result) in results {
        match result {
            Err(fault) => faults.push(fault),
            Ok(all) => rows.extend(all.services.into_iter().map(|s| {
                let state = format!("{} ({})", s.active, s.sub);
                let restart = if s.restartable { "yes" } else { "" };
                vec![
                    chosen.name.clone(),
                    s.name,
                    state,
                    s.enabled.unwrap_or_default(),
                    s.since.unwrap_or_default(),
                    restart.to_owned(),
                    s.purpose,
                ]
            })),
        }
    }
    if printer.looks().format == Format::Name {
        for row in rows.iter().filter_map(|r| r.get(1)) {
            printer.data(&crate::printer::clean(row));
        }
    } else if !rows.is_empty() {
        printer.table(&["node", "unit", "state", "enabled", "since", "restart", "what it is for"], &rows);
    }
    for fault in &faults {
        printer.fault(fault);
    }
    Ok(Exit::of_many(exits))
}
