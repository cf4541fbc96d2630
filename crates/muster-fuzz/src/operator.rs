//! What else the command line reads: YAML itself, host keys, pins, and what hosts answer.

use crate::{Said, refused};
use muster::{
    fault::Fault,
    inventory::HostKey,
    remote::{answer::Verdict, pins::Pins},
    yaml::{self, Kind, Node},
};
use std::{collections::BTreeSet, fmt::Write as _, path::Path};

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
