//! Provisioning: what hosts answer, and that what is written for the shim is what the shim reads.

use crate::{Said, operator::known_fingerprint, refused, refused_within, ssh::NOW};
use muster_core::{HostName, Phase, PoolName, ProfileName};
use muster_provision::{
    AccountName, ControllerKey, EnvelopeOne, FromPattern, HostSpec, Limit, PublicKeyLine, ShimBinary, change,
    doctor::{self, Evidence, Known, Subject, Verdict},
    elevate,
    facts::Facts,
    files, preflight,
    rotate::Rotation,
    spec::Terms,
};
use muster_shim::{floors::Floors, policy::Policy};
use muster_signing::{allowed_signers::AllowedSigners, allowed_signers::ZuluOnly, revoked::RevokedSigners};
use std::collections::BTreeSet;

const SIGNERS: &str = "muster namespaces=\"muster-intent\" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n";
const LOGIN: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz7HwHReFVD8obXVsAnzxaMkScatAfHcoR6XZ controller";

fn subject() -> Subject {
    Subject {
        account: AccountName::default(),
        address: "10.0.0.9".parse().expect("an address"),
        drop_in: Some(AccountName::new("kpssh").expect("a name")),
    }
}

/// The doctor's evidence: every check has a verdict whatever a host says, each once and in one order; and a host that says
/// nothing of itself passes nothing that matters.
pub fn doctor_answer(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let evidence = match Evidence::parse(text) {
        Ok(evidence) => evidence,
        Err(why) => return answer(&why),
    };
    let known = Known { now: NOW, shim_sha256: Some("0".repeat(64)) };
    let report = doctor::judge(&subject(), &evidence, &known);
    let ids: Vec<&str> = report.checks.iter().map(|c| c.id).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "a check stands twice: {ids:?}");
    let nothing = doctor::judge(&subject(), &Evidence::default(), &known);
    assert_eq!(
        ids,
        nothing.checks.iter().map(|c| c.id).collect::<Vec<_>>(),
        "what is checked hangs on the answer"
    );
    for (check, silent) in report.checks.iter().zip(&nothing.checks) {
        assert!(!check.why.is_empty());
        assert_eq!(check.fix.is_empty(), check.verdict == Verdict::Pass, "{}: {:?}", check.id, check.fix);
        assert!(
            check.id == "sshd-valid"
                || silent.id != check.id
                || silent.verdict != Verdict::Pass
                || silent.id == "old-keys",
            "{} passes on a host that said nothing: {}",
            silent.id,
            silent.found
        );
    }
    let pin = report.checks.iter().find(|c| c.id == "sshd-pin").expect("the pin is checked");
    let forced = evidence.login(&subject().account).keyword("forcecommand").map(str::to_owned);
    assert!(pin.verdict != Verdict::Pass || forced.as_deref() == Some(files::SHIM), "pinned to {forced:?}");
    let digest = report.checks.iter().find(|c| c.id == "shim-digest").expect("the digest is compared");
    assert!(digest.verdict != Verdict::Pass || evidence.shim_sum == "0".repeat(64));
    Said::Accepted
}

/// A host's words end in a fault of the command line, which shows them cleaned and cut.
fn answer(why: &dyn core::fmt::Display) -> Said {
    refused(&muster::fault::Fault::new(muster_core::Reason::InternalFault, why.to_string()))
}

/// What a host says before it is provisioned; every obstacle is one bounded line.
pub fn provision_facts(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    let facts = match Facts::parse(text) {
        Ok(facts) => facts,
        Err(why) => return answer(&why),
    };
    let obstacles = preflight::provision(&plain_spec(), &facts);
    for obstacle in obstacles.iter().chain(&preflight::unprovision(&facts)) {
        answer(obstacle);
    }
    // What a host says of its own files is compared with what would be written.
    let changes = change::changes(&plain_spec(), &facts);
    for change in &changes {
        answer(change);
    }
    let policy = facts.files.get(files::SHIM_TOML);
    let unknown = match policy.and_then(|f| f.body.as_deref()) {
        Some(body) => core::str::from_utf8(body).is_err(),
        None => policy.is_some() || facts.manifest.is_some(),
    };
    assert!(
        !unknown || changes.iter().any(|c| c.widens == Some(Limit::Unreadable)),
        "a policy that cannot be read is taken for none"
    );
    assert!(facts.uid == 0 || obstacles.iter().any(|o| o.id == "root"), "provisioned without being root");
    Said::Accepted
}

