//! `muster host provision` and `unprovision`.

use super::admin::{self, Access, Changed, Row};
use super::reach::{Pool, Reach};
use super::spec::{self, Typed};
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::printer::{Listing, Printer, clean};
use crate::remote::prover::Logins;
use muster_provision::render::{self, ShimSource};
use muster_provision::run::{self, Options, Outcome as Done};
use muster_provision::{HostSpec, Limit, Plan, change};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// The hosts.
    pub reach: Reach,
    /// How to get in.
    pub access: Access,
    /// What they shall be.
    pub spec: Typed,
    /// Say it only.
    pub plan: bool,
    /// In another tool's form.
    pub form: Option<Form>,
    /// Go on with an earlier one.
    pub resume: bool,
    /// Limits whose loss is meant.
    pub widen: BTreeSet<Limit>,
    /// Do not ask.
    pub yes: bool,
}

/// Forms for other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// cloud-config.
    CloudInit,
    /// A playbook.
    Ansible,
    /// POSIX sh.
    Sh,
}

/// The limits of --widen.
pub fn limits(words: &[String]) -> Result<BTreeSet<Limit>, Fault> {
    let one = |word: &String| {
        Limit::from_word(word.trim()).ok_or_else(|| {
            let known: Vec<&str> = Limit::ALL.iter().map(|l| l.word()).collect();
            Fault::new(Own::Usage, format!("--widen {:?} is no limit", clean(word)))
                .fix(format!("Known are {}.", known.join(", ")))
        })
    };
    words.iter().map(one).collect()
}

/// Makes hosts what they shall be.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let Settings { reach, access, .. } = settings;
    let hosts = reach.hosts()?;
    let wanted = spec::read(&settings.spec, &reach.inventory, &hosts)?;
    let mut faults = Vec::new();
    let mut specs = Vec::new();
    for host in &hosts {
        match wanted.for_host(host, &reach.inventory, reach.agent.as_deref()) {
            Ok(spec) => specs.push(Arc::new(spec)),
            Err(more) => faults.extend(more.into_vec()),
        }
    }
    Faults::check(faults)?;
    if let Some(form) = settings.form {
        return render_one(form, &specs, printer);
    }
    warn(&specs, printer);
    if !settings.plan {
        reach.confirm(settings.yes, false, &hosts, "Provision")?;
    }
    let mut left = specs.into_iter();
    let (plan, resume, timeout) = (settings.plan, settings.resume, reach.pace.timeout);
    let widen = &settings.widen;
    let title = if plan { "looking" } else { "provision" };
    let rows = admin::on_all(
        title,
        (reach, access, Pool::Wanted),
        &hosts,
        printer,
        |host, both, shell, reporter| {
            let (spec, name, widen) = (left.next(), host.name.to_string(), widen.clone());
            async move {
                let spec = spec.ok_or_else(|| Fault::new(Own::Fault, "there is no specification"))?;
                let options = Options { widen, ..admin::options(timeout, resume)? };
                if plan {
                    reporter.stage("looking at the host");
                    let preview = run::preview(&shell, &spec, &options).await;
                    return previewed(
                        &name,
                        preview.map_err(|e| admin::run_fault(&e, &shell))?,
                        &options.widen,
                    );
                }
                let prover = Logins::new(both.pool, both.admin, &name);
                let mut watch = |event| admin::tell(&reporter, &event);
                let done = run::provision(&shell, &prover, &spec, &options, &mut watch).await;
                match done.map_err(|e| admin::run_fault(&e, &shell))? {
                    Done::Unchanged { proof } => Ok(Row::good(&name, "unchanged", proof, Vec::new())),
                    Done::Changed { steps, proof } => Ok(Row::good(
                        &name,
                        "changed",
                        proof,
                        steps.iter().map(ToString::to_string).collect(),
                    )),
                }
            }
        },
    )?;
    if plan {
        return Ok(show_plan(rows, printer));
    }
    Ok(admin::conclude(rows, printer))
}

fn warn(specs: &[Arc<HostSpec>], printer: &mut Printer) {
    if specs.iter().any(|s| s.envelope_one != muster_provision::EnvelopeOne::Refused) {
        printer.warn(
            "envelope 1 is taken on some hosts: there a stolen controller key runs any script that was ever signed, in any \
             phase and with any parameter",
        );
    }
}

fn previewed(host: &str, preview: run::Preview, meant: &BTreeSet<Limit>) -> Result<Row, Fault> {
    if !preview.obstacles.is_empty() {
        let all: Vec<String> = preview.obstacles.iter().map(ToString::to_string).collect();
        return Err(Fault::new(Own::ProvisionObstacle, clean(&all.join("; "))));
    }
    let steps = preview.plan.steps().iter().filter(|s| preview.todo.contains(s.id()));
    let steps: Vec<String> = steps
        .map(|s| format!("{}: {}", s.id(), s.what()))
        .chain(preview.retire.iter().map(|path| format!("retire: put {path} back to what it was")))
        .collect();
    let result = if steps.is_empty() { "unchanged" } else { "to do" };
    let total = preview.plan.steps().len();
    let mut detail = format!("{} of {total} steps to do", steps.len());
    if preview.facts.open.is_some() {
        detail.push_str(
            "; an earlier provisioning did not end, and this is seen against what it left half done",
        );
    }
    let lost = change::not_meant(&preview.changes, meant);
    if !lost.is_empty() {
        detail.push_str(&format!("; refused unless it is meant: --widen {}", admin::limits(&lost)));
    }
    let shown = preview
        .changes
        .iter()
        .take(MOST_CHANGES)
        .map(|c| Changed { change: clean(&c.text), widens: c.widens.map(Limit::word) });
    let mut changes: Vec<Changed> = shown.collect();
    if preview.changes.len() > MOST_CHANGES {
        let more = preview.changes.len() - MOST_CHANGES;
        changes.push(Changed { change: format!("{more} more differences"), widens: None });
    }
    Ok(Row { changes, ..Row::good(host, result, detail, steps) })
}

