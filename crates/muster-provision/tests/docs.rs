//! The table of the doctor's checks in the documentation is the doctor's.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

use muster_core::{HostName, UtcTime};
use muster_provision::doctor::attack::Attack;
use muster_provision::doctor::{Evidence, Known, Subject, judge};
use muster_provision::{AccountName, HostSpec, Plan, ShimBinary};
use std::collections::BTreeSet;

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/provisioning.md")).unwrap()
}

/// Words in backquotes in the first column of the tables of a section.
fn first_column(section: &str) -> BTreeSet<String> {
    let page = page();
    let from = page.split_once(&format!("\n## {section}\n")).unwrap().1;
    let body = from.split("\n## ").next().unwrap();
    body.lines()
        .filter(|l| l.starts_with("| `"))
        .flat_map(|l| {
            l.split('|')
                .nth(1)
                .unwrap_or_default()
                .split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn every_check_has_its_row_and_every_row_its_check() {
    let fleet = AccountName::new("kpssh").unwrap();
    let subject = Subject {
        account: AccountName::default(),
        address: "192.0.2.1".parse().unwrap(),
        drop_in: Some(fleet),
    };
    let mut evidence = Evidence::default();
    let found = muster_provision::doctor::evidence::Found {
        kind: "regular-file".into(),
        uid: 0,
        gid: 0,
        mode: 0o755,
        size: 1,
    };
    evidence.paths.insert("/opt/kpssh/kpssh-shim".into(), Some(found));
    let known = Known { now: UtcTime::from_unix(0), shim_sha256: None };
    let report = judge(&subject, &evidence, &known);
    let mut ids: BTreeSet<String> = report.checks.iter().map(|c| c.id.to_owned()).collect();
    assert_eq!(ids.len(), report.checks.len(), "an id twice");
    ids.extend(Attack::DIRECT.iter().chain(&Attack::PLANTED).map(|a| a.id().to_owned()));
    ids.insert("clone".into());
    assert_eq!(ids, first_column("The doctor"));
}

#[test]
fn every_step_has_its_row_and_every_row_its_step() {
    use muster_provision::spec::{DropIn, EnvelopeOne};
    let signer = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH+Xc1Z7q6gPjBdbGJ7yKTqrRMLrcHyA8VTZ2lTzB0cF";
    let key = muster_provision::ControllerKey::new(muster_provision::PublicKeyLine::parse(signer).unwrap());
    let shim = ShimBinary::new(b"\x7fELF".to_vec(), None).unwrap();
    let allowed = format!("muster namespaces=\"muster-intent\" {signer}\n").into_bytes();
    let mut spec = HostSpec::new(HostName::new("a").unwrap(), shim, allowed, vec![key]);
    spec.drop_in = Some(DropIn::default());
    spec.envelope_one = EnvelopeOne::Taken(Default::default());
    let steps: BTreeSet<String> =
        Plan::provision(&spec).unwrap().steps().iter().map(|s| s.id().to_string()).collect();
    assert_eq!(steps, first_column("What is put where, and why"));
}
