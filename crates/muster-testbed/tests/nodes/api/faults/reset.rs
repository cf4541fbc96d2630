//! A reset that is cut off at each of its steps goes on, and ends in a node that is nobody's and in no cluster.

use super::*;
use muster_testbed::KeyPair;

/// What the transport of `muster host` has on a machine, and the API did not put there.
const OTHERS: &str = "/etc/passwd /etc/shadow /etc/sudoers.d/pool /etc/muster/allowed_signers /etc/muster/authorized_keys.d/pool \
                      /var/lib/muster/shim/floors /home/pool/.profile";
/// What is there of an owner and of a cluster.
const OWNED: &str = "ls /var/lib/muster/api/operator-ca.pem /var/lib/muster/api/claim.json /var/lib/muster/bootstrapped /var/lib/muster/node.json \
                     /var/lib/muster/reset.json /etc/ssh/sshd_config.d/10-muster-api.conf 2>/dev/null || true";

struct Reset {
    rig: Rig,
    others: String,
}

impl Reset {
    fn prepare(name: &str) -> Result<Self> {
        let rig = Rig::claimed(name, |node, alice| {
            node.sh("useradd --create-home --shell /bin/sh pool; echo '# of the transport' > /etc/sudoers.d/pool; chmod 0440 /etc/sudoers.d/pool; \
                 mkdir -p /etc/muster/authorized_keys.d /var/lib/muster/shim; echo kept > /etc/muster/authorized_keys.d/pool; \
                 echo kept > /etc/muster/allowed_signers; echo kept > /var/lib/muster/shim/floors")?;
            let key = KeyPair::generate(&alice.file(""), "pool", &["-t", "ed25519"])?;
            alice.write("pool.pub", &key.public_line()?)?;
            alice
                .muster(&["node", "ssh-key", "add", "a", "--user", "pool", "--key-file", "pool.pub"])?
                .check()?;
            Ok(())
        })?;
        let others = rig.node.sh(&format!("sha256sum {OTHERS}"))?;
        Ok(Self { rig, others })
    }

    /// Asks for a reset that something interrupts, and looks at what the next starts make of it.
    fn interrupted(&self, step: &str, interrupt: impl FnOnce(&Rig) -> Result<()>) -> Result<()> {
        let (rig, node) = (&self.rig, &self.rig.node);
        let (boots, seq) = (node.exits().len(), rig.seq()?);
        interrupt(rig)?;
        until("it reboots by itself", || Ok((node.exits().len() > boots).then_some(()))).with_context(
            || format!("{step}: {}", node.journal_of(&["-u", "musterd-core"]).unwrap_or_default()),
        )?;
        node.wait_boot()?;
        active(node, &["muster-parked.target", "musterd-core.service", "musterd-edge.service"])?;
        assert_eq!(node.sh(OWNED)?, "", "{step}");
        let enrolment: Value = serde_json::from_str(&node.sh("cat /run/muster/enrolment.json")?)?;
        assert_eq!(enrolment["tries"], 5, "{step}: a new code with all its tries");
        assert_eq!(
            node.sh("find /var/lib/muster/ssh -type f -size +0 2>/dev/null || true")?,
            "",
            "{step}: keys"
        );
        assert_eq!(node.sh(&format!("sha256sum {OTHERS}"))?, self.others, "{step}");
        nothing_failed(node)?;
        let told = rig.told("reset", seq)?;
        let (first, last) = (told.first(), told.last());
        assert!(
            first.is_some_and(|t| t.0 == "intent")
                && last.is_some_and(|t| *t == ("outcome".into(), "rebooted".into())),
            "{step}: {told:?}"
        );
        rig.again()
    }

    /// Asks for it, with something that watches the core; whether it was answered, or why nobody knows.
    fn ask(rig: &Rig, step: &str, answered: bool) -> Result<()> {
        let out = rig.alice.muster(&["node", "reset", "a", "--yes"])?;
        let wanted = if answered { 0 } else { 8 };
        anyhow::ensure!(out.code() == Some(wanted), "{step}: {:?} {}", out.code(), out.stderr_text());
        Ok(())
    }

