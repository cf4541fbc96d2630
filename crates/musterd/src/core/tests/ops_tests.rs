//! The three operations of ownership as they are called: bodies, answers, and what is done when the answer is out.

use super::*;
use crate::ops::{Caller, Done, Request as Call, Works, perform};
use crate::wire::Ask;
use muster_api::Fault;

struct Called {
    status: u16,
    answer: serde_json::Value,
    then: Option<crate::ops::Then>,
}

fn call(node: &Node, owner: &Owner, ask: &Ask, body: &[u8]) -> Result<Called, Fault> {
    let caller = Caller {
        name: "alice".to_owned(),
        role: Role::Admin,
        address: "10.0.0.9".to_owned(),
        judged_by: owner.trusts(),
    };
    let (places, owner, works) = (Places::below(node.root()), Arc::new(owner.clone()), Works::default());
    let request = Call {
        places: &places,
        owner: &owner,
        works: &works,
        caller: &caller,
        ask,
        body,
        ended: std::sync::Arc::new(|_, _| {}),
    };
    match perform(&request)? {
        Done::Answer { status, body, then, .. } => Ok(Called { status, answer: parse(&body), then }),
        Done::Stream(_) => panic!("a stream"),
    }
}

fn owned(node: &Node) -> (Owner, Operators) {
    let operators = operators("ops");
    node.document(MAINTENANCE);
    let owner = node.open();
    assert_eq!(super::claim(node, &owner, &operators).status, 200);
    (owner, operators)
}

#[test]
fn what_is_no_body_of_theirs_is_refused_and_not_repeated() {
    let node = node();
    let (owner, _) = owned(&node);
    for ask in [Ask::ConfigApply, Ask::CaRotate] {
        for body in [
            "",
            "{}",
            "[]",
            "{\"document\":7}",
            "{\"document\":\"\",\"hunter2\":1}",
            "{\"operatorCA\":\"x\"}",
        ] {
            let fault = call(&node, &owner, &ask, body.as_bytes()).map(|_| ()).expect_err(body);
            let refused = matches!(fault.reason.as_str(), "body" | "bad-document");
            assert!(refused && fault.kind.status() == 400 && !fault.error.contains("hunter2"), "{fault:?}");
        }
    }
    let signed = "{\"operatorCA\":\"x\",\"proof\":\"y\",\"signature\":\"0403\"}";
    let fault = call(&node, &owner, &Ask::CaRotate, signed.as_bytes()).map(|_| ()).expect_err("no signature");
    assert_eq!(fault.reason, "bad-signature");
    assert_eq!(
        call(&node, &owner, &Ask::CrlUpload, b"x").map(|_| ()).expect_err("no list").reason,
        "bad-crl"
    );
}

#[test]
fn a_document_is_answered_first_and_then_the_edge_listens_where_it_says() {
    let node = node();
    let (owner, _) = owned(&node);
    let before = owner.generation();
    let document = "role: worker\ncluster: {endpoint: 'api:6443'}\njoin: {tokenFrom: {file: /run/t}, caCertHashes: 'sha256:0000000000000000000000000000000000000000000000000000000000000000'}\napi: {enabled: true, listen: '10.0.0.1:7000'}\n";
    let body = serde_json::json!({ "document": document }).to_string();
    let done = call(&node, &owner, &Ask::ConfigApply, body.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let want = serde_json::json!({ "status": "applied", "path": "/etc/muster/config.yaml", "role": "worker", "api": true, "released": true });
    assert_eq!((done.status, done.answer), (200, want));
    assert_eq!(owner.generation(), before, "not before the answer is out");
    done.then.expect("something to do")();
    assert_eq!(
        (owner.generation(), owner.serve().listen.to_string().as_str()),
        (before + 1, "10.0.0.1:7000")
    );
}

#[test]
fn s15_m18_a_rotation_and_a_list_cut_connections_after_their_answers() {
    let node = node();
    let (owner, old) = owned(&node);
    let before = owner.generation();
    let list = old.list(&[], 7, None);
    let done = call(&node, &owner, &Ask::CrlUpload, list.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(done.answer, serde_json::json!({ "status": "taken", "number": "07", "revoked": 0 }));
    done.then.expect("something to do")();
    assert_eq!(owner.generation(), before + 1);
    let new = operators("the next");
    let proof = new.issue("bob", Role::Admin).certificate;
    let body = serde_json::json!({ "operatorCA": new.pem, "proof": proof }).to_string();
    let done = call(&node, &owner, &Ask::CaRotate, body.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((done.status, &done.answer["status"]), (200, &"rotated".into()));
    assert_eq!(done.answer["operatorCA"], new.authority.ca().fingerprint().to_string());
    assert_eq!(owner.generation(), before + 1);
    done.then.expect("something to do")();
    assert_eq!(owner.generation(), before + 2);
}