/// Differences of one host that are shown; what would be lost is in its detail, however many there are.
const MOST_CHANGES: usize = 500;

/// The summary of a plan with every step below it.
fn show_plan(rows: Vec<Row>, printer: &mut Printer) -> Exit {
    #[derive(Serialize)]
    struct Line {
        host: String,
        step: String,
    }
    if printer.value(&rows) {
        return Exit::of_many(rows.iter().map(|r| r.outcome));
    }
    let lines = rows.iter().flat_map(|r| {
        let why = (r.outcome != Exit::Ok).then(|| format!("not known: {}", r.detail));
        let changes = r.changes.iter().map(|c| match c.widens {
            Some(limit) => format!("policy: {} (widens {limit})", c.change),
            None => format!("policy: {}", c.change),
        });
        r.steps.iter().cloned().chain(changes).chain(why).map(|step| Line { host: r.host.clone(), step })
    });
    let refused: Vec<String> = rows
        .iter()
        .filter(|r| r.outcome == Exit::Ok && r.detail.contains("--widen"))
        .map(|r| format!("{}: {}", r.host, r.detail))
        .collect();
    // Of a host that could not be looked at nobody knows what is to be done.
    let all_seen = rows.iter().all(|r| r.outcome == Exit::Ok);
    printer.listing(&Listing {
        columns: &["host", "step"],
        rows: lines.collect(),
        cells: |l| vec![l.host.clone(), l.step.clone()],
        name: |l| l.host.clone(),
        empty: if all_seen { "nothing is to be done" } else { "" },
    });
    refused.iter().for_each(|line| printer.warn(line));
    printer.talk("this is a plan: nothing was changed");
    Exit::of_many(rows.iter().map(|r| r.outcome))
}

fn render_one(form: Form, specs: &[Arc<HostSpec>], printer: &mut Printer) -> Outcome {
    let [spec] = specs else {
        return Err(Fault::new(Own::Usage, format!("--as is for one host, and {} were chosen", specs.len()))
            .fix("Name one host: each has a name of its own in what is written.")
            .into());
    };
    let plan = Plan::provision(spec).map_err(|all| {
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        Fault::new(Own::ConfigValue, "the specification is at fault").why(clean(&all.join("; ")))
    })?;
    let text = match form {
        Form::Sh => render::sh(&plan, &ShimSource::Embedded),
        Form::CloudInit => render::cloud_init(&plan, &ShimSource::Embedded),
        Form::Ansible => render::ansible(&plan, &spec.shim).map_err(|e| {
            Fault::new(Own::ConfigValue, "this cannot be a playbook").why(clean(&e.to_string()))
        })?,
    };
    printer.raw(text.as_bytes());
    printer.hint("none of these forms proves a second login by itself: run `muster host doctor` after it");
    Ok(Exit::Ok)
}

/// What was asked of `unprovision`.
#[derive(Debug)]
pub struct Undo {
    /// The hosts.
    pub reach: Reach,
    /// How to get in.
    pub access: Access,
    /// Say it only.
    pub plan: bool,
    /// Do not ask.
    pub yes: bool,
}

/// Puts hosts back as they were.
pub fn undo(settings: &Undo, printer: &mut Printer) -> Outcome {
    let Undo { reach, access, plan, .. } = settings;
    let hosts = reach.hosts()?;
    if !plan {
        let what = "Put back as they were before they were provisioned, run log and floors included:";
        reach.confirm(settings.yes, true, &hosts, what)?;
    }
    let (plan, timeout) = (*plan, reach.pace.timeout);
    let rows = admin::on_all(
        "unprovision",
        (reach, access, Pool::Unused),
        &hosts,
        printer,
        |host, both, shell, reporter| {
            let name = host.name.to_string();
            async move {
                if plan {
                    let there = run::unprovision_preview(&shell).await;
                    let there = there.map_err(|e| admin::run_fault(&e, &shell))?;
                    let steps: Vec<String> =
                        there.iter().map(|(kind, path)| format!("{kind}: {}", clean(path))).collect();
                    let detail = format!("{} things would be put back", steps.len());
                    return Ok(Row::good(
                        &name,
                        if steps.is_empty() { "unchanged" } else { "to do" },
                        detail,
                        steps,
                    ));
                }
                let options = admin::options(timeout, false)?;
                let prover = Logins::admin_only(both.admin);
                let mut watch = |event| admin::tell(&reporter, &event);
                let done = run::unprovision(&shell, &prover, &options, &mut watch).await;
                let steps = done.map_err(|e| admin::run_fault(&e, &shell))?;
                if steps.is_empty() {
                    return Ok(Row::good(&name, "unchanged", "it is not provisioned", steps));
                }
                Ok(Row::good(&name, "put back", format!("{} things were put back", steps.len()), steps))
            }
        },
    )?;
    Ok(if plan { show_plan(rows, printer) } else { admin::conclude(rows, printer) })
}
