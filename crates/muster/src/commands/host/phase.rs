//! `muster host install|join|leave|uninstall` and `floor raise`: one signed phase on one host or many.

use super::admin::reasons;
use super::fleet::{Finished, Fleet, Reporter, Slot};
use super::prepare::{self, Ready, Wanted};
use super::reach::{self, Reach};
use super::report::Row;
use super::values::Given;
use crate::exit::Exit;
use crate::fault::{Faults, Outcome};
use crate::inventory::ExecMode;
use crate::printer::{Format, Listing, Printer, Tone};
use crate::remote::load::{Shared, Value};
use crate::remote::phase::{self, Task, Tell};
use crate::remote::pins;
use muster_core::Phase;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// The hosts.
    pub reach: Reach,
    /// The phase; never `probe`.
    pub phase: Phase,
    /// The profile's folder.
    pub folder: PathBuf,
    /// Parameters and secrets.
    pub given: Given,
    /// Say it only.
    pub plan: bool,
    /// Do not ask.
    pub yes: bool,
    /// Unsigned code is meant.
    pub danger_raw: bool,
}

impl Tell for Reporter {
    fn stage(&self, text: String) {
        Reporter::stage(self, text);
    }
    fn line(&self, text: String) {
        Reporter::line(self, text);
    }
    fn say(&self, text: String) {
        Reporter::say(self, text);
    }
}

impl Finished for Row {
    fn word(&self) -> (&'static str, Tone) {
        (self.result, if self.exit == Exit::Ok.code() { Tone::Good } else { Tone::Bad })
    }
    fn reason(&self) -> Option<&'static str> {
        self.reason
    }
    fn detail(&self) -> String {
        self.detail.clone()
    }
}

/// Runs the phase.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let hosts = settings.reach.hosts()?;
    spelled_out(settings, &hosts)?;
    let wanted = Wanted {
        phase: settings.phase,
        folder: &settings.folder,
        given: &settings.given,
        now: settings.reach.now,
    };
    let ready = prepare::prepare(&settings.reach.inventory, &hosts, &wanted)?;
    for r in &ready {
        printer.hide(&r.secrets);
    }
    for name in settings.given.suspicious() {
        printer.warn(&format!(
            "--param {name} stands on the command line, which every local user can read; use --secret"
        ));
    }
    warn_raw(&ready, printer);
    if settings.plan {
        return plan(settings, &ready, printer);
    }
    let destroys = settings.phase == Phase::Uninstall;
    settings.reach.confirm(settings.yes, destroys, &hosts, &format!("Run {} on", settings.phase))?;
    send(settings, ready, printer)
}

/// Raw is what the inventory says *and* what was typed: neither alone will do.
fn spelled_out(settings: &Settings, hosts: &[&crate::inventory::Host]) -> Result<(), Faults> {
    use crate::codes::Own;
    use crate::fault::Fault;
    let is_raw = |h: &&&crate::inventory::Host| h.exec_mode == ExecMode::Raw;
    let raw = hosts.iter().filter(is_raw).count();
    if raw > 0 && !settings.danger_raw {
        let all = hosts.iter().filter(is_raw).map(|h| {
            let what = format!("{} is raw: {} would run unsigned, as root", h.name, settings.phase);
            Fault::new(Own::RawNotSpelled, what).at(&settings.reach.inventory.file, h.line)
        });
        return Faults::check(all.collect());
    }
    if settings.danger_raw && raw < hosts.len() {
        let all = hosts.iter().filter(|h| h.exec_mode != ExecMode::Raw).map(|h| {
            Fault::new(Own::RawNotAllowed, format!("{} is not raw", h.name))
                .at(&settings.reach.inventory.file, h.line)
        });
        return Faults::check(all.collect());
    }
    Ok(())
}

