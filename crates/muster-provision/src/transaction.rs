//! One transaction on a host: the calls of `host/txn.sh` in their order, and what a failure means.

use crate::facts::{Facts, OpenTransaction};
use crate::plan::{Plan, Step, StepId};
use crate::run::{Aftermath, Event, Options, Outcome, RunError};
use crate::sh::{quote, revert_script, with_lib};
use crate::shell::{HostShell, Prover, ShellError, ShellOutput};
use crate::spec::AccountName;
use core::time::Duration;

/// Exit code of the host library: the transaction is not open.
const NOT_OPEN: i32 = 42;

/// What one transaction shall do.
pub(crate) struct Job<'a> {
    pub(crate) plan: &'a Plan,
    /// Files that go back to what they were before the first provisioning.
    pub(crate) retire: Vec<String>,
    /// What the host shall keep; empty keeps the one that is there.
    pub(crate) manifest: String,
    /// Login of a fleet whose shim is swapped.
    pub(crate) fleet: Option<&'a AccountName>,
}

/// A failure before its aftermath is known.
enum Fault {
    Shell(String, ShellError),
    Failed(String, String),
    Proof(crate::shell::ProofFailure),
}

impl Fault {
    fn with(self, aftermath: Aftermath) -> RunError {
        match self {
            Self::Shell(during, source) => RunError::Shell { during, source, aftermath },
            Self::Failed(during, why) => RunError::Failed { during, why, aftermath },
            Self::Proof(source) => RunError::NotProven { source, aftermath },
        }
    }
}

pub(crate) struct Transaction<'a, S> {
    shell: &'a S,
    options: &'a Options,
    id: String,
    /// What the timer on the host is set to.
    armed: Duration,
}

impl<'a, S: HostShell + Sync> Transaction<'a, S> {
    pub(crate) fn new(shell: &'a S, options: &'a Options) -> Self {
        Self { shell, options, id: options.id.clone(), armed: options.overall }
    }

    async fn call(&self, during: &str, body: &str, stdin: &[u8]) -> Result<ShellOutput, Fault> {
        let out = self.raw(during, body, stdin).await?;
        if out.status == 0 {
            return Ok(out);
        }
        let words = out.stderr_tail(400).replace("muster-provision: ", "");
        let why = if words.is_empty() { format!("exit {}", out.status) } else { words };
        Err(Fault::Failed(during.to_owned(), why))
    }

    async fn raw(&self, during: &str, body: &str, stdin: &[u8]) -> Result<ShellOutput, Fault> {
        let take = if stdin.is_empty() { "" } else { "m_stdin\n" };
        self.shell
            .run_root(&with_lib(&format!("{take}{body}")), stdin)
            .await
            .map_err(|e| Fault::Shell(during.to_owned(), e))
    }

    /// Which steps have something to do; reads only.
    pub(crate) async fn todo(&self, plan: &Plan) -> Result<Vec<StepId>, RunError> {
        self.unmet(plan.steps()).await.map_err(|f| f.with(Aftermath::Untouched))
    }

