//! M18: no list is a state of its own, one that was taken is required, and its number does not fall.

use super::*;
use crate::core::owner::Revocation;
use muster_core::Operation;

fn owned(node: &Node) -> (Owner, Operators) {
    let operators = operators("ops");
    let pem = operators.pem.replace('\n', "\\n");
    node.document(&format!("role: init\napi: {{operatorCA: \"{pem}\"}}\n"));
    (node.open(), operators)
}

fn number(revocation: &Revocation) -> &str {
    match revocation {
        Revocation::List { number, .. } => number,
        other => panic!("{other:?}"),
    }
}

#[test]
fn m18_without_a_list_the_node_obeys_its_operator() {
    let node = node();
    let (owner, operators) = owned(&node);
    let alice = operators.issue("alice", Role::Admin);
    assert_eq!(owner.revocation(), Revocation::None);
    let client = owner.judge_certificate(&der_of(&alice.certificate)).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((client.name.as_str(), client.role), ("alice", Some(Role::Admin)));
    owner.allows(Operation::Reboot).unwrap_or_else(|e| panic!("{e}"));
    let stranger = super::operators("another one").issue("alice", Role::Admin);
    let refused = owner.judge_certificate(&der_of(&stranger.certificate)).expect_err("another authority's");
    assert_eq!((refused.kind.status(), refused.reason.as_str()), (401, "other-authority"));
}

