//! `muster host probe` and `floor show`: what hosts say of themselves, unsigned and read-only.

use super::fleet::{Finished, Fleet, Job, Reporter, Slot};
use super::reach::{self, Reach};
use crate::codes::{Code, Own};
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::inventory::{ExecMode, Host};
use crate::printer::{Listing, Printer, Tone, clean};
use crate::remote::phase::{self, Seen};
use crate::remote::probe::{Probe, Two};
use crate::remote::{fault, session::Session};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a host answered.
#[derive(Debug)]
pub struct Answer {
    host: String,
    probe: Result<Probe, Fault>,
    hops: Vec<Seen>,
}

impl Finished for Answer {
    fn word(&self) -> (&'static str, Tone) {
        match self.probe {
            Ok(_) => ("answered", Tone::Good),
            Err(_) => ("no answer", Tone::Bad),
        }
    }
    fn reason(&self) -> Option<&'static str> {
        self.probe.as_ref().err().map(|fault| fault.code.word())
    }
    fn detail(&self) -> String {
        self.probe.as_ref().err().map(ToString::to_string).unwrap_or_default()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    host: String,
    result: &'static str,
    exit: u8,
    reason: Option<&'static str>,
    detail: String,
    envelope: Option<u8>,
    host_key: Option<String>,
    facts: Value,
    #[serde(skip)]
    cells: Vec<String>,
}

/// Asks the hosts and shows what they are.
pub fn run(reach: &Reach, printer: &mut Printer) -> Outcome {
    let answers = ask(reach, printer)?;
    let exit = Exit::of_many(answers.iter().map(exit_of));
    warn(&answers, printer);
    printer.listing(&Listing {
        columns: &[
            "host", "system", "cpus", "memory", "clock", "kubelet", "shim", "running", "last run", "detail",
        ],
        rows: answers.iter().map(row).collect(),
        cells: |r| r.cells.clone(),
        name: |r| r.host.clone(),
        empty: "no host",
    });
    hints(&answers, printer);
    Ok(exit)
}

/// Asks the hosts for the lowest epochs that they take.
pub fn floors(reach: &Reach, printer: &mut Printer) -> Outcome {
    #[derive(Serialize)]
    #[serde(rename_all = "kebab-case")]
    struct Floors {
        host: String,
        result: &'static str,
        exit: u8,
        detail: String,
        floors: Option<BTreeMap<String, u32>>,
    }
    let answers = ask(reach, printer)?;
    let rows: Vec<Floors> = answers
        .iter()
        .map(|a| {
            let floors = match &a.probe {
                Err(fault) => Err((fault.exit(), fault.to_string())),
                Ok(Probe::One(_)) => {
                    Err((Exit::HostRefused, "it takes envelope 1, where there are no floors".into()))
                }
                Ok(Probe::Two(two)) => match &two.policy {
                    Ok(policy) => Ok(policy.profiles.clone()),
                    Err(why) => Err((Exit::HostRefused, why.clone())),
                },
            };
            let (exit, detail) = floors.as_ref().err().cloned().unwrap_or((Exit::Ok, String::new()));
            let result = if floors.is_ok() { "ok" } else { "no answer" };
            Floors { host: a.host.clone(), result, exit: exit.code(), detail, floors: floors.ok() }
        })
        .collect();
    let exit = Exit::of_many(
        rows.iter().map(|r| Exit::ALL.into_iter().find(|e| e.code() == r.exit).unwrap_or(Exit::Failed)),
    );
    printer.listing(&Listing {
        columns: &["host", "lowest epochs", "detail"],
        rows,
        cells: |r| {
            let floors =
                r.floors.iter().flatten().map(|(p, e)| format!("{p}={e}")).collect::<Vec<_>>().join(" ");
            vec![r.host.clone(), floors, r.detail.clone()]
        },
        name: |r| r.host.clone(),
        empty: "no host",
    });
    Ok(exit)
}

/// Asks all of them.
fn ask(reach: &Reach, printer: &mut Printer) -> Result<Vec<Answer>, crate::fault::Faults> {
    let hosts = reach.hosts()?;
    let fleet = Fleet::new();
    let sessions = reach.pool(&hosts, &fleet.asker())?;
    let names = reach::names(&hosts);
    let timeout = reach.pace.timeout;
    let mut make = |at: usize, reporter: Reporter| -> Job<Answer> {
        let (host, session) = (hosts.get(at).copied(), sessions.get(at).cloned());
        let Some((host, session)) = host.zip(session) else {
            return Box::pin(async { broken(String::new()) });
        };
        let (name, envelope) = (host.name.to_string(), envelope(host));
        Box::pin(async move {
            let work = one(&name, envelope, &session, &reporter);
            let answer = match timeout {
                Some(limit) => {
                    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| late(&name, &session))
                }
                None => work.await,
            };
            session.close().await;
            answer
        })
    };
    let slots = fleet.run(("probe", &names), reach.pace.parallel, printer, &mut make)?;
    Ok(slots
        .into_iter()
        .zip(&names)
        .map(|(slot, name)| match slot {
            Slot::Done(answer) => answer,
            Slot::NotStarted | Slot::Cut => {
                failed(name, Fault::new(Own::Interrupted, "stopped by the operator"))
            }
            Slot::Broken => broken(name.clone()),
        })
        .collect())
}

fn envelope(host: &Host) -> u8 {
    match host.exec_mode {
        ExecMode::Raw => 0,
        ExecMode::Verified => host.envelope,
    }
}

