//! Carrying a plan out, and taking it back.
//!
//! ```text
//! inspect ─▶ obstacles? ─▶ check every step ─▶ all there? ─▶ prove ─▶ Unchanged
//!                                │ no
//!             begin (timer) ─▶ apply … ─▶ verify ─▶ reload (timer) ─▶ prove ─▶ commit ─▶ Changed
//!                  └───────────────┴──── any failure ────┴──────────────┘
//!                                        └▶ revert: exactly what was there
//! ```
//! The state of it all is on the host (`/var/lib/muster/provision/open`), so that a runner that
//! dies leaves a host that puts itself back, and the next runner can finish either way.

use crate::change::{self, Change, Limit};
use crate::facts::{self, BadAnswer, Facts};
use crate::files;
use crate::plan::{Plan, StepId};
use crate::preflight::{self, Obstacle};
use crate::shell::{HostShell, ProofFailure, Prover, ShellError};
use crate::spec::{AccountName, HostSpec, SpecFault};
use crate::transaction::{Job, Transaction};
use core::time::Duration;
use std::collections::BTreeSet;

/// How to go about it.
#[derive(Clone, Debug)]
pub struct Options {
    /// A fresh random word, 16 to 64 letters and digits: the transaction's id.
    pub id: String,
    /// The host puts itself back when the whole has not ended within this.
    pub overall: Duration,
    /// The host puts itself back when the second login is not confirmed within this of the reload.
    pub confirm_within: Duration,
    /// What to do with an earlier provisioning of the same plan that did not end: go on with it
    /// instead of putting it back first.
    pub resume: bool,
    /// Limits of the host that may be lost; any other is kept, or nothing is changed.
    pub widen: BTreeSet<Limit>,
}

impl Options {
    /// Ten minutes in all, one minute for the proof, no resuming.
    pub fn new(id: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            overall: Duration::from_secs(600),
            confirm_within: Duration::from_secs(60),
            resume: false,
            widen: BTreeSet::new(),
        }
    }
}

/// What is going on, for a person who watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The host is being looked at.
    Inspecting,
    /// An earlier provisioning did not end; it is put back (or gone on with).
    Unfinished {
        /// Whether it is gone on with.
        resumed: bool,
    },
    /// This many of so many steps have something to do.
    ToDo {
        /// Steps with something to do.
        steps: usize,
        /// All steps.
        of: usize,
    },
    /// A step begins.
    Step {
        /// Its id.
        id: StepId,
        /// Its words.
        what: String,
    },
    /// sshd is about to read its files anew.
    Reloading,
    /// A second login is being proven.
    Proving,
    /// Something failed and everything is being put back.
    Reverting,
}

/// How it ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was there already; nothing was touched.
    Unchanged {
        /// What the pool login answered.
        proof: String,
    },
    /// These steps were carried out, and the second login was proven.
    Changed {
        /// In order.
        steps: Vec<StepId>,
        /// What the pool login answered.
        proof: String,
    },
}

/// What became of the host after a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Aftermath {
    /// Nothing had been touched.
    Untouched,
    /// Everything is as it was.
    PutBack,
    /// The host could not be reached to put it back; it does so by itself within this time.
    ByTimer(Duration),
    /// Putting back failed; the journal and the copies are on the host.
    Stuck(String),
    /// The connection was lost while the last word was spoken: it was kept, or it is put back
    /// within this time.
    Unknown(Duration),
}

impl core::fmt::Display for Aftermath {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Untouched => f.write_str("nothing was changed"),
            Self::PutBack => f.write_str("everything was put back as it was"),
            Self::ByTimer(d) => {
                write!(f, "the host puts everything back by itself within {} seconds", d.as_secs())
            }
            Self::Stuck(why) => write!(
                f,
                "not everything could be put back ({why}): run the command again, or look into /var/lib/muster/provision/open on the host"
            ),
            Self::Unknown(d) => write!(
                f,
                "it was kept, or the host puts everything back within {} seconds: run the command again to find out",
                d.as_secs()
            ),
        }
    }
}

