//! What the shim reads on a host: its policy, its state, what sshd and the kernel say, and an envelope as a whole.

use crate::{Said, refused, ssh::NOW};
use muster_core::{ProfileName, UtcTime};
use muster_shim::{
    called::CalledAs,
    decide::{Asked, Ground, decide},
    evidence,
    floors::Floors,
    fuzzing::{self, Value},
    json,
    policy::{Loaded, Policy},
    record::{Facts, RunId},
    report::one_line,
    runfile::RunRecord,
    trust::Trust,
};
use muster_signing::allowed_signers::AllowedSigners;
use muster_sys::{cgroup, procfs, procfs::Stat, tcp::Connection};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

/// Whether another reader of TOML read the same.
fn same(ours: &BTreeMap<String, Value>, theirs: &toml::Table) -> bool {
    let equal = |a: &Value, b: &toml::Value| match (a, b) {
        (Value::Text(a), toml::Value::String(b)) => a == b,
        (Value::Number(a), toml::Value::Integer(b)) => i64::try_from(*a) == Ok(*b),
        (Value::Bool(a), toml::Value::Boolean(b)) => a == b,
        (Value::List(a), toml::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| b.as_str() == Some(a))
        }
        (Value::Table(a), toml::Value::Table(b)) => same(a, b),
        _ => false,
    };
    ours.len() == theirs.len()
        && ours.iter().all(|(name, value)| theirs.get(name).is_some_and(|v| equal(value, v)))
}

/// Our reader takes a part of TOML: whatever it takes, the `toml` crate takes, and reads as the same.
fn judged(text: &str) {
    if let Ok(ours) = fuzzing::toml(text) {
        match toml::from_str::<toml::Table>(text) {
            Ok(theirs) => assert!(same(&ours, &theirs), "{text:?}: {ours:?}, and not {theirs:?}"),
            Err(why) => panic!("{text:?} is taken, and is no TOML: {why}"),
        }
    }
}

/// `shim.toml`: whatever is taken is TOML and means what TOML says, is within its bounds, and one unknown word refuses all of it.
pub fn shim_toml(input: &[u8]) -> Said {
    if let Ok(text) = core::str::from_utf8(input) {
        judged(text);
    }
    let policy = match Policy::parse(input) {
        Ok(policy) => policy,
        Err(why) => {
            let lines = input.split(|b| *b == b'\n').count();
            assert!(why.line <= lines + 1, "line {} of {lines}", why.line);
            // The shim never shows it in another way.
            return refused(&one_line(&why.to_string()));
        }
    };
    assert!((1..=8).contains(&policy.signers_needed));
    assert!((1..=86_400).contains(&policy.max_deadline));
    assert!(policy.epoch_max_step >= 1);
    for (name, value) in &policy.environment {
        let shown = format!("{name:?}");
        assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') && !name.is_empty(), "{shown}");
        assert!(!["BASH", "LD_", "MUSTER_", "KPSSH_"].iter().any(|p| name.starts_with(p)), "{shown}");
        assert!(
            !["PATH", "HOME", "IFS", "ENV", "PS4", "SHELLOPTS", "TZ"].contains(&name.as_str()),
            "{shown}"
        );
        assert!(!value.contains(['\0', '\n', '\r']), "{shown} holds a line break");
    }
    for (name, least) in policy.profiles.iter().flatten() {
        assert_eq!(policy.profile(name), Some(*least));
        assert!(least.is_none_or(|n| n >= 1));
    }
    for fingerprint in policy.keys.iter().flatten().map(|(f, _)| f) {
        assert!(fingerprint.starts_with("SHA256:") && fingerprint.len() == 50, "{fingerprint:?}");
    }
    for word in ["zz-unknown = 1\n", "Signers-needed = 2\n", "zz-unknown.x = 1\n"] {
        let more = [word.as_bytes(), input].concat();
        assert!(Policy::parse(&more).is_err(), "a word that is not known was passed over");
    }
    Said::Accepted
}

