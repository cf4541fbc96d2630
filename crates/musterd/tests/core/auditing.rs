//! What is written down, in which order, and what happens when it cannot be.

use std::fs;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::{Duration, Instant};

use muster_core::Role;
use muster_core::audit::{Head, verify};
use musterd::wire::{Ask, Call, Hello, Kind, Reply, frame, message, read, read_message};

use crate::support::{Edge, Node, Operators, SOON, document, send};

const READ: Ask = Ask::AuditRead { after: None, follow: false };

fn head(reply: &Reply) -> Head {
    reply.audit.as_ref().expect("every answer carries one").parse().unwrap()
}

fn apply(edge: &Edge<'_>, handle: &str) -> crate::support::Got {
    edge.call_with(handle, Ask::ConfigApply, "POST /v1/config", b"{\"document\":\"nonsense: [\"}", None)
}

#[test]
fn m19_every_answer_carries_a_head_that_the_chain_has_and_goes_on_having() {
    let operators = Operators::new(1);
    let mut node = Node::owned(&operators);
    let mut heads = Vec::new();
    let proof = operators.proof("alice", Role::Admin, 2);
    for _ in 0..2 {
        let mut edge = node.link();
        let handle = edge.open(&proof);
        for _ in 0..3 {
            heads.push(head(&edge.health(&handle).unwrap().reply));
            heads.push(head(&apply(&edge, &handle).reply));
        }
        let got = edge.call(&handle, READ, "GET /v1/audit");
        assert_eq!((got.reply.status, got.reply.content.as_str()), (200, "application/x-ndjson"));
        // What comes over the API is what is on the disk, and holds by itself.
        let report = verify(&got.body, None, &heads).unwrap();
        assert_eq!((report.first, report.torn), (1, 0));
        assert!(node.chain().as_bytes().starts_with(&got.body));
        let after = report.head.seq - 3;
        let ask = Ask::AuditRead { after: Some(after), follow: false };
        let tail = edge.call(&handle, ask, &format!("GET /v1/audit?after={after}"));
        assert_eq!(verify(&tail.body, None, &heads[heads.len() - 1..]).unwrap().first, after + 1);
        drop(edge);
        // A core that is killed in the middle of it forgets nothing that it handed out.
        node.kill();
        node.go();
    }
    verify(node.chain().as_bytes(), None, &heads).unwrap();
    assert_eq!(node.stop(), Some(0));
    assert!(node.chain().lines().last().unwrap().contains("\"event\":\"stopped\""));
    let text = node.chain();
    let mut cut: Vec<_> = text.lines().collect();
    cut.truncate(heads[2].seq as usize - 1);
    assert!(
        verify(format!("{}\n", cut.join("\n")).as_bytes(), None, &heads).is_err(),
        "a tail that is gone is seen"
    );
}

#[test]
fn m19_killed_at_any_moment_the_record_has_every_head_that_it_gave() {
    let operators = Operators::new(1);
    let proofs: Vec<_> = (0..3).map(|n| operators.proof(&format!("c{n}"), Role::Admin, 30 + n)).collect();
    let mut node = Node::owned(&operators);
    let (mut heads, mut torn) = (Vec::new(), 0);
    for round in 0..16_u64 {
        let mut edge = node.link();
        let handles: Vec<_> = proofs.iter().map(|p| edge.open(p)).collect();
        let end = Instant::now() + Duration::from_millis(20 + 37 * round % 400);
        let pid = node.pid().to_string();
        let edge = &edge;
        let found: Vec<Head> = std::thread::scope(|scope| {
            let callers: Vec<_> = handles
                .iter()
                .map(|handle| {
                    scope.spawn(move || {
                        let body = b"{\"document\":\"nonsense: [\"}";
                        let mut found = Vec::new();
                        // Until the core is gone.
                        while let Ok(mut stream) = std::os::unix::net::UnixStream::connect(edge.node.socket())
                        {
                            let (ask, request) = (Ask::ConfigApply, "POST /v1/config".to_owned());
                            let call = Call { handle: handle.clone(), ask, request, proof: None };
                            let mut bytes = message(&Hello::Call(call)).unwrap();
                            musterd::wire::write_body(&mut bytes, body).unwrap();
                            if stream.write_all(&bytes).is_err() {
                                break;
                            }
                            match read_message::<Reply>(&mut stream) {
                                Ok(Some(reply)) => found.push(head(&reply)),
                                _ => break,
                            }
                        }
                        found
                    })
                })
                .collect();
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            assert!(Command::new("/usr/bin/kill").args(["-KILL", &pid]).status().unwrap().success());
            callers.into_iter().flat_map(|c| c.join().unwrap()).collect()
        });
        heads.extend(found);
        node.kill();
        torn += usize::from(!node.chain().ends_with('\n'));
        node.go();
        verify(node.chain().as_bytes(), None, &heads).unwrap_or_else(|e| panic!("round {round}: {e}"));
    }
    assert!(heads.len() > 50, "{}", heads.len());
    println!("{} heads, {torn} torn tails", heads.len());
}

