//! What is served with changes again and again under a real edge and a real core: nothing of the past is kept.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use muster_core::Role;
use muster_needs::require;
use muster_tls::{Fingerprint, Lifetime, Revoked};

use crate::client::{Files, Stream, connect, curl, exchange, tools};
use crate::core::{keep, serial};
use crate::process::Edge;
use crate::real::{files, owned};
use crate::support::{Node, Operators, now};

/// Keys and certificates that the node serves with, one after the other.
const ROUNDS: u64 = 1000;
/// After so many, a revocation list with a higher number than the one before.
const A_LIST: u64 = 10;
const LISTS: u64 = ROUNDS / A_LIST;
/// What is not judged: until then both processes grow to what they need at all.
const WARM: u64 = 100;
/// Who bring the lists: of one client, ten changes in a second are taken.
const CLIENTS: usize = 8;
/// KiB that a process may grow by in the other rounds: little more than one for each would be too much.
const GROWTH: u64 = 1 << 10;

/// Descriptors and KiB of a process.
fn uses(pid: u32) -> (usize, u64) {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a process").count();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("a line");
    (files, line.trim().trim_end_matches(" kB").parse().expect("a number"))
}

/// Another key for the node, as root on it asks for one. Its certificate's fingerprint.
fn rekey(node: &Node) -> String {
    let mut socket = UnixStream::connect(node.path(musterd::places::CONTROL_SOCKET)).expect("the core");
    socket.write_all(b"{\"do\":\"rekey\"}\n").expect("the core");
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).expect("an answer");
    let told: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    told["fingerprint"].as_str().unwrap_or_else(|| panic!("{line}")).to_owned()
}

/// Until whoever connects is served with this one.
fn served_with(at: SocketAddr, client: &Files, fingerprint: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let stream = connect(at, Some(client), "h2");
        let shown = Fingerprint::of(&stream.conn.peer_certificates().expect("a server")[0]).to_string();
        if shown == fingerprint {
            return;
        }
        assert!(Instant::now() < end, "still {shown}, not {fingerprint}");
    }
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
    // Each change is on the disk several times before it is answered, and a real one would take minutes for all of them.
    let node = Node::in_memory(&owned(&operators)).start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let follower = files(&node, &operators, "follower", Role::Readonly);
    let mut stream = connect(at, Some(&follower), "http/1.1");
    let said = exchange(&mut stream, b"GET /v1/audit?follow=true HTTP/1.1\r\nhost: x\r\n\r\n", "\"seq\":");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let taken = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&taken);
    let reader = std::thread::spawn(move || {
        // Ends with the connection.
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
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
    let lists: Vec<String> = (1..=LISTS)
        .map(|n| {
            let revoked = if n == LISTS { std::slice::from_ref(&gone) } else { &[] };
            operators.authority.revoke(revoked, n, None, now()).expect("a list")
        })
        .collect();
    assert_eq!(curl(at, Some(&mallory), "/v1/health", &[]).status, 200);

    let begun = Instant::now();
    let mut before = None;
    let mut lists = (0..CLIENTS).cycle().zip(&lists);
    for n in 1..=ROUNDS {
        served_with(at, &follower, &rekey(&node));
        if n % A_LIST == 0 {
            let (client, list) = lists.next().expect("one for each");
            assert_eq!(bring(&mut clients[client], list), 200, "round {n}");
        }
        if n == WARM {
            settle(&node);
            before = Some((uses(edge.child.id()), uses(node.pid())));
        }
    }
    println!("{ROUNDS} keys and {LISTS} lists in {:?}", begun.elapsed());
    settle(&node);
    // The last one is in force, for who comes now.
    let got = curl(at, Some(&mallory), "/v1/health", &[]);
    assert_eq!((got.status, got.reason().as_str()), (401, "revoked"), "{got:?}");
    let end = Instant::now() + Duration::from_secs(20);
    while taken.load(Ordering::SeqCst) < LISTS as usize {
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
