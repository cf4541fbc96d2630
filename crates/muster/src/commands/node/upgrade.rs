//! `muster node upgrade`: one node at a time, and never past one that is not well.
//!
//! For each node in the order given: it is asked what it runs; it must be well; the image is staged, and what is staged is kept;
//! the image is applied; it is waited for until its uptime is lower than before (an answer of a node that has not rebooted yet
//! proves nothing); it must run the digest that was staged; it must be well again. The first node that fails ends the roll-out.
//!
//! It is resumable because it keeps nothing: a node that runs the image already, and is well, is passed over; one that has it
//! staged already is staged again, which costs nothing.

use super::confirm::{self, Meant, Typed, meant};
use super::plan::{self, Planned};
use super::status::{image as shown, uptime};
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::nodes::choose::Chosen;
use crate::nodes::fault::told;
use crate::nodes::session::{Callee, Results, Session, Shape, not_asked, runtime, show, within};
use crate::printer::{Printer, clean};
use crate::stops::Stops;
use muster_api::node::Node;
use muster_api::upgrade::{Image, StageEvent};
use muster_core::Operation;
use serde::Serialize;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// Which nodes, as whom.
    pub session: Session,
    /// The image.
    pub image: String,
    /// Only stage.
    pub stage_only: bool,
    /// How long a node may take to come back.
    pub settle: Duration,
    /// How long between two looks at one that is on its way.
    pub poll: Duration,
    /// Whether it is meant.
    pub sure: Meant,
}

/// What became of a node.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Done {
    status: &'static str,
    digest: Option<String>,
    seconds: u64,
}

/// What became of a node that runs the image.
const PASSED: &str = "already runs it";

/// Rolls the image out.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let session = &settings.session;
    let nodes = confirm::ask(session)?;
    match settings.sure.plan {
        true => plan::show(planned(settings, &nodes), printer).map(drop)?,
        false => order(settings, &nodes, printer),
    }
    // Found before the first node is touched, not in the middle.
    for (chosen, node) in &nodes {
        well(&chosen.name, node)?;
    }
    if settings.sure.plan {
        return Ok(Exit::Ok);
    }
    let doing = if settings.stage_only { "stage the image on" } else { "upgrade" };
    if !meant(&nodes, settings.sure, Typed::Together, doing, printer)? {
        return Ok(Exit::Ok);
    }
    let count = nodes.len();
    let mut results: Results<Done> = Vec::new();
    runtime()?.block_on(async {
        let mut stops = Stops::listen();
        for (n, (chosen, before)) in nodes.iter().enumerate() {
            printer.talk(&format!("{} ({} of {count})", chosen.name, n + 1));
            let hint = "the same command goes on from there: nodes that run the image are passed over";
            let sent = Cell::new(None);
            let result = tokio::select! {
                result = one(settings, chosen, before, &sent, printer) => result,
                () = stops.next() => Err(interrupted(&chosen.name, sent.get())),
            };
            let result = result.map_err(|fault| begun(fault, &results).hint(hint));
            let stopped = result.is_err();
            results.push((chosen.clone(), result));
            if stopped {
                break;
            }
        }
    });
    if let Some((first, fault)) =
        results.last().and_then(|(c, r)| Some((c.name.clone(), r.as_ref().err()?.clone())))
    {
        let done = results.len() - 1;
        printer.talk(&format!("stopped at {first}: {done} of {count} done, {} left", count - done));
        let rest = nodes.iter().skip(results.len()).map(|(c, _)| c.clone());
        let rest: Vec<_> = rest.map(|c| (c.clone(), Err(not_asked(&c.name, &first, fault.exit())))).collect();
        results.extend(rest);
    }
    show(results, &SHAPE, printer)
}

/// Ctrl-C in the middle of a node, and what that node does all the same.
fn interrupted(name: &str, sent: Option<&str>) -> Fault {
    match sent {
        None => Fault::new(Own::Interrupted, format!("{name}: interrupted; nothing is under way on it"))
            .fix("Nothing has to be mended."),
        Some(what) => Fault::new(Own::OutcomeUnknown, format!("{name}: interrupted, and {what}"))
            .fix(format!("Ask the node what became of it: `muster node status {name}`.")),
    }
}