/// The floors file has one spelling, and what is accepted here never lowers anything.
pub fn floors(input: &[u8]) -> Said {
    let floors = match Floors::parse(input) {
        Ok(floors) => floors,
        Err(why) => return refused(&one_line(&why)),
    };
    assert_eq!(floors.render().as_bytes(), input, "two spellings of one file");
    let all: Vec<(ProfileName, u32)> = floors.iter().map(|(n, e)| (n.clone(), e)).collect();
    assert!(all.windows(2).all(|w| w.first().map(|p| &p.0) < w.last().map(|p| &p.0)));
    let new = ProfileName::new("a-profile-that-no-corpus-has").expect("a name");
    for (name, epoch) in all.iter().cloned().chain([(new, 1)]).take(8) {
        assert!(epoch >= 1);
        assert_eq!(floors.raised(&name, epoch, UtcTime::from_unix(0)).is_none(), floors.get(&name).is_some());
        assert!(
            muster_shim::floors::check(&floors, &name, epoch, None, 1000).is_ok(),
            "the same epoch is taken"
        );
        if floors.get(&name).is_some() {
            assert!(
                muster_shim::floors::check(&floors, &name, epoch - 1, None, 1000).is_err(),
                "an older epoch is taken"
            );
        }
        let up = floors.raised(&name, u32::MAX, NOW);
        if let Some(up) = up {
            assert!(up.time_floor >= floors.time_floor);
            assert!(floors.iter().all(|(n, e)| up.get(n) >= Some(e)), "a floor was lowered");
            assert_eq!(Floors::parse(up.render().as_bytes()), Ok(up));
        }
    }
    Said::Accepted
}

/// The run record reads back as itself.
pub fn run_record(input: &[u8]) -> Said {
    let Some(record) = RunRecord::parse(input) else { return Said::Refused };
    assert_eq!(RunRecord::parse(record.render().as_bytes()), Some(record));
    Said::Accepted
}

/// sshd's file on the login: every key of it, or none.
pub fn user_auth(input: &[u8]) -> Said {
    let keys = evidence::keys(input);
    let lines = input.split(|b| *b == b'\n').filter(|l| l.starts_with(b"publickey ")).count();
    assert!(keys.is_empty() || keys.len() == lines, "{} keys of {lines} lines", keys.len());
    assert!(keys.iter().all(|k| k.starts_with("SHA256:") && k.len() == 50));
    // A line that cannot be read makes all of them unknown.
    let more = [input, b"\npublickey x y\n"].concat();
    assert!(evidence::keys(&more).is_empty());
    if keys.is_empty() { Said::Refused } else { Said::Accepted }
}

/// `SSH_CONNECTION`, and the kernel's table and process lines; the three stand on lines of their own.
pub fn kernel_lines(input: &[u8]) -> Said {
    let mut lines = input.splitn(3, |b| *b == b'\n');
    let connection = lines.next().and_then(|l| core::str::from_utf8(l).ok()).and_then(Connection::from_ssh);
    let row = lines.next().and_then(|l| core::str::from_utf8(l).ok()).unwrap_or_default();
    let stat = Stat::parse(lines.next().unwrap_or_default());
    if let Some(connection) = connection {
        // What the peer's address is shown as is an address again.
        let shown = connection.peer().to_string();
        assert_eq!(shown.parse(), Ok(connection.peer()));
        let _ = connection.in_line(row);
    }
    if let Some(stat) = &stat {
        assert!(!stat.state.is_whitespace());
    }
    if connection.is_some() && stat.is_some() { Said::Accepted } else { Said::Refused }
}

