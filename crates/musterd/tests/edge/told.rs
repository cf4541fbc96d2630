//! What the edge refuses by itself is written down by the real core, as the edge's word.

use muster_core::Role;
use muster_needs::require;
use musterd::wire::Refusal;

use crate::client::{connect, curl, exchange, tools};
use crate::process::Edge;
use crate::real::{files, owned};
use crate::support::{Node, Operators};

#[test]
fn m19_a_request_that_the_edge_refuses_has_its_record_and_not_a_byte_of_it_is_in_it() {
    require!(tools());
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let (at, alice) = (edge.address(), files(&node, &operators, "alice", Role::Admin));
    let big = node.root().join("big");
    std::fs::write(&big, vec![b'x'; 9 * 1024 * 1024]).expect("a file");
    let big = format!("@{}", big.display());
    let proof = ["-d", "{}", "-H", "Muster-Proof: a", "-H", "Muster-Proof: b"];
    // Path, what else curl is told, and the answer; in the order of the record.
    let asked: [(&str, &[&str], u16, &str); 9] = [
        ("/v1/%6eode-SECRET", &[], 400, "path"),
        ("/v1/nothing-SECRET", &[], 404, "path"),
        ("/v1/node?SECRET=1", &[], 400, "query"),
        ("/v1/node", &["-X", "PATCH"], 405, "method"),
        ("/v1/health", &["-H", "Origin: https://SECRET.example"], 403, "browser"),
        ("/v1/enroll", &["-d", "{\"SECRET\":1}"], 409, "claimed"),
        ("/v1/upgrade/apply", &proof, 400, "proof"),
        ("/v1/lifecycle/shutdown", &["-d", "{\"SECRET\":1}"], 400, "body"),
        ("/v1/config", &["--data-binary", &big, "-H", "Expect:"], 413, "body"),
    ];
    for (path, more, status, reason) in asked {
        let got = curl(at, Some(&alice), path, &[&["--http1.1"], more].concat());
        assert_eq!((got.status, got.reason().as_str()), (status, reason), "{path}: {got:?}");
        let status = format!("\"status\":{status}");
        let records = node.records(&["\"event\":\"refused\"", &status, &format!("\"reason\":\"{reason}\"")]);
        let record = records.last().expect("a record");
        assert_eq!(record["toldBy"], "edge", "{record}");
        assert_eq!(
            (record["decision"].as_str(), record["claimedByEdge"].as_str()),
            (Some("denied"), Some("127.0.0.1"))
        );
        assert_eq!(record["who"]["name"], "alice", "whose connection it was is known: {record}");
    }
    let shutdown = node.records(&["\"event\":\"refused\"", "\"op\":\"shutdown\""]);
    assert_eq!(shutdown[0]["request"], "POST");
    let record = node.chain();
    assert!(!record.contains("SECRET"), "{record}");
}

#[test]
fn m19_what_is_no_request_at_all_has_its_record_too() {
    require!(tools());
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let (at, alice) = (edge.address(), files(&node, &operators, "alice", Role::Readonly));
    let long = format!("X-Long: {}", "a".repeat(20_000));
    assert_eq!(curl(at, Some(&alice), "/v1/health", &["--http1.1", "-H", &long]).status, 431);
    node.records(&["\"event\":\"refused\"", "\"status\":431", "\"reason\":\"head\""]);
    let mut stream = connect(at, Some(&alice), "http/1.1");
    let said = exchange(&mut stream, b"no HTTP, but bytes\x01\r\n\r\n", "\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    node.records(&["\"event\":\"refused\"", "\"status\":400", "\"reason\":\"malformed\""]);
}

/// Also while nobody owns the node, where a stranger may ask.
#[test]
fn s16_a_stranger_who_asks_much_of_a_node_that_nobody_owns_leaves_ten_records_and_a_number() {
    require!(tools());
    let operators = Operators::new(1);
    let listen = crate::real::free();
    let node =
        Node::with_document(&format!("muster:\n  api:\n    enabled: true\n    listen: {listen}\n")).start();
    drop(operators);
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    for _ in 0..40 {
        assert_eq!(curl(at, None, "/v1/node", &[]).status, 409);
    }
    let mut node = node;
    let seen = node.records(&["\"event\":\"refused\"", "\"reason\":\"unclaimed\"", "\"toldBy\":\"edge\""]);
    assert!(seen[0]["who"].is_null(), "{seen:?}");
    node.stop();
    let all = node.records(&["\"reason\":\"unclaimed\""]);
    let refused = all.iter().filter(|r| r["event"] == "refused").count();
    let counted: u64 = all.iter().filter_map(|r| r["count"].as_u64()).sum();
    assert_eq!((refused, counted), (10, 30), "{all:#?}");
}

#[test]
fn each_refusal_has_an_answer_of_its_own() {
    let all = Refusal::ALL;
    for (n, one) in all.iter().enumerate() {
        assert!(all[n + 1..].iter().all(|other| other.answer() != one.answer()), "{one:?}");
    }
    assert_eq!(Refusal::of(&muster_api::Fault::failed("core-lost", "x")), None);
}
