//! What the operator's command line reads: inventories, profiles' manifests, scripts that it lints.

use crate::{Said, refused};
use muster::commands::host::{spec, values::secret_of};
use muster::fault::Faults;
use muster::inventory::{Inventory, NewHost, Selection, Selector, choose, text_with_host};
use muster::keygen::options;
use muster::profile::folder::{Folder, Overrides, Script, sha256};
use muster::profile::manifest::{Manifest, parse_target};
use muster::remote::output::{self, Lines};
use muster::secret::Secrets;
use muster::shell::{self, Rule, is_carried};
use muster::ui::text as ui;
use muster::yaml::walk;
use muster_core::{HostName, Phase, UtcTime, redact};
use muster_signing::allowed_signers::ZuluOnly;
use muster_signing::intent::Intent;
use muster_signing::params;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
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

/// `muster host add`: a line of texts for the new host, then the inventory. What the operator wrote stays, and every other
/// host stays what it was.
pub fn inventory_edit(input: &[u8]) -> Said {
    let Ok(input) = core::str::from_utf8(input) else { return Said::Refused };
    let (words, text) = input.split_once('\n').unwrap_or(("", input));
    let word = |n: usize| words.split('|').nth(n).map(str::to_owned);
    let host = NewHost {
        name: HostName::new("zz-new").expect("a name"),
        address: word(0).unwrap_or_default(),
        port: None,
        user: word(1),
        via: word(2).filter(|w| !w.is_empty()).into_iter().collect(),
        pools: Vec::new(),
        labels: word(3).map(|w| ("rack".to_owned(), w)).into_iter().collect(),
        host_cas: Vec::new(),
        admin_user: word(4),
    };
    let file = Path::new("inventory.yaml");
    let (changed, after) = match text_with_host(text, file, None, &host) {
        Ok(changed) => changed,
        Err(all) => return faults(&all),
    };
    let before = Inventory::parse(text, file, None).expect("it was read");
    let before_it = text.bytes().zip(changed.bytes()).take_while(|(a, b)| a == b).count();
    let after_it = text.bytes().rev().zip(changed.bytes().rev()).take_while(|(a, b)| a == b).count();
    // `hosts: null` is the most that goes.
    assert!(before_it + after_it + 5 >= text.len(), "more was changed than one place: {changed:?}");
    let told = |i: &Inventory| {
        i.hosts.iter().map(|h| (h.name.clone(), format!("{h:?}"))).collect::<BTreeMap<_, _>>()
    };
    let (mut new, old) = (told(&after), told(&before));
    new.remove(&host.name);
    assert_eq!(new, old, "another host is not what it was");
    assert_eq!(
        format!("{:?}", (&after.trust, &after.signing)),
        format!("{:?}", (&before.trust, &before.signing))
    );
    let added = after.host("zz-new").expect("it is there");
    assert_eq!(added.ssh.address, host.address);
    assert!(host.user.is_none_or(|u| u == added.ssh.user));
    assert!(host.labels.iter().all(|(k, v)| added.labels.get(k) == Some(v)), "{:?}", added.labels);
    Said::Accepted
}

/// `ssh-keygen`'s command line, the words between NUL: what is answered here means the same in its plainest spelling, and its
/// `-O` options say one thing, wherever one stands.
pub fn keygen_call(input: &[u8]) -> Said {
    let words: Vec<OsString> = input.split(|b| *b == 0).map(|w| OsString::from_vec(w.to_vec())).collect();
    let Some(call) = options::parse(&words) else { return Said::Refused };
    let mut plain: Vec<OsString> = vec!["-Y".into(), call.call.word().into()];
    for (flag, there) in [("-q", call.quiet), ("-U", call.agent_only)] {
        plain.extend(there.then(|| flag.into()));
    }
    let values = [("-f", &call.file), ("-I", &call.identity), ("-n", &call.namespace)];
    for (letter, value) in values.into_iter().chain([("-s", &call.signature), ("-r", &call.revoked)]) {
        plain.extend(value.iter().flat_map(|v| [letter.into(), v.clone()]));
    }
    plain.extend(call.more.iter().flat_map(|v| ["-O".into(), v.clone()]));
    plain.push("--".into());
    plain.extend(call.operands.iter().cloned());
    let again = options::parse(&plain).expect("its plainest spelling");
    assert_eq!(format!("{again:?}"), format!("{call:?}"));
    let pieces = words.iter().map(|w| w.len() + 1).sum::<usize>();
    assert!(call.more.len() + call.operands.len() <= pieces);
    let local = call.checking(&crate::text::Ahead);
    if let Ok(zulu) = call.checking(&ZuluOnly) {
        assert_eq!(local, Ok(zulu), "where one stands changes what a time with Z means");
    }
    if let (Err(why), Err(_)) = (local, call.hash()) {
        // It is cleaned before it is shown, as every line of the front is.
        assert!(why.starts_with("Invalid "), "{why}");
    }
    Said::Accepted
}

