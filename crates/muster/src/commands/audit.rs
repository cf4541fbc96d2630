//! `muster audit`: the record that each node keeps of what it was asked.
//!
//! What a chain proves, and what it does not, stands in `muster_core::audit`. The heads that nodes handed out with their answers
//! are kept in the state folder; a chain that lacks one of them was changed by whoever had root on the node.

mod follow;
pub mod tail;

use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::files;
use crate::nodes::fault::told;
use crate::nodes::heads;
use crate::nodes::session::{Callee, Session, Shape, show};
use crate::printer::Printer;
use follow::Chain;
use muster_core::Operation;
use muster_core::audit::Head;
use serde::Serialize;
use std::path::PathBuf;

/// Longest file of a chain.
const MAX_FILE: usize = 256 << 20;

/// What a chain that holds together says.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Holds {
    /// The number of the first record that was read.
    first: u64,
    /// How many were read.
    records: u64,
    /// The newest one.
    head: String,
    /// What was seen before and is in it.
    known: Option<String>,
    /// A record whose writing was interrupted, bytes.
    torn: usize,
}

/// Reads the chain of each node and verifies it.
pub fn verify(session: &Session, since_known: bool, printer: &mut Printer) -> Outcome {
    let seen = heads::read(session.store.folder())?;
    let results = session.each(Operation::AuditRead, |callee| {
        let known = callee.chosen.pin.and_then(|p| seen.of(p));
        async move { of_node(&callee, known, since_known).await }
    })?;
    for (chosen, result) in &results {
        let head = result.as_ref().ok().and_then(|holds| holds.head.parse().ok());
        if let (Some(node), Some(head)) = (chosen.pin, head) {
            session.unkept.saw(node, head);
        }
    }
    let exit = show(results, &SHAPE, printer)?;
    let Err(fault) = session.keep() else { return Ok(exit) };
    // To keep what was seen is half of what this is for.
    printer.fault(&fault);
    Ok(Exit::of_many([exit, fault.exit()]))
}

const SHAPE: Shape<Holds> = Shape {
    columns: &["records", "newest", "seen before"],
    cells: |h| {
        let known = h.known.clone().unwrap_or_else(|| "nothing".to_owned());
        let number = |head: &str| head.split(':').next().unwrap_or_default().to_owned();
        vec![format!("{} from {}", h.records, h.first), h.head.clone(), number(&known)]
    },
};

async fn of_node(callee: &Callee, known: Option<Head>, since_known: bool) -> Result<Holds, Fault> {
    let name = &callee.chosen.name;
    let broken = |why: &dyn core::fmt::Display| Fault::new(Own::AuditBroken, format!("{name}: {why}"));
    let after = match (since_known, known) {
        (false, _) => None,
        (true, Some(known)) => Some(known.seq.saturating_sub(1)),
        (true, None) => {
            let what = format!("{name}: nothing was seen of its record before");
            return Err(Fault::new(Own::AuditBroken, what)
                .fix("Leave --since-known out this once: the whole chain is read, and its head is kept."));
        }
    };
    let fault = |e| told(name, Some(Operation::AuditRead), &e);
    let mut stream = callee.node.audit(after, false).await.map_err(fault)?;
    let mut chain = Chain::new(None, known.into_iter().collect());
    while let Some(line) = stream.line().await.map_err(fault)? {
        chain.line(&line).map_err(|e| broken(&e))?;
    }
    let report = chain.end().map_err(|e| broken(&e))?;
    if let Some(known) = known.filter(|_| report.before > 0) {
        // The node keeps so many files; what was rotated away cannot be judged any more, and that must not look like proof.
        let what =
            format!("record {known} was handed out and lies before the first record that the node still has");
        return Err(broken(&what));
    }
    Ok(holds(&report, known))
}

fn holds(report: &muster_core::audit::Report, known: Option<Head>) -> Holds {
    let records = if report.first == 0 { 0 } else { report.head.seq + 1 - report.first };
    Holds {
        first: report.first,
        records,
        head: report.head.to_string(),
        known: known.map(|k| k.to_string()),
        torn: report.torn,
    }
}

/// Verifies files of one chain, the oldest first.
pub fn verify_files(paths: &[PathBuf], known: &[Head], printer: &mut Printer) -> Outcome {
    let mut chain = Chain::new(None, known.to_vec());
    let last = paths.len().saturating_sub(1);
    for (n, path) in paths.iter().enumerate() {
        let text = files::read(path, MAX_FILE)?;
        let (lines, torn) = match text.iter().rposition(|b| *b == b'\n') {
            Some(at) => text.split_at_checked(at + 1).unwrap_or((&text, &[])),
            None => (&[][..], text.as_slice()),
        };
        // Only the newest file can end in the middle of a record.
        if !torn.is_empty() && n < last {
            let fault =
                Fault::new(Own::AuditBroken, "the file ends in the middle of a record, and another follows");
            return Err(fault.at(path, 0).into());
        }
        for (at, line) in (1usize..).zip(lines.split_inclusive(|b| *b == b'\n')) {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            chain.line(line).map_err(|e| Fault::new(Own::AuditBroken, e.to_string()).at(path, at))?;
        }
        chain.torn(torn.len());
    }
    let broken = |e: muster_core::audit::Broken| Faults::from(Fault::new(Own::AuditBroken, e.to_string()));
    let report = chain.end().map_err(broken)?;
    let holds = holds(&report, None);
    // A record has its first line from the beginning: what has none is not one that holds together.
    if let (0, Some(path)) = (holds.records, paths.first()) {
        let fault = Fault::new(Own::AuditBroken, "there is no record in it").at(path, 0);
        return Err(fault.fix("Name the file that `GET /v1/audit` or the node's folder gave.").into());
    }
    if report.before > 0 {
        printer
            .warn(&format!("{} heads lie before the first record: nothing is proven of them", report.before));
    }
    if holds.torn > 0 {
        printer.warn(&format!("the last {} bytes are a record whose writing was interrupted", holds.torn));
    }
    if printer.value(&holds) {
        return Ok(Exit::Ok);
    }
    if printer.looks().format == crate::printer::Format::Name {
        printer.data(&holds.head);
    } else {
        printer.data(&format!(
            "{} records from {} hold together; the newest is {}",
            holds.records, holds.first, holds.head
        ));
    }
    Ok(Exit::Ok)
}