/// Why it did not end well.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The spec is at fault.
    #[error("the host's specification is at fault: {}", join(.0))]
    Spec(Vec<SpecFault>),
    /// The host is in a state that stops the plan.
    #[error("nothing was changed: {}", join(.0))]
    Obstacles(Vec<Obstacle>),
    /// Limits that are on the host would be lost, and nobody said that they may.
    #[error("nothing was changed, because limits of the host would be lost: {}", join(.0))]
    Widens(Vec<Change>),
    /// The admin login did not work.
    #[error("{during}: {source}; {aftermath}")]
    Shell {
        /// What was being done.
        during: String,
        /// Why.
        source: ShellError,
        /// What became of the host.
        aftermath: Aftermath,
    },
    /// The host's answer made no sense.
    #[error(transparent)]
    Answer(#[from] BadAnswer),
    /// A script on the host failed.
    #[error("{during}: {why}; {aftermath}")]
    Failed {
        /// What was being done: a step's id, `verify`, `reload`, `commit`.
        during: String,
        /// The host's words, one line.
        why: String,
        /// What became of the host.
        aftermath: Aftermath,
    },
    /// The second login was not proven.
    #[error("the second login was not proven ({source}); {aftermath}")]
    NotProven {
        /// Which login, and why.
        source: ProofFailure,
        /// What became of the host.
        aftermath: Aftermath,
    },
}

fn join<T: core::fmt::Display>(items: &[T]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// A watcher that watches nothing.
pub fn silent(_: Event) {}

/// Asks the host what there is. Reads only.
pub async fn inspect<S: HostShell + Sync>(shell: &S, account: &AccountName) -> Result<Facts, RunError> {
    look(shell, account, None).await
}

async fn look<S: HostShell + Sync>(
    shell: &S,
    account: &AccountName,
    fleet: Option<&AccountName>,
) -> Result<Facts, RunError> {
    let during = || "looking at the host".to_owned();
    let out = shell
        .run_root(&facts::script(account, fleet), b"")
        .await
        .map_err(|source| RunError::Shell { during: during(), source, aftermath: Aftermath::Untouched })?;
    if out.status != 0 {
        let why = format!("exit {}: {}", out.status, out.stderr_tail(300));
        return Err(RunError::Failed { during: during(), why, aftermath: Aftermath::Untouched });
    }
    Ok(Facts::parse(&out.text())?)
}

/// What [`provision`] would do, for `--plan`.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The plan.
    pub plan: Plan,
    /// What the host said.
    pub facts: Facts,
    /// What would stop it.
    pub obstacles: Vec<Obstacle>,
    /// Steps with something to do; all of them where `obstacles` kept the host from being asked.
    pub todo: Vec<StepId>,
    /// Files of an earlier plan that would go back to what they were.
    pub retire: Vec<String>,
    /// What becomes different in the host's policy.
    pub changes: Vec<Change>,
}

/// Looks at the host and changes nothing.
pub async fn preview<S: HostShell + Sync>(
    shell: &S,
    spec: &HostSpec,
    options: &Options,
) -> Result<Preview, RunError> {
    let plan = Plan::provision(spec).map_err(RunError::Spec)?;
    let facts = look(shell, plan.account(), fleet(spec)).await?;
    let obstacles = preflight::provision(spec, &facts);
    let todo = if obstacles.is_empty() {
        Transaction::new(shell, options).todo(&plan).await?
    } else {
        plan.steps().iter().map(|s| s.id().clone()).collect()
    };
    let retire = stale(&plan, &facts);
    let changes = change::changes(spec, &facts);
    Ok(Preview { plan, facts, obstacles, todo, retire, changes })
}

