//! What a server answers, and what becomes of it.

use std::net::SocketAddr;

use crate::server::{Answer, Server, Signer, ok};
use crate::support::{Node, authority};

const HERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);
const YEARS: (i32, i32) = (2020, 2040);

/// A node that trusts the signer, and a server of his that says this.
fn pair(says: impl Fn(usize) -> Answer + Send + Sync + 'static) -> (Node, Server, String) {
    let signer = Signer::new("pki");
    let node = Node::new();
    node.put("/etc/muster/fetch-ca.pem", &signer.pem(), 0o644);
    let server = Server::start(HERE, signer.shown(&["127.0.0.1", "localhost"], YEARS), says);
    let url = format!("https://127.0.0.1:{}/ca.pem", server.at.port());
    (node, server, url)
}

#[test]
fn an_authority_comes_from_a_url_with_nothing_sent_but_the_question() {
    let pem = authority("ops");
    let answer = pem.clone();
    let (mut node, server, url) = pair(move |_| ok(&answer));
    node.asks(&url, "");
    assert_eq!(node.owned(), pem);
    let heads = server.heads();
    assert_eq!(heads.len(), 1);
    let head = heads[0].to_ascii_lowercase();
    assert!(head.starts_with("get /ca.pem http/1.1\r\n"), "{head}");
    assert!(!head.contains("authorization") && !head.contains("cookie"), "{head}");
    assert!(node.called().ends_with("start --no-ask-password -- muster-fetch.socket\n"), "{}", node.called());
    // By name, and the path that is not there is the root.
    let pem = authority("ops");
    let (mut node, server, _) = pair(move |_| ok(&pem));
    node.asks(&format!("https://localhost:{}?a=b", server.at.port()), "");
    node.owned();
    assert!(server.heads()[0].starts_with("GET /?a=b "), "{:?}", server.heads());
}
