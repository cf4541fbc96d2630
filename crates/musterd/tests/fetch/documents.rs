//! `muster.config=https://…` on the kernel's command line.

use std::net::SocketAddr;

use crate::server::{Answer, Server, Signer, ok, status};
use crate::support::{Node, authority, until};

const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// A node whose kernel names a document at this server.
fn pair(says: impl Fn(usize) -> Answer + Send + Sync + 'static) -> (Node, Server) {
    let signer = Signer::new("pki");
    let node = Node::new();
    node.put("/etc/muster/fetch-ca.pem", &signer.pem(), 0o644);
    let server = Server::start(HERE, signer.shown(&["127.0.0.1"], (2020, 2040)), says);
    let line = format!(
        "root=/dev/vda \"muster.config=https://127.0.0.1:{}/n.yaml?key=CANARY\" quiet\n",
        server.at.port()
    );
    node.put("/proc/cmdline", &line, 0o644);
    (node, server)
}

/// It names this authority and what to build.
fn describes(pem: &str) -> String {
    format!("role: init\napi: {{operatorCA: \"{}\"}}\n", pem.replace('\n', "\\n"))
}

#[test]
fn a_document_by_url_is_asked_for_once_a_boot_and_read_by_all() {
    let pem = authority("ops");
    let document = describes(&pem);
    let other = describes(&authority("another")).replace("init", "worker");
    let (mut node, server) = pair(move |nth| if nth == 0 { ok(&document) } else { ok(&other) });
    assert_eq!(node.owned(), pem);
    // The core again, and the bootstrap: what was there at the first look.
    node.go();
    until("it serves", || node.at("/run/muster/edge/core.sock").exists().then_some(()));
    node.kill();
    let built = node.bootstrap();
    assert!(built.contains("built as init"), "{built}");
    assert_eq!(server.connected(), 1);
    assert!(server.heads()[0].starts_with("GET /n.yaml?key=CANARY "));
    // The next boot asks anew; its owner stays.
    node.reboot();
    node.go();
    until("it serves", || node.at("/run/muster/edge/core.sock").exists().then_some(()));
    assert_eq!((node.owned_by(), server.connected()), (pem, 2));
    assert!(!node.log().contains("CANARY"), "{}", node.log());
}

#[test]
fn a_document_that_does_not_come_ends_the_search() {
    let stands_behind = describes(&authority("whoever made the image"));
    for (answer, word) in [
        (status(404, ""), "it answered 404"),
        (status(503, ""), "it answered 503"),
        (ok("role: [CANARY\n"), "n.yaml"),
        (ok("role: init\nCANARY: x\n"), "n.yaml"),
        (ok(&format!("# {}\n", "x".repeat(1 << 20))), "more than is taken"),
    ] {
        let (mut node, server) = pair(move |_| answer.clone());
        std::fs::create_dir_all(node.at("/usr/share/muster")).unwrap();
        node.put("/usr/share/muster/config.yaml", &stands_behind, 0o644);
        let said = node.refused();
        assert!(said.contains(word) && !said.contains("key="), "{word}: {said}");
        // What will not do is not kept: the next start asks again, and so does the next boot.
        node.refused();
        assert_eq!(server.connected(), 2, "{said}");
        let built = node.bootstrap();
        assert!(built.contains("was not fetched in this boot"), "{built}");
    }
}

#[test]
fn an_empty_document_is_none_and_one_of_the_longest_length_is_taken() {
    let pem = authority("whoever made the image");
    let (mut node, _server) = pair(|_| ok("# nothing\n"));
    std::fs::create_dir_all(node.at("/usr/share/muster")).unwrap();
    node.put("/usr/share/muster/config.yaml", &describes(&pem), 0o644);
    assert_eq!(node.owned(), pem);
    let pem = authority("ops");
    let text = describes(&pem);
    let text = format!("{text}{}\n", "#".repeat((1 << 20) - text.len() - 1));
    let (mut node, _server) = pair(move |_| ok(&text));
    assert_eq!(node.owned(), pem);
}

#[test]
fn a_source_before_it_leaves_the_server_alone() {
    let pem = authority("ops");
    let (mut node, server) = pair(|_| ok("role: init\n"));
    node.document(&describes(&pem));
    assert_eq!(node.owned(), pem);
    assert_eq!(server.connected(), 0);
}

#[test]
fn a_node_with_an_owner_keeps_him_when_its_document_does_not_come() {
    let pem = authority("ops");
    let document = describes(&pem);
    let (mut node, _server) = pair(move |nth| if nth == 0 { ok(&document) } else { Answer::Cut(Vec::new()) });
    assert_eq!(node.owned(), pem);
    node.reboot();
    node.go();
    until("it says so", || (node.log().contains("demands proofs") || node.ended()).then_some(()));
    assert!(node.log().contains("ended before the answer"), "{}", node.log());
    assert!(!node.ended());
}

#[test]
fn a_document_by_url_can_name_an_authority_by_url() {
    let pem = authority("ops");
    let answer = pem.clone();
    let signer = Signer::new("pki");
    let mut node = Node::new();
    node.put("/etc/muster/fetch-ca.pem", &signer.pem(), 0o644);
    let ca = Server::start(HERE, signer.shown(&["127.0.0.1"], (2020, 2040)), move |_| ok(&answer));
    let text = format!("muster:\n  api: {{operatorCAFrom: {{url: 'https://{}/ca.pem'}}}}\n", ca.at);
    let document = Server::start(HERE, signer.shown(&["127.0.0.1"], (2020, 2040)), move |_| ok(&text));
    node.put("/proc/cmdline", &format!("muster.config=https://{}/\n", document.at), 0o644);
    assert_eq!(node.owned(), pem);
}
