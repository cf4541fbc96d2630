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

/// Operation by state, written out by hand from the contract: a change of any row of the table has to be said here too.
/// The states: claimed without a document, with one, being built, a member, being taken apart.
#[test]
fn the_state_of_the_node_decides_for_every_operation() {
    use Membership as M;
    const Y: Result<(), Forbidden> = Ok(());
    const N: Result<(), Forbidden> = Err(Forbidden::NotAMember);
    const B: Result<(), Forbidden> = Err(Forbidden::Bootstrapped);
    const L: Result<(), Forbidden> = Err(Forbidden::Leaving);
    let claimed = |complete, membership| Machine::booted(true, complete, membership).unwrap();
    let states = [
        claimed(false, M::None),
        claimed(true, M::None),
        claimed(true, M::Building),
        claimed(true, M::Member),
        claimed(true, M::Leaving),
    ];
    let distinct: BTreeSet<String> = states.iter().map(|s| format!("{s:?}")).collect();
    assert_eq!(distinct.len(), states.len(), "{distinct:?}");
    #[rustfmt::skip]
    let table = [
        (Operation::Health, [Y, Y, Y, Y, Y]),
        (Operation::NodeState, [Y, Y, Y, Y, Y]),
        (Operation::Services, [Y, Y, Y, Y, Y]),
        (Operation::Logs, [Y, Y, Y, Y, Y]),
        (Operation::SshKeys, [Y, Y, Y, Y, Y]),
        (Operation::EtcdState, [N, N, N, Y, L]),
        (Operation::AuditRead, [Y, Y, Y, Y, Y]),
        (Operation::ProofNonce, [Y, Y, Y, Y, Y]),
        (Operation::ServiceRestart, [Y, Y, Y, Y, L]),
        (Operation::UpgradeStage, [Y, Y, Y, Y, L]),
        (Operation::Cordon, [N, N, N, Y, L]),
        (Operation::Uncordon, [N, N, N, Y, L]),
        (Operation::Drain, [N, N, N, Y, L]),
        (Operation::UpgradeApply, [Y, Y, Y, Y, L]),
        (Operation::UpgradeRollback, [Y, Y, Y, Y, L]),
        (Operation::Reboot, [Y, Y, Y, Y, Y]),
        (Operation::Shutdown, [Y, Y, Y, Y, Y]),
        (Operation::Reset, [Y, Y, Y, Y, Y]),
        (Operation::ConfigApply, [Y, Y, B, B, L]),
        (Operation::CaRotate, [Y, Y, Y, Y, L]),
        (Operation::CrlUpload, [Y, Y, Y, Y, Y]),
        (Operation::Kubeconfig, [N, N, N, Y, L]),
        (Operation::JoinToken, [N, N, N, Y, L]),
        (Operation::SshKeyAdd, [Y, Y, Y, Y, L]),
        (Operation::SshKeyRemove, [Y, Y, Y, Y, Y]),
    ];
    let named: BTreeSet<Operation> = table.iter().map(|(op, _)| *op).collect();
    assert_eq!((named.len(), table.len()), (Operation::ALL.len(), Operation::ALL.len()), "each once");
    let mut wrong = Vec::new();
    for (op, wanted) in table {
        assert_eq!(op.allowed_in(Machine::UNCLAIMED), Err(Forbidden::Unclaimed), "{op:?}");
        for (state, wanted) in states.iter().zip(wanted) {
            let got = op.allowed_in(*state);
            if got != wanted {
                wrong.push(format!("{op:?} in {state:?}: {got:?}, not {wanted:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The rest of each row, written out by hand: what it does, how long it may take, and how it is recorded.
#[test]
fn m19_what_each_operation_does_and_how_it_is_recorded() {
    use Audit::{First, FirstOrJournal, Spooled};
    use Danger::{Changes, Destroys, HandsOverSecrets, Reads};
    #[rustfmt::skip]
    let table = [
        (Operation::Health, Reads, 30, Spooled),
        (Operation::NodeState, Reads, 30, Spooled),
        (Operation::Services, Reads, 30, Spooled),
        (Operation::Logs, Reads, 3600, Spooled),
        (Operation::SshKeys, Reads, 30, Spooled),
        (Operation::EtcdState, Reads, 30, Spooled),
        (Operation::AuditRead, Reads, 3600, Spooled),
        (Operation::ProofNonce, Reads, 30, Spooled),
        (Operation::ServiceRestart, Changes, 30, First),
        (Operation::UpgradeStage, Changes, 1800, First),
        (Operation::Cordon, Changes, 30, First),
        (Operation::Uncordon, Changes, 30, First),
        (Operation::Drain, Changes, 900, First),
        (Operation::UpgradeApply, Destroys, 900, First),
        (Operation::UpgradeRollback, Changes, 30, First),
        (Operation::Reboot, Destroys, 30, FirstOrJournal),
        (Operation::Shutdown, Destroys, 30, FirstOrJournal),
        (Operation::Reset, Destroys, 900, First),
        (Operation::ConfigApply, Changes, 30, First),
        (Operation::CaRotate, Destroys, 30, First),
        (Operation::CrlUpload, Changes, 30, First),
        (Operation::Kubeconfig, HandsOverSecrets, 30, First),
        (Operation::JoinToken, HandsOverSecrets, 30, First),
        (Operation::SshKeyAdd, Changes, 30, First),
        (Operation::SshKeyRemove, Changes, 30, First),
    ];
    assert_eq!(table.map(|(op, ..)| op).as_slice(), Operation::ALL);
    for (op, danger, deadline, audit) in table {
        let row = op.row();
        assert_eq!((row.danger, row.deadline, row.audit), (danger, deadline, audit), "{op:?}");
    }
}
