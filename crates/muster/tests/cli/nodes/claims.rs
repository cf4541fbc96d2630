//! Claiming and pinning.

use super::{Nodes, table};
use muster_client::testing::{Became, Pairing, Reply, Seen, Server, enrolled, reply};
use muster_pairing::exchange::Outcome;
use std::sync::Arc;

const CODE: &str = "K7QM-93XF";

fn unclaimed(nodes: &Nodes, outcome: Box<Became>) -> (Server, Arc<Pairing>) {
    nodes.runtime.block_on(Pairing::start(CODE, outcome))
}

fn claim(nodes: &Nodes, server: &Server, rest: &str, code: &str) -> crate::run::Ran {
    nodes.p.muster_with(&format!("node claim {} {rest}", server.address), format!("{code}\n").as_bytes())
}

#[test]
fn a_node_is_claimed_by_its_code_and_pinned() {
    let nodes = Nodes::new();
    let (server, _) = unclaimed(&nodes, Box::new(enrolled));
    let document = nodes.p.write("node.yaml", "muster:\n  role: worker\n  api: {enabled: true}\n");
    let rest = format!("--name edge-1 --code-file - --document {}", document.display());
    let ran = claim(&nodes, &server, &rest, "k7qm 93xf");
    // What a worker must say beside is the document's own matter; here it is told before anything is sent.
    assert_eq!(ran.code, 3, "{}{}", ran.out, ran.err);
    assert!(ran.err.contains("node.yaml:"), "{}", ran.err);
    assert_eq!(server.seen().len(), 0);

    let ran = claim(&nodes, &server, "--name edge-1 --code-file -", "k7qm 93xf");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains(&server.fingerprint.to_string()), "{}", ran.out);
    let pins = nodes.p.read(".local/state/muster/node-pins");
    assert!(pins.ends_with(&format!("edge-1 {} {}\n", server.address, server.fingerprint)), "{pins}");
    for text in [&ran.out, &ran.err] {
        assert!(!text.to_uppercase().contains("93XF"), "{text}");
    }
    let list = nodes.ran("node list -o json", 0).out;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list[0]["name"], "edge-1");
    nodes.ran("node forget edge-1", 0);
    assert_eq!(nodes.ran("node list -o json", 0).out, "[]\n");
}

#[test]
fn n9_a_fingerprint_that_differs_from_the_console_ends_the_claim_before_anything_is_sent() {
    let nodes = Nodes::new();
    let (server, _) = unclaimed(&nodes, Box::new(enrolled));
    let other = format!("--code-file - --fingerprint SHA256:{}", "A".repeat(43));
    let ran = claim(&nodes, &server, &other, CODE);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.starts_with("error[fingerprint-differs]: "), "{}", ran.err);
    assert_eq!(server.seen().len(), 0);
    let right = format!("--code-file - --fingerprint {}", server.fingerprint);
    assert_eq!(claim(&nodes, &server, &right, CODE).code, 0);
}

#[test]
fn n10_a_node_without_a_code_wants_a_fingerprint_or_the_operators_word() {
    let nodes = Nodes::new();
    let (server, _) = unclaimed(&nodes, Box::new(enrolled));
    let ran = claim(&nodes, &server, "--no-code", "");
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(ran.err.starts_with("error[fingerprint-needed]: "), "{}", ran.err);
    assert_eq!(server.seen().len(), 0);
    for word in [format!("--fingerprint {}", server.fingerprint), "--yes".to_owned()] {
        let ran = claim(&nodes, &server, &format!("--no-code {word}"), "");
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains("warning: taken by the first"), "{}", ran.err);
    }
    // Another machine at the place of one that is known is not taken for it by a word that was meant for the first.
    let file = ".local/state/muster/node-pins";
    let other =
        nodes.p.read(file).replace(&server.fingerprint.to_string(), &format!("SHA256:{}", "A".repeat(43)));
    nodes.p.write(file, &other);
    let ran = claim(&nodes, &server, "--no-code --yes", "");
    assert!(ran.code == 4 && ran.err.starts_with("error[node-pin-conflict]: "), "{}", ran.err);
    assert_eq!(nodes.p.read(file), other);
}

#[test]
fn n12_a_wrong_code_is_tried_once() {
    let nodes = Nodes::new();
    let (server, _) = unclaimed(&nodes, Box::new(enrolled));
    let ran = claim(&nodes, &server, "--code-file -", "AAAA-AAAA");
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(ran.err.contains("wrong-code") && ran.err.contains("4 tries are left"), "{}", ran.err);
    assert_eq!(server.seen().len(), 2);
    assert!(!nodes.p.join(".local/state/muster/node-pins").exists());
}

