//! What is built, by whose leave, and what a killed bootstrap leaves.

use super::*;
use crate::bootstrap::build;
use crate::core::disk::Disk;
use crate::core::hold;
use crate::core::tests::crash_tests::{child, dies};
use muster_cluster::{CannotBuild, Distribution, Plan};
use muster_core::machine::Membership;

/// Looks at the node from inside of a build.
struct Watching<'w>(&'w dyn Fn(&Plan) -> Result<(), CannotBuild>);

impl Distribution for Watching<'_> {
    fn name(&self) -> &'static str {
        "watching"
    }

    fn build(&self, plan: &Plan) -> Result<(), CannotBuild> {
        (self.0)(plan)
    }
}

fn bootstrap(node: &Node) -> Result<String, String> {
    build(&Places::below(node.root()), &muster_cluster::None, UtcTime::from_unix(NOW))
}

fn owned(node: &Node, more: &str) -> Owner {
    let pem = operators("ops").pem.replace('\n', "\\n");
    node.document(&format!("{more}\napi: {{operatorCA: \"{pem}\"}}\n"));
    node.open()
}

#[test]
fn nothing_is_built_for_nobody() {
    let node = node();
    assert!(bootstrap(&node).expect("nothing to do").contains("no document"));
    node.document(COMPLETE);
    // Whoever starts the unit by hand does not get around the claim.
    let waits = bootstrap(&node).expect_err("nobody owns it");
    assert!(waits.contains("nobody owns"), "{waits}");
    let owner = node.open();
    let waits = bootstrap(&node).expect_err("nobody owns it");
    assert!(waits.contains("nobody owns") && !node.has("/var/lib/muster/bootstrapped"));
    let known = ClaimBody { acknowledge: true, ..body(&operators("ops"), None) };
    assert_eq!(claim_with(&owner, &node.code(), known, "10.0.0.9").status, 200);
    assert!(bootstrap(&node).expect("built").contains("init"));
    assert_eq!(owner.machine().membership(), Membership::Member);
    let record: serde_json::Value =
        serde_json::from_str(&node.read("/var/lib/muster/node.json")).expect("JSON");
    assert_eq!((&record["role"], &record["distribution"]), (&"init".into(), &"none".into()));
    assert_eq!(record["bootstrappedAt"], "2027-01-01T00:00:00Z");
    assert!(bootstrap(&node).expect("nothing to do").contains("already"));
    // What is ordered after the target is started at each boot of a node that is built, and the bootstrap is not.
    drop(owner);
    fs::remove_file(node.at("/systemctl.log")).expect("asked before");
    drop(node.open());
    let asked = node.read("/systemctl.log");
    assert!(asked.contains("muster-claimed.target") && !asked.contains("muster-bootstrap"), "{asked}");
}

#[test]
fn a_node_without_the_api_is_built_without_an_owner() {
    let node = node();
    node.document("role: init\n");
    assert!(bootstrap(&node).expect("built").contains("init"));
}

#[test]
fn a_node_waits_for_the_document_that_its_own_asks_for() {
    let node = node();
    let owner = owned(&node, "");
    assert!(bootstrap(&node).expect_err("no role").contains("names no role"));
    let awaiting = "role: init\napi: {enabled: true, awaitConfig: true}\n";
    node.document(awaiting);
    assert!(bootstrap(&node).expect_err("waits").contains("awaitConfig"));
    owner.apply_document(awaiting, owner.trusts()).unwrap_or_else(|e| panic!("{e}"));
    bootstrap(&node).expect("described, so built");
}

