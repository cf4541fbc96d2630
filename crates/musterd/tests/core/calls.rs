//! Who may call what, and what is written down of it.

use std::io::Write as _;
use std::time::Duration;

use muster_core::audit::{Head, verify};
use muster_core::{Operation, Role};
use muster_tls::{Lifetime, Revoked};
use musterd::wire::{Ask, Call, Hello, Proof, Reply, ToCore, ToEdge, message, read_message, write_body};

use crate::support::{Node, Operators, handshake, now, send};

/// A request of each operation.
pub fn asks() -> Vec<(Ask, &'static str)> {
    let logs = Ask::Logs { unit: Some("kubelet".into()), lines: Some(1), since: None, follow: false };
    let unit = "kubelet.service".to_owned();
    let fingerprint = format!("SHA256:{}", "A".repeat(43));
    vec![
        (Ask::Health, "GET /v1/health"),
        (Ask::NodeState, "GET /v1/node"),
        (Ask::Services, "GET /v1/services"),
        (logs, "GET /v1/logs?unit=kubelet&lines=1"),
        (Ask::SshKeys, "GET /v1/access/ssh"),
        (Ask::EtcdState, "GET /v1/etcd"),
        (Ask::AuditRead { after: None, follow: false }, "GET /v1/audit"),
        (Ask::ProofNonce, "GET /v1/proof"),
        (Ask::ServiceRestart { unit }, "POST /v1/services/kubelet.service/restart"),
        (Ask::UpgradeStage, "POST /v1/upgrade/stage"),
        (Ask::Cordon, "POST /v1/lifecycle/cordon"),
        (Ask::Uncordon, "POST /v1/lifecycle/cordon?undo=true"),
        (Ask::Drain, "POST /v1/lifecycle/drain"),
        (Ask::UpgradeApply, "POST /v1/upgrade/apply"),
        (Ask::UpgradeRollback { drop_staged: false }, "POST /v1/upgrade/rollback"),
        (Ask::Reboot, "POST /v1/lifecycle/reboot"),
        (Ask::Shutdown, "POST /v1/lifecycle/shutdown"),
        (Ask::Reset, "POST /v1/lifecycle/reset"),
        (Ask::ConfigApply, "POST /v1/config"),
        (Ask::CaRotate, "POST /v1/ca/rotate"),
        (Ask::CrlUpload, "PUT /v1/ca/crl"),
        (Ask::Kubeconfig { server: None }, "GET /v1/kubeconfig"),
        (Ask::JoinToken { role: None, expiry: None }, "GET /v1/join-token"),
        (Ask::SshKeyAdd, "POST /v1/access/ssh"),
        (
            Ask::SshKeyRemove { fingerprint },
            "DELETE /v1/access/ssh?fingerprint=SHA256:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        ),
    ]
}

#[test]
fn m15_a_client_that_the_core_judged_is_answered() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    assert!(edge.serve.authority.is_some() && !edge.serve.certificate.is_empty());
    let handle = edge.open(&operators.proof("alice", Role::Readonly, 2));
    assert!(handle.len() == 32 && handle.bytes().all(|b| b.is_ascii_hexdigit()), "{handle}");
    let got = edge.health(&handle).unwrap();
    assert_eq!((got.reply.status, got.json()["role"].as_str()), (200, Some("muster:readonly")), "{got:?}");
    let head: Head = got.reply.audit.unwrap().parse().unwrap();
    let call = &node.records(&["\"op\":\"health\""])[0];
    assert_eq!(call["decision"], "allowed");
    assert_eq!(call["who"]["name"], "alice");
    assert_eq!(call["who"]["role"], "muster:readonly");
    assert!(call["who"]["certificate"].as_str().unwrap().starts_with("SHA256:"));
    assert!(!call["who"]["serial"].as_str().unwrap().is_empty());
    assert_eq!(call["claimedByEdge"], "192.0.2.7");
    assert_eq!(call["request"], "GET /v1/health");
    assert_eq!(call["status"], 200);
    verify(node.chain().as_bytes(), None, &[head]).unwrap();
}

