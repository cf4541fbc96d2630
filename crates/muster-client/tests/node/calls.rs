//! Calls of a claimed node.

use muster_api::upgrade::StageEvent;
use muster_api::{ProofHeader, proof_text};
use muster_client::testing::{Answers, Operators, Reply, Server, reply};
use muster_client::{Call, Endpoint, Error, Identity, Logs, MAX_LINE, Node, Target, Trust, Turned};
use muster_core::{Operation, Role};
use muster_tls::Fingerprint;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use webpki::EndEntityCert;

const NONCE: &str = "00112233445566778899aabbccddeeff";

fn identity(operators: &Operators) -> Arc<Identity> {
    let (certificate, key) = operators.client(Role::Admin);
    Arc::new(Identity::from_pem(&certificate, &key).expect("an identity"))
}

fn node(server: &Server, pin: Fingerprint, identity: Option<Arc<Identity>>) -> Node {
    let endpoint =
        Endpoint::new(&server.address.ip().to_string(), server.address.port()).expect("an address");
    Node::new(Target { endpoint, trust: Trust::Pinned(pin), identity, connect: Duration::from_secs(5) })
}

/// Answers each call of the list by its path; a nonce where one is asked for.
fn answers(list: &'static [(&'static str, u16, &'static str)]) -> Box<Answers> {
    Box::new(move |seen| {
        if seen.line.starts_with("GET /v1/proof ") {
            return reply(
                200,
                "",
                format!("{{\"nonce\":\"{NONCE}\",\"seconds\":60,\"required\":true}}").as_bytes(),
            );
        }
        let path = seen.line.split(' ').nth(1).unwrap_or_default();
        match list.iter().find(|(p, _, _)| *p == path) {
            Some((_, status, body)) => reply(*status, "content-type: application/json\r\n", body.as_bytes()),
            None => reply(404, "", b"{\"error\":\"nothing\",\"reason\":\"no-route\"}"),
        }
    })
}

