//! Parity with OpenSSH: generated cases of (signature, bytes, `allowed_signers`, time, revocation
//! list), each judged by `ssh-keygen -Y verify` and by this crate.
//!
//! The two agree, or ours is stricter for a reason that stands in [`classes::STRICTER`]; ours is
//! never more lenient. `MUSTER_PARITY_CASES` (2,000) and `MUSTER_PARITY_SEED` (today's date) choose
//! what is run. Seed and number find a case again, but for its keys, which are made anew in each run;
//! a fault therefore prints its whole case.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failure here is a failed test")]
#![allow(unreachable_pub, reason = "modules of a test")]
#![allow(clippy::disallowed_methods, reason = "the seed is the date, so that every day tries others")]

#[path = "../support/mod.rs"]
mod support;

mod cases;
mod classes;
mod keys;
mod random;

use cases::Case;
use classes::Verdict;
use keys::Keys;
use muster_signing::{
    Reason, UtcTime,
    allowed_signers::{AllowedSigners, Dialect, Entry},
    keygen,
    revoked::RevokedSigners,
    sshsig::SshSig,
    verify::{Check, verify},
};
use std::{collections::BTreeMap, path::Path, time::SystemTime};
use support::{Offset, Question};

const THREADS: usize = 2;

#[derive(Default)]
struct Tally {
    both_accept: usize,
    both_refuse: usize,
    stricter: BTreeMap<&'static str, usize>,
    faults: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.both_accept += other.both_accept;
        self.both_refuse += other.both_refuse;
        for (class, n) in other.stricter {
            *self.stricter.entry(class).or_default() += n;
        }
        self.faults.extend(other.faults);
    }
}

#[test]
fn verdicts_are_those_of_ssh_keygen_or_stricter_for_a_listed_reason() {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse::<u64>().expect("a number"));
    let cases = number("MUSTER_PARITY_CASES").unwrap_or(2_000);
    let seed = number("MUSTER_PARITY_SEED").unwrap_or_else(today);
    println!("MUSTER_PARITY_SEED={seed} MUSTER_PARITY_CASES={cases}");
    let keys = Keys::new();
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let run = |first: usize| {
            let keys = &keys;
            scope.spawn(move || {
                let dir = tempfile::tempdir().unwrap();
                let mut tally = Tally::default();
                for n in (first as u64..cases).step_by(THREADS) {
                    judge(keys, seed, n, dir.path(), &mut tally);
                }
                tally
            })
        };
        let threads: Vec<_> = (0..THREADS).map(run).collect();
        for thread in threads {
            tally.add(thread.join().unwrap());
        }
    });
    let stricter: usize = tally.stricter.values().sum();
    println!(
        "{} accepted by both, {} refused by both, {stricter} stricter",
        tally.both_accept, tally.both_refuse
    );
    for class in classes::STRICTER {
        println!("  {:>6}  {}", tally.stricter.get(class.name).unwrap_or(&0), class.name);
    }
    for fault in &tally.faults {
        println!("{}", fault.lines().take(2).collect::<Vec<_>>().join(" | "));
    }
    assert!(tally.faults.is_empty(), "{} faults, first:\n{}", tally.faults.len(), tally.faults[0]);
    // Cases that are all refused, or all accepted, would show nothing.
    if cases >= 500 {
        let least = usize::try_from(cases).unwrap() / 8;
        assert!(tally.both_accept > least && tally.both_refuse > least);
    }
}

fn today() -> u64 {
    let secs = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    support::compact(UtcTime::from_unix(secs))[..8].parse().unwrap()
}

fn judge(keys: &Keys, seed: u64, n: u64, dir: &Path, tally: &mut Tally) {
    let case = cases::make(keys, seed, n);
    let (theirs, words) = case.question.ask(dir);
    let ours = ours(&case.question);
    // Before anything writes other files to the folder.
    let front = if n.is_multiple_of(8) { front(&case, dir) } else { Ok(()) };
    let mut fault = |what: &str| {
        let q = &case.question;
        tally.faults.push(format!(
            "{what}: seed {seed} case {n}: ours {ours:?}, ssh-keygen {theirs}: {words}\ntags {:?}\n{:?} {:?} at {}, zone +{}\n{}\n{}\nrevoked {:?}",
            case.tags,
            q.principal,
            q.namespace,
            UtcTime::from_unix(q.now),
            q.offset,
            String::from_utf8_lossy(&q.allowed),
            String::from_utf8_lossy(&q.signature),
            q.revoked.as_ref().map(|r| String::from_utf8_lossy(r).into_owned()),
        ));
    };
    match (&ours, theirs) {
        (Verdict::Good, true) => tally.both_accept += 1,
        (Verdict::Good, false) => fault("more lenient"),
        (_, false) => tally.both_refuse += 1,
        (verdict, true) => match classes::class_of(&case, verdict, dir) {
            Some(class) => *tally.stricter.entry(class).or_default() += 1,
            None => fault("stricter without a listed reason"),
        },
    }
    if let Err(what) = front {
        fault(&what);
    }
}