#[test]
fn m15_evidence_that_proves_nothing_gives_no_handle_and_is_written_down() {
    let (operators, strangers) = (Operators::new(1), Operators::new(8));
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let good = operators.proof("alice", Role::Admin, 2);
    let other = operators.proof("bob", Role::Readonly, 3);
    // A public certificate without its key: the whole of another client's handshake, or its signature.
    let borrowed = Proof { certificate: good.certificate.clone(), ..other.clone() };
    let mixed = Proof { signature: other.signature.clone(), ..good.clone() };
    let changed = Proof { message: [good.message.as_slice(), b"x"].concat(), ..good.clone() };
    let ended = operators.authority.issue("late", Role::Admin, Lifetime { secs: 1 }, now(), [5; 16]).unwrap();
    let ended = handshake(&ended.certificate, &ended.key);
    std::thread::sleep(Duration::from_secs(3));
    let long = Proof { certificate: vec![0x30; 20_000], ..good.clone() };
    let stranger = strangers.proof("alice", Role::Admin, 2);
    for (proof, what) in [
        (&borrowed, "borrowed"),
        (&mixed, "mixed"),
        (&changed, "changed"),
        (&ended, "ended"),
        (&long, "long"),
        (&stranger, "stranger"),
        (&Proof { certificate: Vec::new(), ..good.clone() }, "empty"),
        (&Proof { signature: Vec::new(), ..good.clone() }, "unsigned"),
    ] {
        let refused = edge.try_open(proof).expect_err(what);
        assert_eq!(refused.status, 401, "{what}: {refused:?}");
        assert!(!refused.fault.reason.is_empty() && !refused.fault.error.contains('\n'), "{refused:?}");
    }
    let records = node.records(&["\"event\":\"handshake\"", "\"decision\":\"denied\""]);
    assert_eq!(records.len(), 8);
    assert!(records.iter().all(|r| r["status"] == 401 && r["certificate"].is_string()), "{records:#?}");
    // And the good one is still let in.
    let handle = edge.open(&good);
    assert_eq!(edge.health(&handle).unwrap().reply.status, 200);
}

#[test]
fn m15_every_operation_and_every_role_is_decided_in_the_core() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let (mut seen, mut refused) = (Vec::new(), Vec::new());
    for (n, role) in [Role::Readonly, Role::Operator].into_iter().enumerate() {
        let name = format!("c{n}");
        let handle = edge.open(&operators.proof(&name, role, 10 + n as u8));
        for (ask, request) in asks() {
            let operation = ask.operation();
            seen.push(operation);
            if operation.permits(role) {
                continue;
            }
            let row = operation.row();
            let got = edge.call(&handle, ask, request);
            assert_eq!((got.reply.status, got.reason().as_str()), (403, "role"), "{request} {role}");
            assert_eq!(got.json()["needs"], row.role.organisation());
            assert_eq!(got.json()["held"], role.organisation());
            refused.push((row.name, role.organisation()));
        }
    }
    for (name, role) in refused {
        let op = format!("\"op\":\"{name}\"");
        // Above ten a second they are counted, and the reason is kept.
        let records = node.records(&[&op, "\"decision\":\"denied\"", role]);
        assert_eq!(records[0]["reason"], "role", "{records:#?}");
        // A refusal is one record, and no intent of it is ever written.
        assert!(!node.chain().lines().any(|l| l.contains("\"event\":\"intent\"") && l.contains(&op)));
    }
    assert!(Operation::ALL.iter().all(|o| seen.contains(o)), "every row was asked for");
}

#[test]
fn m15_without_a_role_every_operation_is_refused() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let proof = muster_needs::require!(crate::openssl::client_without_role(&operators));
    let handle = edge.open(&proof);
    for (ask, request) in asks() {
        let got = edge.call(&handle, ask, request);
        assert_eq!((got.reply.status, got.reason().as_str()), (403, "no-role"), "{request}");
    }
}

