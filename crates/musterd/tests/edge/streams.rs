//! Answers that come bit by bit.

use std::io::Write as _;
use std::time::Duration;

use muster_needs::require;
use musterd::edge::Limits;

use crate::client::{Files, Stream, connect, curl, exchange, read_until, tools};
use crate::core::Core;
use crate::process::{Edge, inside};

const FOLLOW: &str = "/v1/logs?follow=true&unit=";

fn request(unit: &str) -> String {
    format!("GET {FOLLOW}{unit} HTTP/1.1\r\nhost: x\r\n\r\n")
}

/// A follower whose first line has come.
pub(crate) fn follower(at: std::net::SocketAddr, files: &Files) -> Stream {
    let mut stream = connect(at, Some(files), "http/1.1");
    let said = exchange(&mut stream, request("fed").as_bytes(), "line\"}");
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("application/x-ndjson"), "{said}");
    stream
}

/// That a follower's next lines come.
pub(crate) fn goes_on(stream: &mut Stream) {
    for _ in 0..2 {
        assert!(read_until(stream, "line\"}").contains("line"), "the stream has ended");
    }
}

fn short() -> Limits {
    let half = Duration::from_millis(500);
    Limits { head: half, idle: half, write: Duration::from_secs(1), ..Limits::default() }
}

#[test]
fn a_quiet_follower_outlives_every_limit_on_silence() {
    require!(tools());
    let core = Core::start(true);
    let alice = core.client("alice");
    let at = inside(&core, short());
    for flag in ["--http1.1", "--http2"] {
        let got = curl(at, Some(&alice), &format!("{FOLLOW}quiet"), &[flag]);
        assert_eq!((got.status, got.exit), (200, 0), "{got:?}");
        assert!(got.body.contains("first") && got.body.contains("second"), "{got:?}");
        assert!(got.headers.contains("cache-control: no-store"), "{got:?}");
    }
}

/// A request of HTTP/2 by hand, on a connection that never opens its window again (RFC 9113, 6.5, 6.2; RFC 7541, 6.2.2).
fn h2_request(path: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x87, 0x01, 1, b'x', 0x04];
    block.push(u8::try_from(path.len()).expect("short"));
    block.extend_from_slice(path.as_bytes());
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
    bytes.extend_from_slice(&[0, 0, u8::try_from(block.len()).expect("short"), 1, 5, 0, 0, 0, 1]);
    bytes.extend_from_slice(&block);
    bytes
}

#[test]
fn a_client_that_never_reads_is_cut_off_and_holds_up_nobody() {
    require!(tools());
    use std::io::Write as _;
    let core = Core::start(true);
    let alice = core.client("alice");
    let at = inside(&core, short());
    let mut one = connect(at, Some(&alice), "http/1.1");
    one.write_all(request("flood").as_bytes()).expect("sent");
    let mut two = connect(at, Some(&alice), "h2");
    two.write_all(&h2_request(&format!("{FOLLOW}flood"))).expect("sent");
    two.flush().expect("sent");
    // The kernel's buffers are filled, the window of the other one is used up, and both stay so.
    assert_eq!(curl(at, Some(&alice), "/v1/health", &[]).status, 200);
    core.wait_for("call GET /v1/logs", 2);
    core.wait_for("gone flood", 2);
    core.wait_for("close alice", 3);
}

#[test]
fn an_answer_that_was_cut_off_does_not_look_whole() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    for flag in ["--http1.1", "--http2"] {
        let got = curl(at, Some(&alice), &format!("{FOLLOW}torn"), &[flag]);
        assert!(got.body.contains("first"), "{got:?}");
        assert!(!matches!(got.exit, 0 | 28), "{flag}: {got:?}");
    }
    let got = curl(at, Some(&alice), "/v1/lifecycle/reboot", &["-d", "{}"]);
    assert_eq!((got.status, got.reason().as_str()), (500, "core-lost"));
    // What is no stream is whole, of a bounded length, or nothing.
    for server in ["half", "long"] {
        let got = curl(at, Some(&alice), &format!("/v1/kubeconfig?server={server}"), &[]);
        assert_eq!((got.status, got.reason().as_str()), (500, "core-lost"), "{server}");
    }
}