    /// The core is killed.
    fn killed_at(&self, step: &str, trap: Step, answered: bool) -> Result<()> {
        self.interrupted(step, |rig| {
            let trap = rig.node.trap(rig.node.outer_pid(CORE)?, trap, "KILL")?;
            Self::ask(rig, step, answered)?;
            trap.wait().with_context(|| step.to_owned())
        })
    }

    /// While the core stands still at a step, something else happens.
    fn meanwhile(
        &self,
        step: &str,
        trap: Step,
        answered: bool,
        act: impl FnOnce(&Rig, u32) -> Result<()> + Send,
    ) -> Result<()> {
        self.interrupted(step, |rig| {
            let core = rig.node.outer_pid(CORE)?;
            let trap = rig.node.trap(core, trap, "STOP")?;
            std::thread::scope(|s| {
                let client = s.spawn(|| Self::ask(rig, step, answered));
                trap.wait().with_context(|| step.to_owned())?;
                drop(trap);
                act(rig, core)?;
                client.join().expect("the client")
            })
        })
    }
}

/// Kills the edge, and lets the core go on.
fn without_edge(rig: &Rig, core: u32) -> Result<()> {
    outer_kill("KILL", rig.node.outer_pid(EDGE)?)?;
    outer_kill("CONT", core)
}

/// The power goes, and comes again.
fn power_cut(rig: &Rig, _: u32) -> Result<()> {
    rig.node.power_off()?;
    rig.node.power_on()
}

#[test]
fn fault_kill_core_during_reset_phases_goes_on_and_ends_unclaimed() -> Result<()> {
    require_root_or_skip!();
    let reset = Reset::prepare("fault-reset")?;
    // The record of the phases is on the disk before each of them.
    reset.killed_at("stop", Step::placed("reset.json", 2), false)?;
    reset.killed_at("leave", Step::placed("reset.json", 3), false)?;
    reset.killed_at("keys", Step::placed("reset.json", 4), false)?;
    // After the answer.
    reset.killed_at("forget: markers", Step::removed("bootstrapped", 1), true)?;
    reset.killed_at("forget: owner", Step::removed("operator-ca.pem", 1), true)?;
    reset.killed_at("forget: serving key", Step::removed("server.key", 1), true)?;
    reset.killed_at("forget: done", Step::placed("reset-reboots", 1), true)?;
    reset.interrupted("reboot", |rig| {
        let core = rig.node.outer_pid(CORE)?;
        let record = rig.node.host_path("/var/lib/muster/reset.json");
        std::thread::scope(|s| {
            // Looked for meanwhile: a client that is slow to end leaves nothing to kill.
            let client = s.spawn(|| Reset::ask(rig, "reboot", true));
            let last = || std::fs::read_to_string(&record).is_ok_and(|t| t.contains("\"reboot\""));
            seen("the last phase", last)?;
            outer_kill("KILL", core)?;
            client.join().expect("the client")
        })
    })
}

#[test]
fn fault_kill_edge_or_power_during_reset_phases_goes_on_and_ends_unclaimed() -> Result<()> {
    require_root_or_skip!();
    let reset = Reset::prepare("fault-reset-2")?;
    reset.meanwhile("edge: stop", Step::placed("reset.json", 2), false, without_edge)?;
    reset.meanwhile("edge: forget", Step::removed("operator-ca.pem", 1), true, without_edge)?;
    reset.meanwhile("power: keys", Step::placed("reset.json", 4), false, power_cut)?;
    reset.meanwhile("power: forget", Step::removed("operator-ca.pem", 1), true, power_cut)?;
    reset.meanwhile("both: leave", Step::placed("reset.json", 3), false, |rig, core| {
        outer_kill("KILL", rig.node.outer_pid(EDGE)?)?;
        outer_kill("KILL", core)
    })?;
    // Before it was written down: nothing was begun, and nothing is.
    let (rig, boots) = (&reset.rig, reset.rig.node.exits().len());
    let trap = rig.node.trap(rig.node.outer_pid(CORE)?, Step::placed("reset.json", 1), "KILL")?;
    Reset::ask(rig, "before", false)?;
    trap.wait()?;
    rig.answers()?;
    assert_eq!(rig.node.exits().len(), boots);
    assert_eq!(rig.node.sh("ls /var/lib/muster/reset.json 2>/dev/null || true")?, "");
    nothing_failed(&rig.node)
}