/// The run log, which a crash or a full disk may have cut anywhere: each run is told once, and whatever stands in the log, a
/// run that is recorded after it is told as it was.
pub fn run_log(input: &[u8]) -> Said {
    let text = String::from_utf8_lossy(input);
    let runs = fuzzing::runs(text.lines(), "b");
    assert_eq!(runs.iter().map(|r| r.run.as_str()).collect::<BTreeSet<_>>().len(), runs.len(), "told twice");
    for run in &runs {
        assert!(text.contains(run.run.as_str()) && run.verdict.len() <= 64);
        for word in [Some(&run.verdict), run.reason.as_ref()].into_iter().flatten() {
            assert!(word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{word:?}");
        }
        let members = json::Value::object(run.what.members()).to_string();
        assert!(serde_json::from_str::<serde_json::Value>(&members).is_ok(), "{members}");
    }
    let new = RunId::parse("fedcba9876543210fedcba9876543210").expect("a run id");
    let line = |event: &str, more: &str| {
        format!(
            "{{\"event\":\"{event}\",\"run\":\"{}\",\"time\":\"2026-11-29T00:00:00Z\",\"boot\":\"b\",\"envelope\":2,\
             \"profile\":\"p\",\"epoch\":7,\"phase\":\"join\"{more}}}",
            new.as_str()
        )
    };
    if !text.contains(new.as_str()) {
        let (start, end) = (line("start", ""), line("end", ",\"verdict\":\"failed\",\"exit_code\":3"));
        let more = fuzzing::runs(text.lines().chain([start.as_str(), end.as_str()]), "b");
        let last = more.last().expect("one is on record");
        assert_eq!((more.len(), &last.run), (runs.len() + 1, &new));
        assert_eq!((last.verdict.as_str(), last.exit_code, last.what.epoch), ("failed", Some(3), Some(7)));
        assert!(more.iter().zip(&runs).all(|(a, b)| a == b), "a later run changes an earlier one");
    }
    if runs.is_empty() { Said::Refused } else { Said::Accepted }
}

/// Texts of the system: an os-release file, and after `%%` a table of mounts and a list of process ids. What a probe tells of
/// them is short, and our writer of JSON writes it so that another reader reads it.
pub fn system_files(input: &[u8]) -> Said {
    let text = String::from_utf8_lossy(input);
    let (release, rest) = text.split_once("\n%%\n").unwrap_or((&text, ""));
    let fields = ["ID", "VERSION_ID", "PRETTY_NAME"].map(|name| fuzzing::os_field(release, name));
    for field in fields.iter().flatten() {
        assert!(field.chars().count() <= 200 && !field.contains('\n'));
        let written = json::Value::object([("a", json::Value::text(field.as_str()))]).to_string();
        let read: serde_json::Value = serde_json::from_str(&written).expect("our own JSON");
        assert_eq!(read.get("a").and_then(|v| v.as_str()), Some(field.as_str()));
        assert!(!written.chars().any(char::is_control), "{written:?}");
    }
    let mounted = cgroup::v2_mount(rest);
    if let Some((point, root)) = &mounted {
        let shown = format!(" {} {} ", root.display(), point.display());
        assert!(
            rest.lines().any(|l| l.contains(" - cgroup2") && l.contains(&shown)),
            "{shown:?} is in no line"
        );
    }
    assert!(procfs::numbers(rest.as_bytes()).count() <= rest.len().div_ceil(2));
    if mounted.is_some() || fields.iter().any(Option::is_some) { Said::Accepted } else { Said::Refused }
}

/// A host that takes both envelopes and trusts nobody: nothing in the world makes it run a script.
pub fn decide_for_nobody(input: &[u8]) -> Said {
    static LOADED: LazyLock<Loaded> = LazyLock::new(|| Loaded {
        policy: Some(
            Policy::parse(
                b"host = \"edge-1\"\npools = [\"edge\"]\nenvelope-1 = true\n[profiles.tls-bootstrap]\n",
            )
            .expect("a policy"),
        ),
        digest: None,
    });
    let trust = Ok(Trust { allowed: AllowedSigners::default(), revoked: None });
    let build = UtcTime::from_unix(NOW.unix() - 1);
    let mut answers = Vec::new();
    for called in [CalledAs::Muster, CalledAs::Kpssh] {
        let ground = Ground { called, loaded: &LOADED, trust: &trust, now: NOW, build };
        let mut facts = Facts::default();
        match decide(&ground, input, &mut facts) {
            Ok(Asked::Probe(_)) => answers.push(None),
            Ok(Asked::Run(order)) => panic!("a script that nobody signed would run: {order:?}"),
            Err(why) => {
                assert!(facts.signers.is_empty(), "somebody was verified");
                refused(&one_line(&why.to_string()));
                answers.push(Some(why));
            }
        }
    }
    assert_eq!(answers.first(), answers.last(), "with a policy the name decides nothing");
    if answers.iter().all(Option::is_none) { Said::Accepted } else { Said::Refused }
}
