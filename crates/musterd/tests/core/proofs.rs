//! Requests that are signed by themselves: what a fallen edge cannot make.

use muster_api::{Nonce, ProofHeader, proof_text};
use muster_core::Role;
use muster_tls::Fingerprint;
use musterd::wire::Ask;
use rustls::SignatureScheme;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};

use crate::calls::asks;
use crate::support::{Edge, Node, Operators, document, handshake};

struct Client {
    key: String,
    handle: String,
}

impl Client {
    fn new(edge: &mut Edge<'_>, operators: &Operators, name: &str, serial: u8) -> Self {
        let issued = operators.client(name, Role::Admin, serial);
        let handle = edge.open(&handshake(&issued.certificate, &issued.key));
        Self { key: issued.key.to_string(), handle }
    }

    fn nonce(&self, edge: &Edge<'_>) -> String {
        let got = edge.call(&self.handle, Ask::ProofNonce, "GET /v1/proof");
        let nonce: Nonce = serde_json::from_slice(&got.body).unwrap();
        assert_eq!((nonce.nonce.len(), nonce.seconds), (32, 60));
        nonce.nonce
    }

    fn sign(&self, request: &str, body: &[u8], node: &[u8], nonce: &str) -> String {
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        let key = rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).unwrap();
        let signer = key.choose_scheme(&[SignatureScheme::ECDSA_NISTP256_SHA256]).unwrap();
        let body: [u8; 32] = Sha256::digest(body).into();
        let text = proof_text(request, &body, Fingerprint::of(node).bytes(), nonce);
        let signature = signer.sign(&text).unwrap();
        ProofHeader { nonce: nonce.to_owned(), scheme: u16::from(signer.scheme()), signature }.to_string()
    }
}

const APPLY: &str = "POST /v1/config";

#[test]
fn m15_where_proofs_are_demanded_what_destroys_or_hands_over_needs_one() {
    let operators = Operators::new(1);
    let node = Node::with_document(&document(&operators, "    proof: required\n")).start();
    let mut edge = node.link();
    let client = Client::new(&mut edge, &operators, "alice", 2);
    let mut refused = 0;
    for (ask, request) in asks() {
        let operation = ask.operation();
        if !operation.wants_proof() {
            continue;
        }
        let got = edge.call(&client.handle, ask, request);
        let cluster = got.reply.status == 409;
        assert!(
            cluster || (got.reply.status, got.reason().as_str()) == (401, "proof-required"),
            "{request}: {got:?}"
        );
        refused += usize::from(!cluster);
        std::thread::sleep(std::time::Duration::from_millis(120));
    }
    assert!(refused >= 7, "{refused}");
    assert!(!node.chain().contains("\"event\":\"intent\""), "nothing was begun");
    assert_eq!(edge.health(&client.handle).unwrap().reply.status, 200, "reads need none");
    let nonce = edge.call(&client.handle, Ask::ProofNonce, "GET /v1/proof");
    assert_eq!(nonce.json()["required"], true);
}

#[test]
fn m15_a_proof_is_for_one_request_one_body_one_node_one_client_and_once() {
    let operators = Operators::new(1);
    let node = Node::with_document(&document(&operators, "    proof: required\n")).start();
    let mut edge = node.link();
    let certificate = edge.serve.certificate.clone();
    let (alice, bob) =
        (Client::new(&mut edge, &operators, "alice", 2), Client::new(&mut edge, &operators, "bob", 3));
    let body = b"{\"document\":\"muster: {}\"}".as_slice();
    let apply = |client: &Client, body: &[u8], proof: String| {
        std::thread::sleep(std::time::Duration::from_millis(120));
        let got = edge.call_with(&client.handle, Ask::ConfigApply, APPLY, body, Some(proof));
        (got.reply.status, got.reason())
    };
    let no = (401, "proof".to_owned());
    let fresh = || alice.nonce(&edge);
    for (proof, what) in [
        (alice.sign("POST /v1/lifecycle/reset", body, &certificate, &fresh()), "another request"),
        (alice.sign(APPLY, b"{}", &certificate, &fresh()), "another body"),
        (alice.sign(APPLY, body, b"another node", &fresh()), "another node"),
        (bob.sign(APPLY, body, &certificate, &fresh()), "another client's key"),
        (alice.sign(APPLY, body, &certificate, &bob.nonce(&edge)), "another client's number"),
        (alice.sign(APPLY, body, &certificate, &"0".repeat(32)), "a number that nobody gave"),
        ("1 x y z".to_owned(), "no proof at all"),
    ] {
        assert_eq!(apply(&alice, body, proof), no, "{what}");
    }
    let good = alice.sign(APPLY, body, &certificate, &fresh());
    assert_ne!(
        apply(&alice, body, good.clone()).0,
        401,
        "what is signed is done, or refused for what it says"
    );
    assert_eq!(apply(&alice, body, good), no, "a second time");
    // A wrong one uses its number up, so that nobody can try on one.
    let nonce = fresh();
    assert_eq!(apply(&alice, body, alice.sign(APPLY, b"x", &certificate, &nonce)), no);
    assert_eq!(apply(&alice, body, alice.sign(APPLY, body, &certificate, &nonce)), no);
    node.records(&["\"op\":\"config-apply\"", "\"reason\":\"proof\"", "\"decision\":\"denied\""]);
}

#[test]
fn m15_where_proofs_are_not_demanded_a_wrong_one_is_still_refused() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let alice = Client::new(&mut edge, &operators, "alice", 2);
    let body = b"{\"document\":\"\"}".as_slice();
    let without = edge.call_with(&alice.handle, Ask::ConfigApply, APPLY, body, None);
    assert_ne!(without.reply.status, 401, "{without:?}");
    let wrong = alice.sign(APPLY, b"x", &edge.serve.certificate, &alice.nonce(&edge));
    let got = edge.call_with(&alice.handle, Ask::ConfigApply, APPLY, body, Some(wrong));
    assert_eq!((got.reply.status, got.reason().as_str()), (401, "proof"));
}

#[test]
fn m15_numbers_that_nobody_uses_are_bounded() {
    let operators = Operators::new(1);
    let node = Node::with_document(&document(&operators, "    proof: required\n")).start();
    let mut edge = node.link();
    let alice = Client::new(&mut edge, &operators, "alice", 2);
    let first = alice.nonce(&edge);
    for _ in 0..16 {
        alice.nonce(&edge);
    }
    let body = b"{\"document\":\"\"}".as_slice();
    let proof = alice.sign(APPLY, body, &edge.serve.certificate, &first);
    let got = edge.call_with(&alice.handle, Ask::ConfigApply, APPLY, body, Some(proof));
    assert_eq!(got.reason(), "proof", "the oldest made room for the newest");
}