#[test]
fn m18_a_revoked_client_is_out_at_once_and_after_every_start() {
    let node = node();
    let (owner, operators) = owned(&node);
    let (alice, mallory) = (operators.issue("alice", Role::Admin), operators.issue("mallory", Role::Admin));
    let before = owner.generation();
    let taken =
        owner.take_list(operators.list(&[&mallory], 5, None).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(number(&taken), "05");
    owner.announce();
    assert_eq!(owner.wait_for_change(before, std::time::Duration::from_secs(5)), before + 1);
    for owner in [owner, node.open()] {
        assert_eq!(
            owner.judge_certificate(&der_of(&mallory.certificate)).expect_err("revoked").reason,
            "revoked"
        );
        owner.judge_certificate(&der_of(&alice.certificate)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(number(&owner.revocation()), "05");
        owner.allows(Operation::Reboot).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn m18_the_number_never_falls_and_one_number_is_one_list() {
    let node = node();
    let (owner, operators) = owned(&node);
    let mallory = operators.issue("mallory", Role::Admin);
    let take = |owner: &Owner, list: &str| owner.take_list(list.as_bytes()).map(|r| number(&r).to_owned());
    let five = operators.list(&[&mallory], 5, None);
    assert_eq!(take(&owner, &five), Ok("05".to_owned()));
    assert_eq!(take(&owner, &five), Ok("05".to_owned()), "the same one again changes nothing");
    for older in [operators.list(&[], 4, None), operators.list(&[], 5, None)] {
        for owner in [&owner, &node.open()] {
            assert_eq!(take(owner, &older).expect_err("older").reason, "crl-number");
        }
    }
    // A number of more digits is higher, also where it would sort before.
    assert_eq!(take(&owner, &operators.list(&[], 0x0102, None)), Ok("0102".to_owned()));
    assert_eq!(take(&owner, &operators.list(&[], 0x99, None)).expect_err("older").reason, "crl-number");
    let other = super::operators("another").list(&[], 900, None);
    let refused = take(&owner, &other).expect_err("another authority's");
    assert_eq!((refused.kind.status(), refused.reason.as_str()), (400, "bad-crl"));
    assert_eq!(take(&owner, "nonsense").expect_err("no list").reason, "bad-crl");
}

#[test]
fn m18_a_list_that_is_lost_or_damaged_leaves_reads_and_the_next_list() {
    type Damage = (&'static str, fn(&Node));
    let damages: [Damage; 4] = [
        ("the list is gone", |n| fs::remove_file(n.at("/var/lib/muster/api/crl.der")).expect("removed")),
        ("the list is another", |n| fs::write(n.at("/var/lib/muster/api/crl.der"), "x").expect("written")),
        ("the head is damaged", |n| fs::write(n.at("/var/lib/muster/api/crl.json"), "{").expect("written")),
        ("the head is gone", |n| fs::remove_file(n.at("/var/lib/muster/api/crl.json")).expect("removed")),
    ];
    for (what, damage) in damages {
        let node = node();
        let (owner, operators) = owned(&node);
        let list = operators.list(&[], 5, None);
        owner.take_list(list.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        damage(&node);
        let owner = node.open();
        assert!(matches!(owner.revocation(), Revocation::Lost(_)), "{what}: {:?}", owner.revocation());
        for operation in Operation::ALL {
            let may = owner.allows(*operation);
            let reads = operation.row().role == Role::Readonly
                && operation.row().allowed != muster_core::operation::Allowed::Member;
            assert_eq!(may.is_ok(), reads, "{what}: {operation:?}");
        }
        let refused = owner.allows(Operation::Reboot).expect_err("lost");
        assert_eq!((refused.kind.status(), refused.reason.as_str()), (403, "revocation-lost"));
        owner.take_list(list.as_bytes()).unwrap_or_else(|e| panic!("{what}: {e}"));
        owner.allows(Operation::Reboot).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
}

#[test]
fn m18_a_list_with_an_end_lets_only_look_after_it() {
    let node = node();
    let (owner, operators) = owned(&node);
    let mallory = operators.issue("mallory", Role::Admin);
    owner
        .take_list(operators.list(&[&mallory], 1, Some(NOW + 3600)).as_bytes())
        .unwrap_or_else(|e| panic!("{e}"));
    owner.allows(Operation::Reboot).unwrap_or_else(|e| panic!("{e}"));
    node.later(3600);
    let refused = owner.allows(Operation::Reboot).expect_err("ended");
    assert_eq!((refused.kind.status(), refused.reason.as_str()), (403, "revocation-ended"));
    owner.allows(Operation::NodeState).unwrap_or_else(|e| panic!("{e}"));
    owner.allows(Operation::CrlUpload).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(
        owner.judge_certificate(&der_of(&mallory.certificate)).expect_err("still revoked").reason,
        "revoked"
    );
    owner.take_list(operators.list(&[&mallory], 2, None).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    owner.allows(Operation::Reboot).unwrap_or_else(|e| panic!("{e}"));
}

/// A clock that is set back while the node runs: what had ended counts again, and what was revoked does not.
#[test]
fn m18_a_clock_that_jumps_back_lets_nobody_in_who_is_on_the_list_and_takes_no_older_list() {
    let node = node();
    let (owner, operators) = owned(&node);
    let alice = der_of(&operators.issue("alice", Role::Admin).certificate);
    let mallory = operators.issue("mallory", Role::Admin);
    let list = operators.list(&[&mallory], 2, Some(NOW + 3600));
    owner.take_list(list.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    node.later(7200);
    owner.allows(Operation::Reboot).expect_err("ended");
    node.earlier(7000);
    owner.allows(Operation::Reboot).unwrap_or_else(|e| panic!("the list has not ended by this clock: {e}"));
    let out = |der: &[u8]| owner.judge_certificate(der).expect_err("out").reason;
    assert_eq!(out(&der_of(&mallory.certificate)), "revoked");
    let older = operators.list(&[], 1, None);
    assert_eq!(owner.take_list(older.as_bytes()).expect_err("older").reason, "crl-number");
    let years = 20 * 365 * 86400;
    node.earlier(years);
    assert_eq!(out(&alice), "not-yet-valid");
    assert_ne!(out(&der_of(&mallory.certificate)), "");
    node.later(2 * years);
    assert_eq!(out(&alice), "expired");
    node.earlier(years);
    owner.judge_certificate(&alice).unwrap_or_else(|e| panic!("the clock is right again: {e}"));
    assert_eq!(out(&der_of(&mallory.certificate)), "revoked");
}
