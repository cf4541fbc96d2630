//! What else the command line reads: YAML itself, host keys, pins, and what hosts answer.

use crate::{Said, refused, ssh::NOW};
use muster::{
    fault::Fault,
    inventory::HostKey,
    pki::Revocations,
    remote::{
        answer::Verdict,
        pins::Pins,
        probe::{One, Two},
    },
    yaml::{self, Kind, Node},
};
use muster_tls::{Authority, Lifetime, RevocationList};
use std::{collections::BTreeSet, fmt::Write as _, path::Path, sync::LazyLock};

/// The lines that a fault may name: those of the text, and the one after its last break. A lone CR is a line break in YAML
/// (YAML 1.2, section 5.4).
fn lines(text: &str) -> usize {
    text.bytes().filter(|b| matches!(b, b'\n' | b'\r')).count() + 2
}

fn faulty(fault: &Fault, text: &str) -> Said {
    let line = fault.place.as_ref().map_or(0, |p| p.line);
    assert!(line <= lines(text), "line {line} of {}: {fault}", lines(text));
    refused(fault)
}

/// YAML: a tree that is taken, written in another way, reads back as the same tree.
pub fn yaml(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let tree = match yaml::parse(text, Path::new("x.yaml")) {
        Ok(tree) => tree,
        Err(fault) => return faulty(&fault, text),
    };
    let mut flow = String::new();
    let deep = write(&tree, &mut flow, lines(text));
    if deep < 30 {
        let again = yaml::parse(&flow, Path::new("x.yaml")).unwrap_or_else(|why| panic!("{flow}: {why}"));
        assert!(same(&tree, &again), "{tree:?}\n{flow}\n{again:?}");
    }
    Said::Accepted
}

/// As flow collections and double-quoted scalars; gives the depth.
fn write(node: &Node, out: &mut String, lines: usize) -> usize {
    assert!((1..=lines).contains(&node.line), "line {} of {lines}", node.line);
    let quoted = |text: &str, out: &mut String| {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                ' '..='~' => out.push(c),
                c => {
                    let _ = write!(out, "\\U{:08x}", u32::from(c));
                }
            }
        }
        out.push('"');
    };
    match &node.kind {
        Kind::Null => {
            out.push('~');
            0
        }
        Kind::Scalar { text, .. } => {
            quoted(text, out);
            0
        }
        Kind::List(items) => {
            out.push('[');
            let deep = items.iter().map(|item| {
                let deep = write(item, out, lines);
                out.push(',');
                deep
            });
            let deep = deep.max().unwrap_or(0);
            out.push(']');
            deep + 1
        }
        Kind::Map(entries) => {
            out.push('{');
            let mut seen = BTreeSet::new();
            let mut deep = 0;
            for entry in entries {
                assert!(seen.insert(&entry.key), "key {:?} stands twice", entry.key);
                out.push_str("? ");
                quoted(&entry.key, out);
                out.push_str(" : ");
                deep = deep.max(write(&entry.value, out, lines));
                out.push(',');
            }
            out.push('}');
            deep + 1
        }
    }
}

