//! A program of the edge's user, with nothing but that: what it can do, and what not. docs/edge-and-core.md has the same list.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use muster_core::Role;
use musterd::places;
use musterd::wire::{
    Ask, Call, Hello, Kind, Proof, Reply, ToCore, ToEdge, VERSION, frame, message, read_body, read_message,
    write_body,
};
use serde::{Deserialize, Serialize};

use crate::support::{Node, Operators, document, send};

/// A user that owns nothing.
const NOBODY: u32 = 65_534;
/// Set for the program that plays the edge.
const PLAYED: &str = "MUSTER_TEST_EDGE";

/// What a fallen edge has: the folder's name, evidence of clients that connected, and certificates, which are public.
#[derive(Serialize, Deserialize)]
struct Loot {
    root: PathBuf,
    seen: Proof,
    never_seen: Vec<u8>,
    dead_handle: String,
}

#[test]
fn s17_nobody_but_the_edges_user_is_answered_not_even_root() {
    muster_needs::require!(muster_needs::root());
    let operators = Operators::new(1);
    let mut node = Node::with_document(&document(&operators, ""));
    node.edge_uid = NOBODY;
    node.go();
    let mut stream = node.connect();
    let _ = stream.write_all(&message(&Hello::Link { version: VERSION }).unwrap());
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    assert_eq!(said, b"");
    let mode = fs::metadata(node.socket()).unwrap();
    assert_eq!(mode.permissions().mode() & 0o7777, 0o600);
    // The record is root's; the test reads it from the disk.
    let records = node.records(&["\"event\":\"socket\"", "\"reason\":\"peer\""]);
    assert!(records[0]["detail"].as_str().unwrap().contains("user 0"), "{records:#?}");
}

#[test]
fn s17_a_program_of_the_edges_user_can_do_only_what_is_documented() {
    if let Ok(loot) = std::env::var(PLAYED) {
        return play(&serde_json::from_str(&fs::read_to_string(loot).unwrap()).unwrap());
    }
    muster_needs::require!(muster_needs::root());
    let operators = Operators::new(1);
    let mut node = Node::with_document(&document(&operators, ""));
    node.edge_uid = NOBODY;
    node.go();
    let admin = operators.client("root-of-all", Role::Admin, 9);
    let pem = rustls_pki_types::pem::PemObject::from_pem_slice(admin.certificate.as_bytes());
    let never_seen: rustls_pki_types::CertificateDer<'_> = pem.unwrap();
    let loot = Loot {
        root: node.root().to_owned(),
        seen: operators.proof("alice", Role::Operator, 2),
        never_seen: never_seen.to_vec(),
        dead_handle: "0123456789abcdef".repeat(2),
    };
    // A copy that others may run, whatever the umask of the build was.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = place.path().join("edge");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let note = place.path().join("loot");
    fs::write(&note, serde_json::to_string(&loot).unwrap()).unwrap();
    fs::set_permissions(&note, fs::Permissions::from_mode(0o644)).unwrap();
    let before = node.resident();
    let done = Command::new(&program)
        .args([
            "--exact",
            "edge_uid::s17_a_program_of_the_edges_user_can_do_only_what_is_documented",
            "--nocapture",
        ])
        .env(PLAYED, &note)
        .current_dir("/")
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    assert!(node.alive());
    assert!(node.resident() < 64 * 1024, "{before} KiB before, {} after", node.resident());
    // It left its traces.
    for like in [
        ["\"event\":\"socket\"", "\"reason\":\"frame\""],
        ["\"event\":\"handshake\"", "\"reason\":\"not-the-holder\""],
        ["\"event\":\"enroll\"", "\"reason\":\"claimed\""],
    ] {
        node.records(&like);
    }
}

struct Play {
    socket: PathBuf,
}

impl Play {
    fn connect(&self) -> UnixStream {
        UnixStream::connect(&self.socket).unwrap()
    }

    fn link(&self) -> UnixStream {
        let mut stream = self.connect();
        send(&mut stream, &Hello::Link { version: VERSION });
        assert!(matches!(read_message(&mut stream), Ok(Some(ToEdge::Serve(_)))));
        stream
    }

    fn open(link: &mut UnixStream, proof: &Proof) -> Result<String, String> {
        send(link, &ToCore::Open { id: 1, address: "198.51.100.1".into(), proof: proof.clone() });
        match read_message(link).unwrap().unwrap() {
            ToEdge::Opened { handle, .. } => Ok(handle),
            ToEdge::NotOpened { fault, .. } => Err(fault.fault.reason),
            other => panic!("{other:?}"),
        }
    }