#[test]
fn s17_a_new_link_ends_the_one_before() {
    use std::io::Read as _;
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut before = node.link();
    let handle = before.open(&operators.proof("alice", Role::Admin, 2));
    let edge = node.link();
    assert_eq!(before.stream.read(&mut [0]).unwrap(), 0, "it is closed");
    assert!(edge.health(&handle).is_none(), "and its clients are nobody's");
}

/// An authority whose client has no role could manage the node no more, and nobody would notice before it was the owner.
#[test]
fn s15_a_proof_without_a_role_makes_nobody_the_owner() {
    let (operators, next) = (Operators::new(1), Operators::new(2));
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let proof = muster_needs::require!(crate::openssl::files_of(&next, "/CN=nobody/O=acme")).certificate;
    let handle = edge.open(&operators.proof("alice", Role::Admin, 3));
    let body = serde_json::json!({ "operatorCA": next.pem, "proof": proof }).to_string();
    let got = edge.call_with(&handle, Ask::CaRotate, "POST /v1/ca/rotate", body.as_bytes(), None);
    assert_eq!((got.reply.status, got.reason().as_str()), (400, "bad-proof"));
    assert!(String::from_utf8_lossy(&got.body).contains("names no role"), "{got:?}");
}

#[test]
fn s17_a_handle_that_is_none_or_not_of_this_link_is_closed_without_an_answer() {
    let operators = Operators::new(1);
    let mut node = Node::owned(&operators);
    let proof = operators.proof("alice", Role::Admin, 2);
    let other = operators.proof("bob", Role::Readonly, 3);
    {
        let mut edge = node.link();
        let handle = edge.open(&proof);
        for bad in ["", "0", &"0".repeat(32), &handle.to_uppercase(), &handle[..31]] {
            let known = bad == handle;
            assert_eq!(edge.health(bad).is_some(), known, "{bad}");
        }
        send(&mut edge.stream, &ToCore::Close { handle: handle.clone() });
        // The next answer on the link comes after it was heard.
        let mine = edge.open(&other);
        assert!(edge.health(&handle).is_none(), "it died with its connection");
        assert_eq!(edge.health(&mine).unwrap().reply.status, 200);
        // Another link takes over, and everything of the first one is over.
        let mut second = node.link();
        assert!(second.health(&mine).is_none(), "handles are of one link");
        assert!(matches!(musterd::wire::read_message::<ToEdge>(&mut edge.stream), Ok(None) | Err(_)));
        let again = second.open(&other);
        assert_ne!(again, mine);
        assert_eq!(second.health(&again).unwrap().reply.status, 200);
        drop(second);
        std::thread::sleep(Duration::from_millis(200));
        assert!(edge.health(&again).is_none(), "without a link there is nobody");
        node.records(&["a handle that there is not", "\"reason\":\"frame\""]);
    }
    // A core that was killed remembers no handle.
    let handle = node.link().open(&proof);
    node.kill();
    node.go();
    assert!(node.link().health(&handle).is_none());
}

#[test]
fn s17_a_request_that_is_not_what_is_asked_for_is_closed() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Admin, 2));
    for request in [
        "",
        "GET",
        "GET /v1/node",
        "POST /v1/health",
        "GET /v1/health?x=1",
        "GET //v1/health",
        "GET /v1/%68ealth",
        "GET /v1/health/",
        "get /v1/health",
        "GET /v1/health\n",
        "GET https://n/v1/health",
    ] {
        assert!(edge.try_call(&handle, Ask::Health, request, b"", None).is_none(), "{request}");
    }
    let unit = |unit: &str| Ask::ServiceRestart { unit: unit.to_owned() };
    let other = "POST /v1/services/containerd.service/restart";
    assert!(edge.try_call(&handle, unit("kubelet.service"), other, b"", None).is_none(), "another unit");
    assert!(edge.try_call(&handle, Ask::Cordon, "POST /v1/lifecycle/cordon?undo=true", b"", None).is_none());
    assert_eq!(edge.health(&handle).unwrap().reply.status, 200);
}