#[test]
fn while_a_node_is_built_nobody_describes_it_anew_and_nobody_builds_it_twice() {
    let node = node();
    let owner = owned(&node, "role: init");
    let places = Places::below(node.root());
    let seen = build(
        &places,
        &Watching(&|plan| {
            assert_eq!(owner.machine().membership(), Membership::Building);
            assert_eq!(
                owner.apply_document(COMPLETE, owner.trusts()).expect_err("built").reason,
                "bootstrapped"
            );
            assert!(bootstrap(&node).expect_err("twice").contains("another bootstrap"));
            Err(CannotBuild(format!("no {} today", plan.role.as_str())))
        }),
        UtcTime::from_unix(NOW),
    );
    assert_eq!(seen, Err("no init today".to_owned()));
    // It failed: another document is taken, and the next run begins again.
    assert_eq!(owner.machine().membership(), Membership::None);
    owner.apply_document(COMPLETE, owner.trusts()).unwrap_or_else(|e| panic!("{e}"));
    bootstrap(&node).expect("built");
    assert_eq!(owner.apply_document(COMPLETE, owner.trusts()).expect_err("built").reason, "bootstrapped");
}

#[test]
fn s18_killed_at_any_step_of_a_bootstrap_the_marker_is_last() {
    if let Some(node) = child() {
        panic!("it lives: {:?}", bootstrap(&node));
    }
    for (step, built) in [("building", false), ("built", false), ("node", false), ("bootstrapped", true)] {
        let node = node();
        let owner = owned(&node, "role: init");
        dies("bootstrap_tests::s18_killed_at_any_step_of_a_bootstrap_the_marker_is_last", &node, step);
        let want = if built { Membership::Member } else { Membership::None };
        assert_eq!(owner.machine().membership(), want, "{step}");
        assert!(node.has("/run/muster/building"), "{step}: it left its word, which counts no longer");
        let again = bootstrap(&node).expect("built");
        assert_eq!(again.contains("already"), built, "{step}: {again}");
    }
}

/// What came with the claim may not be in its place yet: by what lies there the node might become what its owner did not ask for.
#[test]
fn s18_while_a_claim_is_not_complete_nothing_is_built() {
    let node = node();
    owned(&node, "role: init");
    node.write("/var/lib/muster/api/pending.json", "{}");
    let waits = bootstrap(&node).expect_err("its document may be another");
    assert!(
        waits.contains("a claim is not complete") && !node.has("/var/lib/muster/bootstrapped"),
        "{waits}"
    );
    node.open();
    assert!(bootstrap(&node).expect("built").contains("init"));
}

#[test]
fn a_node_that_is_taken_apart_is_not_built() {
    let node = node();
    owned(&node, "role: init");
    node.write("/var/lib/muster/reset.json", "{}");
    assert!(bootstrap(&node).expect_err("waits").contains("taken apart"));
    let disk = Disk::open(&Places::below(node.root())).expect("a disk");
    assert_eq!(hold::membership(&disk), Ok(Membership::Leaving));
}

#[test]
fn a_node_gets_its_name_before_it_is_built() {
    for (document, kernel, etc, want) in [
        ("node: {name: edge-7}", "localhost", "", "edge-7"),
        ("node: {name: edge-7}", "edge-1", "edge-1", "edge-7"),
        ("", "edge-1", "edge-1", "edge-1"),
        ("", "localhost", "localhost", "muster-0123abcd"),
        ("", "", "", "muster-0123abcd"),
    ] {
        let node = node();
        node.write("/proc/sys/kernel/hostname", &format!("{kernel}\n"));
        node.write("/etc/hostname", &format!("{etc}\n"));
        node.write("/etc/machine-id", "0123abcd0123abcd0123abcd0123abcd\n");
        owned(&node, &format!("role: init\n{document}"));
        let build_it = Watching(&|_| {
            assert_eq!(node.read("/etc/hostname").trim(), want, "before anything is built");
            Ok(())
        });
        build(&Places::below(node.root()), &build_it, UtcTime::from_unix(NOW)).expect("built");
    }
    let node = node();
    node.write("/proc/sys/kernel/hostname", "(none)\n");
    owned(&node, "role: init");
    assert!(bootstrap(&node).expect_err("nothing to make a name of").contains("machine id"));
}
