//! Of how many clients the core keeps handles and numbers for signed requests, and how long a handle is one.

use std::sync::Arc;
use std::time::Instant;

use muster_api::ProofHeader;
use muster_tls::{Client, Fingerprint};

use super::super::handles::{Handle, Handles, MAX_HANDLES};
use super::super::proof::{Nonces, Signed};
use super::*;

fn handle(n: usize) -> Handle {
    let certificate = format!("certificate {n}").into_bytes();
    let client = Client {
        name: format!("client {n}"),
        role: Some(Role::Admin),
        serial: n.to_string(),
        fingerprint: Fingerprint::of(&certificate),
        not_after: UtcTime::from_unix(NOW),
    };
    Handle::new(client, certificate, "10.0.0.9".to_owned(), 0).expect("random numbers")
}

/// Whether a number is still there. It is found before the signature is looked at, which is none.
fn is_there(nonces: &Nonces, handle: &Handle, nonce: &str, at: Instant) -> bool {
    let header = ProofHeader { nonce: nonce.to_owned(), scheme: 0x0403, signature: vec![1; 70] }.to_string();
    let signed = Signed { request: "POST /v1/config", body: b"", node: Fingerprint::of(b"node") };
    let fault = nonces.judge(Some(&header), handle, &signed, at).expect_err("nothing is signed");
    let found = fault.error.starts_with("the signature is not");
    assert!(found || fault.error.starts_with("its number was not"), "{}", fault.error);
    found
}

#[test]
fn m15_numbers_of_all_clients_together_are_bounded() {
    let (nonces, begun) = (Nonces::default(), Instant::now());
    let clients: Vec<Handle> = (0..65).map(handle).collect();
    let mut given = Vec::new();
    for client in &clients {
        for _ in 0..16 {
            given.push((client, nonces.give(client, true, begun).expect("a number").nonce));
        }
    }
    let left = given.iter().map(|(client, nonce)| is_there(&nonces, client, nonce, begun));
    let left: Vec<bool> = left.collect();
    // 65 times 16 are 1040: the oldest made room.
    assert_eq!(left.iter().filter(|l| **l).count(), 1024);
    assert!(left[..16].iter().all(|l| !l) && left[16..].iter().all(|l| *l));
}

#[test]
fn s17_there_are_no_more_handles_than_connections_of_the_edge() {
    let handles = Handles::default();
    for n in 0..MAX_HANDLES {
        assert!(handles.put(Arc::new(handle(n))), "{n}");
    }
    let one_more = Arc::new(handle(MAX_HANDLES));
    assert!(!handles.put(Arc::clone(&one_more)) && handles.get(&one_more.id).is_none());
    let gone = handles.list().pop().expect("a handle");
    assert!(handles.end(&gone.id) && gone.is_dead(UtcTime::from_unix(NOW)));
    assert!(handles.put(one_more), "there is room again");
}

#[test]
fn m15_a_handle_ends_with_its_certificate() {
    let alice = handle(1);
    assert!(!alice.is_dead(UtcTime::from_unix(NOW)) && alice.is_dead(UtcTime::from_unix(NOW + 1)));
}
