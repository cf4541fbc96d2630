use super::*;
use crate::facts::FoundFile;
use crate::key::{ControllerKey, FromPattern};
use crate::spec::{DropIn, EnvelopeOne, OnDisconnect, ShimBinary};
use muster_core::{HostName, PoolName, ProfileName};

const A: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH+Xc1Z7q6gPjBdbGJ7yKTqrRMLrcHyA8VTZ2lTzB0cF a";
const B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS b";

fn key(line: &str, from: &[&str], phases: Option<&[Phase]>) -> ControllerKey {
    let from = from.iter().map(|f| FromPattern::new(f).unwrap()).collect();
    let key = ControllerKey::new(PublicKeyLine::parse(line).unwrap()).with_from(from).unwrap();
    match phases {
        Some(phases) => key.with_phases(phases.iter().copied()),
        None => key,
    }
}

fn print(line: &str) -> String {
    PublicKeyLine::parse(line).unwrap().fingerprint().to_owned()
}

/// A host on which everything is limited that can be.
fn limited() -> HostSpec {
    let shim = ShimBinary::new(b"\x7fELF\x02".to_vec(), None).unwrap();
    let signers = format!("muster namespaces=\"muster-intent\",valid-before=\"20271231Z\" {A}\n");
    let controllers = vec![key(A, &["10.0.0.0/8"], Some(&[Phase::Join]))];
    let mut spec = HostSpec::new(HostName::new("edge-1").unwrap(), shim, signers.into(), controllers);
    spec.pools.insert(PoolName::new("edge").unwrap());
    spec.profiles.insert(ProfileName::new("tls").unwrap(), 7);
    spec.max_deadline = 600;
    spec.epoch_max_step = 10;
    spec.revoked_signers = format!("{}\n{B}\n", print(A)).into();
    spec.environment.insert("HTTPS_PROXY".into(), "http://user:hunter2@proxy".into());
    spec
}

fn open(spec: &mut HostSpec) -> &mut crate::spec::Terms {
    spec.envelope_one = EnvelopeOne::Taken(crate::spec::Terms::default());
    let EnvelopeOne::Taken(terms) = &mut spec.envelope_one else { unreachable!() };
    terms
}

/// What a host says that was provisioned with `spec`.
fn host(spec: &HostSpec) -> Facts {
    let file = |body: Vec<u8>| FoundFile {
        kind: "regular-file".into(),
        uid: 0,
        gid: 0,
        mode: 0o644,
        body: Some(body),
    };
    let keys = format!("{}/muster", files::AUTHORIZED_KEYS_DIR);
    let mut facts = Facts { manifest: Some(("muster".into(), String::new())), ..Facts::default() };
    for (path, body) in [
        (files::SHIM_TOML, files::shim_toml(spec).into_bytes()),
        (&keys, files::authorized_keys(&spec.controllers).into_bytes()),
        (files::ALLOWED_SIGNERS, spec.allowed_signers.clone()),
        (files::REVOKED_SIGNERS, files::revoked_signers(spec)),
    ] {
        facts.files.insert(path.to_owned(), file(body));
    }
    if spec.drop_in.is_some() {
        facts.baseline.push(("file".into(), files::KPSSH_SHIM.into()));
    }
    facts
}

fn words(changes: &[Change]) -> Vec<String> {
    changes.iter().map(|c| c.widens.map_or_else(|| c.text.clone(), |l| format!("[{l}] {c}"))).collect()
}

#[test]
fn the_same_again_changes_nothing() {
    let mut spec = limited();
    assert_eq!(words(&changes(&spec, &host(&spec))), Vec::<String>::new());
    open(&mut spec).deadlines.insert(Phase::Join, 60);
    spec.drop_in = Some(DropIn::default());
    assert_eq!(words(&changes(&spec, &host(&spec))), Vec::<String>::new());
}

#[test]
fn on_a_fresh_host_all_is_new_and_nothing_is_widened() {
    let mut spec = limited();
    open(&mut spec);
    let all = changes(&spec, &Facts::default());
    assert!(all.iter().all(|c| c.widens.is_none()), "{:?}", words(&all));
    let all = words(&all);
    for want in [
        format!("+ key {} from 10.0.0.0/8, for join, probe", print(A)),
        "+ pool edge".into(),
        "+ profile tls from epoch 7".into(),
        "+ variable HTTPS_PROXY".into(),
        "+ envelope 1, on-disconnect end".into(),
        format!(
            "+ signer muster namespaces=\"muster-intent\",valid-before=\"20271231Z\" ssh-ed25519 {}",
            print(A)
        ),
        "revoked: 2 more".into(),
    ] {
        assert!(all.contains(&want), "{want}: {all:#?}");
    }
    assert!(!all.iter().any(|l| l.contains("hunter2")));
}