#[test]
fn a_body_is_bounded_and_a_request_without_one_has_none() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Admin, 2));
    let health = |body: &[u8]| {
        let got = edge.call_with(&handle, Ask::Health, "GET /v1/health", body, None);
        (got.reply.status, got.reason())
    };
    assert_eq!(health(b"{}"), (200, String::new()));
    assert_eq!(health(b" {}\n"), (200, String::new()));
    for bad in [b"[]".as_slice(), b"{ }", b"x", &[b' '; 65], &[b'x'; 70_000]] {
        assert_eq!(health(bad), (400, "body".into()), "{}", bad.len());
    }
    let long = vec![b' '; 8 * 1024 + 1];
    let got = edge.call_with(&handle, Ask::SshKeyAdd, "POST /v1/access/ssh", &long, None);
    assert_eq!((got.reply.status, got.reason().as_str()), (413, "too-large"));
    // What was in it is nowhere.
    let secret = b"{\"user\":\"nobody-of-that-name\",\"key\":\"CANARY-9f31\"}";
    let got = edge.call_with(&handle, Ask::SshKeyAdd, "POST /v1/access/ssh", secret, None);
    assert!(got.reply.status >= 400, "{got:?}");
    node.records(&["\"op\":\"ssh-key-add\"", "\"event\":\"outcome\""]);
    assert!(!node.chain().contains("CANARY") && !node.log().contains("CANARY"));
}

#[test]
fn m18_a_revoked_client_is_cut_and_its_handle_is_dead_whatever_the_edge_does() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let mallory = operators.client("mallory", Role::Admin, 3);
    let mallory_proof = handshake(&mallory.certificate, &mallory.key);
    let (alice, bad) = (edge.open(&operators.proof("alice", Role::Readonly, 2)), edge.open(&mallory_proof));
    assert_eq!(edge.health(&bad).unwrap().reply.status, 200);
    let list =
        operators.authority.revoke(&[Revoked { serial: mallory.serial, at: now() }], 1, None, now()).unwrap();
    // Anybody may bring a list: the authority's signature is what counts.
    let got = edge.call_with(&alice, Ask::CrlUpload, "PUT /v1/ca/crl", list.as_bytes(), None);
    assert_eq!(got.reply.status, 200, "{}", String::from_utf8_lossy(&got.body));
    let (mut dropped, mut served) = (Vec::new(), 0);
    while served == 0 {
        match edge.read() {
            ToEdge::Drop { handle } => dropped.push(handle),
            ToEdge::Serve(_) => served += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(dropped, std::slice::from_ref(&bad));
    assert!(edge.health(&bad).is_none(), "the edge did not obey, and it changes nothing");
    assert_eq!(edge.health(&alice).unwrap().reply.status, 200);
    let refused = edge.try_open(&mallory_proof).unwrap_err();
    assert_eq!((refused.status, refused.fault.reason.as_str()), (401, "revoked"));
    node.records(&["\"event\":\"cut\"", "mallory", "\"reason\":\"revoked\""]);
    node.records(&["\"op\":\"crl-upload\"", "\"event\":\"intent\""]);
}

/// An edge that fell holds back the end of a call until its client is revoked.
#[test]
fn m18_what_a_revoked_client_had_asked_for_and_not_sent_whole_is_not_done() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let mallory = operators.client("mallory", Role::Admin, 3);
    let alice = edge.open(&operators.proof("alice", Role::Admin, 2));
    let bad = edge.open(&handshake(&mallory.certificate, &mallory.key));
    let asks = [
        (Ask::Reset, "POST /v1/lifecycle/reset", "{\"confirm\":\"x\"}"),
        (Ask::Reboot, "POST /v1/lifecycle/reboot", ""),
        (Ask::SshKeys, "GET /v1/access/ssh", ""),
    ];
    let begun = asks.map(|(ask, request, body)| {
        let mut stream = node.connect();
        let (handle, request) = (bad.clone(), request.to_owned());
        send(&mut stream, &Hello::Call(Call { handle, ask, request, proof: None }));
        (stream, body)
    });
    // Each of them is let in, and waits for its body.
    std::thread::sleep(Duration::from_millis(500));
    let list =
        operators.authority.revoke(&[Revoked { serial: mallory.serial, at: now() }], 1, None, now()).unwrap();
    let got = edge.call_with(&alice, Ask::CrlUpload, "PUT /v1/ca/crl", list.as_bytes(), None);
    assert_eq!(got.reply.status, 200, "{got:?}");
    for (mut stream, body) in begun {
        let mut bytes = Vec::new();
        write_body(&mut bytes, body.as_bytes()).unwrap();
        stream.write_all(&bytes).unwrap();
        let reply = read_message::<Reply>(&mut stream).unwrap().unwrap();
        assert_eq!(reply.status, 401, "{reply:?}");
    }
    assert!(!node.called().contains("reboot"), "{}", node.called());
    node.records(&["\"op\":\"reset\"", "\"decision\":\"denied\"", "\"reason\":\"revoked\""]);
}

