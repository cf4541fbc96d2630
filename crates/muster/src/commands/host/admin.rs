//! What the commands over the administrator's login share: becoming root, telling what happens, and what came of it.

use super::fleet::{Asker, Finished, Fleet, Job, Reporter, Slot};
use super::reach::{self, Both, Pool, Reach};
use crate::codes::{Code, Own};
use crate::exit::Exit;
use crate::fault::{Fault, Faults};
use crate::inventory::Host;
use crate::printer::{Listing, Printer, Tone, clean};
use crate::remote::fault;
use crate::remote::login::AdminOverride;
use crate::remote::session::Session;
use crate::remote::shell::{AdminShell, AskSudo, Root};
use crate::secret::{Secret, Secrets};
use crate::terminal;
use muster_provision::elevate::{ElevateError, SudoPassword};
use muster_provision::run::{Aftermath, Event, Options, RunError};
use muster_provision::shell::ShellError;
use muster_provision::{Change, Limit};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::OnceCell;

/// How an administrator logs in.
#[derive(Debug, Default)]
pub struct Access {
    /// Other than the inventory says.
    pub over: AdminOverride,
    /// The file of the sudo password.
    pub password_file: Option<PathBuf>,
}

/// One script of muster-provision's may look at a whole host.
const SCRIPT: Duration = Duration::from_secs(180);

/// A fresh random word of 32 hex digits.
pub fn word() -> Result<String, String> {
    let bits = muster_sys::system::random_128().map_err(|e| e.to_string())?;
    Ok(crate::profile::folder::hex(&bits))
}

/// Becomes root on hosts, with one password for all of them, asked for at most once.
pub struct Becoming {
    ask: AskSudo,
}

impl Becoming {
    /// `hidden` learns the password, so that it is kept out of what is shown.
    pub fn new(access: &Access, asker: Asker, hidden: &mut Secrets) -> Result<Self, Fault> {
        let given: Option<Arc<Secret>> = match &access.password_file {
            Some(file) => Some(Arc::new(terminal::first_line(file)?)),
            None => None,
        };
        if let Some(secret) = &given {
            hidden.add(secret.expose());
            sudo(secret).ok_or_else(|| {
                Fault::new(Own::AdminPassword, "the sudo password cannot be used")
                    .why("it must be UTF-8 of at most 1024 bytes")
            })?;
        }
        let once: Arc<OnceCell<Option<Arc<Secret>>>> = Arc::new(OnceCell::new_with(given.map(Some)));
        let ask: AskSudo = Arc::new(move || {
            let (once, asker) = (Arc::clone(&once), asker.clone());
            Box::pin(async move {
                let typed = once
                    .get_or_init(|| async { asker.ask("sudo password".into()).await.map(Arc::new) })
                    .await;
                typed.as_ref().and_then(|s| sudo(s))
            })
        });
        Ok(Self { ask })
    }

    /// The shell of a host.
    pub fn shell(&self, both: &Both) -> AdminShell {
        let root =
            if both.admin.user() == "root" { Root::Already } else { Root::Sudo(Arc::clone(&self.ask)) };
        AdminShell::new(Arc::clone(&both.admin), root, SCRIPT, word)
    }
}

fn sudo(secret: &Secret) -> Option<SudoPassword> {
    core::str::from_utf8(secret.expose()).ok().and_then(|text| SudoPassword::new(text).ok())
}

/// One difference in a host's policy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Changed {
    /// In words.
    pub change: String,
    /// The limit that would be lost.
    pub widens: Option<&'static str>,
}

/// What came of it on one host.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// The host.
    pub host: String,
    /// `changed`, `unchanged`, `done`, `failed`, `not-started`.
    pub result: &'static str,
    /// The exit code that this host alone would give.
    pub exit: u8,
    /// The stable code, where there is one.
    pub reason: Option<&'static str>,
    /// One line.
    pub detail: String,
    /// What was done, or would be.
    pub steps: Vec<String>,
    /// What would become different in the host's policy.
    pub changes: Vec<Changed>,
    /// From connecting to the end.
    pub seconds: f64,
    /// The same as `exit`.
    #[serde(skip)]
    pub outcome: Exit,
}

impl Row {
    /// It went well.
    pub fn good(host: &str, result: &'static str, detail: impl Into<String>, steps: Vec<String>) -> Self {
        Self {
            host: host.to_owned(),
            result,
            exit: 0,
            reason: None,
            detail: clean(&detail.into()),
            steps,
            changes: Vec::new(),
            seconds: 0.0,
            outcome: Exit::Ok,
        }
    }

