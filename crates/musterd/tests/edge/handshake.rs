//! Who gets in.

use muster_core::Role;
use muster_needs::require;
use muster_tls::{Authority, Lifetime};

use crate::client::{connect, curl, s_client, tools};
use crate::core::{Core, keep, now, serial};
use crate::process::Edge;

#[test]
fn m15_a_client_calls_with_the_evidence_of_its_own_handshake() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    for (version, flag) in [("1.1", "--http1.1"), ("2", "--http2")] {
        let got = curl(at, Some(&alice), "/v1/health", &[flag]);
        assert_eq!((got.status, got.version.as_str()), (200, version), "{got:?}");
        assert_eq!(got.json()["name"], "alice");
        assert!(got.headers.contains("muster-audit: 7:abc"), "{}", got.headers);
        assert!(got.headers.contains("content-type: application/json"));
    }
    core.wait_for("close alice", 2);
    assert_eq!(core.events().iter().filter(|e| *e == "open alice 127.0.0.1").count(), 2);
    let got = curl(at, Some(&alice), "/v1/kubeconfig", &[]);
    assert!(got.headers.contains("cache-control: no-store") && got.headers.contains("nosniff"), "{got:?}");
}

#[test]
fn m15_a_stranger_gets_an_alert_and_the_core_is_told() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let at = edge.address();
    let folder = core.folder.path();
    let (other, _) = Authority::make("operators", Lifetime::AUTHORITY, now(), serial()).expect("another");
    let stranger = other.issue("alice", Role::Admin, Lifetime::CLIENT, now(), serial()).expect("a client");
    let long_ago = muster_core::UtcTime::from_unix(now().unix() - 40 * 86_400);
    let day = Lifetime { secs: 86_400 };
    let expired = core.authority.issue("old", Role::Admin, day, long_ago, serial()).expect("a client");
    for (files, reason) in [
        (None, "no-certificate nothing"),
        (Some(keep(folder, "stranger", &stranger)), "other-authority shown"),
        (Some(keep(folder, "expired", &expired)), "expired shown"),
    ] {
        let got = curl(at, files.as_ref(), "/v1/health", &[]);
        assert_eq!(got.status, 0, "{got:?}");
        assert_ne!(got.exit, 0);
        core.wait_for(&format!("turned-away {reason} 127.0.0.1"), 1);
    }
    let said = s_client(at, &[]);
    assert!(said.contains("certificate required"), "{said}");
    assert!(!core.events().iter().any(|e| e.starts_with("open") || e.starts_with("call")));
}

#[test]
fn m15_no_session_is_resumed_and_nothing_older_than_tls_1_3_is_spoken() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let at = edge.address();
    let (certificate, key) = core.client("alice");
    let files = ["-cert", certificate.to_str().expect("a path"), "-key", key.to_str().expect("a path")];
    let said = s_client(at, &files);
    assert!(said.contains("New, TLSv1.3"), "{said}");
    assert!(!said.contains("Post-Handshake New Session Ticket"), "{said}");
    let old = s_client(at, &[&files[..], &["-tls1_2"]].concat());
    assert!(old.contains("alert protocol version") && old.contains("Cipher is (NONE)"), "{old}");
    // openssl 3.0 knows no key exchange of this kind.
    let stream = connect(at, Some(&(certificate, key)), "h2");
    let group = stream.conn.negotiated_key_exchange_group().expect("a handshake").name();
    assert_eq!(group, rustls::NamedGroup::X25519MLKEM768);
}

#[test]
fn n11_an_unclaimed_node_asks_for_no_certificate_and_hands_one_request_on() {
    require!(tools());
    let core = Core::start(false);
    let edge = Edge::start(&core);
    let at = edge.address();
    let got = curl(at, None, "/v1/enroll", &["--data", "{\"step\":1}"]);
    assert_eq!((got.status, got.json()["bytes"].as_u64()), (200, Some(10)), "{got:?}");
    core.wait_for("enroll 127.0.0.1 10", 1);
    for (method, path) in [
        ("GET", "/v1/enroll"),
        ("GET", "/v1/health"),
        ("GET", "/"),
        ("POST", "//v1/enroll"),
        ("POST", "/v1/enroll?x=1"),
        ("DELETE", "/v1/nothing"),
    ] {
        let got = curl(at, None, path, &["-X", method]);
        assert_eq!((got.status, got.reason().as_str()), (409, "unclaimed"), "{method} {path}");
    }
    assert!(!core.events().iter().any(|e| e.starts_with("call")));
}

#[test]
fn a_client_that_is_revoked_hears_it_once_and_is_cut_off() {
    require!(tools());
    let core = Core::start(true);
    let edge = Edge::start(&core);
    let (at, alice) = (edge.address(), core.client("alice"));
    core.revoke("alice");
    for flag in ["--http1.1", "--http2"] {
        for path in ["/v1/health", "/v1/nothing", "//"] {
            let got = curl(at, Some(&alice), path, &[flag]);
            assert_eq!((got.status, got.reason().as_str()), (401, "revoked"), "{got:?}");
        }
    }
    let mut stream = connect(at, Some(&alice), "http/1.1");
    let said = crate::client::exchange(&mut stream, b"GET /v1/health HTTP/1.1\r\nhost: x\r\n\r\n", "");
    assert!(said.contains("401") && said.contains("connection: close"), "{said}");
    assert!(!core.events().iter().any(|e| e.starts_with("call")));
}
