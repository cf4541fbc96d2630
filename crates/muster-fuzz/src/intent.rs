//! The intent.

use crate::{Said, refused, said};
use muster_core::{HostName, Phase, PoolName, UtcTime};
use muster_signing::{
    intent::{Intent, OnDisconnect, Target},
    params::Param,
};

/// An intent has one spelling, but for `on-disconnect: end`, which may be left out.
pub fn intent(input: &[u8]) -> Said {
    let intent = match Intent::parse(input) {
        Ok(intent) => intent,
        Err(why) => return refused(&why),
    };
    let text = intent.fields().render().expect("what was read can be written");
    let canonical = match input.strip_suffix(b"on-disconnect: end\n") {
        Some(head) => head,
        None => input,
    };
    assert_eq!(text.as_bytes(), canonical, "two spellings of one intent");
    let again = Intent::parse(text.as_bytes()).expect("what was written can be read");
    assert_eq!(again.fields(), intent.fields());
    assert_eq!(again.digest() == intent.digest(), canonical == input, "the digest is of the bytes");
    grammar(&intent);
    judge(&intent);
    Said::Accepted
}

/// What the grammar promises of every field.
fn grammar(intent: &Intent) {
    assert_eq!(intent.script_sha256().is_some(), intent.phase().is_scripted());
    assert_ne!(intent.phase(), Phase::Probe);
    assert!(intent.epoch() >= 1);
    assert!((1..=86_400).contains(&intent.deadline()));
    assert!(intent.not_before() < intent.not_after());
    assert!((1..=256).contains(&intent.targets().len()));
    assert!(!intent.targets().contains(&Target::Any) || intent.targets().len() == 1, "* stands alone");
    assert!(intent.values().len() + intent.params().len() <= 128);
    let mut names: Vec<&str> = intent.values().iter().map(|v| v.name.as_str()).collect();
    names.extend(intent.params().iter().map(|p| p.name.as_str()));
    for name in &names {
        assert!(muster_signing::params::is_name(name), "{name:?}");
    }
    let all = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all, "a name stands twice");
}

/// The checks that follow the signature's, each against what the fields say.
fn judge(intent: &Intent) {
    for phase in Phase::SCRIPTED {
        assert_eq!(intent.check_phase(phase).is_ok(), phase == intent.phase());
    }
    let (from, until) = (intent.not_before(), intent.not_after());
    assert!(intent.check_validity(from).is_ok(), "the first second is valid");
    said(intent.check_validity(until));
    assert!(intent.check_validity(until).is_err(), "the last second is not valid");
    assert!(intent.check_validity(UtcTime::from_unix(until.unix() - 1)).is_ok());
    if let Some(before) = from.unix().checked_sub(1) {
        assert!(intent.check_validity(UtcTime::from_unix(before)).is_err());
    }
    assert!(intent.check_deadline(intent.deadline()).is_ok());
    assert!(intent.check_deadline(intent.deadline() - 1).is_err());
    assert!(intent.check_script(intent.script_sha256()).is_ok());
    assert!(intent.check_script(Some(&[0x5a; 32])).is_err() || intent.script_sha256() == Some(&[0x5a; 32]));

    let nobody = intent.check_target(None, &[]);
    assert_eq!(nobody.is_ok(), intent.targets() == [Target::Any], "a host without a name is met by * alone");
    said(nobody);
    for target in intent.targets() {
        let (host, pools) = match target {
            Target::Any => (None, Vec::new()),
            Target::Host(name) => (Some(name.clone()), Vec::new()),
            Target::Pool(name) => (None, vec![name.clone()]),
        };
        assert_eq!(intent.check_target(host.as_ref(), &pools), Ok(target));
        // A host's name is not a pool's name.
        if let Target::Host(name) = target {
            let pool = PoolName::new(name.as_str()).expect("one form of name");
            if !intent.targets().contains(&Target::Pool(pool.clone())) {
                assert!(intent.check_target(None, &[pool]).is_err());
            }
        }
    }
    let far = HostName::new("a-host-that-no-intent-names").expect("a name");
    said(intent.check_target(Some(&far), &[]));
    check_params(intent);
    assert!(matches!(intent.on_disconnect(), OnDisconnect::End | OnDisconnect::Finish));
}

fn check_params(intent: &Intent) {
    let none = intent.check_params(&[]);
    let required = intent.params().iter().filter(|p| !p.optional).count();
    match &none {
        Ok(env) => {
            assert_eq!(required, 0, "a required parameter was not missed");
            assert_eq!(env.len(), intent.values().len());
        }
        Err(_) => assert!(required > 0),
    }
    said(none);
    if let Some(value) = intent.values().first() {
        let sent: Vec<Param> = vec![(value.name.clone(), value.value.clone())];
        assert!(intent.check_params(&sent).is_err(), "a signed constant was sent and taken");
    }
    let undeclared: Vec<Param> = vec![("MUSTER_NOT_DECLARED_ANYWHERE".to_owned(), b"x".to_vec())];
    if !intent.params().iter().any(|p| p.name == "MUSTER_NOT_DECLARED_ANYWHERE") {
        assert!(intent.check_params(&undeclared).is_err(), "an undeclared parameter was taken");
    }
    // A pattern is for the whole value, and no pattern takes a line break.
    for line in intent.params().iter().take(4) {
        for value in [&b""[..], b"a", b"10.0.0.1", b"a\nb", b"a\0", b"\xff"] {
            let sent: Vec<Param> = vec![(line.name.clone(), value.to_vec())];
            let taken = intent.check_params(&sent);
            if let Ok(env) = &taken {
                assert!(!value.iter().any(|b| matches!(b, 0 | b'\n' | b'\r')) && value != b"\xff");
                assert!(env.iter().any(|(n, v)| *n == line.name && v == value));
            }
            said(taken);
        }
    }
}
