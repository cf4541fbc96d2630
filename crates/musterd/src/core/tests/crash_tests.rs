//! `kill -9` after each step: what the next start finds is either the old state or the new one, whole.
//!
//! Each case runs this very test in a process of its own, which ends itself by SIGKILL at the step.
#![allow(clippy::disallowed_methods, reason = "the test starts itself")]

use super::*;
use crate::core::owner::Revocation;
use crate::core::rotation::Rotation;
use crate::core::step::DIES_AT;
use muster_core::machine::Hold;
use std::os::unix::process::ExitStatusExt;

/// Where the child finds its node.
const ROOT: &str = "MUSTER_TEST_ROOT";
const DOCUMENT: &str = "role: init\n";

/// Runs one test of this module as a child that dies at `step`.
pub(super) fn dies(test: &str, node: &Node, step: &str) {
    let out = std::process::Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", &format!("core::tests::{test}"), "--nocapture", "--test-threads=1"])
        .env(ROOT, node.root())
        .env(DIES_AT, step)
        .output()
        .expect("it ran");
    let said = String::from_utf8_lossy(&out.stdout);
    assert_eq!(
        out.status.signal(),
        Some(9),
        "{step} was reached: {said}{}",
        String::from_utf8_lossy(&out.stderr)
    );
}

pub(super) fn child() -> Option<Node> {
    std::env::var_os(ROOT).map(|root| Node::of(Path::new(&root)))
}

fn given(node: &Node, name: &str, text: &str) {
    node.write(&format!("/given/{name}"), text);
}

#[test]
fn s18_killed_at_any_step_of_a_claim() {
    if let Some(node) = child() {
        let owner = node.open();
        let claim = ClaimBody {
            operator_ca: node.read("/given/ca"),
            document: Some(DOCUMENT.to_owned()),
            acknowledge: false,
        };
        let answer = claim_with(&owner, &node.code(), claim, "10.0.0.9");
        panic!("it lives: {answer:?}");
    }
    let operators = operators("ops");
    for (step, claimed) in [
        ("judged", false),
        ("pending", false),
        ("pinned", true),
        ("document", true),
        ("record", true),
        ("finished", true),
        ("session", true),
    ] {
        for reboots in [false, true] {
            let node = node();
            node.document(MAINTENANCE);
            given(&node, "ca", &operators.pem);
            dies("crash_tests::s18_killed_at_any_step_of_a_claim", &node, step);
            assert!(!node.released(), "{step}: nobody was told to build");
            if reboots {
                node.reboot();
            }
            // A claimed node whose document turns the API off is released, as its owner said; else it waits for an owner.
            if !claimed {
                let owner = node.open();
                assert_eq!((owner.authority(), node.released()), (None, false), "{step}");
                assert_eq!(node.read("/etc/muster/config.yaml"), MAINTENANCE, "{step}");
                for trace in ["pending.json", "claim.json"] {
                    assert!(!node.at("/var/lib/muster/api").join(trace).exists(), "{step}: {trace}");
                }
                let answer = claim(&node, &owner, &operators);
                assert_eq!(answer.status, 200, "{step}: the code is as good as before");
                continue;
            }
            // The document of the claim takes its place, and what it says counts.
            match node.opened().unwrap_or_else(|e| panic!("{step}: {e}")) {
                Opened::Wanted(owner) => assert!(owner.authority().is_some(), "{step}"),
                Opened::Ended => panic!("{step}: nobody told it"),
                Opened::NotWanted(why) => assert!(why.contains("API"), "{step}: {why}"),
            }
            assert_eq!(node.read("/etc/muster/config.yaml"), DOCUMENT, "{step}");
            assert_eq!(der_of(&node.read("/var/lib/muster/api/operator-ca.pem")), operators.der(), "{step}");
            assert!(node.read("/var/lib/muster/api/claim.json").contains("pairing-code"), "{step}");
            assert!(!node.has("/var/lib/muster/api/pending.json"), "{step}");
            assert!(node.released(), "{step}");
            assert!(!node.has("/run/issue.d/muster.issue"), "{step}: no code is shown any more");
        }
    }
}

