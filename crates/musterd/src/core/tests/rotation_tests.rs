//! S15: another owner; and root at the console.

use super::*;
use crate::core::owner::Revocation;
use crate::core::rotation::Rotation;
use muster_core::Operation;
use rcgen::SigningKey as _;

fn owned(node: &Node, more: &str) -> (Owner, Operators) {
    let operators = operators("ops");
    let pem = operators.pem.replace('\n', "\\n");
    node.document(&format!("role: init\napi: {{operatorCA: \"{pem}\"{more}}}\n"));
    (node.open(), operators)
}

/// ECDSA P-256 with SHA-256 (RFC 8446, 4.2.3).
const P256: u16 = 0x0403;

fn signed(owner: &Owner, old: &Operators, new: &Operators, by: &Issued) -> Vec<u8> {
    let text = muster_api::rotation_text(
        owner.node_fingerprint().bytes(),
        old.authority.ca().fingerprint().bytes(),
        new.authority.ca().fingerprint().bytes(),
        match &owner.revocation() {
            Revocation::List { number, .. } => number,
            _ => "",
        },
    );
    rcgen::KeyPair::from_pem(&by.key).expect("a key").sign(&text).expect("signed")
}

#[test]
fn s15_a_rotation_makes_another_owner_and_the_old_one_is_nobody() {
    let node = node();
    let (owner, old) = owned(&node, "");
    let new = operators("the next");
    let (alice, bob) = (old.issue("alice", Role::Admin), new.issue("bob", Role::Operator));
    owner.take_list(old.list(&[], 9, None).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let rotation =
        Rotation { authority: &new.pem, proof: &bob.certificate, judged_by: owner.trusts(), signature: None };
    let pinned = owner.rotate(&rotation).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(&pinned, new.authority.ca());
    for owner in [owner, node.open()] {
        assert_eq!(
            owner.judge_certificate(&der_of(&alice.certificate)).expect_err("old").reason,
            "other-authority"
        );
        owner.judge_certificate(&der_of(&bob.certificate)).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(owner.revocation(), Revocation::None, "list and number went with their authority");
        assert_eq!(owner.ownership().method.as_deref(), Some("rotation"));
        owner.allows(Operation::Reboot).unwrap_or_else(|e| panic!("{e}"));
    }
    assert_eq!(
        der_of(&node.read("/var/lib/muster/api/operator-ca.prev.pem")),
        old.der(),
        "for people at the console"
    );
}

#[test]
fn s15_what_a_rotation_does_not_take() {
    let node = node();
    let (owner, old) = owned(&node, "");
    let (new, third) = (operators("the next"), operators("yet another"));
    let admin = new.issue("bob", Role::Admin);
    let expired = Authority::make("old", Lifetime { secs: 60 }, UtcTime::from_unix(NOW - 86_400), [1; 16]);
    let expired = expired.expect("made").1.certificate;
    let of_old = old.issue("alice", Role::Admin);
    let of_third = third.issue("bob", Role::Admin);
    let cases = [
        (old.pem.as_str(), of_old.certificate.as_str(), "same-authority"),
        (expired.as_str(), admin.certificate.as_str(), "bad-authority"),
        (admin.certificate.as_str(), admin.certificate.as_str(), "bad-authority"),
        (admin.key.as_str(), admin.certificate.as_str(), "bad-authority"),
        ("nonsense", admin.certificate.as_str(), "bad-authority"),
        (new.pem.as_str(), of_third.certificate.as_str(), "bad-proof"),
        (new.pem.as_str(), of_old.certificate.as_str(), "bad-proof"),
        (new.pem.as_str(), new.pem.as_str(), "bad-proof"),
        (new.pem.as_str(), "", "bad-proof"),
    ];
    for (authority, proof, reason) in cases {
        let refused = owner
            .rotate(&Rotation { authority, proof, judged_by: owner.trusts(), signature: None })
            .expect_err(reason);
        assert_eq!(refused.reason, reason);
    }
    // Whoever asks was let in by what counted before this list.
    let judged_by = owner.trusts();
    owner.take_list(old.list(&[], 1, None).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let late = Rotation { authority: &new.pem, proof: &admin.certificate, judged_by, signature: None };
    assert_eq!(owner.rotate(&late).expect_err("judged before").reason, "busy");
    assert!(owner.renew_pairing().expect_err("it has an owner").contains("has an owner"));
    assert_eq!(owner.authority().as_ref(), Some(old.authority.ca()));
    assert_eq!(node.open().authority().as_ref(), Some(old.authority.ca()));
}

#[test]
fn s15_a_signature_is_by_the_proofs_key_for_this_node_and_demanded_with_proofs() {
    let node = node();
    let (owner, old) = owned(&node, ", proof: required");
    let new = operators("the next");
    let bob = new.issue("bob", Role::Admin);
    owner.take_list(old.list(&[], 9, None).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    let rotate = |signature: Option<&[u8]>| {
        let signature = signature.map(|s| (P256, s));
        owner
            .rotate(&Rotation {
                authority: &new.pem,
                proof: &bob.certificate,
                judged_by: owner.trusts(),
                signature,
            })
            .map_err(|f| f.reason)
    };
    assert_eq!(rotate(None).expect_err("unsigned"), "proof-required");
    // The right file, and somebody who does not hold its key.
    let mallory = old.issue("mallory", Role::Admin);
    assert_eq!(
        rotate(Some(&signed(&owner, &old, &new, &mallory))).expect_err("another key"),
        "bad-signature"
    );
    // Made for another node.
    let other_node = super::node();
    let (other, _) = owned(&other_node, "");
    assert_eq!(rotate(Some(&signed(&other, &old, &new, &bob))).expect_err("another node"), "bad-signature");
    // Made before a list was taken.
    let before = signed(&owner, &old, &new, &bob);
    owner.take_list(old.list(&[], 10, None).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(rotate(Some(&before)).expect_err("another list"), "bad-signature");
    rotate(Some(&signed(&owner, &old, &new, &bob))).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn s15_the_way_an_owner_came_in_is_never_washed_off() {
    let (node, first, second) = (node(), operators("first"), operators("second one"));
    node.document("api: {enabled: true, insecure: true}\n");
    let owner = node.open();
    let open = Request::Open { claim: body(&first, None) }.render();
    assert_eq!(owner.enroll(open.as_bytes(), "10.0.0.9").status, 200);
    let bob = second.issue("bob", Role::Admin);
    owner
        .rotate(&Rotation {
            authority: &second.pem,
            proof: &bob.certificate,
            judged_by: owner.trusts(),
            signature: None,
        })
        .unwrap_or_else(|e| panic!("{e}"));
    assert!(owner.ownership().tainted && node.open().ownership().tainted);
    // Nor by a record that is damaged or gone.
    for damage in [Some("{"), None] {
        let place = node.at("/var/lib/muster/api/claim.json");
        match damage {
            Some(text) => fs::write(&place, text).expect("written"),
            None => fs::remove_file(&place).expect("removed"),
        }
        let owner = node.open();
        assert!(owner.authority().is_some() && owner.ownership().tainted, "{damage:?}");
    }
}

#[test]
fn s19_root_at_the_console_sets_another_owner_and_another_key() {
    let node = node();
    let (owner, _) = owned(&node, "");
    let new = operators("the next");
    let (before, served) = (owner.generation(), owner.node_fingerprint());
    assert_eq!(owner.set_authority(&new.pem), Ok(new.authority.ca().fingerprint()));
    assert!(owner.set_authority("nonsense").is_err());
    // The same one again would take its list away, and let whom it revoked in.
    owner.take_list(new.list(&[], 10, None).as_bytes()).unwrap_or_else(|e| panic!("{e}"));
    assert!(owner.set_authority(&new.pem).expect_err("the same").contains("already"));
    assert!(matches!(owner.revocation(), Revocation::List { .. }), "{:?}", owner.revocation());
    let rekeyed = owner.rekey().unwrap_or_else(|e| panic!("{e}"));
    assert_ne!(rekeyed, served);
    assert_eq!(owner.generation(), before + 2, "live connections are judged anew");
    assert_eq!(node.open().node_fingerprint(), rekeyed);
    assert_eq!(node.open().authority().as_ref(), Some(new.authority.ca()));
    assert!(owner.renew_pairing().is_err(), "an owned node has no code");
    // A node that nobody owns is claimed, not given away from the console by a file.
    let node = super::node();
    node.document(MAINTENANCE);
    assert!(node.open().set_authority(&new.pem).expect_err("unclaimed").contains("claim it"));
}
