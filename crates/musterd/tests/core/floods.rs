//! What an edge that fell can send, and how little of it is kept.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use muster_core::Role;
use musterd::wire::{Ask, ToEdge};
use musterd::wire::{Call, Hello, Kind, Reply, frame, message, read_message};

use crate::support::{Node, Operators, SOON};

/// KiB that a core of a debug build may have in use, whatever is sent.
const BOUND: u64 = 64 * 1024;

/// Sends bytes and waits until the core has closed; what it said before, if anything.
fn closed(node: &Node, bytes: &[u8]) -> Vec<u8> {
    let mut stream = node.connect();
    let _ = stream.write_all(bytes);
    let mut said = Vec::new();
    // A reset is a close too.
    let _ = stream.read_to_end(&mut said);
    said
}

#[test]
fn s17_what_is_no_frame_or_no_message_closes_the_connection() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Readonly, 2));
    let json = |text: &str| frame(Kind::Message, text.as_bytes()).unwrap();
    let call = |extra: &str, op: &str| {
        json(&format!(
            r#"{{"is":"call","handle":"{handle}","ask":{{"op":"{op}"}},"request":"GET /v1/health"{extra}}}"#
        ))
    };
    for (bytes, what) in [
        (vec![1, 0x40, 0, 0, 0], "a frame of a GiB"),
        (vec![2, 0xff, 0xff, 0xff, 0xff], "a piece of 4 GiB"),
        (vec![9, 0, 0, 0, 0], "a kind that there is not"),
        (vec![3, 0, 0, 0, 0], "an end before a beginning"),
        (frame(Kind::Piece, b"x").unwrap(), "a piece before a message"),
        (json("{}"), "a message that says nothing"),
        (json("[[[[[["), "no JSON"),
        (json(&"[".repeat(60_000)), "JSON without a bottom"),
        (json(r#"{"is":"root"}"#), "a connection that there is not"),
        (json(r#"{"is":"link","version":1}"#), "another version"),
        (call("", "exec"), "an operation that there is not"),
        (call(r#","role":"muster:admin""#, "health"), "a role in the frame"),
        (call(r#","name":"admin""#, "health"), "a name in the frame"),
    ] {
        assert_eq!(closed(&node, &bytes), b"", "{what}");
    }
    assert_eq!(edge.health(&handle).unwrap().reply.status, 200);
    assert!(node.resident() < BOUND, "{} KiB", node.resident());
    let records = node.records(&["\"event\":\"socket\"", "\"reason\":\"frame\""]);
    assert!(records.iter().all(|r| r["decision"] == "denied"), "{records:#?}");
    // On the link too; and with it everybody that it brought is gone.
    let open = json(&format!(r#"{{"is":"close","handle":"{handle}","as":"admin"}}"#));
    edge.stream.write_all(&open).unwrap();
    assert!(matches!(read_message::<ToEdge>(&mut edge.stream), Ok(None) | Err(_)));
    assert!(node.link().health(&handle).is_none());
}

#[test]
fn s17_a_flood_of_connections_is_bounded_and_leaves_the_core_whole() {
    let operators = Operators::new(1);
    let mut node = Node::owned(&operators);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Readonly, 2));
    let flood: Vec<UnixStream> = (0..600).map_while(|_| UnixStream::connect(node.socket()).ok()).collect();
    assert!(flood.len() > 400, "{}", flood.len());
    // Somebody who calls now is told so, at once.
    let until = Instant::now() + SOON;
    let busy = loop {
        let asked = Instant::now();
        let got = edge.health(&handle);
        if let Some(got) = got.filter(|g| g.reply.status == 503) {
            assert!(asked.elapsed() < Duration::from_secs(5));
            break got;
        }
        assert!(Instant::now() < until, "the flood was not felt");
    };
    assert_eq!((busy.reason().as_str(), busy.reply.retry_after), ("busy", Some(1)));
    assert!(node.threads() < 320, "{}", node.threads());
    assert!(node.resident() < BOUND, "{} KiB", node.resident());
    drop(flood);
    let until = Instant::now() + SOON;
    while edge.health(&handle).is_none_or(|g| g.reply.status != 200) {
        assert!(Instant::now() < until, "the core did not come back");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(node.alive());
    node.records(&["\"event\":\"socket\"", "\"reason\":\"busy\""]);
}

#[test]
fn s17_long_bodies_share_one_bound() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    // One client each, so that it is not the rate that refuses.
    let proofs: Vec<_> = (0..12).map(|n| operators.proof(&format!("c{n}"), Role::Readonly, 20 + n)).collect();
    let mut held = Vec::new();
    for proof in &proofs {
        let handle = edge.open(proof);
        let request = "PUT /v1/ca/crl".to_owned();
        let call = Hello::Call(Call { handle, ask: Ask::CrlUpload, request, proof: None });
        let mut stream = node.connect();
        stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        stream.write_all(&message(&call).unwrap()).unwrap();
        // A body that never ends.
        let piece = frame(Kind::Piece, &[b'x'; 60_000]).unwrap();
        let _ = (0..40).try_for_each(|_| stream.write_all(&piece));
        held.push(stream);
    }
    let refused = held
        .iter_mut()
        .filter_map(|s| read_message::<Reply>(s).ok().flatten())
        .filter(|reply| reply.status == 503)
        .count();
    assert!((8..12).contains(&refused), "{refused} of 12 were refused");
    assert!(node.resident() < BOUND, "{} KiB", node.resident());
    let health = edge.open(&operators.proof("alice", Role::Readonly, 2));
    assert_eq!(edge.health(&health).unwrap().reply.status, 200);
}

#[test]
fn s17_who_says_nothing_for_ten_seconds_is_cut() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let begun = Instant::now();
    let mut silent = node.connect();
    let mut slow = node.connect();
    let hello = message(&Hello::Enroll { address: "192.0.2.1".into() }).unwrap();
    let drip = std::thread::spawn(move || {
        for byte in hello.chunks(1) {
            if slow.write_all(byte).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(700));
        }
        begun.elapsed()
    });
    assert!(!matches!(silent.read(&mut [0; 1]), Ok(n) if n > 0));
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(8) && took < Duration::from_secs(15), "{took:?}");
    let took = drip.join().unwrap();
    assert!(took < Duration::from_secs(15), "a drip is no progress: {took:?}");
}

/// Streams are few, and one client's share of them is fewer: the next is told so, others have theirs, and what ends comes back.
#[test]
fn s17_a_client_has_32_streams_and_the_next_is_429_while_others_go_on() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let alice = edge.open(&operators.proof("alice", Role::Readonly, 2));
    let bob = edge.open(&operators.proof("bob", Role::Readonly, 3));
    let follow = |handle: &str| {
        let ask = Ask::AuditRead { after: None, follow: true };
        let request = "GET /v1/audit?follow=true".to_owned();
        let call = Hello::Call(Call { handle: handle.to_owned(), ask, request, proof: None });
        let mut stream = node.connect();
        // In one piece: who is refused is answered before the end of his body is read.
        let bytes = [message(&call).unwrap(), frame(Kind::End, b"").unwrap()].concat();
        stream.write_all(&bytes).unwrap();
        let reply: Reply = read_message(&mut stream).unwrap().unwrap();
        (stream, reply)
    };
    let mut held: Vec<_> = (0..32).map(|_| follow(&alice)).collect();
    assert!(held.iter().all(|(_, reply)| reply.status == 200));
    let (mut refused, reply) = follow(&alice);
    assert_eq!((reply.status, reply.retry_after), (429, Some(1)));
    let body = musterd::wire::read_body(&mut refused, 4096).unwrap();
    let fault: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(fault["reason"], "share");
    assert!(fault["error"].as_str().unwrap().contains("32 streams"), "{fault}");
    node.records(&["\"op\":\"audit-read\"", "\"decision\":\"denied\"", "\"reason\":\"share\""]);
    // Calls that are no stream, and other clients.
    assert_eq!(edge.health(&alice).unwrap().reply.status, 200);
    assert_eq!(follow(&bob).1.status, 200);
    held.truncate(31);
    let until = Instant::now() + SOON;
    while follow(&alice).1.status != 200 {
        assert!(Instant::now() < until, "the share did not come back");
        std::thread::sleep(Duration::from_millis(50));
    }
}