const SHAPE: Shape<Done> = Shape {
    columns: &["status", "digest", "took"],
    cells: |d| vec![d.status.to_owned(), d.digest.clone().unwrap_or_default(), format!("{}s", d.seconds)],
};

/// In the order in which it would be done.
fn planned(settings: &Settings, nodes: &[(Chosen, Node)]) -> Vec<Planned> {
    let doing = if settings.stage_only { "stage" } else { "boot" };
    let row = |(chosen, node): &(Chosen, Node)| match runs(node, &settings.image) {
        true => Planned::seen(chosen, node, format!("be passed over: it runs {}", settings.image)),
        false => Planned::seen(chosen, node, format!("{doing} {}", settings.image)),
    };
    nodes.iter().map(row).collect()
}

fn order(settings: &Settings, nodes: &[(Chosen, Node)], printer: &mut Printer) {
    let sure = settings.sure;
    let first = format!("one node at a time, in this order, to {}:", clean(&settings.image));
    confirm::tell(sure, &first, printer);
    for (n, (chosen, node)) in nodes.iter().enumerate() {
        let from = node.os.booted.as_ref().map_or_else(|| "an image that it does not name".to_owned(), shown);
        let up = node.health.uptime_seconds.map(|s| format!(", up {}", uptime(s))).unwrap_or_default();
        let same = if runs(node, &settings.image) { "  (runs it already)" } else { "" };
        let line = format!("  {}. {} at {}, from {from}{up}{same}", n + 1, chosen.name, chosen.endpoint);
        confirm::tell(sure, &clean(&line), printer);
    }
}

/// Whether a node runs exactly what is named: only a digest says that, a tag moves.
fn runs(node: &Node, image: &str) -> bool {
    let digest = image.rsplit_once('@').map(|(_, digest)| digest);
    let booted = node.os.booted.as_ref().and_then(|b| b.digest.as_deref());
    digest.is_some() && digest == booted
}

/// The health gate.
fn well(name: &str, node: &Node) -> Result<(), Fault> {
    let not = |why: String| Err(Fault::new(Own::HealthGate, format!("{name} is not well: {why}")));
    if !node.bootstrapped {
        return not("it is not built".into());
    }
    if let Some(reset) = &node.reset {
        return not(format!("it is being reset, at {}", reset.phase));
    }
    if let Some(service) = node.kubernetes.service.as_ref().filter(|_| !node.kubernetes.active) {
        return not(format!("{service} is not active"));
    }
    for verdict in [&node.health.verdict, &node.health.greenboot].into_iter().flatten() {
        if verdict == "failed" {
            let by = node.health.by.as_deref().unwrap_or("greenboot");
            return not(format!("{by} failed on this boot"));
        }
    }
    Ok(())
}

async fn one(
    settings: &Settings,
    chosen: &Chosen,
    seen: &Node,
    sent: &Cell<Option<&'static str>>,
    printer: &mut Printer,
) -> Result<Done, Fault> {
    let start = Instant::now();
    let callee = settings.session.callee(chosen)?;
    let timeout = settings.session.pace.timeout;
    let work = work(settings, &callee, seen, sent, printer);
    let worked = within(&chosen.name, Operation::UpgradeApply, timeout, work).await;
    settings.session.owe(core::slice::from_ref(&callee));
    let (status, digest) = worked?;
    let seconds = start.elapsed().as_secs();
    printer.talk(&format!("  {status} in {seconds} s"));
    // The next one may take an hour.
    settings.session.keep_meanwhile(&[]);
    Ok(Done { status, digest, seconds })
}