    /// It did not.
    pub fn bad(host: &str, fault: &Fault) -> Self {
        Self {
            host: host.to_owned(),
            result: "failed",
            exit: fault.exit().code(),
            reason: Some(fault.code.word()),
            detail: clean(&fault.to_string()),
            steps: Vec::new(),
            changes: Vec::new(),
            seconds: 0.0,
            outcome: fault.exit(),
        }
    }
}

impl Finished for Row {
    fn word(&self) -> (&'static str, Tone) {
        (self.result, if self.outcome == Exit::Ok { Tone::Good } else { Tone::Bad })
    }
    fn reason(&self) -> Option<&'static str> {
        self.reason
    }
    fn detail(&self) -> String {
        self.detail.clone()
    }
}

/// Does `work` on every host over the administrator's login and shows what came of it.
pub fn on_all<'h, F, W>(
    title: &str,
    (reach, access, pool): (&Reach, &Access, Pool),
    hosts: &[&'h Host],
    printer: &mut Printer,
    mut work: F,
) -> Result<Vec<Row>, Faults>
where
    F: FnMut(&'h Host, Both, AdminShell, Reporter) -> W,
    W: Future<Output = Result<Row, Fault>> + Send + 'static,
{
    let fleet = Fleet::new();
    let mut hidden = Secrets::default();
    let becoming = Becoming::new(access, fleet.asker(), &mut hidden)?;
    printer.hide(&hidden);
    let mut logins: Vec<Option<Both>> =
        reach.logins(hosts, &fleet.asker(), (&access.over, pool))?.into_iter().map(Some).collect();
    let names = reach::names(hosts);
    let timeout = reach.pace.timeout;
    let mut make = |at: usize, reporter: Reporter| -> Job<Row> {
        let (host, both) = (hosts.get(at).copied(), logins.get_mut(at).and_then(Option::take));
        let Some((host, both)) = host.zip(both) else { return Box::pin(async { broken("") }) };
        let shell = becoming.shell(&both);
        let (name, admin) = (host.name.to_string(), Arc::clone(&both.admin));
        let work = work(host, both, shell, reporter);
        Box::pin(async move {
            let begun = Instant::now();
            let done = match timeout {
                Some(limit) => tokio::time::timeout(limit, work).await.unwrap_or_else(|_| Err(late(&admin))),
                None => work.await,
            };
            admin.close().await;
            let row = done.unwrap_or_else(|fault| Row::bad(&name, &fault));
            Row { seconds: (begun.elapsed().as_secs_f64() * 1000.0).round() / 1000.0, ..row }
        })
    };
    let slots = fleet.run((title, &names), reach.pace.parallel, printer, &mut make)?;
    Ok(slots
        .into_iter()
        .zip(&names)
        .map(|(slot, name)| match slot {
            Slot::Done(row) => row,
            Slot::NotStarted => {
                let fault = Fault::new(Own::Interrupted, "stopped before its turn");
                Row { result: "not-started", ..Row::bad(name, &fault) }
            }
            Slot::Cut => {
                let why = "its connection was closed here; what was begun is put back by the host itself";
                Row::bad(name, &Fault::new(Own::OutcomeUnknown, why))
            }
            Slot::Broken => broken(name),
        })
        .collect())
}

fn late(admin: &Session) -> Fault {
    if !admin.sent() {
        return fault::late(admin.progress());
    }
    Fault::new(Own::OutcomeUnknown, "the time given with --timeout is over")
        .why("what was begun is put back by the host itself")
        .fix("Run the command again to see what is there.")
}

fn broken(host: &str) -> Row {
    Row::bad(host, &Fault::new(Own::Fault, "muster itself failed"))
}

/// The summary, what to do about each reason, and the exit code.
pub fn conclude(rows: Vec<Row>, printer: &mut Printer) -> Exit {
    let exit = Exit::of_many(rows.iter().map(|r| r.outcome));
    let codes = reasons(rows.iter().filter_map(|r| Some((r.reason?, r.detail.as_str()))));
    printer.listing(&Listing {
        columns: &["host", "result", "time", "reason", "detail"],
        rows,
        cells: |r| {
            let reason = r.reason.unwrap_or_default().to_owned();
            vec![r.host.clone(), r.result.to_owned(), format!("{:.1}s", r.seconds), reason, r.detail.clone()]
        },
        name: |r| r.host.clone(),
        empty: "no host",
    });
    for (code, said) in codes {
        printer.explain(code, said);
    }
    exit
}

/// Each reason once, and whether a host's line says already what to do about it.
pub fn reasons<'r>(rows: impl Iterator<Item = (&'static str, &'r str)>) -> BTreeMap<&'static str, bool> {
    let mut codes = BTreeMap::new();
    for (word, detail) in rows {
        if let Some(code) = Code::from_word(word) {
            *codes.entry(word).or_insert(false) |= detail.contains(code.fix().trim_end_matches('.'));
        }
    }
    codes
}

/// How long a host waits before it puts everything back by itself, and the id of the transaction.
pub fn options(timeout: Option<Duration>, resume: bool) -> Result<Options, Fault> {
    let word = word().map_err(|why| Fault::new(Own::Fault, "the kernel gave no random bytes").why(why))?;
    let mut options = Options::new(word);
    options.overall =
        timeout.unwrap_or(options.overall).clamp(Duration::from_secs(60), Duration::from_secs(3600));
    options.resume = resume;
    Ok(options)
}

/// What is going on, in a few words.
pub fn tell(reporter: &Reporter, event: &Event) {
    match event {
        Event::Inspecting => reporter.stage("looking at the host"),
        Event::Unfinished { resumed: true } => {
            reporter.say("an earlier provisioning did not end; it is gone on with")
        }
        Event::Unfinished { resumed: false } => {
            reporter.say("an earlier provisioning did not end; it is put back first")
        }
        Event::ToDo { steps, of } => reporter.stage(format!("{steps} of {of} steps have something to do")),
        Event::Step { id, what } => reporter.stage(format!("{id}: {what}")),
        Event::Reloading => reporter.stage("sshd reads its files anew"),
        Event::Proving => reporter.stage("proving a second login"),
        Event::Reverting => reporter.say("something failed; everything is being put back"),
    }
}

/// A failure of muster-provision's as a fault about a host.
pub fn run_fault(error: &RunError, shell: &AdminShell) -> Fault {
    let words = clean(&error.to_string());
    let code: Code = match error {
        RunError::Spec(_) => Own::ConfigValue.into(),
        RunError::Obstacles(_) => Own::ProvisionObstacle.into(),
        RunError::Widens(_) => Own::ProvisionWidens.into(),
        RunError::Shell { source, aftermath, .. } => match aftermath {
            Aftermath::Untouched => shell_code(source, shell).into(),
            other => aftermath_code(other).into(),
        },
        RunError::Answer(_) => Own::HostAnswer.into(),
        RunError::Failed { aftermath, .. } | RunError::NotProven { aftermath, .. } => {
            aftermath_code(aftermath).into()
        }
    };
    match error {
        RunError::Widens(lost) => Fault::new(code, words).fix(format!(
            "Keep them: write them under `provision:` in the inventory, or give them again; or mean it with --widen {}.",
            limits(lost)
        )),
        _ => Fault::new(code, words),
    }
}

/// The limits that changes lose, as --widen takes them.
pub fn limits(changes: &[Change]) -> String {
    let all: BTreeSet<Limit> = changes.iter().filter_map(|c| c.widens).collect();
    all.iter().map(|l| l.word()).collect::<Vec<_>>().join(",")
}

/// The code of a login that did not work.
pub fn shell_code(error: &ShellError, shell: &AdminShell) -> Own {
    match error {
        ShellError::Unreachable(_) => shell.why_unreachable().unwrap_or(Own::SshProtocol),
        ShellError::Lost(_) => Own::OutcomeUnknown,
        ShellError::Elevate(ElevateError::PasswordNeeded | ElevateError::PasswordWrong(_)) => {
            Own::AdminPassword
        }
        ShellError::Elevate(_) => Own::AdminSudo,
    }
}

/// A login that did not work, as a fault about a host.
pub fn shell_fault(error: &ShellError, shell: &AdminShell) -> Fault {
    Fault::new(shell_code(error, shell), fault::line(error))
}

fn aftermath_code(aftermath: &Aftermath) -> Own {
    match aftermath {
        Aftermath::Untouched | Aftermath::PutBack => Own::ProvisionFailed,
        Aftermath::ByTimer(_) | Aftermath::Stuck(_) | Aftermath::Unknown(_) => Own::ProvisionLeft,
    }
}
