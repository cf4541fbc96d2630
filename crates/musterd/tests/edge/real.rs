//! Edge and core together, both real, and clients in front of them.

use std::net::SocketAddr;
use std::path::PathBuf;

use muster_api::{ENROLL, ROUTES};
use muster_core::Role;
use muster_needs::require;
use muster_pairing::exchange::{Claim, Operator};
use muster_pairing::message::{Answer, ClaimBody, Request, Started};
use muster_pairing::{Code, exchange::Outcome};
use muster_tls::{OperatorCa, Revoked};
use rustls::pki_types::pem::PemObject as _;

use crate::client::{Files, connect, curl, exchange, read_until, tools};
use crate::core::{keep, serial};
use crate::process::Edge;
use crate::support::{Node, Operators, document, now};

/// A document of an owned node that listens at loopback.
pub(crate) fn owned(by: &Operators) -> String {
    document(by, &format!("    listen: {}\n", free()))
}

pub(crate) fn free() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("a port")
}

pub(crate) fn files(node: &Node, by: &Operators, name: &str, role: Role) -> Files {
    let issued = by.authority.issue(name, role, muster_tls::Lifetime::CLIENT, now(), serial());
    keep(node.root(), name, &issued.expect("a client"))
}

#[test]
fn m15_role_and_record_are_the_cores_through_the_whole_way() {
    require!(tools());
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    for (name, role) in [("reader", Role::Readonly), ("worker", Role::Operator), ("alice", Role::Admin)] {
        let client = files(&node, &operators, name, role);
        for flag in ["--http1.1", "--http2"] {
            let got = curl(at, Some(&client), "/v1/health", &[flag]);
            assert_eq!(
                (got.status, got.json()["role"].as_str()),
                (200, Some(role.organisation())),
                "{got:?}"
            );
            assert!(got.headers.contains("muster-audit: "), "{got:?}");
        }
        let got = curl(at, Some(&client), "/v1/ca/rotate", &["-d", "{}"]);
        let wanted = if role == Role::Admin { 400 } else { 403 };
        assert_eq!(got.status, wanted, "{got:?}");
    }
    let denied = node.records(&["\"op\":\"ca-rotate\"", "denied", "reader"]);
    assert_eq!(denied[0]["claimedByEdge"], "127.0.0.1", "{denied:?}");
    // A stranger is in the record too, though the core never saw more of him than that.
    assert_eq!(curl(at, None, "/v1/health", &[]).status, 0);
    node.records(&["handshake", "no-certificate", "127.0.0.1"]);
}

#[test]
fn m18_a_client_that_a_list_revokes_is_cut_in_the_middle_of_a_stream() {
    require!(tools());
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let bob = operators.authority.issue("bob", Role::Admin, muster_tls::Lifetime::CLIENT, now(), serial());
    let bob = bob.expect("a client");
    let (bobs, alice) = (keep(node.root(), "bob", &bob), files(&node, &operators, "alice", Role::Readonly));
    let mut stream = connect(at, Some(&bobs), "http/1.1");
    let said = exchange(&mut stream, b"GET /v1/audit?follow=true HTTP/1.1\r\nhost: x\r\n\r\n", "\"seq\":");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let list = operators.authority.revoke(&[Revoked { serial: bob.serial, at: now() }], 1, None, now());
    let file = node.root().join("list.pem");
    std::fs::write(&file, list.expect("a list")).expect("a file");
    let file = format!("@{}", file.display());
    let got = curl(at, Some(&alice), "/v1/ca/crl", &["-X", "PUT", "--data-binary", &file]);
    assert_eq!((got.status, got.json()["status"].as_str()), (200, Some("taken")), "{got:?}");
    // To its end.
    assert!(!read_until(&mut stream, "").ends_with("0\r\n\r\n"));
    let got = curl(at, Some(&bobs), "/v1/health", &[]);
    assert_eq!((got.status, got.reason().as_str()), (401, "revoked"), "{got:?}");
    assert_eq!(curl(at, Some(&alice), "/v1/health", &[]).status, 200);
}