async fn work(
    settings: &Settings,
    callee: &Callee,
    seen: &Node,
    sent: &Cell<Option<&'static str>>,
    printer: &mut Printer,
) -> Result<(&'static str, Option<String>), Fault> {
    let name = &callee.chosen.name;
    if runs(seen, &settings.image) {
        return Ok((PASSED, seen.os.booted.as_ref().and_then(|b| b.digest.clone())));
    }
    // Looked at anew: the nodes before this one took their time.
    let before = callee.told(Operation::NodeState, callee.node.state().await)?;
    let looked = Instant::now();
    well(name, &before)?;
    sent.set(Some("the node goes on pulling the image"));
    let staged = stage(settings, callee, printer).await?;
    sent.set(None);
    let Some(digest) = staged.digest.clone() else {
        return Err(Fault::new(
            Own::RolloutStopped,
            format!("{name}: the node does not say what was staged"),
        ));
    };
    let booted = before.os.booted.as_ref().and_then(|b| b.digest.as_deref());
    if booted == Some(digest.as_str()) {
        return Ok((PASSED, Some(digest)));
    }
    if settings.stage_only {
        return Ok(("staged", Some(digest)));
    }
    let began = Instant::now();
    let life = Life::of(&before, looked).ok_or_else(|| {
        let what =
            format!("{name}: the node does not say how long it is up, so its reboot could not be seen");
        Fault::new(Own::RolloutStopped, what)
    })?;
    sent.set(Some("the node was told to boot the image, and may be about to"));
    callee.told(Operation::UpgradeApply, callee.node.apply().await)?;
    let after = come_back(settings, callee, &life, began, printer).await?;
    let runs = after.os.booted.as_ref().and_then(|b| b.digest.as_deref());
    if runs != Some(digest.as_str()) {
        let what = format!(
            "{name}: it came back and runs {}, not {digest}",
            runs.unwrap_or("an image without a digest")
        );
        return Err(Fault::new(Own::RolloutStopped, what));
    }
    settle_down(settings, callee, after, began).await?;
    Ok(("upgraded", Some(digest)))
}

/// A gate that closes after nodes before it were changed refuses no roll-out: it stops one that has begun, and its exit code says so.
fn begun(fault: Fault, before: &Results<Done>) -> Fault {
    let changed = before.iter().any(|(_, result)| result.as_ref().is_ok_and(|done| done.status != PASSED));
    if changed && fault.code == Own::HealthGate.into() {
        return Fault::new(Own::RolloutStopped, fault.what.clone());
    }
    fault
}

/// Stages the image; the node's lines are shown as they come.
async fn stage(settings: &Settings, callee: &Callee, printer: &mut Printer) -> Result<Image, Fault> {
    let name = &callee.chosen.name;
    let stop = |what: String| Fault::new(Own::RolloutStopped, format!("{name}: {what}"));
    let unknown = |what: String| {
        Fault::new(Own::OutcomeUnknown, format!("{name}: {what}"))
            .fix("The same command attaches to the pull, or goes on from its end.")
    };
    let mut stream = callee.told(Operation::UpgradeStage, callee.node.stage(&settings.image).await)?;
    loop {
        match stream.next::<StageEvent>().await {
            Ok(Some(StageEvent::Progress(line))) => printer.talk(&format!("  {}", clean(&line))),
            Ok(Some(StageEvent::Staged(image))) => return Ok(image),
            Ok(Some(StageEvent::Error(why))) => return Err(stop(format!("staging failed: {why}"))),
            Ok(None) => {
                return Err(unknown("the stream ended without saying what became of the image".into()));
            }
            // The node goes on pulling; a second call attaches to it.
            Err(e) => return Err(unknown(format!("the stream was lost, and the node goes on: {e}"))),
        }
    }
}

/// A node's life before the reboot: a later answer is of the same life or of another one.
struct Life {
    up: u64,
    boot: Option<String>,
    looked: Instant,
}

impl Life {
    fn of(node: &Node, looked: Instant) -> Option<Self> {
        Some(Self { up: node.health.uptime_seconds?, boot: node.health.boot_id.clone(), looked })
    }

    /// Whether an answer shows that the node has rebooted: its uptime is lower than that of a node that went on counting, and the
    /// boot is another one. A node that names no boot must show an uptime that is lower than before.
    fn is_over(&self, node: &Node) -> bool {
        let Some(now) = node.health.uptime_seconds else { return false };
        match (&self.boot, &node.health.boot_id) {
            (Some(before), Some(after)) => {
                before != after && now < self.up.saturating_add(self.looked.elapsed().as_secs()).max(1)
            }
            _ => now < self.up,
        }
    }
}

