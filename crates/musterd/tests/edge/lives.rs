//! Cores that come and go, and what is served with changes.

use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use muster_needs::require;

use crate::client::{connect, curl, exchange, over, read_until, tools};
use crate::core::{Core, loopback, serve};
use crate::process::{Edge, address};
use crate::streams::{follower, goes_on};

const HEALTH: &[u8] = b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n";

#[test]
fn an_edge_waits_for_its_core_and_outlives_it() {
    require!(tools());
    let core = Core::start(true);
    core.crash();
    let edge = Edge::start(&core);
    edge.line("no core at");
    core.listen();
    let (at, alice) = (edge.address(), core.client("alice"));
    let mut kept = connect(at, Some(&alice), "http/1.1");
    assert!(exchange(&mut kept, HEALTH, "}").starts_with("HTTP/1.1 200"));

    core.crash();
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let said = exchange(&mut kept, HEALTH, "}");
        if said.starts_with("HTTP/1.1 503") {
            assert!(said.contains("core-away") && said.contains("retry-after"), "{said}");
            break;
        }
        assert!(Instant::now() < end, "{said}");
    }
    let got = curl(at, Some(&alice), "/v1/health", &[]);
    assert_eq!((got.status, got.reason().as_str()), (503, "core-away"));

    // The new core knows no handle of the old one: the same connection is shown to it with the same evidence.
    core.listen();
    core.wait_for("link", 2);
    let opened = core.events().iter().filter(|e| e.starts_with("open")).count();
    assert!(exchange(&mut kept, HEALTH, "}").starts_with("HTTP/1.1 200"));
    core.wait_for("open alice", opened + 1);
}

#[test]
fn what_is_served_with_changes_and_no_stream_ends() {
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let shown = |at| {
        let stream = connect(at, Some(&alice), "http/1.1");
        stream.conn.peer_certificates().expect("a server")[0].to_vec()
    };
    let before = shown(at);
    let mut stream = follower(at, &alice);
    assert_eq!(before, core.serve_now().certificate);

    core.reload(serve(Some(&core.authority), loopback()));
    let end = Instant::now() + Duration::from_secs(10);
    while shown(at) != core.serve_now().certificate {
        assert!(Instant::now() < end, "the old certificate is still shown");
    }
    goes_on(&mut stream);

    // Another address: nobody listens at the old one, and who is inside stays.
    core.reload(serve(Some(&core.authority), "127.0.0.2:0".parse().unwrap()));
    let new = address(&edge.nth_line("listening at", 1));
    assert_eq!(shown(new), core.serve_now().certificate);
    assert!(TcpStream::connect(at).is_err());
    goes_on(&mut stream);
}

#[test]
fn a_node_that_is_claimed_asks_for_certificates_at_once() {
    require!(tools());
    let core = Core::start(false);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let mut stranger = connect(at, None, "http/1.1");
    assert!(exchange(&mut stranger, HEALTH, "}").contains("unclaimed"));
    let mut next = core.serve_now();
    next.authority = serve(Some(&core.authority), loopback()).authority;
    core.reload(next);
    // Its connection ends, and the next one is refused.
    assert!(!read_until(&mut stranger, "").contains("200"));
    assert_eq!(curl(at, None, "/v1/enroll", &["-d", "{}"]).status, 0);
    assert_eq!(curl(at, Some(&alice), "/v1/health", &[]).status, 200);
}

#[test]
fn an_edge_that_is_told_to_end_finishes_what_it_does() {
    require!(tools());
    let core = Core::start(true);
    let mut edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let files = alice.clone();
    let busy = std::thread::spawn(move || curl(at, Some(&files), "/v1/lifecycle/drain", &["-d", "{}"]));
    core.wait_for("call POST /v1/lifecycle/drain", 1);
    let told = Command::new("kill").arg(edge.child.id().to_string()).status().expect("kill");
    assert!(told.success());
    let got = busy.join().expect("curl");
    assert_eq!((got.status, got.json()["status"].as_str()), (200, Some("drained")), "{got:?}");
    assert!(edge.child.wait().expect("an end").success());
    assert!(TcpStream::connect(at).is_err());
}

/// Two who claim at once: the one who is too late hears it from the core, wherever the change of owner met him.
#[test]
fn s18_who_was_coming_to_claim_when_another_did_still_gets_an_answer() {
    let core = Core::start(false);
    let edge = Edge::start(&core);
    let at = edge.address();
    let claims = b"POST /v1/enroll HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";
    let mut between = connect(at, None, "http/1.1");
    assert!(exchange(&mut between, claims, "}").contains("enrolled"));
    // Before the first byte of its handshake; the edge has taken it in, as who came later is answered.
    let shaking = TcpStream::connect_timeout(&at, Duration::from_secs(10)).expect("a connection");
    assert!(exchange(&mut between, claims, "}").contains("enrolled"));
    let mut next = core.serve_now();
    next.authority = serve(Some(&core.authority), loopback()).authority;
    // Another address beside it, so that the edge says when it is so far.
    next.listen = "127.0.0.2:0".parse().unwrap();
    core.reload(next);
    edge.line(", claimed");
    assert!(exchange(&mut between, claims, "}").contains("enrolled"), "one request more");
    let mut shaken = over(shaking, None, "http/1.1").expect("the handshake goes on");
    assert!(exchange(&mut shaken, claims, "}").contains("enrolled"));
    core.wait_for("enroll 127.0.0.1", 4);
    for mut stream in [between, shaken] {
        assert_eq!(read_until(&mut stream, ""), "", "and then it ends");
    }
    assert!(TcpStream::connect(at).is_err());
}
