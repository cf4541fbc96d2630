//! Clients of HTTP/2 that open their windows little or not at all (RFC 9113, 5.2 and 6.9), frame by frame.

use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use muster_needs::require;
use musterd::edge::Limits;

use crate::client::{Files, Stream, connect, curl, tools};
use crate::core::Core;
use crate::process::{Edge, inside};

/// RFC 9113, 4.1.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("short").to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(content);
    bytes
}

/// The preface, with windows of 0 for whatever is answered (6.5.2).
fn preface() -> Vec<u8> {
    [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])].concat()
}

/// A GET, its head in the plainest coding (RFC 7541, 6.1 and 6.2.2).
fn get(stream: u32, path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x87, 0x01, 1, b'x', 0x04, u8::try_from(path.len()).expect("short")];
    block.extend_from_slice(path.as_bytes());
    frame(1, 5, stream, &block)
}

/// 6.9.
fn window(stream: u32, more: u32) -> Vec<u8> {
    frame(8, 0, stream, &more.to_be_bytes())
}

/// A client that asks so many times and takes nothing.
fn takes_nothing(at: SocketAddr, files: &Files, path: &str, times: u32) -> Stream {
    let mut stream = connect(at, Some(files), "h2");
    let asked: Vec<u8> = (0..times).flat_map(|n| get(2 * n + 1, path)).collect();
    stream.write_all(&[preface(), asked].concat()).expect("sent");
    stream.flush().expect("sent");
    stream
}

/// When it was closed, without another byte from here.
fn closed_after(mut stream: Stream, begun: Instant, longest: Duration) -> Duration {
    stream.sock.set_read_timeout(Some(longest)).expect("a socket");
    let mut some = [0; 4096];
    loop {
        match stream.read(&mut some) {
            Ok(n) if n > 0 => assert!(begun.elapsed() < longest, "it is still open"),
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => panic!("it is still open"),
            _ => return begun.elapsed(),
        }
    }
}

fn patience(of: Duration) -> Limits {
    Limits { write: of, ..Limits::default() }
}

/// With the limits that it has: no call of another client waits for those who take nothing, and these are gone after 30 seconds.
#[test]
fn s17_four_clients_that_take_nothing_of_64_answers_each_keep_nobody_out() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let begun = Instant::now();
    let lazy: Vec<Stream> =
        (0..4).map(|n| takes_nothing(at, &core.client(&format!("lazy{n}")), "/v1/node", 64)).collect();
    core.wait_for("call GET /v1/node", 256);
    // All are answered by the core, and the edge has had the time to read that.
    std::thread::sleep(Duration::from_millis(500));
    for _ in 0..5 {
        for flag in ["--http1.1", "--http2"] {
            let got = curl(at, Some(&alice), "/v1/health", &[flag]);
            assert_eq!(got.status, 200, "{got:?}");
        }
    }
    for stream in lazy {
        let after = closed_after(stream, begun, Duration::from_secs(50));
        assert!(after > Duration::from_secs(25), "{after:?}");
    }
    core.wait_for("close lazy0", 1);
    assert_eq!(curl(at, Some(&core.client("lazy0")), "/v1/health", &[]).status, 200, "its share came back");
}

#[test]
fn s17_a_client_that_takes_a_byte_now_and_then_is_gone_too_and_has_its_share_until_then() {
    require!(tools());
    let core = Core::start(true);
    let alice = core.client("alice");
    let at = inside(&core, patience(Duration::from_secs(5)));
    let mut stream = takes_nothing(at, &alice, "/v1/node", 64);
    core.wait_for("call GET /v1/node", 64);
    let got = curl(at, Some(&alice), "/v1/health", &[]);
    assert_eq!((got.status, got.reason().as_str()), (429, "share"), "{got:?}");
    let begun = Instant::now();
    let mut n = 0;
    // A byte of each answer: what there is of room in them is used up, and more is there each time.
    while stream.write_all(&window(2 * (n % 64) + 1, 1)).and_then(|()| stream.flush()).is_ok() {
        n += 1;
        assert!(begun.elapsed() < Duration::from_secs(30), "it is still open");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(curl(at, Some(&alice), "/v1/health", &[]).status, 200);
}

/// The core is done with it long before.
#[test]
fn a_stream_that_has_ended_is_not_kept_for_a_client_that_takes_nothing() {
    let core = Core::start(true);
    let alice = core.client("alice");
    let at = inside(&core, patience(Duration::from_secs(1)));
    let begun = Instant::now();
    let stream = takes_nothing(at, &alice, "/v1/logs?unit=short", 1);
    core.wait_for("gone short", 1);
    closed_after(stream, begun, Duration::from_secs(20));
    core.wait_for("close alice", 1);
}

/// 1 KiB at a time is slow, and a piece of 32 KiB takes twice the patience; it is progress all the same.
#[test]
fn a_client_that_takes_slowly_is_served_on() {
    let core = Core::start(true);
    let alice = core.client("alice");
    let at = inside(&core, patience(Duration::from_secs(3)));
    let mut stream = takes_nothing(at, &alice, "/v1/logs?unit=flood&follow=true", 1);
    core.wait_for("call GET /v1/logs", 1);
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(10) {
        stream.write_all(&window(1, 1024)).and_then(|()| stream.flush()).expect("it goes on");
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(!core.events().iter().any(|e| e == "gone flood"), "{:?}", core.events());
    drop(stream);
    core.wait_for("gone flood", 1);
}

#[test]
fn a_head_has_64_lines_in_both_versions() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    // What curl says by itself is host (in HTTP/1.1 a line), user-agent and accept.
    for (flag, its_own) in [("--http1.1", 3), ("--http2", 2)] {
        for (lines, status) in [(64, 200), (65, 431)] {
            let lines: Vec<String> = (its_own..lines).map(|n| format!("x-{n}: y")).collect();
            let more: Vec<&str> = lines.iter().flat_map(|l| ["-H", l]).collect();
            let got = curl(at, Some(&alice), "/v1/health", &[&[flag], more.as_slice()].concat());
            assert_eq!(got.status, status, "{flag}, {} lines: {got:?}", lines.len() + its_own);
        }
    }
    core.wait_for("refused Head", 2);
    let calls = core.events().iter().filter(|e| *e == "call GET /v1/health").count();
    assert_eq!(calls, 2, "the core saw what is short, and nothing else");
}
