use super::*;
use crate::authority::{Authority, Lifetime, Revoked};
use crate::pem::one_certificate;
use muster_core::Role;

/// 2026-11-30T00:00:00Z
const NOW: UtcTime = UtcTime::from_unix(1_795_996_800);
const DAY: u64 = 86_400;

fn authority(serial: u8) -> Authority {
    Authority::make("operators", Lifetime::AUTHORITY, NOW, [serial; 16]).expect("an authority").0
}

fn client(of: &Authority, name: &str, serial: [u8; 16]) -> (Vec<u8>, String) {
    let issued = of.issue(name, Role::Admin, Lifetime::CLIENT, NOW, serial).expect("a client");
    (one_certificate(&issued.certificate).expect("one").to_vec(), issued.serial)
}

fn judge(of: &Authority) -> Judge {
    Judge::new(of.ca().clone(), None)
}

fn list(of: &Authority, serials: &[&str], number: u64) -> Arc<RevocationList> {
    let all: Vec<Revoked> = serials.iter().map(|s| Revoked { serial: (*s).to_owned(), at: NOW }).collect();
    let text = of.revoke(&all, number, None, NOW).expect("a list");
    Arc::new(RevocationList::read(text.as_bytes(), of.ca()).expect("it is the authority's"))
}

fn remembered(judge: &Judge) -> usize {
    judge.passed().len()
}

#[test]
fn m15_what_is_remembered_is_what_was_judged() {
    let operators = authority(1);
    let (alice, _) = client(&operators, "alice", [7; 16]);
    for list in [None, Some(list(&operators, &[], 1))] {
        let judge = Judge::new(operators.ca().clone(), list.clone());
        let first = judge.verify_client(&alice, NOW);
        assert_eq!(first, operators.ca().verify_client(&alice, list.as_deref(), NOW));
        assert!(first.is_ok());
        for _ in 0..3 {
            assert_eq!(judge.verify_client(&alice, NOW), first);
        }
        assert_eq!(remembered(&judge), 1);
    }
}

#[test]
fn m15_dates_of_a_remembered_certificate_are_judged_each_time() {
    let operators = authority(1);
    let (alice, _) = client(&operators, "alice", [7; 16]);
    let judge = judge(&operators);
    judge.verify_client(&alice, NOW).expect("valid now");
    let end = NOW.unix() + 90 * DAY;
    // The first and the last second, and one beyond each: as a judge that remembers nothing has it.
    for at in [0, NOW.unix() - 3601, NOW.unix() - 3600, NOW.unix(), end, end + 1, u64::from(u32::MAX)] {
        let at = UtcTime::from_unix(at);
        assert_eq!(judge.verify_client(&alice, at), operators.ca().verify_client(&alice, None, at), "{at}");
    }
    assert_eq!(
        judge.verify_client(&alice, UtcTime::from_unix(end + 1)),
        Err(Fault::Ended(UtcTime::from_unix(end)))
    );
    assert!(matches!(
        judge.verify_client(&alice, UtcTime::from_unix(NOW.unix() - DAY)),
        Err(Fault::NotYet(_))
    ));
    assert_eq!(remembered(&judge), 1);
}

#[test]
fn m15_a_refusal_is_not_remembered() {
    let (operators, stranger) = (authority(1), authority(2));
    let (mallory, _) = client(&stranger, "alice", [7; 16]);
    let (alice, _) = client(&operators, "alice", [7; 16]);
    let judge = judge(&operators);
    let early = UtcTime::from_unix(NOW.unix() - DAY);
    assert!(matches!(judge.verify_client(&alice, early), Err(Fault::NotYet(_))));
    // Of the same name and number as one that is remembered, under an authority of the same name.
    judge.verify_client(&alice, NOW).expect("valid now");
    for _ in 0..2 {
        assert!(matches!(judge.verify_client(&mallory, NOW), Err(Fault::OtherIssuer(_))));
    }
    assert_eq!(remembered(&judge), 1);
}

