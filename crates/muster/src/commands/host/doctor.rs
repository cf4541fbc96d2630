//! `muster host doctor`: is the pool login pinned, and does it hold against whoever stole its key?

use super::admin::{self, Access};
use super::fleet::{Finished, Fleet, Job, Reporter, Slot};
use super::reach::{self, Both, Pool, Reach};
use super::spec::{self, Typed};
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::inventory::Host;
use crate::printer::{Format, Printer, Tone, clean};
use crate::remote::attacker::Thief;
use crate::remote::fault;
use crate::remote::session::Session;
use crate::remote::shell::AdminShell;
use crate::secret::Secrets;
use muster_core::UtcTime;
use muster_provision::AccountName;
use muster_provision::doctor::attack::Canary;
use muster_provision::doctor::siege::siege;
use muster_provision::doctor::{self, Check, Evidence, Known, Subject, Verdict};
use muster_ssh::{Client, Exec};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// The hosts.
    pub reach: Reach,
    /// How to get in.
    pub access: Access,
    /// To compare the shim with.
    pub shim: Typed,
    /// Account of a fleet whose bash shim was swapped.
    pub drop_in: Option<String>,
    /// Whether to attack.
    pub attack: bool,
}

/// What came of it on one host.
struct Examined {
    host: String,
    report: Result<(Vec<Check>, Box<Evidence>), Fault>,
    seconds: f64,
}

impl Finished for Examined {
    fn word(&self) -> (&'static str, Tone) {
        match worst(&self.report) {
            None => ("not examined", Tone::Bad),
            Some(Verdict::Fail) => ("fails", Tone::Bad),
            Some(Verdict::Unknown | Verdict::Warn) => ("passes, with remarks", Tone::Warn),
            Some(Verdict::Pass) => ("passes", Tone::Good),
        }
    }
    fn reason(&self) -> Option<&'static str> {
        exit_of(self).1
    }
    fn detail(&self) -> String {
        match &self.report {
            Err(fault) => fault.to_string(),
            Ok((checks, _)) => counts(checks),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row<'r> {
    host: &'r str,
    verdict: &'static str,
    exit: u8,
    reason: Option<&'static str>,
    detail: String,
    seconds: f64,
    checks: &'r [Check],
}

fn worst(report: &Result<(Vec<Check>, Box<Evidence>), Fault>) -> Option<Verdict> {
    let (checks, _) = report.as_ref().ok()?;
    Some(checks.iter().map(|c| c.verdict).max().unwrap_or(Verdict::Unknown))
}

fn counts(checks: &[Check]) -> String {
    let of = |v| checks.iter().filter(|c| c.verdict == v).count();
    format!(
        "{} pass, {} warn, {} unknown, {} fail",
        of(Verdict::Pass),
        of(Verdict::Warn),
        of(Verdict::Unknown),
        of(Verdict::Fail)
    )
}

/// Examines hosts; a failed check fails.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let Settings { reach, access, .. } = settings;
    let hosts = reach.hosts()?;
    let drop_in = match settings.drop_in.as_deref().map(AccountName::new) {
        Some(Ok(account)) => Some(account),
        Some(Err(e)) => return Err(Fault::new(Own::Usage, "--drop-in").why(clean(&e.to_string())).into()),
        None => None,
    };
    // A shim that is not at hand is not compared with.
    let shim = match (&settings.shim.shim_binary, spec::shim(&settings.shim)) {
        (_, Ok(shim)) => Some(shim.sha256().to_owned()),
        (None, Err(_)) => None,
        (Some(_), Err(fault)) => return Err(fault.into()),
    };
    let known = Known { now: reach.now, shim_sha256: shim };
    let fleet = Fleet::new();
    let mut hidden = Secrets::default();
    let becoming = admin::Becoming::new(access, fleet.asker(), &mut hidden)?;
    printer.hide(&hidden);
    let mut logins = Vec::new();
    let pool = if settings.attack { Pool::Wanted } else { Pool::Unused };
    for (host, both) in hosts.iter().zip(reach.logins(&hosts, &fleet.asker(), (&access.over, pool))?) {
        let thief = match &both.pool {
            Some(session) => Some(thief(reach, host, session, &fleet)?),
            None => None,
        };
        logins.push(Some((both, thief)));
    }
    let names = reach::names(&hosts);
    let mut make = |at: usize, reporter: Reporter| -> Job<Examined> {
        let (host, login) = (hosts.get(at).copied(), logins.get_mut(at).and_then(Option::take));
        let Some((host, (both, thief))) = host.zip(login) else {
            return Box::pin(async { broken(String::new()) });
        };
        let patient = Patient {
            name: host.name.to_string(),
            account: host.ssh.user.clone(),
            drop_in: drop_in.clone().or_else(|| host.provision.drop_in.clone().flatten()),
            timeout: reach.pace.timeout,
            known: known.clone(),
            shell: becoming.shell(&both),
            both,
            thief,
        };
        Box::pin(async move { patient.examine(&reporter).await })
    };
    let slots = fleet.run(("doctor", &names), reach.pace.parallel, printer, &mut make)?;
    let mut all: Vec<Examined> = slots
        .into_iter()
        .zip(names)
        .map(|(slot, name)| match slot {
            Slot::Done(done) => done,
            Slot::NotStarted | Slot::Cut => Examined {
                report: Err(Fault::new(Own::Interrupted, "stopped by the operator")),
                host: name,
                seconds: 0.0,
            },
            Slot::Broken => broken(name),
        })
        .collect();
    add_clones(&mut all);
    Ok(show(&all, printer))
}