#[test]
fn a_core_that_is_killed_and_comes_back_is_found_by_the_same_edge() {
    require!(tools());
    let operators = Operators::new(1);
    let mut node = Node::with_document(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let (at, alice) = (edge.address(), files(&node, &operators, "alice", Role::Admin));
    assert_eq!(curl(at, Some(&alice), "/v1/health", &[]).status, 200);
    node.kill();
    edge.line("no core at");
    let got = curl(at, Some(&alice), "/v1/health", &[]);
    assert_eq!((got.status, got.reason().as_str()), (503, "core-away"), "{got:?}");
    node.go();
    let end = std::time::Instant::now() + crate::support::SOON;
    while curl(at, Some(&alice), "/v1/health", &[]).status != 200 {
        assert!(std::time::Instant::now() < end, "the edge does not find the new core");
    }
}

/// A body to `POST /v1/enroll` on an open connection, and what came back: status and body.
fn post(stream: &mut crate::client::Stream, body: &str) -> (u16, String) {
    let head = format!("POST /v1/enroll HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    let said = exchange(stream, format!("{head}{body}").as_bytes(), "}");
    let status = said.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{said}"));
    (status, said.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned())
}

#[test]
fn s18_a_claim_by_the_code_goes_through_and_the_door_is_another_one_at_once() {
    require!(tools());
    let text = format!("muster:\n  api:\n    enabled: true\n    listen: {}\n", free());
    let node = Node::with_document(&text).start();
    let edge = Edge::at(&node.socket());
    let (at, operators) = (edge.address(), Operators::new(1));
    let alice = files(&node, &operators, "alice", Role::Admin);
    assert_eq!(curl(at, Some(&alice), "/v1/health", &[]).reason(), "unclaimed");

    let kept: PathBuf = node.path(musterd::places::ENROLMENT);
    let kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(kept).expect("a code")).expect("JSON");
    let code = Code::parse(kept["code"].as_str().expect("a code")).expect("a code");
    let mut stream = connect(at, None, "http/1.1");
    let certificate = stream.conn.peer_certificates().expect("a server")[0].to_vec();
    let mut random = [0; 64];
    for part in random.chunks_mut(16) {
        part.copy_from_slice(&serial());
    }
    let operator = Operator::start(&code, &certificate, random);
    let (status, body) = post(&mut stream, &Request::Start { share: operator.share() }.render());
    assert_eq!(status, 200, "{body}");
    let started = Started::parse(body.as_bytes()).expect("a step");
    let ca = rustls::pki_types::CertificateDer::from_pem_slice(operators.pem.as_bytes()).expect("PEM");
    let ca = OperatorCa::from_der(ca).expect("an authority").der().to_vec();
    let claim = Claim { node_certificate: &certificate, operator_ca: &ca, document: None, acknowledge: true };
    let (confirm, awaiting) = operator.claim(&started.session, &started.share, &claim).expect("a share");
    let claim = ClaimBody { operator_ca: operators.pem.clone(), document: None, acknowledge: true };
    let body = Request::Confirm { session: started.session, confirm, claim }.render();
    let (status, body) = post(&mut stream, &body);
    assert_eq!(status, 200, "{body}");
    let answer = Answer::parse(body.as_bytes()).expect("an answer");
    assert!(matches!(answer.outcome, Outcome::Enrolled { .. }), "{answer:?}");
    awaiting.check(&answer.outcome, &answer.confirm.expect("a proof")).expect("the machine of the code");

    // Its connection ends; who has no certificate hears an alert, and the owner is obeyed, with one certificate all along.
    assert!(!read_until(&mut stream, "").contains("HTTP"));
    assert_eq!(curl(at, None, "/v1/enroll", &["-d", "{}"]).status, 0);
    let got = curl(at, Some(&alice), "/v1/health", &[]);
    assert_eq!((got.status, got.json()["role"].as_str()), (200, Some("muster:admin")), "{got:?}");
    assert_eq!(curl(at, Some(&alice), "/v1/enroll", &["-d", "{}"]).reason(), "claimed");
    let after = connect(at, Some(&alice), "h2");
    assert_eq!(after.conn.peer_certificates().expect("a server")[0].to_vec(), certificate);
}

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"];

