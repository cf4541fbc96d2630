//! A claim, and a document that is applied, cut off at each of their steps: the node is nobody's and takes the same code again, or it is
//! owned, has its document, and is built.

use super::*;

struct Bare {
    node: Node,
    alice: Operator,
    document: String,
    _bed: Testbed,
}

impl Bare {
    fn prepare(name: &str) -> Result<Self> {
        let bed = Testbed::prepare(name)?;
        let node = installed(&bed, "a")?;
        let alice = Operator::new(&bed, "alice")?;
        let document = alice.write("node.yaml", INIT)?.to_string_lossy().into_owned();
        Ok(Self { node, alice, document, _bed: bed })
    }

    /// Nobody's, and never built.
    fn fresh(&self) -> Result<()> {
        self.node.describe(WAITS)?;
        self.node.sh("systemctl stop musterd-edge musterd-core muster-bootstrap muster-claimed.target; systemctl reset-failed; \
             rm -rf /var/lib/muster/api /var/lib/muster/bootstrapped /var/lib/muster/node.json /run/muster/*.json /run/muster/described; \
             systemctl start musterd-core")?;
        // Whoever pinned the one before does not know this one.
        let _ = self.alice.muster(&["node", "forget", "a"])?;
        holds(&self.node, "[ -s /run/muster/enrolment.json ] && [ -n \"$(ss -Hltn 'sport = :7443')\" ]")
    }

    fn code(&self) -> Result<String> {
        let state: Value = serde_json::from_str(&self.node.sh("cat /run/muster/enrolment.json")?)?;
        Ok(state["code"].as_str().context("a code")?.to_owned())
    }

    /// As [`Operator::claim`], by the code on the disk: the console may show that of the node before.
    fn claim(&self, document: bool) -> Result<muster_testbed::Output> {
        let (address, code) = (self.node.addr().to_string(), self.code()?);
        let mut args = vec!["node", "claim", &address, "--name", "a", "--code-file", "-"];
        if document {
            args.extend(["--document", &self.document]);
        }
        self.alice.muster_as("alice", &args, format!("{code}\n").as_bytes())
    }

    fn is_owned(&self) -> Result<bool> {
        Ok(self.node.exec(&["test", "-e", "/var/lib/muster/api/operator-ca.pem"])?.ok())
    }

    /// Owned, as it was described, and built.
    fn is_whole(&self, step: &str) -> Result<()> {
        holds(
            &self.node,
            "test -e /var/lib/muster/bootstrapped && ! test -e /var/lib/muster/api/pending.json",
        )
        .with_context(|| step.to_owned())?;
        assert_eq!(self.node.sh("cat /etc/muster/config.yaml")?, INIT, "{step}");
        if !self.alice.muster(&["node", "status", "a"])?.ok() {
            self.alice.pin(&self.node).with_context(|| step.to_owned())?;
        }
        let state = super::super::operator::status(&self.alice, &self.node)?;
        assert_eq!(
            (state["role"].as_str(), state["management"]["claimedBy"].as_str()),
            (Some("init"), Some("pairing-code")),
            "{step}"
        );
        nothing_failed(&self.node)
    }

    /// What a claim that was cut off came to.
    fn came_to(&self, step: &str, owned: bool, code: Option<&str>) -> Result<()> {
        active(&self.node, &["musterd-core", "musterd-edge"])?;
        listens(&self.node)?;
        assert_eq!(self.is_owned()?, owned, "{step}");
        if !owned {
            assert!(!self.node.exec(&["test", "-e", "/var/lib/muster/bootstrapped"])?.ok(), "{step}");
            if let Some(code) = code {
                assert_eq!(self.code()?, code, "{step}: a crash makes no second code");
            }
            let again = until("it is claimed after all", || {
                Ok(Some(self.claim(true)?).filter(muster_testbed::Output::ok))
            });
            again.with_context(|| step.to_owned())?;
        }
        self.is_whole(step)
    }

