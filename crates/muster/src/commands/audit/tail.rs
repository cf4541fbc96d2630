//! `muster audit tail`

use super::follow::Chain;
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::nodes::fault::told;
use crate::nodes::heads;
use crate::nodes::session::{Callee, Session, runtime, within};
use crate::printer::{Format, Printer, Tone, clean};
use muster_core::Operation;
use serde_json::Value;

/// Shows the newest records of one node; each is verified to follow the one before.
pub fn run(session: &Session, lines: u64, follow: bool, printer: &mut Printer) -> Outcome {
    let [chosen] = session.chosen.as_slice() else {
        return Err(Fault::new(Own::Usage, "this is asked of one node").fix("Name one.").into());
    };
    let callee = session.callee(chosen)?;
    let seen = heads::read(session.store.folder())?;
    let known = chosen.pin.and_then(|p| seen.of(p));
    let mut each = |line: &[u8]| {
        show(line, printer);
        !printer.out_gone()
    };
    let reading = read(&callee, lines, follow, known, &mut each);
    let newest =
        runtime()?.block_on(within(&chosen.name, Operation::AuditRead, session.pace.timeout, reading));
    session.owe(core::slice::from_ref(&callee));
    newest?;
    session.keep()?;
    Ok(Exit::Ok)
}

/// Hands on the newest records, each verified to follow the one before, until there is no more or `each` wants none.
pub(crate) async fn read(
    callee: &Callee,
    lines: u64,
    follow: bool,
    known: Option<muster_core::audit::Head>,
    each: &mut (dyn FnMut(&[u8]) -> bool + Send),
) -> Result<(), Fault> {
    let name = &callee.chosen.name;
    let fault = |e| told(name, Some(Operation::AuditRead), &e);
    // Any answer carries the newest head.
    callee.node.health().await.map_err(|e| told(name, Some(Operation::Health), &e))?;
    let newest = callee.node.head().map_or(0, |h| h.seq);
    let after = newest.saturating_sub(lines);
    let mut stream = callee.node.audit(Some(after), follow).await.map_err(fault)?;
    // Only what lies in what is shown can be judged here.
    let mut chain = Chain::new(None, known.into_iter().filter(|k| k.seq > after).collect());
    while let Some(line) = stream.line().await.map_err(fault)? {
        chain.line(&line).map_err(|e| Fault::new(Own::AuditBroken, format!("{name}: {e}")))?;
        if !each(&line) {
            return Ok(());
        }
    }
    chain.end().map(|_| ()).map_err(|e| Fault::new(Own::AuditBroken, format!("{name}: {e}")))
}

/// One record: as it is for programs, a line for people.
fn show(line: &[u8], printer: &mut Printer) {
    let text = String::from_utf8_lossy(line);
    let format = printer.looks().format;
    if matches!(format, Format::Json) {
        printer.data(&text);
        return;
    }
    let Ok(record) = serde_json::from_str::<Value>(&text) else { return };
    if matches!(format, Format::Yaml) {
        printer.data("---");
        printer.value(&record);
        return;
    }
    if matches!(format, Format::Name) {
        printer.data(&word(&record, "/seq").unwrap_or_default());
        return;
    }
    let text = in_words(&record, |tone, decision| match tone {
        Some(tone) => printer.tint(tone, decision),
        None => decision.to_owned(),
    });
    printer.data(&text);
}

fn word(record: &Value, path: &str) -> Option<String> {
    record.pointer(path).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
}

/// A record on one line, control characters written out; the decision as `tint` makes it.
pub(crate) fn in_words(record: &Value, tint: impl Fn(Option<Tone>, &str) -> String) -> String {
    let get = |path| word(record, path);
    let decision = get("/decision").unwrap_or_default();
    let tone = match decision.as_str() {
        "allowed" => Some(Tone::Good),
        "denied" | "failed" => Some(Tone::Bad),
        _ => None,
    };
    let mut out = format!(
        "{:>6} {} {}",
        clean(&get("/seq").unwrap_or_default()),
        clean(&get("/time").unwrap_or_default()),
        clean(&get("/event").unwrap_or_default())
    );
    if !decision.is_empty() {
        out += &format!(" {}", tint(tone, &clean(&decision)));
    }
    let who = [get("/who/name"), get("/who/role")].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let rest = [get("/op"), get("/reason"), Some(who).filter(|w| !w.is_empty()), get("/request")];
    for word in rest.into_iter().flatten() {
        out += &format!("  {}", clean(&word));
    }
    out
}