async fn one(name: &str, envelope: u8, session: &Arc<Session>, reporter: &Reporter) -> Answer {
    reporter.stage("connecting");
    let connection = match session.connection().await {
        Ok(connection) => connection,
        Err(e) => return failed(name, fault::connect(&e)),
    };
    reporter.stage("probing");
    session.set_sent(true);
    let probe = phase::ask_probe(&connection, envelope).await;
    let probe = probe.map_err(|why| Fault::new(Own::HostAnswer, clean(&why)));
    Answer { host: name.to_owned(), probe, hops: phase::seen(&connection) }
}

fn failed(name: &str, fault: Fault) -> Answer {
    Answer { host: name.to_owned(), probe: Err(fault), hops: Vec::new() }
}

fn late(name: &str, session: &Session) -> Answer {
    let fault = if session.sent() {
        Fault::new(Own::ConnectDeadline, "it did not answer its probe within the time given with --timeout")
            .fix("Raise --timeout.")
    } else {
        fault::late(session.progress())
    };
    failed(name, fault)
}

fn broken(name: String) -> Answer {
    failed(&name, Fault::new(Own::Fault, "muster itself failed"))
}

fn exit_of(answer: &Answer) -> Exit {
    answer.probe.as_ref().err().map_or(Exit::Ok, Fault::exit)
}

/// S11: names that do not fit, and one name on two machines.
fn warn(answers: &[Answer], printer: &mut Printer) {
    let mut names: BTreeMap<&str, Vec<&Answer>> = BTreeMap::new();
    for answer in answers {
        let Ok(Probe::Two(two)) = &answer.probe else { continue };
        let Ok(policy) = &two.policy else { continue };
        match &policy.host {
            Some(name) => names.entry(name).or_default().push(answer),
            None => printer
                .warn(&format!("{} has no name in its shim.toml: only `target: *` fits it", answer.host)),
        }
        if policy.host.as_ref().is_some_and(|h| *h != answer.host) {
            let called = policy.host.as_deref().unwrap_or_default();
            let what = format!(
                "{} calls itself {called}: an intent for host={} does not fit it",
                answer.host, answer.host
            );
            printer.warn(&clean(&what));
        }
    }
    let keys = answers.iter().filter_map(|a| Some((a.host.as_str(), a.hops.last()?.fingerprint.as_str())));
    super::clones::warn(keys, printer);
    for (name, same) in names.into_iter().filter(|(_, same)| same.len() > 1) {
        let who: Vec<String> = same
            .iter()
            .map(|a| format!("{} ({})", a.host, a.hops.last().map_or("?", |h| h.fingerprint.as_str())))
            .collect();
        printer.warn(&clean(&format!(
            "{} hosts call themselves {name}: {}; clones of one image? What is signed for one runs on all",
            same.len(),
            super::clones::few(&who).join(", ")
        )));
    }
}

fn hints(answers: &[Answer], printer: &mut Printer) {
    let mut codes: Vec<Code> =
        answers.iter().filter_map(|a| a.probe.as_ref().err().map(|f| f.code)).collect();
    codes.sort_by_key(|c| c.word());
    codes.dedup();
    for code in codes {
        let said =
            answers.iter().filter_map(|a| a.probe.as_ref().err()).any(|f| f.code == code && f.says_the_fix());
        printer.explain(code.word(), said);
    }
}

fn row(answer: &Answer) -> Row {
    let host_key = answer.hops.last().map(|h| h.fingerprint.clone());
    let host = answer.host.clone();
    match &answer.probe {
        Err(fault) => Row {
            cells: vec![
                host.clone(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                fault.to_string(),
            ],
            host,
            result: "no answer",
            exit: fault.exit().code(),
            reason: Some(fault.code.word()),
            detail: fault.to_string(),
            envelope: None,
            host_key,
            facts: Value::Null,
        },
        Ok(Probe::One(one)) => Row {
            cells: vec![
                host.clone(),
                one.machine.clone(),
                one.cpus.to_string(),
                mib(one.memory_kib),
                String::new(),
                one.kubelet.clone(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ],
            host,
            result: "answered",
            exit: 0,
            reason: None,
            detail: String::new(),
            envelope: Some(1),
            host_key,
            facts: json!(one),
        },
        Ok(Probe::Two(two)) => Row {
            cells: two_cells(&host, two),
            host,
            result: "answered",
            exit: 0,
            reason: None,
            detail: two.policy.as_ref().err().cloned().unwrap_or_default(),
            envelope: Some(2),
            host_key,
            facts: escaped(Value::Object(two.document.clone())),
        },
    }
}

fn two_cells(host: &str, two: &Two) -> Vec<String> {
    let memory = two.text(&["memory-kib"]).parse().map(mib).unwrap_or_default();
    let clock = match two.text(&["clock", "synchronised"]).as_str() {
        "true" => "synchronised",
        "false" => "NOT synchronised",
        _ => "unknown",
    };
    vec![
        host.to_owned(),
        format!("{} {}", two.text(&["os", "name"]), two.text(&["kernel", "machine"])),
        two.text(&["cpus"]),
        memory,
        clock.to_owned(),
        two.text(&["kubelet"]),
        two.text(&["shim", "version"]),
        two.running.as_ref().map(|r| format!("{} since {}", r.phase, r.since)).unwrap_or_default(),
        two.last.as_ref().map(|l| format!("{} {} {}", l.phase, l.verdict, l.time)).unwrap_or_default(),
        two.policy.as_ref().err().cloned().unwrap_or_default(),
    ]
}

fn mib(kib: u64) -> String {
    format!("{} MiB", kib / 1024)
}

/// A host's document for programs: its texts without what could steer the terminal of somebody who looks at it.
fn escaped(value: Value) -> Value {
    match value {
        Value::String(s) => Value::String(clean(&s)),
        Value::Array(items) => Value::Array(items.into_iter().map(escaped).collect()),
        Value::Object(map) => Value::Object(map.into_iter().map(|(k, v)| (clean(&k), escaped(v))).collect()),
        other => other,
    }
}