    /// Carries out `job`, or puts everything back.
    pub(crate) async fn carry_out<P: Prover + Sync>(
        mut self,
        prover: &P,
        job: &Job<'_>,
        open: Option<&OpenTransaction>,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Outcome, RunError> {
        let resumed = self.settle(open, job.plan.digest(), watch).await?;
        let todo = match self.unmet(job.plan.steps()).await {
            Ok(t) => t,
            Err(f) if !resumed => return Err(f.with(Aftermath::Untouched)),
            Err(f) => return Err(self.back(f, watch).await),
        };
        if todo.is_empty() && job.retire.is_empty() && !resumed {
            return match prover.pool_login().await {
                Ok(proof) => Ok(Outcome::Unchanged { proof }),
                Err(e) => Err(Fault::Proof(e).with(Aftermath::Untouched)),
            };
        }
        watch(Event::ToDo { steps: todo.len() + job.retire.len(), of: job.plan.steps().len() });
        match self.forward(prover, job, &todo, resumed, watch).await {
            Ok(proof) => self.keep(job, todo, proof, watch).await,
            Err(fault) => Err(self.back(fault, watch).await),
        }
    }

    /// Whether an earlier transaction is gone on with.
    pub(crate) fn resumes(&self, open: &OpenTransaction, digest: &str) -> bool {
        self.options.resume && open.digest == digest
    }

    /// Deals with an earlier transaction. True when it is gone on with.
    pub(crate) async fn settle(
        &mut self,
        open: Option<&OpenTransaction>,
        digest: &str,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Result<bool, RunError> {
        let Some(open) = open else { return Ok(false) };
        let resumed = self.resumes(open, digest);
        watch(Event::Unfinished { resumed });
        if resumed {
            self.id.clone_from(&open.id);
            let body = format!(
                "m_need_open {}\nm_log resume\nm_arm {}",
                quote(&self.id),
                self.options.overall.as_secs()
            );
            return match self.call("resuming", &body, b"").await {
                Ok(_) => Ok(true),
                Err(f) => Err(f.with(Aftermath::ByTimer(self.armed))),
            };
        }
        let body = format!("m_revert next-run {}", quote(&open.id));
        match self.raw("putting back an unfinished provisioning", &body, b"").await {
            Ok(o) if o.status == 0 || o.status == NOT_OPEN => Ok(false),
            Ok(o) => {
                let why = o.stderr_tail(400);
                Err(Fault::Failed("putting back an unfinished provisioning".into(), why.clone())
                    .with(Aftermath::Stuck(why)))
            }
            Err(f) => Err(f.with(Aftermath::ByTimer(self.armed))),
        }
    }

    /// Ids of the steps that have something to do.
    async fn unmet(&self, steps: &[Step]) -> Result<Vec<StepId>, Fault> {
        let body: String = steps
            .iter()
            .map(|s| format!("if {}\nthen :; else echo todo {}; fi\n", s.check(), s.id()))
            .chain(["echo checked\n".to_owned()])
            .collect();
        let text = self.call("checking", &body, b"").await?.text();
        if !text.lines().any(|l| l == "checked") {
            return Err(Fault::Failed("checking".into(), "the host's answer was cut off".into()));
        }
        let todo: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("todo ")).collect();
        Ok(steps.iter().filter(|s| todo.contains(&s.id().as_str())).map(|s| s.id().clone()).collect())
    }

    async fn begin(&self, digest: &str) -> Result<(), Fault> {
        let body =
            format!("m_begin {} {} {}", quote(&self.id), quote(digest), self.options.overall.as_secs());
        self.call("begin", &body, revert_script().as_bytes()).await.map(drop)
    }

    async fn step(&self, id: &str, apply: &str, input: &[u8]) -> Result<(), Fault> {
        let body = format!(
            "m_need_open {}\nm_log step {id}\n{apply} || m_die 1 \"it failed\"\nm_log done {id}",
            quote(&self.id)
        );
        self.call(&format!("step {id}"), &body, input).await.map(drop)
    }

    /// Everything up to the proof; gives what the pool login answered.
    async fn forward<P: Prover + Sync>(
        &mut self,
        prover: &P,
        job: &Job<'_>,
        todo: &[StepId],
        resumed: bool,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Result<String, Fault> {
        if !resumed {
            self.begin(job.plan.digest()).await?;
        }
        for s in job.plan.steps().iter().filter(|s| todo.contains(s.id())) {
            watch(Event::Step { id: s.id().clone(), what: s.what().to_owned() });
            self.step(s.id().as_str(), &s.apply(), &s.input()).await?;
        }
        for path in &job.retire {
            watch(Event::Step { id: StepId::new("retire"), what: format!("put {path} back to what it was") });
            self.step("retire", &format!("m_retire {}", quote(path)), b"").await?;
        }
        if let Some(left) = self.unmet(job.plan.steps()).await?.first() {
            return Err(Fault::Failed(
                format!("step {left}"),
                "it was carried out, and its check still fails".into(),
            ));
        }
        let granted = format!("m_granted {}", job.plan.account());
        self.call("asking sudo whether the login may run the shim", &granted, b"").await?;
        if let Some(fleet) = job.fleet {
            self.call("asking the swapped shim", &format!("m_fleet {fleet}"), b"").await?;
        }
        self.reload(watch).await?;
        watch(Event::Proving);
        let proof = prover.pool_login().await.map_err(Fault::Proof)?;
        prover.admin_login().await.map_err(Fault::Proof)?;
        Ok(proof)
    }

    async fn reload(&mut self, watch: &mut (dyn FnMut(Event) + Send)) -> Result<(), Fault> {
        watch(Event::Reloading);
        let body = format!(
            "m_need_open {}\nm_sshd -t || m_die 1 'sshd -t refuses the configuration'\nm_arm {} || m_die 1 'cannot set the timer'\nm_log reload\nm_reload",
            quote(&self.id),
            self.options.confirm_within.as_secs()
        );
        self.armed = self.options.confirm_within.max(self.options.overall);
        self.call("reload", &body, b"").await?;
        self.armed = self.options.confirm_within;
        Ok(())
    }

    async fn keep(
        self,
        job: &Job<'_>,
        steps: Vec<StepId>,
        proof: String,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Outcome, RunError> {
        let body = format!("m_commit {}", quote(&self.id));
        match self.call("commit", &body, job.manifest.as_bytes()).await {
            Ok(_) => Ok(Outcome::Changed { steps, proof }),
            Err(fault) => {
                // The answer may have been lost after the deed.
                let ask = format!("m_kept {}", quote(&self.id));
                match self.raw("commit", &ask, b"").await {
                    Ok(o) if o.status == 0 => Ok(Outcome::Changed { steps, proof }),
                    Ok(_) => Err(self.back(fault, watch).await),
                    Err(_) => Err(fault.with(Aftermath::Unknown(self.armed))),
                }
            }
        }
    }

    /// Puts everything back and says what became of the host.
    async fn back(&self, fault: Fault, watch: &mut (dyn FnMut(Event) + Send)) -> RunError {
        watch(Event::Reverting);
        let body = format!("m_revert failed {}", quote(&self.id));
        let aftermath = match self.raw("putting back", &body, b"").await {
            // Not open: it was never opened, or the timer was faster.
            Ok(o) if o.status == 0 || o.status == NOT_OPEN => Aftermath::PutBack,
            Ok(o) => Aftermath::Stuck(o.stderr_tail(400).replace("muster-provision: ", "")),
            Err(_) => Aftermath::ByTimer(self.armed),
        };
        fault.with(aftermath)
    }

    /// Undoes every provisioning; gives the paths that were put back.
    pub(crate) async fn take_back<P: Prover + Sync>(
        mut self,
        prover: &P,
        facts: &Facts,
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Result<Vec<String>, RunError> {
        self.settle(facts.open.as_ref(), "", watch).await?;
        let paths: Vec<String> = facts
            .baseline
            .iter()
            .rev()
            .filter(|(kind, _)| kind == "file" || kind == "absent")
            .map(|(_, path)| path.clone())
            .collect();
        watch(Event::ToDo { steps: paths.len(), of: paths.len() });
        if let Err(fault) = self.shut(prover, &paths, watch).await {
            return Err(self.back(fault, watch).await);
        }
        // The login is shut and that is kept; what is left can do nothing and is removed.
        let close = format!("m_close {}", quote(&self.id));
        if let Err(fault) = self.call("commit", &close, b"").await {
            return Err(self.back(fault, watch).await);
        }
        watch(Event::Step {
            id: StepId::new("purge"),
            what: "remove the login and everything of ours that is left".into(),
        });
        match self.call("purge", "m_purge", b"").await {
            Ok(_) => Ok(paths),
            Err(f) => {
                Err(f.with(Aftermath::Stuck("the login is shut; run it again to remove the rest".into())))
            }
        }
    }

    async fn shut<P: Prover + Sync>(
        &mut self,
        prover: &P,
        paths: &[String],
        watch: &mut (dyn FnMut(Event) + Send),
    ) -> Result<(), Fault> {
        self.begin("unprovision").await?;
        for path in paths {
            watch(Event::Step { id: StepId::new("retire"), what: format!("put {path} back to what it was") });
            self.step("retire", &format!("m_idle\nm_retire {}", quote(path)), b"").await?;
        }
        self.reload(watch).await?;
        watch(Event::Proving);
        prover.admin_login().await.map_err(Fault::Proof).map(drop)
    }
}
