//! `muster node logs`: records as they come, of one node or of several at once.
//!
//! For people a record is a line; for programs (`-o json`, `-o yaml`) each record is a value of its own, on a line or behind
//! `---`, with the node's name in it.

use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::nodes::fault::told;
use crate::nodes::session::{Callee, Session, explain, runtime, within};
use crate::printer::{Format, Printer, Tone, clean};
use muster_api::logs::Record;
use muster_client::Logs;
use muster_core::Operation;
use serde::Serialize;
use tokio::sync::mpsc;

/// Records that wait to be shown: a terminal that is slow slows the nodes down, and nothing is lost here.
pub(crate) const WAITING: usize = 1024;

#[derive(Serialize)]
struct Line<'l> {
    node: &'l str,
    #[serde(flatten)]
    record: &'l Record,
}

/// Reads, and follows until the node or the reader ends it.
pub fn run(session: &Session, logs: &Logs, printer: &mut Printer) -> Outcome {
    let mut exits = Vec::new();
    let mut codes = Vec::new();
    let mut callees = Vec::new();
    for chosen in &session.chosen {
        match session.callee(chosen) {
            Ok(callee) => callees.push(callee),
            Err(fault) => {
                printer.fault(&fault);
                exits.push(fault.exit());
                codes.push(fault.code.word());
            }
        }
    }
    let many = session.chosen.len() > 1;
    runtime()?.block_on(async {
        let (to, mut from) = mpsc::channel(WAITING);
        for callee in callees.clone() {
            let (to, logs, timeout) = (to.clone(), logs.clone(), session.pace.timeout);
            tokio::spawn(async move {
                let name = callee.chosen.name.clone();
                let end = within(&name, Operation::Logs, timeout, read(&callee, &logs, &to)).await;
                // The other end is gone only when nobody reads any more.
                let _ = to.send((callee.chosen.name.clone(), Event::End(end))).await;
            });
        }
        drop(to);
        while let Some((node, event)) = from.recv().await {
            match event {
                Event::Record(record) => line(&node, &record, many, printer),
                Event::End(Ok(())) => exits.push(Exit::Ok),
                Event::End(Err(fault)) => {
                    printer.fault(&fault);
                    exits.push(fault.exit());
                    codes.push(fault.code.word());
                }
            }
            if printer.out_gone() {
                break;
            }
        }
    });
    session.owe(&callees);
    explain(codes.into_iter(), printer);
    Ok(Exit::of_many(exits))
}

/// What comes of one node.
pub(crate) enum Event {
    /// One more.
    Record(Box<Record>),
    /// There is no more.
    End(Result<(), Fault>),
}

/// Hands on what one node has, until it ends or nobody takes it.
pub(crate) async fn read(
    callee: &Callee,
    logs: &Logs,
    to: &mpsc::Sender<(String, Event)>,
) -> Result<(), Fault> {
    let name = &callee.chosen.name;
    let mut stream = callee.told(Operation::Logs, callee.node.logs(logs).await)?;
    loop {
        match stream.next::<Record>().await {
            Ok(Some(record)) => {
                if to.send((name.clone(), Event::Record(Box::new(record)))).await.is_err() {
                    return Ok(());
                }
            }
            Ok(None) => return Ok(()),
            Err(e) => {
                let fault = told(name, Some(Operation::Logs), &e);
                return Err(match fault.code == Own::NodeUnreachable.into() {
                    true => fault.fix("The records before this line are whole; run it again with --since."),
                    false => fault,
                });
            }
        }
    }
}

fn line(node: &str, record: &Record, many: bool, printer: &mut Printer) {
    match printer.looks().format {
        Format::Json => {
            let text = serde_json::to_string(&Line { node, record }).unwrap_or_default();
            printer.data(&text);
        }
        Format::Yaml => {
            printer.data("---");
            printer.value(&Line { node, record });
        }
        Format::Name => printer.data(&clean(&record.message)),
        Format::Table => {
            let shown = shown(record);
            if let Some(lost) = &shown.lost {
                printer.warn(&format!("{node}: {lost}"));
            }
            let before = if many { format!("{node} ") } else { String::new() };
            for (n, text) in shown.lines.iter().enumerate() {
                let text = shown.tone.map_or_else(|| text.clone(), |t| printer.tint(t, text));
                match n {
                    0 => printer.data(&format!("{before}{} {text}", shown.head)),
                    _ => printer.data(&format!("{before}    {text}")),
                }
            }
            if shown.truncated {
                printer.data(&format!("{before}    {LONGER}"));
            }
        }
    }
}

/// Said under a message that was cut.
pub(crate) const LONGER: &str = "… (the message is longer than is shown)";

/// A record as people read it, control characters written out.
pub(crate) struct Shown {
    /// Records that are missing before it, in words.
    pub(crate) lost: Option<String>,
    /// When, and of which unit.
    pub(crate) head: String,
    /// A message of several lines stays one record: its further lines stand under it.
    pub(crate) lines: Vec<String>,
    /// How bad it is, where it is.
    pub(crate) tone: Option<Tone>,
    /// There is more of it.
    pub(crate) truncated: bool,
}

/// See [`Shown`].
pub(crate) fn shown(record: &Record) -> Shown {
    let lost = record.lost.map(|n| format!("{n} records were lost here, because they were read too slowly"));
    let unit = record.unit.as_deref().map(|u| u.strip_suffix(".service").unwrap_or(u)).unwrap_or_default();
    let tone = match record.priority {
        0..=3 => Some(Tone::Bad),
        4 => Some(Tone::Warn),
        _ => None,
    };
    let mut lines: Vec<String> = record.message.lines().map(clean).collect();
    // A record without words is one all the same.
    if lines.is_empty() {
        lines.push(String::new());
    }
    Shown {
        lost,
        head: format!("{} {}:", clean(&record.time), clean(unit)),
        lines,
        tone,
        truncated: record.truncated,
    }
}