fn plain_spec() -> HostSpec {
    let shim = ShimBinary::new(b"\x7fELF\x02".to_vec(), None).expect("an ELF file");
    let key = ControllerKey::new(PublicKeyLine::parse(LOGIN).expect("a key"));
    HostSpec::new(HostName::new("edge-1").expect("a name"), shim, SIGNERS.into(), vec![key])
}

/// A spec out of lines; a word that is not known, or a value that is no value of its kind, is refused.
fn spec(text: &str) -> Option<HostSpec> {
    let mut spec = plain_spec();
    for line in text.lines() {
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "host" => spec.host = HostName::new(value).ok()?,
            "pool" => drop(spec.pools.insert(PoolName::new(value).ok()?)),
            "profile" => {
                let (name, epoch) = value.split_once(' ')?;
                spec.profiles.insert(ProfileName::new(name).ok()?, epoch.parse().ok()?);
            }
            "needed" => spec.signers_needed = value.parse().ok()?,
            "longest" => spec.max_deadline = value.parse().ok()?,
            "step" => spec.epoch_max_step = value.parse().ok()?,
            "env" => {
                let (name, value) = value.split_once('=')?;
                spec.environment.insert(name.to_owned(), value.to_owned());
            }
            "one" => {
                let terms =
                    Terms { namespace: (!value.is_empty()).then(|| value.to_owned()), ..Terms::default() };
                spec.envelope_one = EnvelopeOne::Taken(terms);
            }
            "deadline" => {
                let (phase, seconds) = value.split_once(' ')?;
                let EnvelopeOne::Taken(terms) = &mut spec.envelope_one else { return None };
                terms.deadlines.insert(Phase::from_word(phase)?, seconds.parse().ok()?);
            }
            "signer" => spec.allowed_signers.extend_from_slice(format!("{value}\n").as_bytes()),
            "revoked" => spec.revoked_signers.extend_from_slice(format!("{value}\n").as_bytes()),
            "key" => spec.controllers.push(ControllerKey::new(PublicKeyLine::parse(value).ok()?)),
            "from" => {
                let last = spec.controllers.pop()?;
                let patterns: Option<Vec<_>> = value.split(',').map(|p| FromPattern::new(p).ok()).collect();
                spec.controllers.push(last.with_from(patterns?).ok()?);
            }
            "phases" => {
                let last = spec.controllers.pop()?;
                let phases: Option<Vec<_>> = value.split(' ').map(Phase::from_word).collect();
                spec.controllers.push(last.with_phases(phases?));
            }
            _ => return None,
        }
    }
    Some(spec)
}

/// What provisioning accepts and writes, the shim and sshd read as the same.
pub fn host_spec(input: &[u8]) -> Said {
    let Some(spec) = core::str::from_utf8(input).ok().and_then(spec) else { return Said::Refused };
    if let Err(faults) = spec.check() {
        for fault in &faults {
            answer(fault);
        }
        return Said::Refused;
    }
    let text = files::shim_toml(&spec);
    let policy =
        Policy::parse(text.as_bytes()).unwrap_or_else(|why| panic!("the shim refuses: {why}\n{text}"));
    assert_eq!(policy.host.as_ref(), Some(&spec.host));
    assert!(policy.pools.iter().eq(&spec.pools));
    assert_eq!(policy.signers_needed, spec.signers_needed);
    assert_eq!((policy.max_deadline, policy.epoch_max_step), (spec.max_deadline, spec.epoch_max_step));
    assert_eq!(policy.environment, spec.environment);
    assert_eq!(policy.envelope_1, spec.envelope_one != EnvelopeOne::Refused);
    let profiles = policy.profiles.unwrap_or_default();
    assert!(profiles.iter().map(|(n, e)| (n, e.unwrap_or(0))).eq(spec.profiles.iter().map(|(n, e)| (n, *e))));
    let limited = spec.controllers.iter().any(|k| k.phases().is_some());
    assert_eq!(policy.keys.is_some(), limited, "a limit on a key is lost");
    for (fingerprint, phases) in policy.keys.iter().flatten() {
        known_fingerprint(fingerprint);
        let key = spec
            .controllers
            .iter()
            .find(|k| k.key().fingerprint() == fingerprint)
            .expect("a key of the spec");
        assert!(key.phases().is_none_or(|p| p.iter().eq(phases.iter().collect::<BTreeSet<_>>())));
    }
    let floors = Floors::parse(files::floors(&spec).as_bytes()).expect("the shim reads the first floors");
    assert!(floors.iter().eq(spec.profiles.iter().map(|(n, e)| (n, *e))));
    assert!(AllowedSigners::parse(&spec.allowed_signers, &ZuluOnly).is_ok());
    assert!(RevokedSigners::parse(&files::revoked_signers(&spec)).is_ok());
    login_lines(&files::authorized_keys(&spec.controllers), &spec.controllers);
    Said::Accepted
}