/// Each limit that an earlier call set and this one leaves out.
#[test]
fn a_limit_that_is_left_out_is_named() {
    let mut was = limited();
    was.signers_needed = 2;
    type Edit = fn(&mut HostSpec);
    let cases: &[(Limit, &str, Edit)] = &[
        (Limit::From, "from 10.0.0.0/8 -> any address", |s| {
            s.controllers = vec![key(A, &[], Some(&[Phase::Join]))]
        }),
        (Limit::Phases, "join, probe -> every phase", |s| {
            s.controllers = vec![key(A, &["10.0.0.0/8"], None)]
        }),
        (Limit::Phases, "join, probe -> join, leave, probe", |s| {
            s.controllers = vec![key(A, &["10.0.0.0/8"], Some(&[Phase::Join, Phase::Leave]))];
        }),
        (Limit::From, "any address, no key there may", |s| {
            s.controllers = vec![key(B, &[], Some(&[Phase::Join]))];
        }),
        (Limit::Phases, "every phase, no key there may", |s| {
            s.controllers = vec![key(B, &["10.0.0.1"], None)]
        }),
        (Limit::MaxDeadline, "max-deadline: 600 -> 7200", |s| s.max_deadline = 7200),
        (Limit::EpochMaxStep, "epoch-max-step: 10 -> 1000", |s| s.epoch_max_step = 1000),
        (Limit::SignersNeeded, "signers-needed: 2 -> 1", |s| s.signers_needed = 1),
        (Limit::MinEpoch, "profile tls: min-epoch 7 -> 6", |s| {
            s.profiles.insert(ProfileName::new("tls").unwrap(), 6);
        }),
        (Limit::EnvelopeOne, "envelope-1: off -> on", |s| {
            open(s);
        }),
        (Limit::Revoked, "revoked: 2 no longer", |s| s.revoked_signers.clear()),
    ];
    for (limit, words_of_it, edit) in cases {
        let mut now = was.clone();
        edit(&mut now);
        let all = changes(&now, &host(&was));
        let lost: Vec<&Change> = all.iter().filter(|c| c.widens.is_some()).collect();
        assert_eq!(lost.len(), 1, "{limit}: {:?}", words(&all));
        assert_eq!(lost[0].widens, Some(*limit), "{:?}", words(&all));
        assert!(lost[0].text.contains(words_of_it), "{:?}", words(&all));
        assert_eq!(not_meant(&all, &BTreeSet::new()).len(), 1);
        assert_eq!(not_meant(&all, &[*limit].into()), []);
        // The other way round it is narrower, and nobody is asked.
        let back = changes(&was, &host(&now));
        assert_eq!(not_meant(&back, &BTreeSet::new()), [], "{limit}");
    }
}

#[test]
fn what_is_written_down_to_be_added_or_taken_away_is_shown_alone() {
    let was = limited();
    let mut now = was.clone();
    now.controllers.push(key(B, &["192.0.2.0/24"], Some(&[Phase::Leave])));
    now.profiles = [(ProfileName::new("other").unwrap(), 1)].into();
    now.pools.insert(PoolName::new("gpu").unwrap());
    now.environment = [("NO_PROXY".to_owned(), "x".to_owned())].into();
    now.host = HostName::new("edge-2").unwrap();
    now.allowed_signers.extend_from_slice(format!("muster {B}\n").as_bytes());
    let all = words(&changes(&now, &host(&was)));
    assert_eq!(
        all,
        [
            format!("+ key {} from 192.0.2.0/24, for leave, probe", print(B)),
            "+ pool gpu".into(),
            "+ profile other from epoch 1".into(),
            "- profile tls".into(),
            "+ variable NO_PROXY".into(),
            "- variable HTTPS_PROXY".into(),
            "host name: edge-1 -> edge-2".into(),
            format!("+ signer muster ssh-ed25519 {}", print(B)),
        ]
    );
    now.environment = [("HTTPS_PROXY".to_owned(), "another hunter3".to_owned())].into();
    let all = words(&changes(&now, &host(&was)));
    assert!(all.contains(&"variable HTTPS_PROXY: another value".into()), "{all:#?}");
    assert!(!all.iter().any(|l| l.contains("hunter")), "{all:#?}");
}

