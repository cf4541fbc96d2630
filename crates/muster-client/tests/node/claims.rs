//! The claim, against the node's half of the pairing.

use muster_client::claim::{NotClaimed, Unclaimed, Wanted};
use muster_client::testing::{Answers, Became, Operators, Pairing, Server, enrolled, reply};
use muster_client::{Endpoint, Error};
use muster_pairing::code::Code;
use muster_pairing::exchange::Outcome;
use muster_pairing::message::Request;
use std::sync::Arc;
use std::time::Duration;

const SHOWN: &str = "K7QM-93XF";

async fn start(outcome: Box<Became>) -> (Server, Arc<Pairing>) {
    Pairing::start(SHOWN, outcome).await
}

async fn connect(server: &Server) -> Unclaimed {
    let endpoint = Endpoint::new("127.0.0.1", server.address.port()).expect("an address");
    Unclaimed::connect(endpoint, Duration::from_secs(5)).await.expect("a node")
}

fn wanted(operators: &Operators) -> Wanted<'_> {
    Wanted {
        authority: operators.authority.ca(),
        authority_pem: &operators.pem,
        document: None,
        acknowledge: false,
    }
}

#[tokio::test]
async fn the_code_alone_tells_the_nodes_certificate_and_what_is_claimed_is_under_it() {
    let operators = Operators::new(1);
    let (server, _) = start(Box::new(|claim, ca| {
        assert!(claim.document.is_some());
        enrolled(claim, ca)
    }))
    .await;
    let mut node = connect(&server).await;
    assert_eq!(node.fingerprint(), server.fingerprint);
    let wanted = Wanted { document: Some("role: init\n"), ..wanted(&operators) };
    let code = Code::parse("k7qm 93xf").expect("a code");
    let claimed = node.pair(&code, &wanted, [3; 64]).await.expect("claimed");
    assert_eq!((claimed.node, claimed.warnings), (server.fingerprint, vec![]));
    let seen = server.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|s| !String::from_utf8_lossy(&s.body).contains("93X")), "the code never travels");
}

#[tokio::test]
async fn n12_a_wrong_code_is_sent_once_and_told_with_the_tries_that_are_left() {
    let operators = Operators::new(1);
    let (server, _) = start(Box::new(enrolled)).await;
    let mut node = connect(&server).await;
    let code = Code::parse("AAAA-AAAA").expect("a code");
    let error = node.pair(&code, &wanted(&operators), [3; 64]).await.expect_err("wrong");
    let NotClaimed::Call(error) = error else { panic!("{error}") };
    assert_eq!(error.fault().map(|f| (f.reason.as_str(), f.tries_left)), Some(("wrong-code", Some(4))));
    assert_eq!(server.seen().len(), 2, "two steps and no third");
}

#[tokio::test]
async fn a_refusal_that_the_node_has_signed_leaves_the_code_good() {
    let operators = Operators::new(1);
    let (server, _) = start(Box::new(|claim, ca| match claim.acknowledge {
        true => enrolled(claim, ca),
        false => Outcome::Refused { reason: "would-bootstrap".into(), detail: "it would build lab".into() },
    }))
    .await;
    let mut node = connect(&server).await;
    let code = Code::parse(SHOWN).expect("a code");
    let error = node.pair(&code, &wanted(&operators), [3; 64]).await.expect_err("refused");
    assert!(matches!(&error, NotClaimed::Refused { reason, .. } if reason == "would-bootstrap"), "{error}");
    let wanted = Wanted { acknowledge: true, ..wanted(&operators) };
    node.pair(&code, &wanted, [4; 64]).await.expect("claimed");
}

/// Somebody in between, with a certificate of its own, who lets both sides talk to each other.
#[tokio::test]
async fn m16_a_relay_with_its_own_certificate_gains_nothing() {
    let operators = Operators::new(1);
    let (node, pairing) = start(Box::new(enrolled)).await;
    let relayed = Arc::clone(&pairing);
    let relay = Server::start(&[], Box::new(move |seen| relayed.answer(seen))).await;
    assert_ne!(relay.fingerprint, node.fingerprint);
    let mut client = connect(&relay).await;
    let code = Code::parse(SHOWN).expect("a code");
    let error = client.pair(&code, &wanted(&operators), [3; 64]).await.expect_err("a relay");
    assert!(matches!(&error, NotClaimed::Call(Error::Fault(f)) if f.reason == "wrong-code"), "{error}");
}

/// Whoever does not know the code cannot make a success or a `would-bootstrap` of it.
#[tokio::test]
async fn s18_an_answer_without_proof_is_not_the_machine() {
    let operators = Operators::new(1);
    let ca = operators.authority.ca().fingerprint();
    let lies: [(u16, String); 4] = [
        (200, format!("{{\"enrolled\":true,\"operatorCA\":\"{ca}\",\"warnings\":[]}}")),
        (200, format!("{{\"enrolled\":true,\"operatorCA\":\"{ca}\",\"confirm\":\"{}=\"}}", "A".repeat(43))),
        (409, "{\"reason\":\"would-bootstrap\",\"error\":\"say --yes\"}".to_owned()),
        (
            409,
            format!("{{\"reason\":\"would-bootstrap\",\"error\":\"x\",\"confirm\":\"{}=\"}}", "A".repeat(43)),
        ),
    ];
    for (status, lie) in lies {
        let (_, pairing) = start(Box::new(enrolled)).await;
        let body = lie.clone();
        let impostor: Box<Answers> =
            Box::new(move |seen| match Request::parse(&seen.body).expect("a step") {
                Request::Start { .. } => pairing.answer(seen),
                _ => reply(status, "", body.as_bytes()),
            });
        let server = Server::start(&[], impostor).await;
        let mut client = connect(&server).await;
        let code = Code::parse(SHOWN).expect("a code");
        let error = client.pair(&code, &wanted(&operators), [3; 64]).await.expect_err("a lie");
        assert!(matches!(error, NotClaimed::NotTheMachine), "{status} {lie}: {error}");
    }
}

#[tokio::test]
async fn a_node_without_a_code_says_whom_it_obeys_now() {
    let operators = Operators::new(1);
    let (server, _) = start(Box::new(enrolled)).await;
    let claimed = connect(&server).await.take(&wanted(&operators)).await.expect("claimed");
    assert_eq!((claimed.node, claimed.warnings.len()), (server.fingerprint, 1));
    let others = Operators::new(2);
    let mixed = Wanted { authority_pem: &others.pem, ..wanted(&operators) };
    let error = connect(&server).await.take(&mixed).await.expect_err("another authority");
    assert!(matches!(error, NotClaimed::OtherAuthority(_)), "{error}");
}

#[tokio::test]
async fn a_node_that_has_an_owner_says_so() {
    let operators = Operators::new(1);
    let claimed = b"{\"error\":\"this node has an owner\",\"reason\":\"claimed\"}";
    let server = Server::start(&[], Box::new(move |_| reply(409, "", claimed))).await;
    let code = Code::parse(SHOWN).expect("a code");
    let error = connect(&server).await.pair(&code, &wanted(&operators), [3; 64]).await.expect_err("claimed");
    assert!(matches!(&error, NotClaimed::NotBegun(Error::Fault(f)) if f.reason == "claimed"), "{error}");
}