/// One line a key, each of them restricted and pinned, and nothing of a comment or pattern gets out of its place.
fn login_lines(text: &str, keys: &[ControllerKey]) {
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    assert_eq!(lines.len(), keys.len(), "{text}");
    for (line, key) in lines.iter().zip(keys) {
        let rest = line
            .strip_prefix(&format!("restrict,command=\"{}\"", files::SHIM))
            .expect("restricted and pinned");
        let (options, plain) = rest.split_at(rest.find(' ').expect("options and a key"));
        assert!(
            options.is_empty() || (options.starts_with(",from=\"") && options.matches('"').count() == 2),
            "{line}"
        );
        assert_eq!(plain.trim_start(), key.key().line());
        assert!(!line.chars().any(char::is_control));
    }
}

/// A `.pub` file's line as a controller's key.
pub fn controller_key(input: &[u8]) -> Said {
    let Ok(text) = core::str::from_utf8(input) else { return Said::Refused };
    match PublicKeyLine::parse(text) {
        Err(why) => answer(&why),
        Ok(key) => {
            known_fingerprint(key.fingerprint());
            let again = PublicKeyLine::parse(key.line()).expect("its own line");
            assert_eq!(again.line(), key.line());
            assert_eq!(again.fingerprint(), key.fingerprint());
            let bare =
                PublicKeyLine::parse(&key.without_comment()).expect("its own line without the comment");
            assert_eq!(bare.fingerprint(), key.fingerprint());
            login_lines(
                &files::authorized_keys(&[ControllerKey::new(key.clone())]),
                &[ControllerKey::new(key)],
            );
            Said::Accepted
        }
    }
}

/// The parts of an input, `%%` on a line between them.
pub(crate) fn parts<const N: usize>(input: &[u8]) -> [&[u8]; N] {
    let mut rest = input;
    core::array::from_fn(|_| {
        let at = rest.windows(4).position(|w| w == b"\n%%\n");
        let (head, tail) = rest.split_at(at.unwrap_or(rest.len()));
        rest = tail.get(4..).unwrap_or_default();
        head
    })
}

/// The doctor on a host's files, bare: what it says of a policy that the shim takes is what the shim does with it, and no file
/// passes that the shim refuses.
pub fn doctor_files(input: &[u8]) -> Said {
    let [policy, signers, revoked, floors, keys] = parts(input);
    let keys_file = format!("{}/{}", files::AUTHORIZED_KEYS_DIR, subject().account);
    let bodies = [
        (files::SHIM_TOML, policy),
        (files::ALLOWED_SIGNERS, signers),
        (files::REVOKED_SIGNERS, revoked),
        (files::FLOORS, floors),
        (keys_file.as_str(), keys),
    ];
    let mut evidence = Evidence::default();
    evidence.bodies.extend(bodies.map(|(path, body)| (path.to_owned(), body.to_vec())));
    let report = doctor::judge(&subject(), &evidence, &Known { now: NOW, shim_sha256: None });
    for check in &report.checks {
        refused_within(
            1 << 16,
            &muster::fault::Fault::new(muster_core::Reason::InternalFault, format!("x{}", check.found)),
        );
    }
    let verdict = |id: &str| report.checks.iter().find(|c| c.id == id).expect("it is checked").verdict;
    let passes = |id: &str| verdict(id) == Verdict::Pass;
    let trust = AllowedSigners::parse(signers, &ZuluOnly);
    assert!(!passes("signers") || trust.is_ok(), "signers that the shim refuses pass");
    assert!(!passes("revocation") || RevokedSigners::parse(revoked).is_ok());
    assert!(!passes("floors") || Floors::parse(floors).is_ok());
    let Ok(policy) = Policy::parse(policy) else { return Said::Refused };
    assert_eq!(passes("policy"), policy.profiles.is_some());
    assert_eq!(passes("host-name"), policy.host.is_some());
    assert_eq!(passes("envelope-1"), !policy.envelope_1 || policy.signers_needed > 1);
    assert_eq!(passes("profiles"), policy.profiles.iter().flatten().all(|(_, least)| least.is_some()));
    assert_eq!(passes("key-policy"), policy.keys.is_some());
    let enough =
        trust.map(|t| t.identities("muster", "muster-intent").len() >= policy.signers_needed as usize);
    assert_eq!(passes("signers"), enough == Ok(true));
    Said::Accepted
}