/// An edge that fell keeps the connection of the upload open; what it learned is in force all the same.
#[test]
fn m18_s15_a_change_of_trust_counts_before_its_own_answer_is_taken() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let mallory = operators.client("mallory", Role::Admin, 3);
    let [alice, second] = [(); 2].map(|()| edge.open(&operators.proof("alice", Role::Admin, 2)));
    let bad = edge.open(&handshake(&mallory.certificate, &mallory.key));
    let held = |handle: &str, ask: Ask, request: &str, body: &[u8]| {
        let mut stream = node.connect();
        let (handle, request) = (handle.to_owned(), request.to_owned());
        let mut bytes = message(&Hello::Call(Call { handle, ask, request, proof: None })).unwrap();
        write_body(&mut bytes, body).unwrap();
        stream.write_all(&bytes).unwrap();
        let reply = read_message::<Reply>(&mut stream).unwrap().unwrap();
        assert_eq!(reply.status, 200);
        stream
    };
    let list =
        operators.authority.revoke(&[Revoked { serial: mallory.serial, at: now() }], 1, None, now()).unwrap();
    let upload = held(&alice, Ask::CrlUpload, "PUT /v1/ca/crl", list.as_bytes());
    assert_ne!(edge.health(&bad).map(|got| got.reply.status), Some(200), "the list was taken");
    drop(upload);
    // The same of an owner that was: neither reads nor a second change of owner.
    let (next, third) = (Operators::new(2), Operators::new(3));
    let rotation = |to: &Operators| {
        let proof = to.client("alice", Role::Admin, 4).certificate;
        serde_json::json!({ "operatorCA": to.pem, "proof": proof }).to_string()
    };
    let rotated = held(&alice, Ask::CaRotate, "POST /v1/ca/rotate", rotation(&next).as_bytes());
    let again =
        edge.try_call(&second, Ask::CaRotate, "POST /v1/ca/rotate", rotation(&third).as_bytes(), None);
    assert_ne!(again.map(|got| got.reply.status), Some(200), "the owner before names no other");
    drop(rotated);
}

#[test]
fn changes_of_one_client_above_ten_a_second_are_refused() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Readonly, 2));
    let all: Vec<_> = (0..60)
        .map(|_| edge.call_with(&handle, Ask::CrlUpload, "PUT /v1/ca/crl", b"no list", None))
        .map(|got| (got.reply.status, got.reply.retry_after))
        .collect();
    assert!(all.iter().any(|(status, retry)| (*status, *retry) == (429, Some(1))), "{all:?}");
    assert_eq!(all[0].0, 400, "{all:?}");
    assert_eq!(edge.health(&handle).unwrap().reply.status, 200, "reads go on");
}

#[test]
fn a_second_core_touches_nothing_of_the_first() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Readonly, 2));
    let second = std::process::Command::new(env!("CARGO_BIN_EXE_musterd"))
        .args(["core", "--edge-uid", "0", "--state-root"])
        .arg(node.root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(said.contains("another `musterd core` runs") && said.lines().count() == 1, "{said}");
    assert_eq!(edge.health(&handle).unwrap().reply.status, 200);
    assert!(node.link().health(&handle).is_none(), "the first one still has its socket");
}