#[test]
fn m19_an_intent_is_on_the_disk_before_the_act_and_an_outcome_after_it() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Admin, 2));
    // The act itself looks what is on the disk, as a program that the node runs.
    let seen = node.path("/seen");
    let chain = node.path(musterd::places::AUDIT).join("chain-00000000000000000001.jsonl");
    let shown = "printf 'Id=kubelet.service\\nLoadState=loaded\\nActiveState=active\\nSubState=running\\n'";
    let copy = format!("cp {} {}", chain.display(), seen.display());
    let script = format!("case \"$*\" in *' show '*) {shown} ;; *' restart '*) {copy} ;; esac");
    node.program("/usr/bin/systemctl", &script);
    let unit = "kubelet.service".to_owned();
    let got = edge.call(&handle, Ask::ServiceRestart { unit }, "POST /v1/services/kubelet.service/restart");
    assert_eq!(got.reply.status, 200, "{got:?}");
    let text = fs::read_to_string(&seen).unwrap();
    let line = |event: &str, text: &str| -> Option<serde_json::Value> {
        let event = format!("\"event\":\"{event}\"");
        let line = text.lines().find(|l| l.contains(&event) && l.contains("service-restart"))?;
        Some(serde_json::from_str(line).unwrap())
    };
    let intent = line("intent", &text).expect("the intent was there when the service was restarted");
    assert!(line("outcome", &text).is_none(), "and no outcome yet");
    let outcome = line("outcome", &node.chain()).expect("it is there with the answer");
    assert_eq!(intent["call"], outcome["call"]);
    assert_eq!((outcome["status"].as_u64(), outcome["decision"].as_str()), (Some(200), Some("allowed")));
    // What ends the node is asked for when the answer is out, with the outcome on the disk.
    let script = format!("[[ \"$*\" == *reboot* ]] && {copy}.last");
    node.program("/usr/bin/systemctl", &script);
    let got = edge.call(&handle, Ask::Reboot, "POST /v1/lifecycle/reboot");
    assert_eq!(got.reply.status, 202, "{got:?}");
    let until = Instant::now() + SOON;
    let last = node.path("/seen.last");
    while !fs::read_to_string(&last).is_ok_and(|t| t.ends_with('\n')) {
        assert!(Instant::now() < until, "{}", node.called());
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = fs::read_to_string(&last).unwrap();
    assert!(text.lines().any(|l| l.contains("\"event\":\"outcome\"") && l.contains("reboot")), "{text}");
    // One that fails says so, by the same two.
    let got = apply(&edge, &handle);
    assert_eq!(got.reply.status, 400, "{got:?}");
    let failed = node.records(&["\"event\":\"outcome\"", "config-apply"]);
    assert_eq!((failed[0]["decision"].as_str(), failed[0]["status"].as_u64()), (Some("failed"), Some(400)));
    assert_eq!(failed[0]["reason"], got.reason());
}

