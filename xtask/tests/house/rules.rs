//! Every rule of signed execution and of the node API has a test that is named after it: `m3_…`, `s10_…`.
//!
//! Run `cargo test m3_` to see what holds a rule, and `docs/threats.md` for what the rules are about.

use std::collections::BTreeSet;
use std::fs;

use crate::rust::tests;
use crate::{files, root};

/// The rules, each in a few words.
const RULES: &[(&str, &str)] = &[
    ("m1", "what decides whom a host obeys is a signed value"),
    ("m2", "an epoch does not stop a stolen signer"),
    ("m3", "an epoch is bounded, and so is its step"),
    ("m4", "profiles are listed, with a least epoch"),
    ("m5", "the floor moves only after every check"),
    ("m6", "envelope 1 is no way around the policy"),
    ("m7", "envelope 2 and the intent have one grammar"),
    ("m8", "the shim takes no argument and decides by its name"),
    ("m9", "two runs never stand side by side"),
    ("m10", "disconnects are seen and secrets stay out of sudo's log"),
    ("m11", "a cut link is noticed"),
    ("m12", "what a disconnect does is signed"),
    ("m13", "m of n counts distinct signers"),
    ("m14", "the clock is held against signed times"),
    ("s1", "no caller's time zone"),
    ("s2", "the script's surroundings are built from nothing"),
    ("s3", "a start record before, an end record after"),
    ("s4", "who asked is evidence, and only narrows"),
    ("s5", "every run has a deadline"),
    ("s6", "input is bounded in bytes and time"),
    ("s7", "stragglers end with the run"),
    ("s8", "floors are one file, whole, and never guessed"),
    ("s9", "the revocation list is read or nothing runs"),
    ("s10", "trust files are safe or refused"),
    ("s11", "targets are whole names out of shim.toml"),
    ("s12", "login keys lie where the account cannot write"),
    ("s13", "busy and peer-gone are no faults of the host"),
    ("s14", "a floor can be raised without a script"),
    ("m15", "the core judges each client and each call; what ends or hands over can be signed"),
    ("m16", "one run of the pairing buys one guess, over both certificates"),
    ("m17", "wrong codes are counted, slow down, and shut the door"),
    ("m18", "a revocation list never goes back, and once taken is required"),
    ("m19", "the record is a chain whose heads were handed out"),
    ("s15", "a rotation is proven for this node, this owner and the next"),
    ("s16", "the record is no weapon: bounded, and with room for what destroys"),
    ("s17", "nobody but the edge is heard, and it in frames"),
    ("s18", "the order of a claim, and a confirmed result"),
    ("s19", "root at the console has a socket of his own"),
    ("n9", "a fingerprint that was read and differs ends a claim"),
    ("n10", "without a code somebody must vouch for the node"),
    ("n11", "an unclaimed node answers one path"),
    ("n12", "a failed confirmation is not tried again"),
];

/// The names of all tests.
pub(crate) fn all_tests() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in files(&root().join("crates"), ".rs") {
        names.extend(tests(&fs::read_to_string(path).expect("source")));
    }
    assert!(names.len() > 100, "tests were not found");
    names
}

/// The rules without a test.
fn untested(names: &BTreeSet<String>) -> Vec<String> {
    let tested: BTreeSet<&str> =
        names.iter().filter_map(|n| n.split_once('_')).map(|(head, _)| head).collect();
    let bare = RULES.iter().filter(|(rule, _)| !tested.contains(rule));
    bare.map(|(rule, what)| format!("{rule}: no test fn {rule}_… ({what})")).collect()
}

#[test]
fn every_rule_has_a_test_of_its_name() {
    let wrong = untested(&all_tests());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_rule_without_a_test_is_seen() {
    let all = |leave_out: &str| -> BTreeSet<String> {
        RULES.iter().filter(|(r, _)| *r != leave_out).map(|(r, _)| format!("{r}_holds")).collect()
    };
    assert_eq!(untested(&all("")), Vec::<String>::new());
    assert_eq!(untested(&all("m1")).len(), 1, "m10 to m14 do not stand for m1");
    assert_eq!(untested(&BTreeSet::from(["m1".to_owned()])).len(), 42, "a name is more than its rule");
    assert_eq!(RULES.len(), 42);
}