/// A rotation of a key on what lies on a host: keys file and policy. Nobody else's line or limit changes, the new key has the
/// limits of the old one, and the shim reads what is written.
pub fn rotate_files(input: &[u8]) -> Said {
    let [keys, policy] = parts(input);
    let account = AccountName::default();
    let new = ControllerKey::new(PublicKeyLine::parse(LOGIN).expect("a key"));
    let fingerprints = |text: &str| -> Vec<String> {
        let keys = text.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(' '));
        keys.filter_map(|(_, k)| Some(PublicKeyLine::parse(k).ok()?.fingerprint().to_owned())).collect()
    };
    let there = fingerprints(&String::from_utf8_lossy(keys));
    let Some(old) = there.first() else { return Said::Refused };
    let rotation = match Rotation::new(&account, keys, policy, old, &new) {
        Ok(rotation) => rotation,
        Err(why) => return answer(&why),
    };
    let before = Policy::parse(policy);
    for (plan, keeps) in [(&rotation.add, true), (&rotation.remove, false)] {
        let file = |end: &str| {
            let step = plan.steps().iter().find(|s| s.path().is_some_and(|p| p.ends_with(end)));
            step.map(|s| String::from_utf8(s.input()).expect("text"))
        };
        let written = file(account.as_str()).expect("the keys are written");
        let mut want: BTreeSet<&str> = there.iter().map(String::as_str).collect();
        want.insert(new.key().fingerprint());
        if !keeps {
            want.remove(old.as_str());
        }
        let got = fingerprints(&written);
        assert_eq!(got.iter().map(String::as_str).collect::<BTreeSet<_>>(), want, "{written}");
        assert!(written.lines().all(|l| l.is_empty() || l.starts_with('#') || l.starts_with("restrict,")));
        let Ok(before) = &before else { continue };
        let after =
            file("shim.toml").map_or_else(|| Ok(before.clone()), |text| Policy::parse(text.as_bytes()));
        let after = after.unwrap_or_else(|why| panic!("the shim refuses what was written: {why}"));
        let mut want = before.clone();
        if let Some(limits) = &mut want.keys {
            let phases = limits.get(old).cloned().expect("a policy without the old key is refused");
            limits.entry(new.key().fingerprint().to_owned()).or_insert(phases);
            if !keeps {
                limits.remove(old);
            }
        }
        assert_eq!(after, want, "the policy says something else");
    }
    Said::Accepted
}

/// What comes back from the root side of an admin login: exit code, standard output, and error, in that order.
pub fn root_answer(input: &[u8]) -> Said {
    let (code, rest) = input.split_first().unwrap_or((&255, &[]));
    let at = rest.windows(4).position(|w| w == b"\n%%\n");
    let (stdout, stderr) = rest.split_at(at.unwrap_or(rest.len()));
    let stderr = stderr.get(4..).unwrap_or_default();
    let marker = "muster0123456789abcdef";
    match elevate::outcome(marker, (*code != 255).then(|| i32::from(*code)), stdout, stderr) {
        Ok(out) => {
            assert!(out.stdout.len() + marker.len() < stdout.len(), "more came out than went in");
            assert!(out.stderr.len() <= stderr.len());
            refused_within(1024, &format!("x{}", out.stderr_tail(300)));
            Said::Accepted
        }
        Err(why) => answer(&why),
    }
}