/// Waits until the node has rebooted.
async fn come_back(
    settings: &Settings,
    callee: &Callee,
    life: &Life,
    began: Instant,
    printer: &mut Printer,
) -> Result<Node, Fault> {
    let (mut gone, mut said) = (false, false);
    while began.elapsed() < settings.settle {
        tokio::time::sleep(settings.poll).await;
        match callee.node.state().await {
            Ok(node) if life.is_over(&node) => return Ok(node),
            Ok(_) => gone = false,
            Err(error) => {
                let fault = told(&callee.chosen.name, Some(Operation::NodeState), &error);
                // Another machine, or a node that knows us no longer, does not come back by waiting.
                if fault.code == Own::NodeCertificate.into() || fault.code == Own::NodeTurnedAway.into() {
                    return Err(fault);
                }
                gone = true;
                if !core::mem::replace(&mut said, true) {
                    printer.talk("  it is gone; waiting for it to come back");
                }
            }
        }
    }
    let secs = settings.settle.as_secs();
    let what = if gone {
        format!("it did not come back within {secs} s")
    } else {
        format!("it stayed up for {secs} s: moving its pods elsewhere probably did not end")
    };
    Err(Fault::new(Own::RolloutStopped, format!("{}: {what}", callee.chosen.name)))
}

/// The health gate after the boot: services need a while to come up.
async fn settle_down(settings: &Settings, callee: &Callee, first: Node, began: Instant) -> Result<(), Fault> {
    let mut node = first;
    loop {
        let why = match well(&callee.chosen.name, &node) {
            Ok(()) => return Ok(()),
            Err(why) => why,
        };
        if began.elapsed() >= settings.settle {
            return Err(Fault::new(Own::RolloutStopped, why.what.clone()));
        }
        tokio::time::sleep(settings.poll).await;
        if let Ok(now) = callee.node.state().await {
            node = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::node::{Kubernetes, NodeHealth, ResetState};

    fn node() -> Node {
        Node { bootstrapped: true, ..Node::default() }
    }

    #[test]
    fn the_health_gate_says_what_is_wrong() {
        assert!(well("a", &node()).is_ok());
        let kubelet =
            |active| Kubernetes { service: Some("kubelet.service".into()), active, ..Kubernetes::default() };
        assert!(well("a", &Node { kubernetes: kubelet(true), ..node() }).is_ok());
        let failed = |w: &str| NodeHealth {
            verdict: Some(w.into()),
            by: Some("greenboot".into()),
            ..NodeHealth::default()
        };
        assert!(well("a", &Node { health: failed("passed"), ..node() }).is_ok());
        for (bad, why) in [
            (Node { bootstrapped: false, ..node() }, "not built"),
            (Node { kubernetes: kubelet(false), ..node() }, "kubelet.service is not active"),
            (Node { health: failed("failed"), ..node() }, "greenboot failed"),
            (
                Node { reset: Some(ResetState { phase: "drain".into(), error: None }), ..node() },
                "being reset",
            ),
        ] {
            let fault = well("a", &bad).unwrap_err();
            assert!(fault.to_string().contains(why) && fault.exit() == Exit::Refused, "{fault}");
        }
    }

    #[test]
    fn a_node_that_only_counts_on_has_not_rebooted() {
        let at = |up, boot: Option<&str>| {
            let health = NodeHealth {
                uptime_seconds: Some(up),
                boot_id: boot.map(str::to_owned),
                ..NodeHealth::default()
            };
            Node { health, ..node() }
        };
        let life = Life::of(&at(60, None), Instant::now()).unwrap();
        assert!(life.is_over(&at(59, None)) && life.is_over(&at(0, Some("b"))));
        assert!(!life.is_over(&at(60, None)) && !life.is_over(&at(600, Some("b"))) && !life.is_over(&node()));
        let looked = Instant::now().checked_sub(Duration::from_secs(300)).unwrap();
        let life = Life::of(&at(60, Some("a")), looked).unwrap();
        // Back after it was up for longer than before it went: its boot is another one.
        assert!(life.is_over(&at(100, Some("b"))) && life.is_over(&at(1, Some("b"))));
        assert!(!life.is_over(&at(1, Some("a"))) && !life.is_over(&at(400, Some("b"))));
        assert!(Life::of(&node(), looked).is_none());
    }

    #[test]
    fn only_a_digest_says_that_a_node_runs_an_image() {
        let booted =
            Image { image: Some("r.example/os:1".into()), digest: Some("sha256:aa".into()), version: None };
        let mut node = node();
        node.os.booted = Some(booted);
        assert!(runs(&node, "r.example/os@sha256:aa"));
        assert!(!runs(&node, "r.example/os@sha256:ab") && !runs(&node, "r.example/os:1"));
        assert!(!runs(&super::tests::node(), "r.example/os:1"));
    }
}
