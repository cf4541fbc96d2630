//! What the operator's command line reads: inventories, profiles' manifests, scripts that it lints.

use crate::{Said, refused};
use muster::fault::Faults;
use muster::inventory::{Inventory, Selection, choose};
use muster::profile::folder::{Folder, Overrides, Script, sha256};
use muster::profile::manifest::Manifest;
use muster::shell::{self, Rule, is_carried};
use muster_core::{Phase, UtcTime};
use muster_signing::intent::Intent;
use muster_signing::params;
use std::path::Path;

/// Faults of one file that are shown at once.
const MAX_FAULTS: usize = 41;

fn faults(all: &Faults) -> Said {
    let count = all.iter().count();
    assert!((1..=MAX_FAULTS).contains(&count), "{count} faults");
    for fault in all.iter() {
        refused(fault);
        for hint in &fault.hints {
            refused(hint);
        }
    }
    Said::Refused
}

/// What an inventory promises of every host that it took.
pub fn inventory(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let inventory = match Inventory::parse(text, Path::new("inventory.yaml"), None) {
        Ok(inventory) => inventory,
        Err(all) => return faults(&all),
    };
    for host in &inventory.hosts {
        assert_eq!(inventory.route(host).len(), host.ssh.via.len() + 1, "a hop that is not there");
        assert!(host.ssh.port != 0 && !host.ssh.user.is_empty() && !host.ssh.address.is_empty());
        assert!(!host.ssh.address.contains(['@', ' ', '/', '\0']) && !host.ssh.address.starts_with('-'));
        assert!(host.vars.iter().all(|v| is_carried(&v.name)));
        for hop in inventory.route(host) {
            assert!(muster_ssh::Address::parse(&hop.address).is_ok(), "{:?} is no address", hop.address);
            hop.host_keys.iter().for_each(crate::operator::known);
        }
        let one = Selection { names: vec![host.name.to_string()], ..Selection::default() };
        let chosen = choose(&inventory, &one).expect("a host that is there can be chosen");
        assert_eq!(chosen.len(), 1, "two hosts of one name");
    }
    Said::Accepted
}

/// What a manifest takes, an intent can be made of.
pub fn manifest(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let manifest = match Manifest::parse(text, Path::new("profile/profile.yaml")) {
        Ok(manifest) => manifest,
        Err(all) => return faults(&all),
    };
    assert!(!manifest.targets.is_empty());
    let names = manifest.values.iter().map(|v| &v.name).chain(manifest.params.iter().map(|p| &p.name));
    for name in names {
        assert!(params::is_name(name), "{name:?}");
    }
    let script = |phase| Script { phase, file: "x.sh".into(), bytes: b"x".to_vec(), sha256: sha256(b"x") };
    let scripts = Phase::SCRIPTED.into_iter().map(script).collect();
    let folder = Folder { path: "profile".into(), manifest, scripts };
    let over = Overrides { epoch: Some(1), ..Overrides::default() };
    // Only times can fail here: a manifest may say from when to when in an order that is none.
    let Ok(drafts) = folder.drafts(&over, UtcTime::from_unix(1_795_910_400)) else { return Said::Accepted };
    assert_eq!(drafts.len(), 5);
    for draft in drafts {
        let lines = draft.values.len() + draft.params.len();
        let many = lines > 128 || draft.targets.len() > 256;
        let long = draft.values.iter().any(|v| v.value.len() > 2048);
        let late = draft.not_after.to_string().starts_with('@');
        match draft.render() {
            Ok(text) => {
                let intent = Intent::parse(text.as_bytes()).expect("what was written can be read");
                assert_eq!(intent.phase(), draft.phase);
            }
            Err(why) => assert!(many || long || late, "taken by the manifest, not by the intent: {why}"),
        }
    }
    Said::Accepted
}

/// The linter follows a script or says from which line it does not; what it says is bounded.
pub fn script(input: &[u8]) -> Said {
    let lines = 2 + input.iter().filter(|b| **b == b'\n').count();
    let found = shell::script(input);
    for finding in &found {
        assert!(finding.line <= lines, "line {} of {lines}", finding.line);
        if !finding.detail.is_empty() {
            refused(&muster::fault::Fault::new(finding.rule, finding.detail.clone()));
        }
    }
    for (name, (line, _)) in shell::read_names(input) {
        assert!(is_carried(&name) && line >= 1 && line <= lines, "{name:?} on line {line}");
        assert!(input.windows(name.len()).any(|w| w == name.as_bytes()), "{name:?} is not in the script");
    }
    let is_lost = |found: &[shell::Finding]| found.iter().any(|f| f.rule == Rule::Unreadable);
    let lost = is_lost(&found);
    // A command that stands first is seen, whatever follows it.
    let longer = shell::script(&[b"eval \"$MUSTER_ZZ\"\n", input].concat());
    assert_eq!(is_lost(&longer), lost, "a command before it changes whether it can be read");
    assert!(
        lost || longer.iter().any(|f| f.rule == Rule::Eval && f.line == 1),
        "an eval on line 1 is not seen"
    );
    if lost { Said::Refused } else { Said::Accepted }
}
