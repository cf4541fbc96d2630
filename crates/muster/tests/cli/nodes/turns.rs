//! Several nodes: one at a time where it matters, and what became of each is told whatever becomes of the files here.

use super::{Nodes, nonce, table, target, targets};
use muster_client::testing::{Pairing, Server, enrolled, reply};

const STATE: &str =
    r#"{"hostname":"edge","bootstrapped":true,"role":"worker","health":{"uptimeSeconds":90}}"#;
const BUSY: &str = r#"{"error":"it cannot","reason":"operation"}"#;
const OK: &str = r#"{"status":"begun"}"#;
const SERVICE: &str =
    r#"{"name":"kubelet.service","purpose":"x","restartable":true,"active":"active","sub":"running"}"#;

fn posts(server: &Server) -> usize {
    targets(server).iter().filter(|t| t.starts_with("POST")).count()
}

#[test]
fn what_ends_something_stops_at_the_first_node_that_fails() {
    for (command, path, good) in [
        ("reboot", "POST /v1/lifecycle/reboot", OK),
        ("shutdown", "POST /v1/lifecycle/shutdown", OK),
        ("drain", "POST /v1/lifecycle/drain", OK),
        ("reset", "POST /v1/lifecycle/reset", OK),
        ("upgrade --rollback", "POST /v1/upgrade/rollback", OK),
        ("restart --unit kubelet", "POST /v1/services/kubelet/restart", SERVICE),
    ] {
        let yes = if command.starts_with("restart") { "" } else { "--yes" };
        let nodes = Nodes::new();
        let one = nodes.node("a", table(&[("GET /v1/node", 200, STATE), (path, 500, BUSY)]));
        let rows = [("GET /v1/node", 200, STATE), (path, 200, good)];
        let (two, three) = (nodes.node("b", table(&rows)), nodes.node("c", table(&rows)));
        let ran = nodes.ran(&format!("node {command} --all {yes} -o json"), 1);
        assert_eq!((posts(&one), posts(&two), posts(&three)), (1, 0, 0), "{command}");
        let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let reasons: Vec<_> = (0..3).map(|n| rows[n]["reason"].as_str().unwrap()).collect();
        assert_eq!(reasons, ["node-failed", "not-asked", "not-asked"], "{command}");
        assert!(ran.err.contains("error[not-asked]: c: not asked, since a failed. "), "{}", ran.err);
        // Said in so many words, they are begun together.
        nodes.ran(&format!("node {command} --all {yes} {}", parallel(command)), 1);
        assert_eq!(
            posts(&one) + posts(&two) + posts(&three),
            if command.starts_with("upgrade") { 2 } else { 4 },
            "{command}"
        );
    }
}

fn parallel(command: &str) -> &'static str {
    // A roll-out has no such option.
    if command.starts_with("upgrade") { "" } else { "--parallel 3" }
}

#[test]
fn an_option_that_a_command_does_not_obey_is_refused() {
    let nodes = Nodes::new();
    for line in ["node upgrade a --image r/x:1", "node logs a", "audit tail a", "node kubeconfig a"] {
        let ran = nodes.ran(&format!("{line} --parallel 2"), 2);
        assert!(ran.err.contains("--parallel"), "{line}: {}", ran.err);
    }
}

#[test]
fn a_change_that_is_not_done_in_time_is_an_unknown_outcome_and_a_look_is_a_deadline() {
    let nodes = Nodes::new();
    let _server = nodes.node(
        "a",
        Box::new(|seen| match target(seen) {
            "GET /v1/proof" => nonce(),
            // Never a whole answer.
            "GET /v1/node" if !seen.line.is_empty() && seen.connection > 1 => {
                reply(200, "content-length: 9\r\n", STATE.as_bytes())
            }
            _ => muster_client::testing::Reply { bytes: Vec::new(), close: false },
        }),
    );
    for line in ["status", "services", "logs", "ssh-key list"] {
        let ran = nodes.ran(&format!("node {line} a --timeout 1s"), 11);
        assert!(ran.err.starts_with("error[node-deadline]: a: not done within 1 s. "), "{line}: {}", ran.err);
    }
    nodes.ran("audit tail a --timeout 1s", 11);
    for line in [
        "cordon a",
        "restart a --unit kubelet",
        "ssh-key revoke a --key SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        let ran = nodes.ran(&format!("node {line} --timeout 1s"), 8);
        assert!(
            ran.err.starts_with("error[outcome-unknown]: a: not done within 1 s: it was asked for, and may be done yet. Ask the node what became of it: `muster node status a`."),
            "{line}: {}",
            ran.err
        );
    }
}

#[test]
fn an_upgrade_is_bounded_by_its_timeout() {
    let nodes = Nodes::new();
    let state = STATE.replace("\"role\"", "\"os\":{\"booted\":{\"digest\":\"sha256:old\"}},\"role\"");
    let _server = nodes.node(
        "a",
        Box::new(move |seen| match target(seen) {
            "GET /v1/proof" => nonce(),
            "GET /v1/node" => reply(200, "", state.as_bytes()),
            _ => muster_client::testing::Reply { bytes: Vec::new(), close: false },
        }),
    );
    let ran = nodes.ran("node upgrade a --image r.example/os@sha256:new --yes --timeout 1s", 8);
    assert!(ran.err.contains("error[outcome-unknown]: a: not done within 1 s: "), "{}", ran.err);
}