/// Makes the host what `spec` says, or leaves it as it was.
pub async fn provision<S: HostShell + Sync, P: Prover + Sync>(
    shell: &S,
    prover: &P,
    spec: &HostSpec,
    options: &Options,
    watch: &mut (dyn FnMut(Event) + Send),
) -> Result<Outcome, RunError> {
    let plan = Plan::provision(spec).map_err(RunError::Spec)?;
    watch(Event::Inspecting);
    let look = || async {
        let facts = look(shell, plan.account(), fleet(spec)).await?;
        let obstacles = preflight::provision(spec, &facts);
        if obstacles.is_empty() { Ok(facts) } else { Err(RunError::Obstacles(obstacles)) }
    };
    let mut facts = look().await?;
    let mut transaction = Transaction::new(shell, options);
    if let Some(open) = facts.open.as_ref()
        && !transaction.resumes(open, plan.digest())
    {
        // What lies there is half of an earlier plan; what counts is what was there before it.
        transaction.settle(Some(open), plan.digest(), watch).await?;
        facts = look().await?;
    }
    let changes = change::changes(spec, &facts);
    let lost = change::not_meant(&changes, &options.widen);
    if !lost.is_empty() {
        return Err(RunError::Widens(lost));
    }
    let retire = stale(&plan, &facts);
    let job = Job { retire, manifest: plan.manifest(&options.id), plan: &plan, fleet: fleet(spec) };
    transaction.carry_out(prover, &job, facts.open.as_ref(), watch).await
}

/// Carries out a plan that is a part of what a host is (a key rotation): what else is there stays.
pub async fn apply_part<S: HostShell + Sync, P: Prover + Sync>(
    shell: &S,
    prover: &P,
    plan: &Plan,
    options: &Options,
    watch: &mut (dyn FnMut(Event) + Send),
) -> Result<Outcome, RunError> {
    watch(Event::Inspecting);
    let facts = inspect(shell, plan.account()).await?;
    let obstacles = preflight::part(plan, &facts);
    if !obstacles.is_empty() {
        return Err(RunError::Obstacles(obstacles));
    }
    let job = Job { retire: Vec::new(), manifest: String::new(), plan, fleet: None };
    Transaction::new(shell, options).carry_out(prover, &job, facts.open.as_ref(), watch).await
}

/// What [`unprovision`] would put back, kind and path; empty where there is nothing to undo.
pub async fn unprovision_preview<S: HostShell + Sync>(shell: &S) -> Result<Vec<(String, String)>, RunError> {
    let facts = inspect(shell, &AccountName::default()).await?;
    let obstacles = preflight::unprovision(&facts);
    if obstacles.is_empty() { Ok(facts.baseline) } else { Err(RunError::Obstacles(obstacles)) }
}

/// Undoes all provisioning: every file goes back to what it was before the first one, the login is
/// removed if it was made by us, and nothing of ours is kept, the run log included. `prover` must
/// prove the admin login; the pool login is not asked for. Gives the paths that were put back: none
/// where the host is not provisioned, which is left as it is.
pub async fn unprovision<S: HostShell + Sync, P: Prover + Sync>(
    shell: &S,
    prover: &P,
    options: &Options,
    watch: &mut (dyn FnMut(Event) + Send),
) -> Result<Vec<String>, RunError> {
    watch(Event::Inspecting);
    let facts = inspect(shell, &AccountName::default()).await?;
    let obstacles = preflight::unprovision(&facts);
    if !obstacles.is_empty() {
        return Err(RunError::Obstacles(obstacles));
    }
    let mut transaction = Transaction::new(shell, options);
    if facts.baseline.is_empty() {
        // A first provisioning that did not end is put back; nothing else is there.
        transaction.settle(facts.open.as_ref(), "", watch).await?;
        return Ok(Vec::new());
    }
    transaction.take_back(prover, &facts, watch).await
}

fn fleet(spec: &HostSpec) -> Option<&AccountName> {
    spec.drop_in.as_ref().map(|d| &d.account)
}

/// Files of an earlier plan that this one does not have: they go back to what they were.
fn stale(plan: &Plan, facts: &Facts) -> Vec<String> {
    let wanted: Vec<&str> = plan.steps().iter().filter_map(|s| s.path()).collect();
    facts
        .baseline
        .iter()
        .filter(|(kind, path)| {
            (kind == "file" || kind == "absent")
                && path != files::SSHD_CONFIG
                && !wanted.contains(&path.as_str())
        })
        .map(|(_, path)| path.clone())
        .collect()
}