#[tokio::test]
async fn a_pinned_node_is_called_over_one_connection_and_its_head_is_kept() {
    let operators = Operators::new(1);
    let head = format!("7:{}", "ab".repeat(32));
    let sent = head.clone();
    let server = Server::start(
        &[operators.authority.ca()],
        Box::new(move |seen| {
            let head = format!("muster-audit: {sent}\r\n");
            match seen.line.as_str() {
                "GET /v1/health HTTP/1.1" => {
                    reply(200, &head, br#"{"status":"ok","role":"muster:admin","new":1}"#)
                }
                "GET /v1/node HTTP/1.1" => reply(200, "", br#"{"bootstrapped":false,"hostname":"edge-1"}"#),
                _ => reply(500, "", b""),
            }
        }),
    )
    .await;
    let node = node(&server, server.fingerprint, Some(identity(&operators)));
    assert_eq!(node.health().await.expect("an answer").role, "muster:admin");
    assert_eq!(node.state().await.expect("an answer").hostname.as_deref(), Some("edge-1"));
    assert_eq!(node.head().map(|h| h.to_string()), Some(head));
    let seen = server.seen();
    assert_eq!(seen.iter().map(|s| s.connection).collect::<Vec<_>>(), [1, 1]);
    assert!(seen[0].header("muster-proof").is_none(), "what only reads needs no proof");
}

#[tokio::test]
async fn another_certificate_than_the_pinned_one_gets_no_request() {
    let operators = Operators::new(1);
    let server = Server::start(&[operators.authority.ca()], answers(&[("/v1/health", 200, "{}")])).await;
    let pinned = Fingerprint::of(b"another");
    for identity in [None, Some(identity(&operators))] {
        match node(&server, pinned, identity).health().await.expect_err("another certificate") {
            Error::OtherCertificate { shown, pinned: wanted, .. } => {
                assert_eq!((shown, wanted), (server.fingerprint, pinned));
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(server.seen().len(), 0);
}

#[tokio::test]
async fn who_is_not_let_in_learns_why() {
    let operators = Operators::new(1);
    let others = Operators::new(2);
    let server = Server::start(&[operators.authority.ca()], answers(&[])).await;
    for (identity, wanted) in
        [(None, Turned::NoCertificate), (Some(identity(&others)), Turned::OtherAuthority)]
    {
        let error = node(&server, server.fingerprint, identity).health().await.expect_err("turned away");
        assert!(matches!(&error, Error::TurnedAway { why, .. } if *why == wanted), "{error:?}");
        assert!(!error.may_have_been_done());
    }
}

#[tokio::test]
async fn faults_are_typed_and_answers_are_bounded() {
    let operators = Operators::new(1);
    let server = Server::start(
        &[operators.authority.ca()],
        Box::new(|seen| match seen.line.as_str() {
            "GET /v1/services HTTP/1.1" => reply(403, "", br#"{"error":"no","reason":"no-role","more":[]}"#),
            "GET /v1/health HTTP/1.1" => {
                reply(429, "retry-after: 7\r\n", br#"{"error":"slow","reason":"busy"}"#)
            }
            "GET /v1/node HTTP/1.1" => reply(200, "", &vec![b' '; (1 << 20) + 1]),
            "GET /v1/access/ssh HTTP/1.1" => reply(502, "", b"<html>"),
            _ => reply(200, "", b"[]"),
        }),
    )
    .await;
    let node = node(&server, server.fingerprint, Some(identity(&operators)));
    let error = node.services().await.expect_err("a fault");
    let fault = error.fault().expect("the node's own");
    assert_eq!((fault.reason.as_str(), fault.kind.status()), ("no-role", 403));
    let error = node.health().await.expect_err("a fault");
    assert_eq!(error.fault().and_then(|f| f.retry_after), Some(7));
    let error = node.state().await.expect_err("too long");
    assert!(matches!(error, Error::Answer { .. }), "{error:?}");
    let error = node.ssh_keys().await.expect_err("no fault of ours");
    assert!(matches!(error, Error::Answer { .. }), "{error:?}");
    let error = node.reboot().await.expect_err("a nonce that is none");
    assert!(matches!(error, Error::Answer { .. }), "{error:?}");
}

#[tokio::test]
async fn m15_what_ends_or_hands_over_is_signed_for_this_node_and_this_request() {
    let operators = Operators::new(1);
    let list = &[
        ("/v1/lifecycle/reset", 202, "{\"status\":\"reset\"}"),
        ("/v1/lifecycle/cordon?undo=true", 200, "{\"status\":\"uncordoned\"}"),
    ];
    let server = Server::start(&[operators.authority.ca()], answers(list)).await;
    let (certificate, key) = operators.client(Role::Admin);
    let identity = Arc::new(Identity::from_pem(&certificate, &key).expect("an identity"));
    let node = node(&server, server.fingerprint, Some(identity));
    assert_eq!(node.reset("edge-1").await.expect("an answer").status, "reset");
    assert_eq!(node.uncordon().await.expect("an answer").status, "uncordoned");
    let seen = server.seen();
    let lines: Vec<_> = seen.iter().map(|s| s.line.trim_end_matches(" HTTP/1.1")).collect();
    assert_eq!(lines, ["GET /v1/proof", "POST /v1/lifecycle/reset", "POST /v1/lifecycle/cordon?undo=true"]);
    assert!(seen[2].header("muster-proof").is_none());
    let proof = ProofHeader::parse(seen[1].header("muster-proof").expect("a proof")).expect("a proof");
    assert_eq!((proof.nonce.as_str(), proof.scheme), (NONCE, 0x0403));
    let body: [u8; 32] = Sha256::digest(&seen[1].body).into();
    let der = rustls::pki_types::pem::PemObject::from_pem_slice(certificate.as_bytes()).expect("PEM");
    let client = EndEntityCert::try_from(&der).expect("a certificate");
    let node = Fingerprint::of(&server.certificate);
    let signed = |method: &str, path: &str, node: &Fingerprint| {
        let text = proof_text(&format!("{method} {path}"), &body, node.bytes(), NONCE);
        client.verify_signature(webpki::aws_lc_rs::ECDSA_P256_SHA256, &text, &proof.signature).is_ok()
    };
    assert!(signed("POST", "/v1/lifecycle/reset", &node));
    assert!(!signed("POST", "/v1/lifecycle/reboot", &node));
    assert!(!signed("POST", "/v1/lifecycle/reset", &Fingerprint::of(b"another node")));
}

#[tokio::test]
async fn a_kept_connection_that_the_node_closed_is_made_again_and_a_call_is_sent_once() {
    let operators = Operators::new(1);
    let server = Server::start(
        &[operators.authority.ca()],
        Box::new(|seen| match (seen.line.as_str(), seen.connection) {
            ("GET /v1/health HTTP/1.1", _) => {
                Reply { close: true, ..reply(200, "", br#"{"status":"ok","role":"muster:admin"}"#) }
            }
            // Taken, and no answer: the client cannot know whether it was done.
            ("POST /v1/lifecycle/cordon HTTP/1.1", _) => Reply { bytes: Vec::new(), close: true },
            _ => reply(404, "", b""),
        }),
    )
    .await;
    let node = node(&server, server.fingerprint, Some(identity(&operators)));
    for _ in 0..3 {
        node.health().await.expect("an answer");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let error = node.cordon().await.expect_err("no answer");
    assert!(matches!(error, Error::Lost { .. }) && error.may_have_been_done(), "{error:?}");
    let cordons = server.seen().iter().filter(|s| s.line.contains("cordon")).count();
    assert_eq!(cordons, 1);
}

#[tokio::test]
async fn a_stream_comes_line_by_line_and_one_that_was_cut_is_told() {
    let operators = Operators::new(1);
    let server = Server::start(
        &[operators.authority.ca()],
        Box::new(|seen| {
            let start =
                "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n";
            let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
            let mut bytes = start.to_owned();
            if seen.line.contains("/v1/upgrade/stage") {
                for text in [
                    "{\"progress\":\"lay",
                    "er 1\"}\n{\"other\":1}\nno JSON\n{\"staged\":",
                    "{\"digest\":\"sha256:aa\"}}",
                ] {
                    bytes += &chunk(text);
                }
                bytes += "0\r\n\r\n";
                return Reply { bytes: bytes.into_bytes(), close: false };
            }
            if seen.line.contains("follow=true") {
                bytes += &chunk("{\"time\":\"t\",\"priority\":6,\"message\":\"m\"}\n{\"ti");
                return Reply { bytes: bytes.into_bytes(), close: true };
            }
            bytes += &chunk(&"x".repeat(MAX_LINE + 1));
            Reply { bytes: bytes.into_bytes(), close: true }
        }),
    )
    .await;
    let node = node(&server, server.fingerprint, Some(identity(&operators)));
    let mut stream = node.stage("registry.example/os@sha256:aa").await.expect("a stream");
    let mut events = Vec::new();
    while let Some(event) = stream.next::<StageEvent>().await.expect("whole") {
        events.push(event);
    }
    assert_eq!(events[0], StageEvent::Progress("layer 1".into()));
    assert!(matches!(&events[1], StageEvent::Staged(i) if i.digest.as_deref() == Some("sha256:aa")));
    assert_eq!(events.len(), 2);

    let logs = Logs { unit: Some("kubelet".into()), since: Some(90), follow: true, ..Logs::default() };
    let mut stream = node.logs(&logs).await.expect("a stream");
    assert!(stream.line().await.expect("a line").is_some());
    assert!(matches!(stream.line().await, Err(Error::Lost { .. })));
    let line = server.seen().last().map(|s| s.line.clone());
    assert_eq!(line.as_deref(), Some("GET /v1/logs?unit=kubelet&since=90s&follow=true HTTP/1.1"));

    let mut stream = node.logs(&Logs::default()).await.expect("a stream");
    assert!(matches!(stream.line().await, Err(Error::Answer { .. })));
}

#[tokio::test]
async fn a_revocation_list_goes_under_a_media_type_that_the_api_describes() {
    let operators = Operators::new(1);
    let taken = r#"{"status":"taken","number":"01","revoked":0}"#;
    let server =
        Server::start(&[operators.authority.ca()], Box::new(move |_| reply(200, "", taken.as_bytes()))).await;
    let node = node(&server, server.fingerprint, Some(identity(&operators)));
    for (list, media) in
        [(&b"-----BEGIN X509 CRL-----\n"[..], "text/plain"), (&b"\x30\x82"[..], "application/pkix-crl")]
    {
        node.revocation_list(list).await.expect("taken");
        let seen = server.seen();
        assert_eq!(seen.last().and_then(|s| s.header("content-type")), Some(media));
    }
}

/// Sends a call, and lets the clock run past what it may take once the node has it.
async fn given_up(server: &Server, work: impl Future<Output = Option<Error>>, secs: u64) -> Error {
    let had = server.seen().len();
    let late = async {
        while server.seen().len() == had {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(secs)).await;
        tokio::time::resume();
    };
    let (error, ()) = tokio::join!(work, late);
    error.expect("nobody answers")
}

#[tokio::test]
async fn a_node_that_takes_a_stream_and_says_nothing_is_given_up() {
    let operators = Operators::new(1);
    let server = Server::start(
        &[operators.authority.ca()],
        Box::new(|seen| match seen.line.contains("/v1/logs") {
            // No head at all; or a head, and no line ever.
            true => Reply { bytes: Vec::new(), close: false },
            false => Reply {
                bytes: b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec(),
                close: false,
            },
        }),
    )
    .await;
    let node = node(&server, server.fingerprint, Some(identity(&operators)));
    let hour = u64::from(Operation::Logs.row().deadline);
    let logs = Logs::default();
    let error = given_up(&server, async { node.logs(&logs).await.err() }, hour + 6).await;
    assert!(matches!(error, Error::Deadline { secs, .. } if secs == hour + 5), "{error}");
    let lines = async {
        let mut stream = node.audit(None, true).await.expect("a head");
        stream.line().await.err()
    };
    let error = given_up(&server, lines, hour + 6).await;
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
}

/// What is wrong is the name, and no port or firewall is looked for.
#[tokio::test]
async fn a_name_that_leads_nowhere_is_told_as_that() {
    let target = Target {
        // RFC 2606: never a host.
        endpoint: Endpoint::new("node.invalid", 7443).expect("a name"),
        trust: Trust::Pinned(Fingerprint::of(b"")),
        identity: None,
        connect: Duration::from_secs(30),
    };
    let error = Node::new(target).health().await.expect_err("no such name");
    assert!(matches!(error, Error::NoAddress { .. }), "{error:?}");
    assert!(error.to_string().starts_with("node.invalid:7443 is not found: "), "{error}");
}

#[tokio::test]
async fn nobody_there_and_somebody_else_there() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    let target = |connect| Target {
        endpoint: Endpoint::new("127.0.0.1", address.port()).expect("an address"),
        trust: Trust::Pinned(Fingerprint::of(b"")),
        identity: None,
        connect,
    };
    // It listens and says nothing.
    let error = Node::new(target(Duration::from_millis(200))).health().await.expect_err("silence");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let plain = std::thread::spawn(move || {
        use std::io::Write;
        // The one that the first client left behind, and the second.
        for _ in 0..2 {
            let (mut tcp, _) = free.accept().expect("a client");
            let _ = tcp.write_all(b"SSH-2.0-OpenSSH\r\n");
        }
    });
    let error = Node::new(target(Duration::from_secs(5))).health().await.expect_err("no TLS");
    assert!(matches!(error, Error::NotANode { .. }), "{error:?}");
    plain.join().expect("served");
    let error = Node::new(target(Duration::from_secs(5))).health().await.expect_err("nobody");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let call = Call::new(Operation::ServiceRestart).segment("../x");
    assert!(matches!(Node::new(target(Duration::from_secs(1))).call(&call).await, Err(Error::Call(_))));
}