fn ours(q: &Question) -> Verdict {
    let signature = match SshSig::parse_armored(&q.signature) {
        Ok(signature) => signature,
        Err(refusal) => return Verdict::Refused(refusal.reason),
    };
    let allowed = match AllowedSigners::parse(&q.allowed, &Offset(q.offset)) {
        Ok(allowed) => allowed,
        Err(fault) => return Verdict::FileRefused(fault),
    };
    let revoked = match q.revoked.as_deref().map(RevokedSigners::parse).transpose() {
        Ok(revoked) => revoked,
        Err(_) => return Verdict::Refused(Reason::RevocationUnreadable),
    };
    let check = Check {
        message: &q.message,
        signature: &signature,
        namespace: &q.namespace,
        principal: &q.principal,
        allowed: &allowed,
        revoked: revoked.as_ref(),
        now: UtcTime::from_unix(q.now),
    };
    verify(&check).map_or_else(|refusal| Verdict::Refused(refusal.reason), |_| Verdict::Good)
}

/// The other questions of the `ssh-keygen` front, on what both can read.
fn front(case: &Case, dir: &Path) -> Result<(), String> {
    let q = &case.question;
    let (Ok(signature), Ok(allowed)) = (
        SshSig::parse_armored(&q.signature),
        AllowedSigners::parse_as(Dialect::OpenSsh, &q.allowed, &Offset(q.offset)),
    ) else {
        return Ok(());
    };
    let time = format!("verify-time={}", support::compact(UtcTime::from_unix(q.now)));
    let zone = format!("<abc>{}", -q.offset);
    let ask = |args: &[&str], stdin: Option<&[u8]>| {
        let out = support::ssh_keygen(dir, args, stdin, &zone);
        (out.status.success(), String::from_utf8_lossy(&out.stdout).into_owned())
    };
    let listed = |names: &[String]| names.iter().map(|n| format!("{n}\n")).collect::<String>();

    let matched: Vec<String> =
        keygen::match_principals(&allowed, &q.principal).into_iter().map(str::to_owned).collect();
    let (good, text) = ask(&["-Y", "match-principals", "-f", "allowed", "-I", &q.principal], None);
    if good == matched.is_empty() || text != listed(&matched) {
        return Err(format!("match-principals: ours {matched:?}, ssh-keygen {text:?}"));
    }
    let mut found = keygen::find_principals(&allowed, &signature, UtcTime::from_unix(q.now));
    let (good, text) = ask(&["-Y", "find-principals", "-f", "allowed", "-s", "sig", "-O", &time], None);
    // For a certificate OpenSSH matches each pattern by itself (so that "!p" excludes nobody), stops
    // at an empty one, and does not look at critical options or the authority's strength.
    let odd = |e: &Entry| e.principals().split(',').any(|p| p.is_empty() || p.starts_with('!'));
    let looser = case.tags.iter().any(|t| t.starts_with("certificate-")) || allowed.entries().iter().any(odd);
    let mut theirs: Vec<&str> = text.lines().collect();
    if signature.is_certificate() {
        found.sort();
        theirs.sort_unstable();
        theirs.dedup();
    }
    if !looser && (good == found.is_empty() || theirs != found) {
        return Err(format!("find-principals: ours {found:?}, ssh-keygen {text:?}"));
    }
    let ours = keygen::check_novalidate(&q.message, &signature, &q.namespace);
    let args = ["-Y", "check-novalidate", "-n", &q.namespace, "-s", "sig"];
    let (good, _) = ask(&args, Some(&q.message));
    match ours {
        Ok(()) if !good => Err("check-novalidate: ours is more lenient".to_owned()),
        Err(refusal) if good && !classes::is_listed(case, &Verdict::Refused(refusal.reason)) => {
            Err(format!("check-novalidate: ours {refusal}"))
        }
        _ => Ok(()),
    }
}

#[test]
fn the_page_lists_every_class() {
    let page = include_str!("../../../../docs/parity.md");
    for class in classes::STRICTER {
        assert!(
            page.contains(&format!("| `{}` | {} |", class.name, class.because)),
            "docs/parity.md: {}",
            class.name
        );
    }
}