fn warn_raw(ready: &[Ready<'_>], printer: &mut Printer) {
    for r in ready.iter().filter(|r| matches!(&*r.load.shared, Shared::Raw { .. })) {
        printer.warn(&format!(
            "{} is in raw mode: {}.sh runs as root through `{}`, whoever wrote it; nothing is verified, there or here. \
             Migrate the host with `muster host provision {}`",
            r.host.name,
            r.load.phase,
            r.load.command(&r.host.ssh.user),
            r.host.name
        ));
    }
}

fn send(settings: &Settings, ready: Vec<Ready<'_>>, printer: &mut Printer) -> Outcome {
    let fleet = Fleet::new();
    let hosts: Vec<_> = ready.iter().map(|r| r.host).collect();
    let sessions = settings.reach.pool(&hosts, &fleet.asker())?;
    let names = reach::names(&hosts);
    let keep = matches!(printer.looks().format, Format::Json | Format::Yaml);
    let tasks: Vec<Arc<Task>> = ready
        .iter()
        .map(|r| {
            Arc::new(Task {
                host: r.host.name.to_string(),
                load: r.load.clone(),
                user: r.host.ssh.user.clone(),
                secrets: Arc::clone(&r.secrets),
                timeout: settings.reach.pace.timeout,
                keep,
            })
        })
        .collect();
    let mut left: Vec<_> = tasks.iter().cloned().zip(sessions).map(Some).collect();
    let mut make = |host: usize, reporter: Reporter| -> super::fleet::Job<Row> {
        let job = left.get_mut(host).and_then(Option::take);
        Box::pin(async move {
            let Some((task, session)) = job else { return Row::broken() };
            let report = phase::run(&session, &task, &reporter).await;
            session.close().await;
            Row::of(&task, report)
        })
    };
    let title = settings.phase.to_string();
    let slots = fleet.run((&title, &names), settings.reach.pace.parallel, printer, &mut make)?;
    let rows = slots.into_iter().zip(&tasks).map(|(slot, task)| match slot {
        Slot::Done(row) => row,
        Slot::NotStarted => Row::not_started(task),
        Slot::Cut => Row::cut(task),
        Slot::Broken => Row::broken_on(task),
    });
    Ok(conclude(rows.collect(), printer))
}

/// The summary, what to do about each reason, and the exit code.
pub fn conclude(rows: Vec<Row>, printer: &mut Printer) -> Exit {
    super::clones::warn(rows.iter().filter_map(|r| Some((r.host.as_str(), r.host_key()?))), printer);
    let exit = Exit::of_many(rows.iter().map(|r| r.outcome));
    let codes = reasons(rows.iter().filter_map(|r| Some((r.reason?, r.detail.as_str()))));
    let tally = tally(&rows);
    printer.listing(&Listing {
        columns: &["host", "phase", "result", "time", "reason", "detail"],
        rows,
        cells: |r| {
            vec![
                r.host.clone(),
                r.phase.to_owned(),
                r.result.to_owned(),
                format!("{:.1}s", r.seconds),
                r.reason.unwrap_or_default().to_owned(),
                r.detail.clone(),
            ]
        },
        name: |r| r.host.clone(),
        empty: "no host",
    });
    if let Some(tally) = tally {
        printer.talk(&tally);
    }
    for (code, said) in codes {
        printer.explain(code, said);
    }
    exit
}

/// Of many hosts, how many ended how: among fifty rows three are not seen.
fn tally(rows: &[Row]) -> Option<String> {
    let mut ends: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *ends.entry(row.result).or_default() += 1;
    }
    let good = ends.remove("ok").unwrap_or(0);
    let bad = ends.iter().map(|(word, n)| format!("{n} {word}")).collect::<Vec<_>>().join(", ");
    let end = if bad.is_empty() { String::new() } else { format!("; {bad}") };
    (rows.len() > 1).then(|| format!("{good} of {} hosts ok{end}", rows.len()))
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Planned {
    host: String,
    login: String,
    via: Vec<String>,
    mode: &'static str,
    phase: String,
    profile: Option<String>,
    epoch: Option<u32>,
    deadline_seconds: u64,
    bytes: usize,
    params: BTreeMap<String, Option<String>>,
}

fn plan(settings: &Settings, ready: &[Ready<'_>], printer: &mut Printer) -> Outcome {
    let fleet = Fleet::new();
    let hosts: Vec<_> = ready.iter().map(|r| r.host).collect();
    // Routes too: a host without a pin would be refused.
    settings.reach.pool(&hosts, &fleet.asker())?;
    let mut rows = Vec::new();
    for r in ready {
        let built = r
            .load
            .build()
            .map_err(|e| crate::fault::Fault::new(e.reason, format!("{}: {e}", r.host.name)))?;
        let shown = |v: &Value| match v {
            Value::Plain(text) => Some(text.clone()),
            Value::Secret(_) => None,
        };
        rows.push(Planned {
            host: r.host.name.to_string(),
            login: format!("{}@{}", r.host.ssh.user, pins::place(&r.host.ssh.address, r.host.ssh.port)),
            via: r.host.ssh.via.clone(),
            mode: match &*r.load.shared {
                Shared::Two { .. } => "envelope 2",
                Shared::One { .. } => "envelope 1",
                Shared::Raw { .. } => "raw",
            },
            phase: r.load.phase.to_string(),
            profile: r.load.epoch().map(|(p, _)| p.to_owned()),
            epoch: r.load.epoch().map(|(_, e)| e),
            deadline_seconds: r.load.patience().as_secs().saturating_sub(60),
            bytes: built.len(),
            params: r.load.values.iter().map(|(n, v)| (n.clone(), shown(v))).collect(),
        });
    }
    printer.listing(&Listing {
        columns: &["host", "login", "via", "mode", "phase", "profile", "epoch", "deadline", "parameters"],
        rows,
        cells: |r| {
            let params = r.params.iter().map(|(n, v)| format!("{n}={}", v.as_deref().unwrap_or("(secret)")));
            vec![
                r.host.clone(),
                r.login.clone(),
                r.via.join(","),
                r.mode.to_owned(),
                r.phase.clone(),
                r.profile.clone().unwrap_or_default(),
                r.epoch.map(|e| e.to_string()).unwrap_or_default(),
                format!("{}s", r.deadline_seconds),
                params.collect::<Vec<_>>().join(" "),
            ]
        },
        name: |r| r.host.clone(),
        empty: "no host",
    });
    printer.talk("this is a plan: everything was verified here, nothing was connected to");
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hosts_are_counted_by_how_they_ended() {
        let rows = |ends: &[&'static str]| -> Vec<Row> {
            ends.iter().map(|result| Row { result, ..Row::broken() }).collect()
        };
        let said = |ends: &[&'static str]| tally(&rows(ends)).unwrap_or_default();
        assert_eq!(said(&["ok"]), "");
        assert_eq!(said(&["ok", "ok"]), "2 of 2 hosts ok");
        let ends = ["unreachable", "ok", "refused", "unreachable"];
        assert_eq!(said(&ends), "1 of 4 hosts ok; 1 refused, 2 unreachable");
    }
}
