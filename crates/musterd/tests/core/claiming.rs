//! Before there is an owner, and the moment when there is one.

use std::io::Write as _;

use muster_core::Role;
use muster_pairing::message::{ClaimBody, Request};
use musterd::wire::{Ask, Hello, Reply, ToEdge, message, read_body, read_message, write_body};

use crate::support::{Got, Node, Operators};

fn enroll(node: &Node, body: &[u8]) -> Got {
    let mut stream = node.connect();
    let mut bytes = message(&Hello::Enroll { address: "192.0.2.9".into() }).unwrap();
    write_body(&mut bytes, body).unwrap();
    stream.write_all(&bytes).unwrap();
    let reply = read_message::<Reply>(&mut stream).unwrap().unwrap();
    let body = read_body(&mut stream, 1 << 20).unwrap();
    Got { reply, body }
}

#[test]
fn m15_before_a_claim_nobody_gets_a_handle_and_after_it_the_edge_serves_anew() {
    let operators = Operators::new(1);
    let node = Node::with_document("muster:\n  api:\n    enabled: true\n    insecure: true\n").start();
    let mut edge = node.link();
    assert_eq!(edge.serve.authority, None, "no client certificate is asked for");
    let proof = operators.proof("alice", Role::Admin, 2);
    let refused = edge.try_open(&proof).unwrap_err();
    assert_eq!((refused.status, refused.fault.reason.as_str()), (409, "unclaimed"));
    assert!(edge.health(&"0".repeat(32)).is_none());
    for body in [b"".as_slice(), b"{}", b"[", b"{\"code\":\"ABCD-EFGH\",\"operatorCA\":\"x\"}"] {
        let got = enroll(&node, body);
        assert_eq!(got.reply.status, 400, "{got:?}");
        assert!(got.reply.audit.is_some());
    }
    // Two at once: one becomes the owner, and the other hears so.
    let claim = |operators: &Operators| {
        let (operator_ca, document, acknowledge) = (operators.pem.clone(), None, true);
        Request::Open { claim: ClaimBody { operator_ca, document, acknowledge } }.render().into_bytes()
    };
    let other = Operators::new(5);
    let (mine, theirs) = std::thread::scope(|scope| {
        let mine = scope.spawn(|| enroll(&node, &claim(&operators)));
        let theirs = scope.spawn(|| enroll(&node, &claim(&other)));
        (mine.join().unwrap(), theirs.join().unwrap())
    });
    let mut statuses = [mine.reply.status, theirs.reply.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409], "{mine:?} {theirs:?}");
    let owner = if mine.reply.status == 200 { &operators } else { &other };
    let held = edge.read();
    assert!(matches!(held, ToEdge::Hold), "nobody new until the owner is served: {held:?}");
    match edge.read() {
        ToEdge::Serve(serve) => {
            let der = owner.authority.ca().der();
            use base64ct::Encoding as _;
            let told = serve.authority.expect("there is one now");
            assert_eq!(base64ct::Base64::decode_vec(&told).unwrap(), der.to_vec());
            assert_eq!(serve.certificate, edge.serve.certificate, "the node stays who it is");
        }
        other => panic!("{other:?}"),
    }
    let handle = edge.open(&owner.proof("alice", Role::Readonly, 2));
    assert_eq!(edge.call(&handle, Ask::Health, "GET /v1/health").reply.status, 200);
    assert_eq!(enroll(&node, &claim(&operators)).reason(), "claimed");
    let records = node.records(&["\"event\":\"enroll\"", "\"decision\":\"allowed\""]);
    assert_eq!((records.len(), records[0]["claimedByEdge"].as_str()), (1, Some("192.0.2.9")));
    assert!(!node.chain().contains("BEGIN CERTIFICATE"), "bodies are nowhere");
}
