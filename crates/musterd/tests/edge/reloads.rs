//! What is served with changes again and again under a real edge and a real core: nothing of the past is kept.

use std::io::{BufRead as _, BufReader};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use muster_core::Role;
use muster_needs::require;
use muster_tls::{Lifetime, Revoked};

use crate::client::{Stream, connect, curl, exchange, tools};
use crate::core::{keep, serial};
use crate::process::Edge;
use crate::real::{files, owned};
use crate::support::{Node, Operators, now};

/// Lists that are brought, each with a higher number than the one before.
const ROUNDS: u64 = 1000;
/// What is not judged: until then both processes grow to what they need at all.
const WARM: u64 = 100;
/// A client makes ten changes in a second; one after another, they make more.
const CLIENTS: usize = 32;
const PAUSE: Duration = Duration::from_millis(125);
/// KiB that a process may grow by in all the rounds. 1,000 of what one reload makes would be many times that.
const GROWTH: u64 = 4 << 10;

/// Descriptors and KiB of a process.
fn uses(pid: u32) -> (usize, u64) {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process").count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("a line");
    (files, line.trim().trim_end_matches(" kB").parse().expect("a number"))
}

/// Brings a list over a connection that stays, and gives the status.
fn bring(stream: &mut Stream, list: &str) -> u16 {
    let head = format!("PUT /v1/ca/crl HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", list.len());
    let said = exchange(stream, format!("{head}{list}").as_bytes(), "}");
    said.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn ce16_a_thousand_reloads_keep_no_descriptor_and_no_memory_and_a_stream_lives_through_them() {
    require!(tools());
    let operators = Operators::new(1);
    // A change is on the disk three times before it is answered; a real one takes a minute for all of them.
    let node = Node::in_memory(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let follower = files(&node, &operators, "follower", Role::Readonly);
    let mut follower = connect(at, Some(&follower), "http/1.1");
    let said = exchange(&mut follower, b"GET /v1/audit?follow=true HTTP/1.1\r\nhost: x\r\n\r\n", "\"seq\":");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let taken = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&taken);
    let reader = std::thread::spawn(move || {
        // Ends with the connection.
        for line in BufReader::new(follower).lines().map_while(Result::ok) {
            let done = line.contains("\"op\":\"crl-upload\"") && line.contains("\"event\":\"outcome\"");
            counts.fetch_add(usize::from(done), Ordering::SeqCst);
        }
    });
    let mut clients: Vec<Stream> = (0..CLIENTS)
        .map(|n| connect(at, Some(&files(&node, &operators, &format!("c{n}"), Role::Readonly)), "http/1.1"))
        .collect();
    let mallory = operators.authority.issue("mallory", Role::Admin, Lifetime::CLIENT, now(), serial());
    let mallory = mallory.expect("a client");
    let gone = Revoked { serial: mallory.serial.clone(), at: now() };
    let mallory = keep(node.root(), "mallory", &mallory);
    // Only the last list has him.
    let lists: Vec<String> = (1..=ROUNDS)
        .map(|n| {
            let revoked = if n == ROUNDS { std::slice::from_ref(&gone) } else { &[] };
            operators.authority.revoke(revoked, n, None, now()).expect("a list")
        })
        .collect();
    assert_eq!(curl(at, Some(&mallory), "/v1/health", &[]).status, 200);

    let begun = Instant::now();
    let (mut before, mut last) = (None, [begun; CLIENTS]);
    for (n, list) in (1..=ROUNDS).zip(&lists) {
        let client = n as usize % CLIENTS;
        std::thread::sleep((last[client] + PAUSE).saturating_duration_since(Instant::now()));
        last[client] = Instant::now();
        assert_eq!(bring(&mut clients[client], list), 200, "list {n}");
        if n == WARM {
            settle(&node);
            before = Some((uses(edge.child.id()), uses(node.pid())));
        }
    }
    println!("{ROUNDS} lists in {:?}", begun.elapsed());
    settle(&node);
    // The last one is in force, for who comes now.
    let got = curl(at, Some(&mallory), "/v1/health", &[]);
    assert_eq!((got.status, got.reason().as_str()), (401, "revoked"), "{got:?}");
    let end = Instant::now() + Duration::from_secs(20);
    while taken.load(Ordering::SeqCst) < ROUNDS as usize {
        assert!(!reader.is_finished(), "the stream ended after {} changes", taken.load(Ordering::SeqCst));
        assert!(Instant::now() < end, "the stream stopped after {} changes", taken.load(Ordering::SeqCst));
        std::thread::sleep(Duration::from_millis(50));
    }
    let (edge_before, core_before) = before.expect("it was warm once");
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let (edge_now, core_now) = (uses(edge.child.id()), uses(node.pid()));
        let files = (edge_now.0, core_now.0) == (edge_before.0, core_before.0);
        let memory = edge_now.1 <= edge_before.1 + GROWTH && core_now.1 <= core_before.1 + GROWTH;
        if files && memory {
            println!("edge {edge_before:?} to {edge_now:?}, core {core_before:?} to {core_now:?}");
            break;
        }
        // Threads and connections of the last calls take a moment to go.
        assert!(
            Instant::now() < end,
            "edge {edge_before:?} to {edge_now:?}, core {core_before:?} to {core_now:?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    drop((clients, edge));
    reader.join().expect("the stream ends with the edge");
}

/// Until the core's threads have nothing to do: what a call had is given back then.
fn settle(node: &Node) {
    std::thread::sleep(Duration::from_millis(2500));
    println!("{} threads", node.threads());
}