fn thief(reach: &Reach, host: &Host, pool: &Arc<Session>, fleet: &Fleet) -> Result<Thief, Faults> {
    let client = Client::new(|| UtcTime::from_unix(muster_sys::clock::unix_seconds()));
    let mut route = |logins: &[muster_ssh::Identity]| reach.pool_as(host, logins, &fleet.asker());
    Thief::new(Arc::clone(pool), client, host.ssh.port, &mut route)
}

fn broken(host: String) -> Examined {
    Examined { report: Err(Fault::new(Own::Fault, "muster itself failed")), host, seconds: 0.0 }
}

struct Patient {
    name: String,
    account: String,
    drop_in: Option<AccountName>,
    timeout: Option<Duration>,
    known: Known,
    shell: AdminShell,
    both: Both,
    thief: Option<Thief>,
}

impl Patient {
    async fn examine(self, reporter: &Reporter) -> Examined {
        let begun = Instant::now();
        let report = match self.timeout {
            Some(limit) => tokio::time::timeout(limit, self.look(reporter)).await.unwrap_or_else(|_| {
                if !self.both.admin.sent() {
                    return Err(fault::late(self.both.admin.progress()));
                }
                let fix =
                    "Run it again: what it planted is taken out by the host itself, and by the next doctor.";
                Err(Fault::new(Own::OutcomeUnknown, "the time given with --timeout is over").fix(fix))
            }),
            None => self.look(reporter).await,
        };
        self.both.admin.close().await;
        if let Some(pool) = &self.both.pool {
            pool.close().await;
        }
        Examined {
            host: self.name,
            report,
            seconds: (begun.elapsed().as_secs_f64() * 1000.0).round() / 1000.0,
        }
    }

    async fn look(&self, reporter: &Reporter) -> Result<(Vec<Check>, Box<Evidence>), Fault> {
        let bad = |why: String| Fault::new(Own::HostAnswer, clean(&why));
        let account = AccountName::new(&self.account).map_err(|e| {
            Fault::new(Own::ConfigValue, clean(&format!("`ssh: {{user: {}}}`: {e}", self.account)))
        })?;
        reporter.stage("connecting");
        let address = self.our_address().await?;
        let subject = Subject { account: account.clone(), address, drop_in: self.drop_in.clone() };
        reporter.stage("reading how it is set up");
        let evidence = doctor::gather(&self.shell, &subject).await.map_err(|e| match &e {
            doctor::DoctorError::Shell(e) => admin::shell_fault(e, &self.shell),
            other => bad(other.to_string()),
        })?;
        let mut checks = doctor::judge(&subject, &evidence, &self.known).checks;
        if let Some(thief) = &self.thief {
            let seed = muster_sys::system::random_128().map_err(|e| bad(e.to_string()))?;
            let seed = seed.iter().take(8).fold(0u64, |n, b| n << 8 | u64::from(*b));
            let word = admin::word().map_err(bad)?;
            let mut watch = |attack: doctor::attack::Attack| reporter.stage(format!("{attack}"));
            let canary = Canary::new(seed);
            let login = evidence.login(&account);
            let whom = (&account, &login);
            checks.extend(siege(Some(&self.shell), thief, whom, &canary, &word, &mut watch).await);
        }
        Ok((checks, Box::new(evidence)))
    }