/// Lines and quotes aside.
fn same(a: &Node, b: &Node) -> bool {
    match (&a.kind, &b.kind) {
        (Kind::Null, Kind::Null) => true,
        (Kind::Scalar { text: a, .. }, Kind::Scalar { text: b, .. }) => a == b,
        (Kind::List(a), Kind::List(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Kind::Map(a), Kind::Map(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.key == b.key && same(&a.value, &b.value))
        }
        _ => false,
    }
}

pub(crate) fn known(key: &HostKey) {
    let fingerprint = key.fingerprint();
    known_fingerprint(&fingerprint);
    assert_eq!(HostKey::parse(key.text()).map(|k| k.fingerprint()), Some(fingerprint));
}

pub(crate) fn known_fingerprint(text: &str) {
    assert!(muster_ssh::Fingerprint::parse(text).is_ok(), "{text:?} can be no key's");
}

/// A host key as a person writes it down: what is taken can be some key's, and reads back as itself.
pub fn host_key(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    match HostKey::parse(text) {
        None => Said::Refused,
        Some(key) => {
            known(&key);
            assert!(muster_ssh::HostTrust::parse(key.text()).is_ok() || matches!(key, HostKey::Key(_)));
            Said::Accepted
        }
    }
}

/// The operator's pins read back as what was written.
pub fn pins(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    match Pins::parse(text, Path::new("host-keys")) {
        Err(fault) => faulty(&fault, text),
        Ok(pins) => {
            let written = pins.render();
            let again = Pins::parse(&written, Path::new("host-keys")).expect("what was written can be read");
            assert_eq!(again.render(), written);
            Said::Accepted
        }
    }
}

/// The certificates of nodes that the operator pinned read back as what was written.
pub fn node_pins(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    match muster::nodes::pins::Pins::parse(text, Path::new("node-pins")) {
        Err(fault) => faulty(&fault, text),
        Ok(pins) => {
            let again = muster::nodes::pins::Pins::parse(&pins.render(), Path::new("node-pins"));
            assert_eq!(again.expect("what was written can be read"), pins);
            Said::Accepted
        }
    }
}

/// The heads that were seen of nodes read back as what was written.
pub fn audit_heads(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    match muster::nodes::heads::Heads::parse(text, Path::new("audit-heads")) {
        Err(fault) => faulty(&fault, text),
        Ok(heads) => {
            let again = muster::nodes::heads::Heads::parse(&heads.render(), Path::new("audit-heads"));
            assert_eq!(again.expect("what was written can be read"), heads);
            Said::Accepted
        }
    }
}

/// Contexts are found by their names, and no path of theirs is left relative to nothing.
pub fn contexts(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    match muster::nodes::contexts::Contexts::parse(text, Path::new("/c/contexts.yaml"), Some(Path::new("/h")))
    {
        Err(faults) => {
            for fault in faults.iter() {
                faulty(fault, text);
            }
            Said::Refused
        }
        Ok(read) => {
            for context in &read.all {
                assert!(read.get(&context.name).is_ok());
                let paths =
                    [&context.inventory, &context.caller.client, &context.caller.key, &context.authority];
                assert!(paths.into_iter().flatten().all(|p| p.is_absolute()));
            }
            Said::Accepted
        }
    }
}

/// What a shim's exit code and standard error are taken for. The first byte is the code.
pub fn shim_answer(input: &[u8]) -> Said {
    let (code, stderr) = input.split_first().unwrap_or((&255, &[]));
    let stderr = String::from_utf8_lossy(stderr);
    match Verdict::read(u32::from(*code), &stderr) {
        Ok(verdict) => {
            assert_eq!(u32::from(verdict.exit.code()), u32::from(*code));
            assert!(verdict.reason.is_none_or(|r| r.exit() == verdict.exit), "a reason of another exit code");
            assert!(verdict.line.iter().all(|l| !l.chars().any(char::is_control)));
            assert!(*code != 0 || verdict.reason.is_none(), "a success with a reason to refuse");
            Said::Accepted
        }
        Err(other) => {
            assert!(!other.why.chars().any(char::is_control), "{:?}", other.why);
            Said::Refused
        }
    }
}

/// A host's answer to a probe: what is shown of it is short and without control characters, whatever the host says, and the
/// document is the host's own.
pub fn probe_answer(input: &[u8]) -> Said {
    let plain = |text: &str, most: usize| {
        assert!(text.chars().count() <= most, "{} characters", text.len());
        assert!(!text.chars().any(char::is_control), "{text:?}");
    };
    match One::parse(input) {
        Ok(one) => {
            assert!(one.cpus > 0 && !one.machine.is_empty());
            assert!(one.machine.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
            plain(&one.kubelet, 1000);
        }
        Err(other) => plain(&other.why, 400),
    }
    let two = match Two::parse(input) {
        Ok(two) => two,
        Err(other) => {
            plain(&other.why, 400);
            return Said::Refused;
        }
    };
    if let Err(fault) = &two.policy {
        plain(fault, 400);
    }
    if let Some(run) = &two.running {
        plain(&run.run, 80);
        plain(&run.phase, 80);
    }
    if let Some(run) = &two.last {
        plain(&run.run, 80);
        plain(&run.phase, 80);
        plain(&run.verdict, 80);
    }
    let written = serde_json::to_vec(&two.document).expect("a document can be written");
    // Numbers with a fraction may round; what was read is what was judged.
    let again = Two::parse(&written).map_err(|e| e.why).expect("what was taken is taken again");
    assert_eq!(
        (&again.now, &again.policy, &again.running, &again.last),
        (&two.now, &two.policy, &two.running, &two.last)
    );
    Said::Accepted
}

/// What `muster pki revoke` keeps: written again it is the same, and the list that is signed of it forgets nobody.
pub fn pki_revoked(data: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(data) else { return Said::Refused };
    let read = match Revocations::parse(text) {
        Ok(read) => read,
        Err(why) => return refused(&why),
    };
    assert_eq!(Revocations::parse(&read.render()).as_ref(), Ok(&read));
    match AUTHORITY.revoke(&read.all(), read.number, None, NOW) {
        Err(why) => refused(&why),
        Ok(pem) => {
            let list = RevocationList::read(pem.as_bytes(), AUTHORITY.ca()).expect("what was signed");
            assert_eq!(list.revoked(), read.revoked.len(), "somebody is forgotten");
            Said::Accepted
        }
    }
}

static AUTHORITY: LazyLock<Authority> =
    LazyLock::new(|| Authority::make("fuzz", Lifetime::AUTHORITY, NOW, [3; 16]).expect("an authority").0);
