//! Clients that are slow, and clients that are many.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use muster_needs::require;
use musterd::edge::Limits;

use crate::client::{connect, connect_from, curl, exchange, read_until, tools};
use crate::core::Core;
use crate::process::{Edge, inside};

const HALF: Duration = Duration::from_millis(500);

/// That the other end closes it; a test that waits for ever fails.
fn is_closed(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket");
    let mut some = [0; 1024];
    loop {
        match stream.read(&mut some) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) => {
                assert!(!matches!(e.kind(), std::io::ErrorKind::WouldBlock), "it is still open");
                return;
            }
        }
    }
}

#[test]
fn slow_clients_are_let_go() {
    let core = Core::start(true);
    let alice = core.client("alice");
    let limits = Limits { handshake: HALF, head: HALF, body: HALF, idle: HALF, ..Limits::default() };
    let at = inside(&core, limits);
    // A handshake that never begins, and one that never ends.
    is_closed(&mut TcpStream::connect(at).expect("a connection"));
    let mut stream = TcpStream::connect(at).expect("a connection");
    stream.write_all(&[0x16, 0x03, 0x01, 0x02, 0x00]).expect("sent");
    is_closed(&mut stream);
    // A head that never ends, also one that goes on byte by byte.
    let mut stream = connect(at, Some(&alice), "http/1.1");
    stream.write_all(b"GET /v1/health HTTP/1.1\r\nhost: x\r\nx-slow: ").expect("sent");
    for _ in 0..60 {
        std::thread::sleep(Duration::from_millis(50));
        if stream.write_all(b"a").and_then(|()| stream.flush()).is_err() {
            break;
        }
    }
    assert!(!read_until(&mut stream, "").contains("200"));
    // A body that never ends.
    let mut stream = connect(at, Some(&alice), "http/1.1");
    let said = exchange(
        &mut stream,
        b"POST /v1/upgrade/stage HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{",
        "",
    );
    assert!(said.starts_with("HTTP/1.1 408") && said.contains("slow-body"), "{said}");
    // Connections without a request.
    for alpn in ["http/1.1", "h2"] {
        let mut stream = connect(at, Some(&alice), alpn);
        assert!(!read_until(&mut stream, "").contains("200"));
    }
    assert!(!core.events().iter().any(|e| e.starts_with("call")));
}

fn local(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
}

#[test]
fn m17_strangers_are_eight_in_all_and_two_an_address() {
    let core = Core::start(false);
    let edge = Edge::start(&core);
    let at = edge.address();
    let inside = |from: u8| connect_from(local(from), at);
    let mut all = vec![inside(2).expect("the first"), inside(2).expect("the second")];
    assert!(inside(2).is_none(), "the third of one address");
    for from in [3, 3, 4, 4, 5, 5] {
        all.push(inside(from).expect("a seat"));
    }
    // One more address finds a seat, which was the oldest of one that had two; no seat comes from nowhere.
    let mut late = inside(6).expect("a seat");
    let request = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";
    assert!(exchange(&mut late, request, "}").contains("unclaimed"));
    assert!(!read_until(&mut all[0], "").contains("HTTP"));
    for stream in &mut all[1..] {
        assert!(exchange(stream, request, "}").contains("unclaimed"));
    }
}

#[test]
fn a_flood_of_handshakes_keeps_nobody_out() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    let open = |from: u8| -> TcpStream {
        use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
        let fd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
        bind(&fd, &SocketAddr::new(local(from), 0)).expect("an address of loopback");
        connect(&fd, &at).expect("the kernel takes it");
        TcpStream::from(fd)
    };
    let flood: Vec<TcpStream> = (0..400).map(|n| open(2 + (n % 4) as u8)).collect();
    for _ in 0..3 {
        assert_eq!(curl(at, Some(&alice), "/v1/health", &[]).status, 200);
    }
    drop(flood);
}