#[test]
fn m12_the_terms_of_envelope_one_are_compared() {
    let mut was = limited();
    let terms = open(&mut was);
    terms.on_disconnect = OnDisconnect::Finish;
    terms.deadlines.insert(Phase::Leave, 300);
    terms.namespace = Some("ours".into());
    was.drop_in = Some(DropIn::default());
    let mut now = was.clone();
    open(&mut now);
    now.drop_in = None;
    assert_eq!(
        words(&changes(&now, &host(&was))),
        [
            "envelope-1 on-disconnect: finish -> end",
            "[envelope-1] envelope-1 namespace: ours -> kpssh",
            "[deadline] envelope-1 deadline of leave: 300 -> 7200",
            "[drop-in] - drop-in: what was at /opt/kpssh/kpssh-shim before comes back, and its login is no longer hardened",
        ]
    );
    now.drop_in = Some(DropIn::default());
    was.drop_in = None;
    let all = words(&changes(&now, &host(&was)));
    assert!(all.contains(&"+ drop-in for the login kpssh".into()), "{all:#?}");
}

#[test]
fn a_limit_that_was_written_by_hand_counts_too() {
    let spec = limited();
    let mut facts = host(&spec);
    let path = format!("{}/muster", files::AUTHORIZED_KEYS_DIR);
    let line = format!(
        "no-pty,expiry-time=\"20270101\",command=\"a \\\"b, c\\\"\",from=\"10.0.0.0/8,10.9.0.1\",verify-required {A}\n"
    );
    facts.files.get_mut(&path).unwrap().body = Some(line.into_bytes());
    let all = words(&changes(&spec, &facts));
    assert!(
        all.contains(&format!(
            "[key-options] key {}: expiry-time=\"20270101\", verify-required -> nothing",
            print(A)
        )),
        "{all:#?}"
    );
    assert!(!all.iter().any(|l| l.contains("[from]")), "{all:#?}");
    // A key that the table leaves out may ask for nothing.
    let mut toml = files::shim_toml(&spec).replace(&print(A), &print(B));
    facts.files.get_mut(files::SHIM_TOML).unwrap().body = Some(toml.clone().into_bytes());
    let all = words(&changes(&spec, &facts));
    assert!(all.contains(&format!("[phases] key {}: probe -> join, probe", print(A))), "{all:#?}");
    // What cannot be read limits nobody knows what.
    toml.push_str("broken\n");
    let broken = [Some(toml.into_bytes()), None];
    for body in broken {
        facts.files.get_mut(files::SHIM_TOML).unwrap().body = body;
        let all = changes(&spec, &facts);
        assert_eq!(all.iter().filter_map(|c| c.widens).collect::<Vec<_>>(), [Limit::Unreadable], "{all:?}");
    }
    facts.files.remove(files::SHIM_TOML);
    assert_eq!(changes(&spec, &facts)[0].widens, Some(Limit::Unreadable));
}

#[test]
fn revocation_lists_are_compared_by_entry_or_by_number() {
    let krl = |number: u64| {
        let mut out = b"SSHKRL\n\0\0\0\0\x01".to_vec();
        out.extend_from_slice(&number.to_be_bytes());
        Revoked::read(&out)
    };
    let text = |t: &str| Revoked::read(t.as_bytes());
    let lost = |was: &Revoked, now: &Revoked| was.becomes(now).map(|(_, lost)| lost);
    assert_eq!(lost(&text(A), &text(&format!("# by print\n{}\n", print(A)))), None, "one key in two forms");
    assert_eq!(lost(&text(A), &text(&format!("{A}\n{B}\n"))), Some(false));
    assert_eq!(lost(&text(A), &text(B)), Some(true));
    assert_eq!(lost(&krl(3), &krl(3)), None);
    assert_eq!((lost(&krl(3), &krl(4)), lost(&krl(4), &krl(3))), (Some(false), Some(true)));
    assert_eq!(
        (lost(&text(""), &krl(1)), lost(&text(A), &krl(1)), lost(&krl(1), &text(A))),
        (Some(false), Some(true), Some(true))
    );
}

#[test]
fn every_limit_has_its_word() {
    for limit in Limit::ALL {
        assert_eq!(Limit::from_word(limit.word()), Some(*limit));
    }
}
