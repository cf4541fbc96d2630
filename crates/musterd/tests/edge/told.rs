//! What the edge refuses by itself is written down by the real core, as the edge's word.

use std::net::SocketAddr;

use muster_core::Role;
use muster_core::hidden::is_hidden;
use muster_needs::require;
use muster_tls::{Authority, Lifetime};
use musterd::wire::Refusal;

use crate::client::{Files, connect, curl, exchange, tools};
use crate::core::{keep, serial};
use crate::process::Edge;
use crate::real::{files, owned};
use crate::support::{Node, Operators, now};

#[test]
fn m19_a_request_that_the_edge_refuses_has_its_record_and_not_a_byte_of_it_is_in_it() {
    require!(tools());
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let (at, alice) = (edge.address(), files(&node, &operators, "alice", Role::Admin));
    let big = node.root().join("big");
    // Over what the route takes, and well below what is read on: a busy machine may take longer than that for more.
    std::fs::write(&big, vec![b'x'; 3 * 1024 * 1024]).expect("a file");
    let big = format!("@{}", big.display());
    let proof = ["-d", "{}", "-H", "Muster-Proof: a", "-H", "Muster-Proof: b"];
    let asked: [Asked<'_>; 9] = [
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
    are_written_down(&node, at, &alice, &asked);
    let shutdown = node.records(&["\"event\":\"refused\"", "\"op\":\"shutdown\""]);
    assert_eq!(shutdown[0]["request"], "POST");
    let record = node.chain();
    assert!(!record.contains("SECRET"), "{record}");
}

/// Path, what else curl is told, status and reason of the answer.
type Asked<'a> = (&'a str, &'a [&'a str], u16, &'a str);

fn are_written_down(node: &Node, at: SocketAddr, alice: &Files, asked: &[Asked<'_>]) {
    for (path, more, status, reason) in asked {
        let got = curl(at, Some(alice), path, &[&["--http1.1"], *more].concat());
        assert_eq!((got.status, got.reason().as_str()), (*status, *reason), "{path}: {got:?}");
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
}

#[test]
fn m19_a_request_that_is_not_in_its_one_form_has_its_record() {
    require!(tools());
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let (at, alice) = (edge.address(), files(&node, &operators, "alice", Role::Admin));
    let asked: [Asked<'_>; 5] = [
        ("/v1/node", &["-H", "Host:"], 400, "host"),
        ("/v1/node", &["-H", "Host: SECRET@x"], 400, "host"),
        ("/v1/node", &["--request-target", "/v1/node#SECRET"], 400, "path"),
        ("/v1/node", &["--no-alpn", "--http1.0"], 400, "malformed"),
        ("/v1/config", &["-d", "{}", "-H", "Transfer-Encoding: SECRET, chunked"], 400, "malformed"),
    ];
    are_written_down(&node, at, &alice, &asked);
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

#[test]
fn m19_a_name_that_hides_or_turns_around_its_line_is_written_out_wherever_it_goes() {
    const EVIL: &str = "al\u{202e}ice\u{2066}\u{200b}\u{feff}\u{85}\u{e0041}";
    const SHOWN: &str = "al\\u{202e}ice\\u{2066}\\u{200b}\\u{feff}\\u{85}\\u{e0041}";
    require!(tools());
    let made = Authority::make("op\u{202e}s\u{2028}", Lifetime::AUTHORITY, now(), [1; 16]);
    let (authority, issued) = made.expect("an authority");
    let operators = Operators { authority, pem: issued.certificate, key: issued.key.to_string() };
    let node = Node::with_document(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let issue =
        |by: &Authority| by.issue(EVIL, Role::Admin, Lifetime::CLIENT, now(), serial()).expect("a client");
    let evil = keep(node.root(), "evil", &issue(&operators.authority));
    let other = keep(node.root(), "other", &issue(&Operators::new(2).authority));
    let mut said = String::new();
    for (path, client, status) in [
        ("/v1/health", &evil, 200),
        ("/v1/node", &evil, 200),
        ("/v1/node?x=1", &evil, 400),
        ("/v1/node", &other, 0),
    ] {
        let got = curl(at, Some(client), path, &[]);
        assert_eq!(got.status, status, "{got:?}");
        said.push_str(&format!("{}{}", got.headers, got.body));
    }
    for event in ["call", "refused"] {
        let records = node.records(&[&format!("\"event\":\"{event}\""), "\"who\""]);
        assert_eq!(records[0]["who"]["name"], SHOWN, "{records:?}");
    }
    let journal = node.log();
    assert!(journal.contains("owned by op\\u{202e}s\\u{2028} ("), "{journal}");
    for text in [said, journal, node.chain()] {
        let hidden = |c: &char| !matches!(c, '\n' | '\r') && is_hidden(*c);
        assert_eq!(text.chars().find(hidden), None, "{text:?}");
    }
}