/// Every path of the API, and some that there are not, by every method; on a node that nobody owns, and that would let anybody be its owner.
#[test]
fn n11_an_unclaimed_node_answers_exactly_one_route_of_all() {
    let text = format!("muster:\n  api:\n    enabled: true\n    insecure: true\n    listen: {}\n", free());
    let mut node = Node::with_document(&text).start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let queries = |route: &muster_api::Route| match route.chosen_by {
        Some((name, value)) => format!("?{name}={value}"),
        None if route.method == muster_api::Method::Delete => {
            format!("?fingerprint=SHA256:{}", "A".repeat(43))
        }
        None => String::new(),
    };
    let mut targets: Vec<String> =
        ROUTES.iter().map(|r| format!("{}{}", r.path.replace("{unit}", "kubelet"), queries(r))).collect();
    targets.extend(
        [ENROLL, "/", "/v1", "//v1/enroll", "/v1/enroll/", "/v1/enroll?x=1", "/v2/enroll"].map(Into::into),
    );
    targets.sort();
    targets.dedup();
    assert!(targets.len() > ROUTES.len(), "{targets:?}");
    let mut answered = Vec::new();
    for method in METHODS {
        // A stranger's connection lasts a while only.
        let mut stream = connect(at, None, "http/1.1");
        for target in &targets {
            let request = format!("{method} {target} HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{{}}");
            let said = exchange(&mut stream, request.as_bytes(), "}");
            let status: u16 = said.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
            let body = said.split("\r\n\r\n").nth(1).unwrap_or_default();
            let body: serde_json::Value =
                serde_json::from_str(body).unwrap_or_else(|e| panic!("{method} {target}: {e}: {said}"));
            if (status, body["reason"].as_str()) != (409, Some("unclaimed")) {
                answered.push((method, target.as_str(), status, body["reason"].clone()));
            }
        }
    }
    // Of the one, the core itself says what is wrong with it.
    assert_eq!(answered, [("POST", ENROLL, 400, "bad-request".into())]);
    assert_eq!(node.stop(), Some(0));
    let records: Vec<serde_json::Value> =
        node.chain().lines().map(|l| serde_json::from_str(l).expect("a record")).collect();
    for event in ["call", "intent", "outcome"] {
        assert!(!records.iter().any(|r| r["event"] == event), "{event} in {records:#?}");
    }
    // Above ten in a minute, requests of one address are counted together.
    let many = |reason: &str| -> u64 {
        records.iter().filter(|r| r["reason"] == reason).map(|r| r["count"].as_u64().unwrap_or(1)).sum()
    };
    let asked = u64::try_from(METHODS.len() * targets.len()).expect("few");
    assert_eq!((many("bad-request"), many("unclaimed")), (1, asked - 1), "{records:#?}");
    for operation in muster_core::Operation::ALL {
        let name = operation.row().name;
        assert!(records.iter().any(|r| r["op"] == name && r["reason"] == "unclaimed"), "{name}");
    }
}

/// As `docs/nodes.md` says it, with the paths of a test.
#[test]
fn curl_with_the_nodes_own_certificate_pinned_is_a_client_too() {
    require!(tools());
    let operators = Operators::new(1);
    let (node, other) =
        (Node::with_document(&owned(&operators)).start(), Node::with_document(&owned(&operators)).start());
    let (edge, another) = (Edge::at(&node.socket()), Edge::at(&other.socket()));
    let (certificate, key) = files(&node, &operators, "alice", Role::Admin);
    let get = |at: SocketAddr, file: &std::path::Path| {
        let script = format!(
            "openssl s_client -connect {at} </dev/null 2>/dev/null | openssl x509 -out {0}\n\
             openssl x509 -in {0} -outform DER | openssl dgst -sha256 -binary | base64 | tr -d =",
            file.display()
        );
        let out = std::process::Command::new("bash").args(["-c", &script]).output().expect("bash");
        String::from_utf8(out.stdout).expect("base64").trim().to_owned()
    };
    let (pinned, wrong) = (node.root().join("edge-1.pem"), node.root().join("other.pem"));
    let shown = get(edge.address(), &pinned);
    get(another.address(), &wrong);
    let stream = connect(edge.address(), Some(&(certificate.clone(), key.clone())), "h2");
    let der = stream.conn.peer_certificates().expect("a server")[0].to_vec();
    assert_eq!(format!("SHA256:{shown}"), muster_tls::Fingerprint::of(&der).to_string());
    // The node's own name, where it has none.
    let name = "muster-node:7443";
    let call = |pin: &std::path::Path| {
        std::process::Command::new("curl")
            .args(["--silent", "--cacert"])
            .arg(pin)
            .args(["--connect-to", &format!("{name}:{}", edge.address())])
            .arg("--cert")
            .arg(&certificate)
            .arg("--key")
            .arg(&key)
            .arg(format!("https://{name}/v1/node"))
            .output()
            .expect("curl")
    };
    let out = call(&pinned);
    let node: serde_json::Value = serde_json::from_slice(&out.stdout).expect("a node");
    assert_eq!(node["management"]["claimedBy"], "configuration", "{node}");
    // 60: the certificate is not the one that was pinned (curl(1)).
    assert_eq!(call(&wrong).status.code(), Some(60));
}