#[test]
fn a_first_step_that_fails_claims_nothing_and_says_so() {
    let nodes = Nodes::new();
    let long = vec![b'x'; 70_000];
    let torn = b"HTTP/1.1 200 x\r\ncontent-length: 100\r\n\r\n{".to_vec();
    let cases: [(Reply, i32, &str); 3] = [
        (reply(200, "", &long), 6, "error[node-answer]: a: nothing was claimed: the answer of "),
        (reply(200, "", b"{}"), 6, "error[node-answer]: a: nothing was claimed: the answer of "),
        (
            Reply { bytes: torn, close: true },
            5,
            "error[node-unreachable]: a: nothing was claimed: the connection to ",
        ),
    ];
    for (reply, code, begins) in cases {
        let again = move |_: &Seen| Reply { bytes: reply.bytes.clone(), close: reply.close };
        let server = nodes.runtime.block_on(Server::start(&[], Box::new(again)));
        let ran = claim(&nodes, &server, "--name a --code-file -", CODE);
        assert!(ran.code == code && ran.err.contains(begins), "{}: {}", ran.code, ran.err);
        assert!(!ran.err.contains("node status"), "it is not pinned: {}", ran.err);
    }
    // The second step may have been done; who is not pinned cannot be asked.
    let pairing = nodes.runtime.block_on(Pairing::start(CODE, Box::new(enrolled))).1;
    let answer =
        Box::new(move |seen: &Seen| match String::from_utf8_lossy(&seen.body).contains("operatorCA") {
            true => Reply { bytes: b"HTTP/1.1 200 x\r\ncontent-length: 9\r\n\r\n{".to_vec(), close: true },
            false => pairing.answer(seen),
        });
    let server = nodes.runtime.block_on(Server::start(&[], answer));
    let ran = claim(&nodes, &server, "--name a --code-file -", CODE);
    assert!(ran.code == 8 && ran.err.contains("error[outcome-unknown]: a: "), "{}: {}", ran.code, ran.err);
    let pins = format!(
        "Look at its console: where it has an owner now, compare its fingerprint and run `muster node pin {} --name a ",
        server.address
    );
    assert!(ran.err.contains(&pins), "{}", ran.err);
}

#[test]
fn s18_what_a_node_would_build_is_meant_or_not_claimed() {
    let nodes = Nodes::new();
    let (server, _) = unclaimed(
        &nodes,
        Box::new(|claim, ca| match claim.acknowledge {
            true => enrolled(claim, ca),
            false => {
                Outcome::Refused { reason: "would-bootstrap".into(), detail: "it would build lab".into() }
            }
        }),
    );
    let ran = claim(&nodes, &server, "--code-file -", CODE);
    assert_eq!(ran.code, 6, "{}", ran.err);
    assert!(ran.err.contains("error[would-bootstrap]: ") && ran.err.contains("--yes"), "{}", ran.err);
    assert_eq!(claim(&nodes, &server, "--code-file - --yes", CODE).code, 0);
}

#[test]
fn a_code_on_the_command_line_is_refused_and_not_repeated() {
    let nodes = Nodes::new();
    let ran = nodes.ran("node claim 192.0.2.1 --code K7QM-93XF", 2);
    assert!(ran.err.starts_with("error[secret-on-argv]: ") && !ran.err.contains("93XF"), "{}", ran.err);
    let ran = nodes.ran("node claim 192.0.2.1", 3);
    assert!(ran.err.starts_with("error[pairing-code]: "), "{}", ran.err);
    let ran = nodes.p.muster_with("node claim 192.0.2.1 --code-file -", b"K7QM-93XU\n");
    assert!(ran.code == 3 && !ran.err.contains("93XU"), "{}", ran.err);
}

#[test]
fn a_node_with_an_owner_is_pinned_by_its_fingerprint_and_replaced_only_when_that_is_said() {
    let nodes = Nodes::new();
    let health = [("GET /v1/health", 200, r#"{"status":"ok","role":"muster:admin"}"#)];
    let server = nodes.runtime.block_on(Server::start(&[&nodes.authority("pki")], table(&health)));
    let ran = nodes.ran(&format!("node pin {} --name edge-1", server.address), 4);
    assert!(ran.err.starts_with("error[fingerprint-needed]: "), "{}", ran.err);
    let other = format!("SHA256:{}", "A".repeat(43));
    let ran = nodes.ran(&format!("node pin {} --fingerprint {other}", server.address), 4);
    assert!(ran.err.starts_with("error[fingerprint-differs]: "), "{}", ran.err);
    let right = format!("node pin {} --name edge-1 --fingerprint {}", server.address, server.fingerprint);
    let ran = nodes.ran(&right, 0);
    assert!(ran.out.contains("you are muster:admin"), "{}", ran.out);
    let pins = nodes.p.read(".local/state/muster/node-pins").replace(&server.fingerprint.to_string(), &other);
    nodes.p.write(".local/state/muster/node-pins", pins);
    let ran = nodes.ran("node status edge-1", 5);
    assert!(ran.err.starts_with("error[node-certificate]: "), "{}", ran.err);
    assert!(nodes.ran(&right, 4).err.starts_with("error[node-pin-conflict]: "));
    nodes.ran(&format!("{right} --replace"), 0);
}