/// Texts that stand behind an option or in a file: a word for the kind, and the text.
pub fn values(input: &[u8]) -> Said {
    let at = input.iter().position(|b| *b == b' ').unwrap_or(input.len());
    let (kind, text) = input.split_at(at);
    let text = text.get(1..).unwrap_or_default();
    if kind == b"secret" {
        let Ok(secret) = secret_of(text) else { return Said::Refused };
        assert!(text.starts_with(secret.expose()) && text.len() - secret.expose().len() <= 2);
        assert!(!secret.expose().contains(&b'\n') && !format!("{secret:?}").contains("canary"));
        let mut secrets = Secrets::default();
        secrets.add(secret.expose());
        assert_eq!(
            secrets.redact(text).strip_prefix(redact::MARK.as_bytes()).map(<[u8]>::len),
            Some(text.len() - secret.expose().len())
        );
        return Said::Accepted;
    }
    let Ok(text) = core::str::from_utf8(text) else { return Said::Refused };
    let taken = match kind {
        b"duration" => walk::duration(text).is_some_and(|seconds| {
            assert_eq!(walk::duration(&walk::show_duration(seconds)), Some(seconds), "{text:?}");
            true
        }),
        b"selector" => match text.parse::<Selector>() {
            Ok(selector) => {
                let spaced = text.replace(',', " , ").parse::<Selector>();
                assert_eq!(spaced, Ok(selector), "blanks around a comma matter");
                true
            }
            Err(why) => {
                refused(&muster::fault::Fault::new(muster_core::Reason::InternalFault, why));
                false
            }
        },
        b"epoch" => match spec::profile_epoch("--allow-profile", text) {
            Ok((name, epoch)) => {
                let again = spec::profile_epoch("--allow-profile", &format!("{name}={epoch}"));
                assert!(epoch > 0 && again.is_ok_and(|a| a == (name, epoch)));
                true
            }
            Err(why) => {
                refused(&why);
                false
            }
        },
        b"target" => parse_target(text).is_some_and(|target| {
            assert_eq!(parse_target(&target.to_string()), Some(target), "{text:?}");
            true
        }),
        _ => false,
    };
    if taken { Said::Accepted } else { Said::Refused }
}

/// What hosts print, on its way to a person: the first line is a secret, the second how the rest is cut into pieces. The
/// secret is not shown in any of its forms, no control character is, and how the bytes arrive changes nothing.
pub fn shown_output(input: &[u8]) -> Said {
    let mut lines = input.splitn(3, |b| *b == b'\n');
    let (secret, cuts, text) = (lines.next(), lines.next(), lines.next());
    let (Some(secret), Some(cuts), Some(text)) = (secret, cuts, text) else { return Said::Refused };
    let Ok(secret) = secret_of(secret) else { return Said::Refused };
    let mut secrets = Secrets::default();
    secrets.add(secret.expose());
    let collect = |pieces: &[&[u8]]| {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.push(piece, &secrets, &mut |line| out.push(line));
        }
        lines.finish(&secrets, &mut |line| out.push(line));
        out
    };
    let whole = collect(&[text]);
    let (mut pieces, mut rest) = (Vec::new(), text);
    for cut in cuts {
        let (head, tail) = rest.split_at(usize::from(*cut).min(rest.len()));
        pieces.push(head);
        rest = tail;
    }
    pieces.push(rest);
    assert_eq!(collect(&pieces), whole, "how it arrives changes what is shown");
    let bare = secret.expose();
    // A secret that is a part of the mark itself stands wherever the mark does.
    let in_mark = redact::MARK
        .as_bytes()
        .windows(bare.len().min(redact::MARK.len()))
        .any(|w| bare.starts_with(w) || bare.ends_with(w));
    let blocks = [
        output::block(text, false, &secrets),
        output::shown(text, &secrets),
        output::last_words(text, 300, &secrets),
    ];
    for shown in whole.iter().chain(&blocks) {
        // Nor is it told of one that looks like an escaped control character, which is what a host's own is shown as.
        let printable = bare.iter().all(|b| b.is_ascii_graphic() && *b != b'\\');
        assert!(
            !printable || in_mark || !shown.as_bytes().windows(bare.len()).any(|w| w == bare),
            "the secret is shown: {shown:?}"
        );
        assert!(!shown.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\t')), "{shown:?}");
    }
    let text = ui::tidy(&String::from_utf8_lossy(text));
    assert!(!text.chars().any(char::is_control), "{text:?}");
    for width in [1, 7, 80] {
        assert!(ui::columns(&ui::fit(&text, width)) <= width, "{width}: {text:?}");
        assert!(ui::wrap(&text, width).iter().all(|l| ui::columns(l) <= width.max(2)), "{width}: {text:?}");
    }
    if whole.iter().any(|l| l.contains(redact::MARK)) { Said::Accepted } else { Said::Refused }
}