#[test]
fn m19_a_follower_sees_what_comes_and_ends_with_its_client() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Admin, 2));
    let open = node.open_files();
    let mut stream = node.connect();
    let ask = Ask::AuditRead { after: None, follow: true };
    let request = "GET /v1/audit?follow=true".to_owned();
    send(&mut stream, &Hello::Call(Call { handle: handle.clone(), ask, request, proof: None }));
    stream.write_all(&frame(Kind::End, &[]).unwrap()).unwrap();
    assert_eq!(read_message::<Reply>(&mut stream).unwrap().unwrap().status, 200);
    let mut text = Vec::new();
    let mut until = |what: &str, text: &mut Vec<u8>| {
        while !String::from_utf8_lossy(text).contains(what) {
            match read(&mut stream).unwrap().unwrap() {
                (Kind::Piece, piece) => text.extend(piece),
                other => panic!("{other:?}"),
            }
        }
    };
    until("\"event\":\"started\"", &mut text);
    apply(&edge, &handle);
    until("config-apply", &mut text);
    assert!(verify(&text, None, &[]).is_ok());
    // Nothing is written any more that a write could fail on: it has to look.
    std::thread::sleep(Duration::from_secs(3));
    let head = node.chain().lines().count();
    drop(stream);
    let end = Instant::now() + Duration::from_secs(5);
    while node.open_files() > open {
        assert!(Instant::now() < end, "a follower whose client left goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(node.chain().lines().count(), head);
    // And with its handle: the trust changed, or the connection of the edge's client ended.
    let mut stream = node.connect();
    let ask = Ask::AuditRead { after: None, follow: true };
    let request = "GET /v1/audit?follow=true".to_owned();
    let mut bytes =
        message(&Hello::Call(Call { handle: handle.clone(), ask, request, proof: None })).unwrap();
    bytes.extend(frame(Kind::End, &[]).unwrap());
    stream.write_all(&bytes).unwrap();
    assert_eq!(read_message::<Reply>(&mut stream).unwrap().unwrap().status, 200);
    stream.set_read_timeout(Some(Duration::from_millis(2500))).unwrap();
    while matches!(read(&mut stream), Ok(Some((Kind::Piece, _)))) {}
    stream.set_read_timeout(Some(SOON)).unwrap();
    let quiet = Instant::now();
    send(&mut edge.stream, &musterd::wire::ToCore::Close { handle });
    assert!(!matches!(read(&mut stream), Ok(Some(_))), "cut off, without an end");
    assert!(quiet.elapsed() < Duration::from_secs(5), "{:?}", quiet.elapsed());
}

/// A small disk under the node's state.
struct Disk<'n>(&'n Node);

impl<'n> Disk<'n> {
    fn under(node: &'n Node) -> Result<Self, String> {
        muster_needs::root()?;
        let at = node.path("/var/lib/muster");
        fs::create_dir_all(&at).unwrap();
        let mut mount = Command::new("/usr/bin/mount");
        let done = mount.args(["-t", "tmpfs", "-o", "size=4m,mode=0755", "none"]).arg(&at).output().unwrap();
        let why = String::from_utf8_lossy(&done.stderr).into_owned();
        if done.status.success() { Ok(Self(node)) } else { Err(why) }
    }

    fn fill(&self) {
        let mut file = fs::File::create(self.0.path("/var/lib/muster/filler")).unwrap();
        for size in [64 * 1024, 4096, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("/usr/bin/umount").arg("-l").arg(self.0.path("/var/lib/muster")).status();
    }
}

#[test]
fn s16_on_a_full_disk_reads_go_on_changes_are_refused_and_what_destroys_is_written_down() {
    let operators = Operators::new(1);
    let node = Node::with_document(&document(&operators, ""));
    node.program("/usr/bin/systemctl", "[[ $* != *is-active* ]]");
    fs::create_dir_all(node.path("/proc/sys/kernel")).unwrap();
    fs::write(node.path("/proc/sys/kernel/hostname"), "edge-1\n").unwrap();
    let disk = muster_needs::require!(Disk::under(&node));
    let mut running = Running::start(&node);
    disk.fill();
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Admin, 2));
    // What room was taken in advance for ordinary records is soon used up by them.
    let refused = (0..400).find(|n| {
        std::thread::sleep(Duration::from_millis(if n % 8 == 0 { 1000 } else { 0 }));
        let long = format!("/v1/services/{}.service/restart", "k".repeat(400));
        let ask = Ask::ServiceRestart { unit: format!("{}.service", "k".repeat(400)) };
        let got = edge.call(&handle, ask, &format!("POST {long}"));
        got.reply.status == 500 && got.reason() == "audit"
    });
    assert!(refused.is_some(), "a change was let through without a record");
    assert_eq!(edge.health(&handle).unwrap().reply.status, 200, "reads go on");
    std::thread::sleep(Duration::from_secs(1));
    // The operator's own ways out stay open, to their ends: another authority first, then a reset under that one.
    let next = Operators::new(5);
    let proof = next.client("bob", Role::Admin, 6).certificate;
    let body = serde_json::json!({"operatorCA": next.pem, "proof": proof}).to_string();
    let got = edge.call_with(&handle, Ask::CaRotate, "POST /v1/ca/rotate", body.as_bytes(), None);
    assert_eq!(got.reply.status, 200, "{got:?}");
    disk.fill();
    let mut edge = node.link();
    let handle = edge.open(&next.proof("bob", Role::Admin, 6));
    let got =
        edge.call_with(&handle, Ask::Reset, "POST /v1/lifecycle/reset", b"{\"confirm\":\"edge-1\"}", None);
    assert_eq!(got.reply.status, 202, "{got:?}");
    let until = Instant::now() + Duration::from_secs(20);
    while !node.called().contains("systemctl --no-pager --no-ask-password reboot") {
        assert!(Instant::now() < until, "it does not reboot: {}", node.called());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!node.path("/var/lib/muster/api/operator-ca.pem").exists(), "it has no owner any more");
    for (op, outcome) in [("ca-rotate", "outcome"), ("reset", "intent")] {
        node.records(&[&format!("\"op\":\"{op}\""), &format!("\"event\":\"{outcome}\"")]);
    }
    running.stop();
}