    /// Where we come from, as the host sees it: `Match Address` blocks and `from=` depend on it.
    async fn our_address(&self) -> Result<IpAddr, Fault> {
        let connection = self.both.admin.connection().await.map_err(|e| fault::connect(&e))?;
        let exec = Exec::new("printenv SSH_CONNECTION").deadline(Duration::from_secs(20));
        self.both.admin.set_sent(true);
        let outcome = connection.run(exec).await.map_err(|e| fault::not_started(&e))?;
        let text = outcome.stdout.text();
        let words = text.lines().rev().find_map(|l| l.split_whitespace().next()?.parse().ok());
        words.ok_or_else(|| Fault::new(Own::HostAnswer, "its admin login does not say where we come from"))
    }
}

/// One name or one key on several machines (S11).
fn add_clones(all: &mut [Examined]) {
    let seen: Vec<(String, Evidence)> = all
        .iter()
        .filter_map(|e| e.report.as_ref().ok().map(|(_, evidence)| (e.host.clone(), (**evidence).clone())))
        .collect();
    let clones = doctor::clones(&seen);
    for one in all {
        if let Ok((checks, _)) = &mut one.report {
            let mine = clones.iter().filter(|c| c.found.split_whitespace().any(|w| w == one.host));
            checks.extend(mine.cloned());
        }
    }
}

fn exit_of(one: &Examined) -> (Exit, Option<&'static str>) {
    match (&one.report, worst(&one.report)) {
        (Err(fault), _) => (fault.exit(), Some(fault.code.word())),
        (Ok(_), Some(Verdict::Fail)) => (Exit::Failed, Some(Own::DoctorFailed.code())),
        (Ok(_), _) => (Exit::Ok, None),
    }
}

fn show(all: &[Examined], printer: &mut Printer) -> Exit {
    let rows: Vec<Row<'_>> = all
        .iter()
        .map(|one| {
            let (exit, reason) = exit_of(one);
            let verdict = match worst(&one.report) {
                None => "not-examined",
                Some(Verdict::Fail) => "fail",
                Some(Verdict::Unknown) => "unknown",
                Some(Verdict::Warn) => "warn",
                Some(Verdict::Pass) => "pass",
            };
            let checks = one.report.as_ref().map(|(c, _)| c.as_slice()).unwrap_or_default();
            Row {
                host: &one.host,
                verdict,
                exit: exit.code(),
                reason,
                detail: one.detail(),
                seconds: one.seconds,
                checks,
            }
        })
        .collect();
    if !printer.value(&rows) {
        if printer.looks().format == Format::Name {
            rows.iter().for_each(|r| printer.data(r.host));
        } else {
            rows.iter().for_each(|r| people(r, printer));
            let bad = all.iter().filter_map(|one| one.report.as_ref().err());
            let codes: BTreeMap<_, _> = bad.map(|f| (f.code.word(), f.says_the_fix())).collect();
            codes.into_iter().for_each(|(code, said)| printer.explain(code, said));
        }
    }
    Exit::of_many(all.iter().map(|one| exit_of(one).0))
}

/// Failed checks first in what is said of them; passed ones in one line each.
fn people(row: &Row<'_>, printer: &mut Printer) {
    let head = printer.tint(Tone::Strong, row.host);
    printer.data(&format!("{head}: {}", clean(&row.detail)));
    for c in row.checks {
        let (word, tone) = match c.verdict {
            Verdict::Pass => ("pass", Tone::Good),
            Verdict::Warn => ("WARN", Tone::Warn),
            Verdict::Unknown => ("????", Tone::Warn),
            Verdict::Fail => ("FAIL", Tone::Bad),
        };
        let word = printer.tint(tone, word);
        printer.data(&format!("  {word}  {:<28} {}", c.id, clean(&c.found)));
        if c.verdict != Verdict::Pass {
            printer.data(&format!("        why: {}", clean(c.why)));
            printer.data(&format!("        fix: {}", clean(&c.fix)));
        }
    }
}
