//! Clients that ask for much and read nothing, in front of a real edge and a real core: their sockets are full, and stay so.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};

use muster_core::Role;
use muster_core::audit::{Chain, Head, verify};
use muster_needs::require;

use crate::client::{Files, Stream, connect_narrow, curl, exchange, tools};
use crate::process::Edge;
use crate::real::{files, owned};
use crate::support::{Node, Operators};

/// Streams that one client may have at a time (`docs/edge-and-core.md`).
const STREAMS: usize = 32;
/// How long a client may take nothing of what is written to it (the same).
const BOUND: Duration = Duration::from_secs(30);
/// More than all buffers between the core's disk and a client that takes 4 KiB.
const LONG: usize = 6 << 20;

/// A record that is long already when the core is started.
fn long_record(node: &Node) {
    let folder = node.path(musterd::places::AUDIT);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).expect("a folder");
    let (mut chain, mut text) = (Chain::after(Head::NONE), Vec::with_capacity(LONG));
    let members = format!("\"event\":\"call\",\"detail\":\"{}\"", "x".repeat(8000));
    while text.len() < LONG {
        let (line, next) = chain.next(&members).expect("a record");
        text.extend(line);
        chain = next;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(folder.join("chain-00000000000000000001.jsonl"))
        .expect("a file");
    file.write_all(&text).expect("a file");
}

/// A journal with as much in it, that goes on slowly.
const JOURNAL: &str = "line='{\"MESSAGE\":\"'$(printf '%8000s' '' | tr ' ' x)'\",\"__REALTIME_TIMESTAMP\":\"1700000000000000\",\"_SYSTEMD_UNIT\":\"kubelet.service\"}'
case \"$*\" in
  *--follow*) while echo \"$line\"; do sleep 0.2; done ;;
  *) yes \"$line\" | head -n 1000 ;;
esac";

/// Bytes that the edge's kernel holds for this client (proc(5), `/proc/net/tcp`).
fn held(edge: &Edge, at: SocketAddr, client: SocketAddr) -> Option<u64> {
    let table = std::fs::read_to_string(format!("/proc/{}/net/tcp", edge.child.id())).expect("a table");
    let (local, remote) = (format!(":{:04X}", at.port()), format!(":{:04X}", client.port()));
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let ours = columns.get(1)?.ends_with(&local) && columns.get(2)?.ends_with(&remote);
        // 01: established. One that was closed with bytes that nobody takes goes on for a while without its process.
        let open = ours && *columns.get(3)? == "01";
        open.then(|| u64::from_str_radix(columns.get(4)?.split(':').next()?, 16).ok()).flatten()
    })
}

fn open_files(edge: &Edge) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", edge.child.id())).expect("a process").count()
}

/// KiB that the edge has in use.
fn resident(edge: &Edge) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", edge.child.id())).expect("status");
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Asks, reads the head of the answer, and nothing more.
fn mute(at: SocketAddr, client: &Files, target: &str) -> (Stream, SocketAddr) {
    let mut stream = connect_narrow(at, client);
    let request = format!("GET {target} HTTP/1.1\r\nhost: x\r\n\r\n");
    let said = exchange(&mut stream, request.as_bytes(), "\r\n\r\n");
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("application/x-ndjson"), "{said:.300}");
    let from = stream.sock.local_addr().expect("an address");
    (stream, from)
}

#[test]
fn s17_who_never_reads_fills_its_sockets_and_no_more_and_its_seats_are_free_after_thirty_seconds() {
    require!(tools());
    let operators = Operators::new(1);
    let node = Node::with_document(&owned(&operators));
    long_record(&node);
    node.program("/usr/bin/journalctl", JOURNAL);
    let node = node.start();
    let edge = Edge::at(&node.socket());
    let at = edge.address();
    let (silent, alice) = (
        files(&node, &operators, "silent", Role::Readonly),
        files(&node, &operators, "alice", Role::Readonly),
    );
    let record = || {
        let got = curl(at, Some(&alice), "/v1/audit", &[]);
        assert_eq!((got.status, got.exit), (200, 0));
        assert!(got.body.len() >= LONG);
        verify(got.body.as_bytes(), None, &[]).expect("the whole of it");
    };
    record();
    let before = (open_files(&edge), node.open_files());

    // As many as it may have: most of the record, two of a journal that is followed.
    let begun = Instant::now();
    let targets = (0..STREAMS).map(|n| match n {
        0 | 1 => "/v1/logs?unit=kubelet&lines=1000&follow=true",
        n if n % 2 == 0 => "/v1/audit?follow=true",
        _ => "/v1/audit",
    });
    let all: Vec<_> = targets.map(|target| mute(at, &silent, target)).collect();
    let got = curl(at, Some(&silent), "/v1/audit", &[]);
    assert_eq!((got.status, got.reason().as_str()), (429, "share"), "{got:?}");
    // All are full: something waits to be taken, and nothing of it is.
    let full = || all.iter().map(|(_, from)| held(&edge, at, *from)).collect::<Vec<_>>();
    let mut seen = full();
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = full();
        if now == seen && now.iter().all(|held| held.is_some_and(|bytes| bytes > 0)) {
            break;
        }
        assert!(begun.elapsed() < BOUND / 2, "not full: {now:?}");
        seen = now;
    }
    println!("{} sockets full after {:?}: {seen:?} bytes", seen.len(), begun.elapsed());
    println!("the edge has {} KiB in use, the core {}", resident(&edge), node.resident());
    assert!(resident(&edge) < 64 << 10 && node.resident() < 96 << 10, "what is not taken is not read");

    // The others are served all the time, also with long answers, until the seats are free again.
    let mut served = 0;
    while full().iter().any(Option::is_some) {
        let asked = Instant::now();
        let got = curl(at, Some(&alice), "/v1/health", &[]);
        assert_eq!(got.status, 200, "{got:?}");
        if served % 8 == 0 {
            record();
        }
        served += 1;
        assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
        assert!(begun.elapsed() < 3 * BOUND, "not cut off after {:?}: {:?}", begun.elapsed(), full());
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("cut off after {:?}; {served} calls of somebody else meanwhile", begun.elapsed());
    assert!(begun.elapsed() > BOUND - Duration::from_secs(1), "it has as long as it was promised");
    assert!(served > 10, "{served}");
    let end = Instant::now() + Duration::from_secs(20);
    while curl(at, Some(&silent), "/v1/audit?after=1", &["--output", "/dev/null"]).status != 200
        || (open_files(&edge), node.open_files()) != before
    {
        let now = (open_files(&edge), node.open_files());
        assert!(Instant::now() < end, "seats or descriptors are kept: {now:?}, {before:?} before");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(all);
}