#[test]
fn m18_a_handle_that_the_core_drops_ends_its_streams_and_no_others() {
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice, bob) = (edge.address(), core.client("alice"), core.client("bob"));
    let (mut of_alice, mut of_bob) = (follower(at, &alice), follower(at, &bob));
    core.cut("alice");
    // To its end, or this waits for ever.
    let rest = read_until(&mut of_alice, "");
    assert!(!rest.ends_with("0\r\n\r\n"), "a stream that was cut off looks whole");
    core.wait_for("gone fed", 1);
    goes_on(&mut of_bob);
}

#[test]
fn a_client_that_leaves_ends_its_call() {
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    drop(follower(at, &alice));
    core.wait_for("gone fed", 1);
    core.wait_for("close alice", 1);
}

#[test]
fn two_hundred_and_fifty_six_followers_and_the_next_one_is_told_to_wait() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let at = edge.address();
    let clients: Vec<Files> = (0..4).map(|n| core.client(&format!("c{n}"))).collect();
    let mut all: Vec<Stream> = (0..256).map(|n| follower(at, &clients[n / 64])).collect();
    let last = core.client("last");
    let got = curl(at, Some(&last), "/v1/health", &[]);
    assert_eq!((got.status, got.reason().as_str()), (503, "busy"), "{got:?}");
    assert!(got.headers.contains("retry-after: 1"), "{got:?}");
    for stream in &mut all {
        goes_on(stream);
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", edge.child.id())).expect("status");
    let high = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("a line");
    let kib: u64 = high.trim().trim_end_matches(" kB").parse().expect("a number");
    println!("peak of 256 followers: {kib} KiB");
    assert!(kib < 96 * 1024, "{kib} KiB");
    drop(all);
    core.wait_for("gone fed", 256);
    assert_eq!(curl(at, Some(&last), "/v1/health", &[]).status, 200);
}

#[test]
fn s17_a_client_has_64_calls_at_once_and_the_next_is_429_while_others_go_on() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice, bob) = (edge.address(), core.client("alice"), core.client("bob"));
    let mut all: Vec<Stream> = (0..64).map(|_| follower(at, &alice)).collect();
    for flag in ["--http1.1", "--http2"] {
        let got = curl(at, Some(&alice), "/v1/health", &[flag]);
        assert_eq!((got.status, got.reason().as_str()), (429, "share"), "{got:?}");
        assert!(got.headers.contains("retry-after: 1") && got.body.contains("64 calls at once"), "{got:?}");
        assert_eq!(curl(at, Some(&bob), "/v1/health", &[flag]).status, 200);
    }
    core.wait_for("refused Share", 2);
    goes_on(&mut all[63]);
    drop(all.pop());
    core.wait_for("gone fed", 1);
    assert_eq!(curl(at, Some(&alice), "/v1/health", &[]).status, 200, "one came back");
}

/// A body that does not come holds room for a minute; one client's do not hold all of it.
#[test]
fn s17_a_client_has_8_mib_of_bodies_on_their_way_and_others_have_room() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice, bob) = (edge.address(), core.client("alice"), core.client("bob"));
    let route = muster_api::ROUTES.iter().find(|r| r.path == "/v1/config").expect("a route");
    let each = route.body.div_ceil(64 * 1024);
    let head = format!("POST /v1/config HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{{", route.body);
    let held: Vec<Stream> = (0..128 / each)
        .map(|_| {
            let mut stream = connect(at, Some(&alice), "http/1.1");
            stream.write_all(head.as_bytes()).expect("sent");
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(300));
    let mut one_more = connect(at, Some(&alice), "http/1.1");
    let said = exchange(&mut one_more, head.as_bytes(), "}");
    assert!(
        said.starts_with("HTTP/1.1 429") && said.contains("\"share\"") && said.contains("8 MiB"),
        "{said}"
    );
    let file = core.folder.path().join("body");
    std::fs::write(&file, vec![b' '; route.body]).expect("a file");
    let body = format!("@{}", file.display());
    let got = curl(at, Some(&bob), "/v1/config", &["--data-binary", &body, "-H", "Expect:"]);
    assert_eq!(got.status, 200, "{got:?}");
    drop(held);
}