    fn killed_at(&self, step: Step, owned: bool) -> Result<()> {
        self.fresh()?;
        let code = self.code()?;
        let trap = self.node.trap(self.node.outer_pid(CORE)?, step, "KILL")?;
        let out = self.claim(true)?;
        trap.wait().with_context(|| format!("{step:?}: {}", out.stderr_text()))?;
        assert_eq!(out.code(), Some(8), "{step:?}: {}", out.stderr_text());
        drop(trap);
        self.came_to(&format!("{step:?}"), owned, Some(&code))
    }

    fn meanwhile(&self, step: Step, act: impl FnOnce(u32) -> Result<()> + Send) -> Result<()> {
        self.fresh()?;
        let core = self.node.outer_pid(CORE)?;
        let trap = self.node.trap(core, step, "STOP")?;
        std::thread::scope(|s| {
            let client = s.spawn(|| self.claim(true));
            trap.wait()?;
            drop(trap);
            act(core)?;
            let out = client.join().expect("the client")?;
            anyhow::ensure!(out.code() == Some(8), "{step:?}: {:?} {}", out.code(), out.stderr_text());
            Ok(())
        })
    }
}

#[test]
fn fault_kill_core_or_edge_or_power_during_a_claim_leaves_nobody_or_the_owner() -> Result<()> {
    require_root_or_skip!();
    let bare = Bare::prepare("fault-claim")?;
    bare.killed_at(Step::placed("enrolment.json", 1), false)?;
    bare.killed_at(Step::placed("pending.json", 1), false)?;
    bare.killed_at(Step::placed("operator-ca.pem", 1), false)?;
    bare.killed_at(Step::placed("config.yaml", 1), true)?;
    bare.killed_at(Step::placed("claim.json", 1), true)?;
    bare.killed_at(Step::removed("enrolment.json", 1), true)?;
    bare.meanwhile(Step::placed("operator-ca.pem", 1), |core| {
        outer_kill("KILL", bare.node.outer_pid(EDGE)?)?;
        outer_kill("CONT", core)
    })?;
    bare.came_to("edge", true, None)?;
    // A process that is stopped has done the step.
    for (step, owned) in
        [(Step::placed("pending.json", 1), false), (Step::placed("operator-ca.pem", 1), true)]
    {
        bare.meanwhile(step, |_| {
            bare.node.power_off()?;
            bare.node.power_on()
        })?;
        bare.came_to("power", owned, None)?;
    }
    Ok(())
}

#[test]
fn fault_kill_core_during_a_document_is_not_begun_or_done() -> Result<()> {
    require_root_or_skip!();
    let bare = Bare::prepare("fault-apply-document")?;
    for (step, begun) in [
        (Step::placed("config.before.yaml", 1), false),
        (Step::placed("config.yaml", 1), false),
        (Step::placed("described", 1), true),
    ] {
        bare.fresh()?;
        bare.claim(false)?.check()?;
        bare.alice.is_let_in(&bare.node)?;
        let trap = bare.node.trap(bare.node.outer_pid(CORE)?, step, "KILL")?;
        let apply = || bare.alice.muster(&["node", "apply", "a", "--file", &bare.document]);
        let out = apply()?;
        trap.wait().with_context(|| format!("{step:?}: {}", out.stderr_text()))?;
        assert_eq!(out.code(), Some(8), "{step:?}: {}", out.stderr_text());
        drop(trap);
        bare.alice.is_let_in(&bare.node)?;
        if !begun {
            assert!(!bare.node.exec(&["test", "-e", "/var/lib/muster/bootstrapped"])?.ok(), "{step:?}");
            apply()?.check()?;
        }
        bare.is_whole(&format!("{step:?}"))?;
        let told: Vec<Value> =
            records(&bare.node)?.into_iter().filter(|v| v["op"] == "config-apply").collect();
        assert!(told.iter().any(|v| v["event"] == "intent"), "{told:?}");
    }
    Ok(())
}
