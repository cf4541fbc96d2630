//! `muster node status`

use crate::fault::Outcome;
use crate::nodes::session::{Session, Shape, show};
use crate::printer::{Format, Printer, clean};
use muster_api::node::Node;
use muster_api::upgrade::Image;
use muster_core::Operation;

/// Asks each node; one is shown in full, several in a table.
pub fn run(session: &Session, printer: &mut Printer) -> Outcome {
    let results = session.each(Operation::NodeState, |callee| async move {
        callee.told(Operation::NodeState, callee.node.state().await)
    })?;
    if let ([(chosen, Ok(node))], Format::Table) = (results.as_slice(), printer.looks().format) {
        let mut lines = vec![("node", format!("{} at {}", chosen.name, chosen.endpoint))];
        lines.extend(full(node));
        for (name, value) in lines {
            printer.data(&format!("{name:<12}{}", clean(&value)));
        }
        return Ok(crate::exit::Exit::Ok);
    }
    let shape = Shape {
        columns: &["role", "cluster", "kubernetes", "image", "health", "uptime", "claimed by"],
        cells,
    };
    show(results, &shape, printer)
}

fn cells(n: &Node) -> Vec<String> {
    let text = |t: &Option<String>| t.clone().unwrap_or_default();
    vec![
        role(n),
        text(&n.cluster),
        text(&n.kubernetes.version),
        n.os.booted.as_ref().map(image).unwrap_or_default(),
        verdict(n),
        n.health.uptime_seconds.map(uptime).unwrap_or_default(),
        owner(n),
    ]
}

pub(crate) fn role(n: &Node) -> String {
    match (&n.role, &n.management.waits_for) {
        (Some(role), _) => role.clone(),
        (None, Some(what)) => format!("waits for {what}"),
        (None, None) => "none".into(),
    }
}

pub(crate) fn verdict(n: &Node) -> String {
    n.health.verdict.clone().or_else(|| n.health.greenboot.clone()).unwrap_or_default()
}

/// The list that it has, or what it says in words.
fn revocation(n: &Node) -> Option<String> {
    let Some(list) = &n.management.revocation_list else { return n.management.revocation.clone() };
    let end = match (&list.next_update, list.ended) {
        (Some(at), true) => format!(", ended {at}"),
        (None, true) => ", ended".to_owned(),
        (Some(at), false) => format!(", until {at}"),
        (None, false) => String::new(),
    };
    Some(format!("list {}, {} revoked{end}", list.number, list.revoked))
}

pub(crate) fn owner(n: &Node) -> String {
    let by = n.management.claimed_by.clone().unwrap_or_default();
    if n.management.unauthenticated { format!("{by} (unauthenticated)") } else { by }
}

/// An image as short as it stays one: its reference, or its digest.
pub fn image(i: &Image) -> String {
    let version = i.version.as_ref().map(|v| format!(" ({v})")).unwrap_or_default();
    let name = i.image.clone().or_else(|| i.digest.clone()).unwrap_or_default();
    name + &version
}

/// Days, hours and minutes.
pub fn uptime(secs: u64) -> String {
    match (secs / 86_400, secs / 3600 % 24, secs / 60 % 60) {
        (0, 0, 0) => format!("{secs}s"),
        (0, 0, m) => format!("{m}m"),
        (0, h, m) => format!("{h}h{m}m"),
        (d, h, _) => format!("{d}d{h}h"),
    }
}

/// What is known of a node; a line that is not known is not there.
pub(crate) fn full(n: &Node) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let mut line =
        |name, value: Option<String>| out.extend(value.filter(|v| !v.is_empty()).map(|v| (name, v)));
    line("hostname", n.hostname.clone());
    line("machine", n.machine_id.clone());
    line("role", Some(if n.bootstrapped { role(n) } else { format!("{}, not built", role(n)) }));
    line("cluster", n.cluster.clone());
    line("endpoint", n.endpoint.clone());
    line("system", n.os.name.clone());
    line("kernel", n.os.kernel.clone());
    line("image", n.os.booted.as_ref().map(image));
    line("digest", n.os.booted.as_ref().and_then(|i| i.digest.clone()));
    line("staged", n.os.staged.as_ref().map(|i| format!("{}  (the next boot takes it)", image(i))));
    line("rollback", n.os.rollback.as_ref().map(image));
    line("kubernetes", n.kubernetes.version.clone());
    let active = if n.kubernetes.active { "active" } else { "not active" };
    line("service", n.kubernetes.service.as_ref().map(|s| format!("{s}, {active}")));
    let by = n.health.by.as_ref().map(|b| format!(", by {b}")).unwrap_or_default();
    line("health", Some(verdict(n)).filter(|v| !v.is_empty()).map(|v| v + &by));
    line("uptime", n.health.uptime_seconds.map(uptime));
    line("claimed by", Some(owner(n)));
    line("obeys", n.management.operator_ca.clone());
    line("revocation", revocation(n));
    line("waits for", n.management.waits_for.clone());
    let open = "whoever comes first takes it (api.insecure)";
    line("enrolment", n.management.open_enrolment.then(|| open.to_owned()));
    line(
        "reset",
        n.reset.as_ref().map(|r| match &r.error {
            Some(why) => format!("at {}: {why}", r.phase),
            None => format!("at {}", r.phase),
        }),
    );
    out
}