#[test]
fn s16_where_even_that_is_gone_reboot_falls_back_to_the_journal_and_reset_does_not() {
    let operators = Operators::new(1);
    let node = Node::with_document(&document(&operators, ""));
    let disk = muster_needs::require!(Disk::under(&node));
    let mut running = Running::start(&node);
    running.stop();
    fs::create_dir_all(node.path("/run/systemd/journal")).unwrap();
    let journal = UnixDatagram::bind(node.path("/run/systemd/journal/socket")).unwrap();
    journal.set_nonblocking(true).unwrap();
    // No chain and no room for one: nothing was kept free.
    fs::remove_dir_all(node.path(musterd::places::AUDIT)).unwrap();
    fs::create_dir(node.path(musterd::places::AUDIT)).unwrap();
    fs::set_permissions(
        node.path(musterd::places::AUDIT),
        std::os::unix::fs::PermissionsExt::from_mode(0o700),
    )
    .unwrap();
    disk.fill();
    let mut running = Running::start(&node);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Admin, 2));
    let got = edge.call_with(&handle, Ask::Reset, "POST /v1/lifecycle/reset", b"{\"confirm\":\"x\"}", None);
    assert_eq!((got.reply.status, got.reason().as_str()), (500, "audit"), "{got:?}");
    for (ask, request, verb) in [
        (Ask::Reboot, "POST /v1/lifecycle/reboot", "reboot"),
        (Ask::Shutdown, "POST /v1/lifecycle/shutdown", "poweroff"),
    ] {
        let got = edge.call(&handle, ask, request);
        assert_eq!(got.reply.status, 202, "{got:?}");
        let (mut buf, mut found) = ([0; 8192], false);
        while let Ok(n) = journal.recv(&mut buf) {
            let text = String::from_utf8_lossy(&buf[..n]).into_owned();
            found |= text.contains("MUSTER_AUDIT={") && text.contains(request) && text.contains("\"alice\"");
        }
        assert!(found, "{request} left no trace in the journal");
        let until = Instant::now() + SOON;
        while !node.called().contains(verb) {
            assert!(Instant::now() < until, "{}", node.called());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    running.stop();
    drop(disk);
}

/// A core on a node that somebody else holds.
struct Running(std::process::Child);

impl Running {
    fn start(node: &Node) -> Self {
        Self(node.spawn())
    }

    fn stop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

#[test]
fn an_operation_that_takes_longer_than_it_has_is_answered_in_time_and_its_end_is_written_down() {
    let operators = Operators::new(1);
    let node = Node::owned(&operators);
    // Two tools, each within its own time, and together over that of the operation.
    node.program("/usr/bin/bootc", "exit 1");
    let status = r#"{"status":{"booted":{"image":{}},"rollback":{"image":{}}}}"#;
    let script = format!("case \"$*\" in *status*) sleep 16; echo '{status}' ;; *) sleep 18 ;; esac");
    node.program("/usr/bin/systemd-run", &script);
    let mut edge = node.link();
    let handle = edge.open(&operators.proof("alice", Role::Admin, 2));
    let begun = Instant::now();
    let mut stream = node.connect();
    stream.set_read_timeout(Some(Duration::from_secs(40))).unwrap();
    let request = "POST /v1/upgrade/rollback".to_owned();
    let call = Call {
        handle: handle.clone(),
        ask: Ask::UpgradeRollback { drop_staged: false },
        request,
        proof: None,
    };
    send(&mut stream, &Hello::Call(call));
    stream.write_all(&frame(Kind::End, &[]).unwrap()).unwrap();
    let reply = read_message::<Reply>(&mut stream).unwrap().unwrap();
    let body = musterd::wire::read_body(&mut stream, 1 << 16).unwrap();
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(29) && took < Duration::from_secs(33), "{took:?}");
    assert_eq!(reply.status, 500);
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["reason"], "deadline");
    assert_eq!(edge.health(&handle).unwrap().reply.status, 200);
    let in_time = node.records(&["\"event\":\"outcome\"", "\"reason\":\"deadline\""]);
    let late = node.records(&["\"event\":\"outcome\"", "\"reason\":\"late\""]);
    assert_eq!(
        (in_time[0]["call"].clone(), late[0]["decision"].as_str()),
        (late[0]["call"].clone(), Some("allowed"))
    );
}