/// Answers carry a head, and the file of heads is broken.
fn unkept(nodes: &Nodes) -> Server {
    nodes.p.write(".local/state/muster/audit-heads", "not a head\n");
    let head = format!("muster-audit: 7:{}\r\n", "ab".repeat(32));
    nodes.node(
        "a",
        Box::new(move |seen| match target(seen) {
            "GET /v1/proof" => nonce(),
            "GET /v1/node" => reply(200, &head, STATE.as_bytes()),
            _ => reply(202, &head, OK.as_bytes()),
        }),
    )
}

#[test]
fn a_reboot_that_was_done_is_told_whatever_becomes_of_the_heads() {
    let nodes = Nodes::new();
    let server = unkept(&nodes);
    let ran = nodes.ran("node reboot a --yes -o json", 0);
    assert_eq!(posts(&server), 1);
    let rows: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(rows[0]["status"], "begun");
    assert!(
        ran.err.contains("warning: the newest audit heads were not kept: ")
            && ran.err.contains("audit-heads:1: "),
        "{}",
        ran.err
    );
    assert!(nodes.ran("node status a", 0).out.contains("role        worker"));
    // A folder that cannot be written, as root sees one too: its lock cannot be made.
    let state = nodes.p.join(".local/state/muster");
    std::fs::remove_file(state.join("audit-heads")).unwrap();
    std::fs::remove_file(state.join("audit-heads.lock")).unwrap();
    std::fs::create_dir(state.join("audit-heads.lock")).unwrap();
    let ran = nodes.ran("node reboot a --yes -q", 0);
    assert!(ran.out.contains("begun") && ran.err.starts_with("warning: "), "{}{}", ran.out, ran.err);
}

#[test]
fn a_node_that_was_claimed_and_not_pinned_is_told_with_its_fingerprint_and_what_pins_it() {
    let nodes = Nodes::new();
    let state = nodes.p.join(".local/state/muster");
    let claim = |server: &Server, more: &str| {
        let line = format!("node claim {} --name a --code-file - {more}", server.address);
        nodes.p.muster_with(&line, b"K7QM-93XF\n")
    };
    // What can be seen before: the code is not used.
    std::fs::create_dir_all(state.join("node-pins.lock")).unwrap();
    let (server, _) = nodes.runtime.block_on(Pairing::start("K7QM-93XF", Box::new(enrolled)));
    let ran = claim(&server, "");
    assert!(ran.code == 9 && ran.err.contains("node-pins.lock"), "{}", ran.err);
    assert_eq!(server.seen().len(), 0, "the code is not used");
    std::fs::remove_dir(state.join("node-pins.lock")).unwrap();
    // What becomes of the folder while the node is claimed.
    let lock = state.join("node-pins.lock");
    let broken = lock.clone();
    let (server, _) = nodes.runtime.block_on(Pairing::start(
        "K7QM-93XF",
        Box::new(move |claim, ca| {
            std::fs::remove_file(&broken).unwrap();
            std::fs::create_dir(&broken).unwrap();
            enrolled(claim, ca)
        }),
    ));
    let ran = claim(&server, "-o json");
    assert_eq!(ran.code, 9, "{}{}", ran.out, ran.err);
    let done: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&done["node"], &done["pinned"]), (&"a".into(), &false.into()));
    assert_eq!(done["fingerprint"], server.fingerprint.to_string());
    let pin = format!("muster node pin {} --name a --fingerprint {}", server.address, server.fingerprint);
    assert!(ran.err.contains("a is claimed, but its certificate was not pinned: "), "{}", ran.err);
    assert!(ran.err.contains(&pin), "{}", ran.err);
}

/// Ctrl-C while one of several is asked: what the others came to is told all the same.
#[test]
fn what_is_interrupted_is_told_for_each_node() {
    let nodes = Nodes::new();
    let rows =
        [("GET /v1/node", 200, STATE), ("POST /v1/lifecycle/reboot", 202, r#"{"status":"rebooting"}"#)];
    let one = nodes.node("edge-1", table(&rows));
    let rest = table(&rows);
    let two = nodes.node(
        "edge-2",
        Box::new(move |seen| {
            if seen.line.contains("reboot") {
                std::thread::sleep(std::time::Duration::from_secs(3));
            }
            rest(seen)
        }),
    );
    let three = nodes.node("edge-3", table(&rows));
    let asked = || targets(&two).iter().any(|t| t.contains("proof"));
    let ran = nodes.interrupted("node reboot edge-1 edge-2 edge-3 --yes", asked);
    assert_eq!(ran.code, 8, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("edge-1  rebooting"), "{}", ran.out);
    for words in [
        "error[outcome-unknown]: edge-2: it was interrupted before the answer: it was asked for, and may be done yet. Ask the node",
        "error[not-asked]: edge-3: not asked, since edge-2 failed",
    ] {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
    let reboots = |s: &Server| targets(s).iter().filter(|t| t.contains("reboot")).count();
    assert_eq!((reboots(&one), reboots(&three)), (1, 0));
}