#[test]
fn m16_killed_between_count_and_answer_gives_no_try_back() {
    if let Some(node) = child() {
        let owner = node.open();
        let claim = ClaimBody { operator_ca: node.read("/given/ca"), document: None, acknowledge: false };
        claim_with(&owner, &wrong(&node.code()), claim, "10.0.0.9");
        panic!("it lives");
    }
    let node = node();
    node.document(MAINTENANCE);
    given(&node, "ca", &operators("ops").pem);
    for left in (0..5).rev() {
        dies("crash_tests::m16_killed_between_count_and_answer_gives_no_try_back", &node, "judged");
        let kept: serde_json::Value =
            serde_json::from_str(&node.read("/run/muster/enrolment.json")).expect("JSON");
        assert_eq!(kept["tries"], left);
    }
    let owner = node.open();
    let answer = claim_with(&owner, &node.code(), body(&operators("ops"), None), "10.0.0.9");
    assert_eq!(parse(&answer.body)["reason"], "locked");
}

#[test]
fn s15_killed_at_any_step_of_a_rotation_one_of_the_two_owns_the_node() {
    if let Some(node) = child() {
        let owner = node.open();
        let rotation = Rotation {
            authority: &node.read("/given/ca"),
            proof: &node.read("/given/proof"),
            judged_by: owner.trusts(),
            signature: None,
        };
        panic!("it lives: {:?}", owner.rotate(&rotation).is_ok());
    }
    let (old, new) = (operators("ops"), operators("the next"));
    let bob = new.issue("bob", Role::Admin);
    for (step, rotated) in
        [("pending", false), ("pinned", true), ("document", true), ("record", true), ("finished", true)]
    {
        let node = node();
        let pem = old.pem.replace('\n', "\\n");
        node.document(&format!("role: init\napi: {{operatorCA: \"{pem}\"}}\n"));
        node.open().take_list(old.list(&[], 3, None).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        given(&node, "ca", &new.pem);
        given(&node, "proof", &bob.certificate);
        dies("crash_tests::s15_killed_at_any_step_of_a_rotation_one_of_the_two_owns_the_node", &node, step);
        let owner = node.open();
        let (who, method) = if rotated { (&new, "rotation") } else { (&old, "configuration") };
        assert_eq!(owner.authority().as_ref(), Some(who.authority.ca()), "{step}");
        assert_eq!(owner.ownership().method.as_deref(), Some(method), "{step}");
        // A list of the old authority counts for the old one only.
        assert_eq!(owner.revocation() == Revocation::None, rotated, "{step}: {:?}", owner.revocation());
        assert_eq!(owner.machine().hold(), Hold::Released);
    }
}

#[test]
fn m18_killed_while_a_list_is_taken_the_number_and_the_list_agree() {
    if let Some(node) = child() {
        let owner = node.open();
        panic!("it lives: {:?}", owner.take_list(node.read("/given/list").as_bytes()));
    }
    let operators = operators("ops");
    for (step, number) in [("crl-next", "01"), ("crl-head", "02"), ("crl-placed", "02")] {
        let node = node();
        let pem = operators.pem.replace('\n', "\\n");
        node.document(&format!("role: init\napi: {{operatorCA: \"{pem}\"}}\n"));
        node.open().take_list(operators.list(&[], 1, None).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
        given(&node, "list", &operators.list(&[], 2, None));
        dies("crash_tests::m18_killed_while_a_list_is_taken_the_number_and_the_list_agree", &node, step);
        for _ in 0..2 {
            let owner = node.open();
            assert!(
                matches!(owner.revocation(), Revocation::List { number: n, .. } if n == number),
                "{step}: {:?}",
                owner.revocation()
            );
        }
    }
}

#[test]
fn s18_killed_while_the_owner_is_forgotten_no_member_is_unowned() {
    if let Some(node) = child() {
        panic!("it lives: {:?}", node.open().forget());
    }
    let operators = operators("ops");
    let node = node();
    let pem = operators.pem.replace('\n', "\\n");
    node.document(&format!("role: init\napi: {{operatorCA: \"{pem}\"}}\n"));
    drop(node.open());
    node.write("/var/lib/muster/bootstrapped", "");
    node.write("/var/lib/muster/reset.json", "{}");
    dies("crash_tests::s18_killed_while_the_owner_is_forgotten_no_member_is_unowned", &node, "unowned");
    assert!(!node.has("/var/lib/muster/bootstrapped"), "the marker went before the owner");
    // A document that cannot be read does not hold it up, and one that can does not take it back meanwhile.
    for document in ["api: [\n".to_owned(), node.read("/etc/muster/config.yaml")] {
        node.document(&document);
        assert!(node.open().authority().is_none(), "{document}");
    }
    let owner = node.open();
    owner.forget().unwrap_or_else(|e| panic!("{e}"));
}