    fn ask(&self, first: &[u8]) -> Option<(u16, String)> {
        let mut stream = self.connect();
        let mut bytes = first.to_vec();
        write_body(&mut bytes, b"{}").unwrap();
        let _ = stream.write_all(&bytes);
        let reply = read_message::<Reply>(&mut stream).ok().flatten()?;
        let body = read_body(&mut stream, 1 << 20).ok()?;
        let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
        Some((reply.status, body["reason"].as_str().unwrap_or_default().to_owned()))
    }

    fn call(&self, handle: &str, ask: Ask, request: &str) -> Option<(u16, String)> {
        let (handle, request) = (handle.to_owned(), request.to_owned());
        self.ask(&message(&Hello::Call(Call { handle, ask, request, proof: None })).unwrap())
    }
}

fn play(loot: &Loot) {
    let at = |path: &str| loot.root.join(path.trim_start_matches('/'));
    // No files: neither the key that it was given to serve with, nor the record, nor the other socket.
    for path in ["/var/lib/muster/api/server.key", "/var/lib/muster/audit", places::DOCUMENT] {
        assert_eq!(
            fs::File::open(at(path)).unwrap_err().kind(),
            std::io::ErrorKind::PermissionDenied,
            "{path}"
        );
    }
    assert!(UnixStream::connect(at(places::CONTROL_SOCKET)).is_err());
    let play = Play { socket: at(places::EDGE_SOCKET) };
    let mut link = play.link();
    // Nobody whose key has not signed a handshake: a certificate alone, one with another's signature, one with rubbish.
    let forged = Proof { certificate: loot.never_seen.clone(), ..loot.seen.clone() };
    let rubbish = Proof { signature: vec![0x30; 72], ..forged.clone() };
    for proof in [&forged, &rubbish] {
        assert_eq!(Play::open(&mut link, proof), Err("not-the-holder".to_owned()));
    }
    // Those who connected it can be, in their role and no other.
    let handle = Play::open(&mut link, &loot.seen).unwrap();
    assert_eq!(play.call(&handle, Ask::Health, "GET /v1/health"), Some((200, String::new())));
    let reboot = "POST /v1/lifecycle/reboot";
    assert_eq!(play.call(&handle, Ask::Reboot, reboot), Some((403, "role".to_owned())));
    // Not by saying so.
    for extra in [r#","role":"muster:admin""#, r#","caller":{"role":"admin"}"#] {
        let text = format!(
            r#"{{"is":"call","handle":"{handle}","ask":{{"op":"reboot"}},"request":"{reboot}"{extra}}}"#
        );
        assert_eq!(play.ask(&frame(Kind::Message, text.as_bytes()).unwrap()), None);
    }
    let exec = format!(
        r#"{{"is":"call","handle":"{handle}","ask":{{"op":"exec","argv":["id"]}},"request":"POST /v1/exec"}}"#
    );
    assert_eq!(play.ask(&frame(Kind::Message, exec.as_bytes()).unwrap()), None);
    // Nor by asking for one thing and naming another.
    assert_eq!(play.call(&handle, Ask::Health, reboot), None);
    assert_eq!(play.call(&handle, Ask::Reboot, "GET /v1/health"), None);
    assert_eq!(play.call(&loot.dead_handle, Ask::Health, "GET /v1/health"), None);
    // A node that has an owner gets no other.
    let enroll = message(&Hello::Enroll { address: "198.51.100.1".into() }).unwrap();
    assert_eq!(play.ask(&enroll), Some((409, "claimed".to_owned())));
    // Frames without measure, and connections without number.
    assert_eq!(play.ask(&[1, 0x40, 0, 0, 0]), None);
    let flood: Vec<_> = (0..1000).map_while(|_| UnixStream::connect(&play.socket).ok()).collect();
    assert!(flood.len() > 300);
    drop(flood);
    let until = std::time::Instant::now() + crate::support::SOON;
    while play.call(&handle, Ask::Health, "GET /v1/health").is_none_or(|(status, _)| status != 200) {
        assert!(std::time::Instant::now() < until, "the core did not come back");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // A handle dies with its link; the evidence, which names no node and no moment, makes another one.
    let mut second = play.link();
    assert_eq!(play.call(&handle, Ask::Health, "GET /v1/health"), None);
    assert_ne!(Play::open(&mut second, &loot.seen).unwrap(), handle);
}
