#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;
use std::collections::BTreeSet;

#[test]
fn names_are_distinct_and_read_back() {
    let names: BTreeSet<&str> = Operation::ALL.iter().map(|o| o.row().name).collect();
    assert_eq!(names.len(), Operation::ALL.len());
    for op in Operation::ALL {
        assert_eq!(Operation::from_name(op.row().name), Some(*op));
        assert!(op.row().name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{op:?}");
    }
    assert_eq!(Operation::from_name("exec"), None);
}

/// The roles of the contract: readonly looks, operator works, admin ends.
#[test]
fn each_role_has_its_operations() {
    let least = |role| -> Vec<&str> {
        Operation::ALL.iter().filter(|o| o.row().role == role).map(|o| o.row().name).collect()
    };
    assert_eq!(
        least(Role::Readonly),
        [
            "health",
            "node-state",
            "services",
            "logs",
            "ssh-keys",
            "etcd-state",
            "audit-read",
            "proof-nonce",
            "crl-upload"
        ]
    );
    assert_eq!(least(Role::Operator), ["service-restart", "upgrade-stage", "cordon", "uncordon", "drain"]);
    assert_eq!(
        least(Role::Admin),
        [
            "upgrade-apply",
            "upgrade-rollback",
            "reboot",
            "shutdown",
            "reset",
            "config-apply",
            "ca-rotate",
            "kubeconfig",
            "join-token",
            "ssh-key-add",
            "ssh-key-remove"
        ]
    );
    assert!(Operation::Reset.permits(Role::Admin) && !Operation::Reset.permits(Role::Operator));
}

#[test]
fn what_only_reads_is_for_everybody_and_everything_else_is_written_first() {
    for op in Operation::ALL {
        let row = op.row();
        let reads = row.danger == Danger::Reads;
        // The list's own signature is its authority, so anybody may bring it.
        assert_eq!(reads || *op == Operation::CrlUpload, row.role == Role::Readonly, "{op:?}");
        assert_eq!(reads, row.audit == Audit::Spooled, "{op:?}");
    }
    let journal: Vec<_> = Operation::ALL.iter().filter(|o| o.row().audit == Audit::FirstOrJournal).collect();
    assert_eq!(journal, [&Operation::Reboot, &Operation::Shutdown], "a reset never goes unrecorded (S16)");
}

#[test]
fn m15_proofs_are_wanted_for_all_that_ends_hands_over_or_re_owns() {
    let wanted: Vec<&str> = Operation::ALL.iter().filter(|o| o.wants_proof()).map(|o| o.row().name).collect();
    assert_eq!(
        wanted,
        [
            "upgrade-apply",
            "reboot",
            "shutdown",
            "reset",
            "config-apply",
            "ca-rotate",
            "kubeconfig",
            "join-token",
            "ssh-key-add"
        ]
    );
}

#[test]
fn the_state_of_the_node_decides() {
    let at = |membership| Machine::booted(true, true, membership).unwrap();
    for op in Operation::ALL {
        assert_eq!(op.allowed_in(Machine::UNCLAIMED), Err(Forbidden::Unclaimed), "{op:?}");
    }
    for (op, none, building, member, leaving) in [
        (Operation::NodeState, Ok(()), Ok(()), Ok(()), Ok(())),
        (Operation::Reboot, Ok(()), Ok(()), Ok(()), Ok(())),
        (Operation::ServiceRestart, Ok(()), Ok(()), Ok(()), Err(Forbidden::Leaving)),
        (
            Operation::ConfigApply,
            Ok(()),
            Err(Forbidden::Bootstrapped),
            Err(Forbidden::Bootstrapped),
            Err(Forbidden::Leaving),
        ),
        (
            Operation::Kubeconfig,
            Err(Forbidden::NotAMember),
            Err(Forbidden::NotAMember),
            Ok(()),
            Err(Forbidden::Leaving),
        ),
    ] {
        for (membership, want) in [
            (Membership::None, none),
            (Membership::Building, building),
            (Membership::Member, member),
            (Membership::Leaving, leaving),
        ] {
            assert_eq!(op.allowed_in(at(membership)), want, "{op:?} {membership:?}");
        }
    }
}
