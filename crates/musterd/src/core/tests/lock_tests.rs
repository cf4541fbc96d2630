//! Nobody who reads, or is judged, waits for a change; no change waits for the service manager.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use muster_core::machine::Membership;
use muster_core::{Machine, Operation};

use super::*;
use crate::core::disk::Disk;
use crate::core::hold;

/// What nobody waits for takes at least so long here.
const SLOW: Duration = Duration::from_secs(20);
/// And what does not wait for it takes less.
const QUICK: Duration = Duration::from_secs(5);

/// A service manager that answers when [`answer`] says so, or after [`SLOW`].
fn slow(node: &Node) {
    let go = node.at("/go");
    let _ = fs::remove_file(&go);
    node.systemctl(&format!(
        "n=0; while [ ! -e '{}' ] && [ $n -lt 200 ]; do sleep 0.1; n=$((n+1)); done",
        go.display()
    ));
}

fn answer(node: &Node) {
    node.write("/go", "");
}

fn until(what: &str, is: impl FnMut() -> bool) {
    within(QUICK, what, is);
}

fn within(longest: Duration, what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < longest, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Everything that calls of clients, the edge and the service manager read.
fn read(owner: &Owner, client: &Issued) {
    let _ = (owner.serve(), owner.node_fingerprint(), owner.listen(), owner.machine(), owner.status());
    let _ = (owner.ownership(), owner.revocation(), owner.document_fault(), owner.generation());
    let _ = (owner.proof_required(), owner.allows(Operation::Health), owner.trusts());
    let _ = owner.judge_certificate(&der_of(&client.certificate));
    owner.refresh_banner();
}

#[test]
fn s18_a_slow_service_manager_holds_up_nobody_but_the_claim_that_asks_it() {
    let (node, operators) = (node(), operators("ops"));
    node.document(MAINTENANCE);
    let owner = node.open();
    let client = operators.issue("alice", Role::Admin);
    slow(&node);
    let (tell, told) = channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let answer = claim_with(&owner, &node.code(), body(&operators, Some(COMPLETE)), "10.0.0.9");
            tell.send(answer).expect("heard");
        });
        until("the bootstrap is let go", || node.released());
        let begun = Instant::now();
        read(&owner, &client);
        // Owned as soon as it is pinned, to those who are judged and to those who change something.
        assert!(owner.judge_certificate(&der_of(&client.certificate)).is_ok());
        owner.rekey().unwrap_or_else(|e| panic!("{e}"));
        owner.take_list(operators.list(&[], 1, None).as_bytes()).unwrap_or_else(|e| panic!("{e:?}"));
        assert!(begun.elapsed() < QUICK, "{:?}", begun.elapsed());
        // The answer comes last of all.
        assert!(told.try_recv().is_err(), "the bootstrap is let go before the answer");
        answer(&node);
        let done = told.recv_timeout(SLOW).expect("an answer");
        assert_eq!((done.status, done.claimed), (200, true));
        assert_eq!(parse(&done.body)["warnings"], serde_json::json!([]));
    });
}

#[test]
fn s18_a_bootstrap_that_just_begins_holds_up_a_document_and_nobody_who_reads() {
    let (node, operators) = (node(), operators("ops"));
    node.document(&format!("api: {{operatorCA: {:?}}}\n", operators.pem));
    let owner = node.open();
    let client = operators.issue("alice", Role::Admin);
    let disk = Disk::open(&Places::below(node.root())).expect("a disk");
    let held = hold::lock(&disk).expect("free");
    std::thread::scope(|scope| {
        let applies = scope.spawn(|| owner.apply_document(COMPLETE, owner.trusts()));
        // It waits for five seconds; whoever reads meanwhile waits for nothing.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            let one = Instant::now();
            read(&owner, &client);
            assert!(one.elapsed() < Duration::from_secs(1), "{:?}", one.elapsed());
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!applies.is_finished(), "the document waits for the bootstrap");
        drop(held);
        assert_eq!(applies.join().expect("no panic").expect("taken").role, Some("init"));
    });
    assert!(node.released());
}

#[test]
fn s18_what_the_service_manager_is_asked_for_is_what_is_true_then() {
    let (node, operators) = (node(), operators("ops"));
    node.document("role: init\napi: {enabled: true, awaitConfig: true}\n");
    let owner = node.open();
    assert!(node.read("/systemctl.log").contains("muster-parked.target"));
    slow(&node);
    std::thread::scope(|scope| {
        // The claim of a node that then waits for its document is still telling that it waits...
        let claims = scope.spawn(|| claim(&node, &owner, &operators));
        until("it says that it waits", || node.read("/systemctl.log").matches("parked").count() == 2);
        // ...when the document comes.
        let applies = scope.spawn(|| owner.apply_document(COMPLETE, owner.trusts()));
        until("the document counts", || owner.machine().hold() == muster_core::machine::Hold::Released);
        assert!(!node.released(), "one after the other");
        answer(&node);
        assert_eq!(claims.join().expect("no panic").status, 200);
        assert!(applies.join().expect("no panic").expect("taken").released);
    });
    let log = node.read("/systemctl.log");
    assert!(log.trim_end().lines().last().is_some_and(|l| l.contains("muster-claimed.target")), "{log}");
    // A reset that began meanwhile lets nothing go.
    fs::write(node.at("/var/lib/muster/reset.json"), "{}").expect("written");
    assert_eq!(owner.machine().membership(), Membership::Leaving);
    owner.settle().expect("nothing to do");
    assert_eq!(node.read("/systemctl.log"), log);
    assert_ne!(owner.machine(), Machine::UNCLAIMED);
}

/// A call that was let in under one owner, and waited while the node got another one.
#[test]
fn s15_a_document_of_an_owner_that_was_is_not_taken() {
    let (node, old, new) = (node(), operators("ops"), operators("another"));
    node.document(&format!("api: {{operatorCA: {:?}}}\n", old.pem));
    let owner = node.open();
    let judged_by = owner.trusts();
    let disk = Disk::open(&Places::below(node.root())).expect("a disk");
    let held = hold::lock(&disk).expect("free");
    std::thread::scope(|scope| {
        // The rotation waits for a bootstrap that just begins, and the document for the rotation.
        let rotates = scope.spawn(|| owner.set_authority(&new.pem));
        within(SLOW, "the rotation is the first", || owner.is_changing());
        let applies = scope.spawn(|| owner.apply_document(COMPLETE, judged_by));
        std::thread::sleep(Duration::from_millis(300));
        assert!(!rotates.is_finished() && !applies.is_finished());
        drop(held);
        rotates.join().expect("no panic").expect("another owner");
        let refused = applies.join().expect("no panic").expect_err("by nobody who may");
        assert_eq!(refused.reason, "busy");
    });
    assert!(
        !node.released() && !node.read("/etc/muster/config.yaml").contains("role"),
        "nothing of it is there"
    );
    assert!(owner.apply_document(COMPLETE, owner.trusts()).expect("by a client of the owner").released);
}