#[test]
fn m15_another_key_under_the_same_name_and_number_is_another_client() {
    let operators = authority(1);
    let (first, serial) = client(&operators, "alice", [7; 16]);
    let (second, same) = client(&operators, "alice", [7; 16]);
    assert_eq!(serial, same);
    assert_ne!(first, second, "each has a key of its own");
    let judge = judge(&operators);
    let one = judge.verify_client(&first, NOW).expect("valid");
    let other = judge.verify_client(&second, NOW).expect("valid");
    assert_ne!(one.fingerprint, other.fingerprint);
    assert_eq!(remembered(&judge), 2);
    // Every byte counts: one with the key of another in it is nobody's.
    for at in (0..first.len()).step_by(7) {
        let mut changed = first.clone();
        changed[at] ^= 1;
        assert_eq!(
            judge.verify_client(&changed, NOW).map_err(|f| f.reason()),
            operators.ca().verify_client(&changed, None, NOW).map_err(|f| f.reason()),
            "byte {at}"
        );
        assert!(judge.verify_client(&changed, NOW).is_err(), "byte {at}");
    }
    assert!(judge.verify_client(&[first.as_slice(), b"x"].concat(), NOW).is_err(), "something behind it");
    assert_eq!(remembered(&judge), 2);
}

#[test]
fn m18_a_revoked_client_is_refused_by_the_judge_of_the_new_list_and_never_remembered() {
    let operators = authority(1);
    let (alice, _) = client(&operators, "alice", [7; 16]);
    let (mallory, revoked) = client(&operators, "mallory", [8; 16]);
    let before = Judge::new(operators.ca().clone(), Some(list(&operators, &[], 1)));
    before.verify_client(&mallory, NOW).expect("not revoked yet");
    let after = Judge::new(operators.ca().clone(), Some(list(&operators, &[&revoked], 2)));
    assert_eq!(remembered(&after), 0, "a new list begins with nothing");
    for _ in 0..2 {
        assert_eq!(after.verify_client(&mallory, NOW), Err(Fault::Revoked));
        after.verify_client(&alice, NOW).expect("not on the list");
    }
    assert_eq!(remembered(&after), 1);
}

#[test]
fn m18_the_list_is_asked_also_for_what_is_remembered() {
    let operators = authority(1);
    let (mallory, revoked) = client(&operators, "mallory", [8; 16]);
    // What must never be, a revoked one among the remembered, is still refused.
    let judge = Judge::new(operators.ca().clone(), Some(list(&operators, &[&revoked], 1)));
    let as_if = operators.ca().verify_client(&mallory, None, NOW).expect("without the list");
    judge.passed().push_back(Passed::of(&mallory, &as_if).expect("remembered"));
    assert_eq!(judge.verify_client(&mallory, NOW), Err(Fault::Revoked));
}

#[test]
fn s15_a_new_authority_knows_nothing_of_the_clients_before() {
    let (old, new) = (authority(1), authority(2));
    assert_eq!(old.ca().name(), new.ca().name());
    let (alice, _) = client(&old, "alice", [7; 16]);
    let before = judge(&old);
    before.verify_client(&alice, NOW).expect("valid");
    let after = judge(&new);
    assert!(matches!(after.verify_client(&alice, NOW), Err(Fault::OtherIssuer(_))));
    assert_eq!(remembered(&after), 0);
}

#[test]
fn m15_what_is_remembered_has_a_bound_and_beyond_it_all_are_judged_as_well() {
    let operators = authority(1);
    let judge = judge(&operators);
    let all: Vec<Vec<u8>> =
        (0..KEPT as u128 + 3).map(|n| client(&operators, "many", (n + 1).to_be_bytes()).0).collect();
    for _ in 0..2 {
        for one in &all {
            assert_eq!(judge.verify_client(one, NOW), operators.ca().verify_client(one, None, NOW));
            assert!(remembered(&judge) <= KEPT);
        }
    }
    assert_eq!(remembered(&judge), KEPT);
}
