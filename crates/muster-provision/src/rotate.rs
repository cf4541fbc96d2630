//! Changing a controller key: the new one is added and proven, then the old one is removed.
//!
//! Works on what is on the host, so the rest of the host's description is not needed. Two plans, each
//! with its own proof by the new key; when the second fails, both keys stay.

use crate::files;
use crate::key::{ControllerKey, PublicKeyLine};
use crate::plan::Plan;
use crate::run::{self, Event, Options, Outcome, RunError};
use crate::shell::{HostShell, Prover};
use crate::spec::{AccountName, SpecFault};

/// The two plans of a rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Old and new key.
    pub add: Plan,
    /// The new key in the place of the old one.
    pub remove: Plan,
}

/// One line of the host's file.
struct Entry<'a> {
    line: &'a str,
    options: &'a str,
    /// `None` for comments and empty lines.
    key: Option<PublicKeyLine>,
}

impl Entry<'_> {
    fn is(&self, fingerprint: &str) -> bool {
        self.key.as_ref().is_some_and(|k| k.fingerprint() == fingerprint)
    }
}

impl Rotation {
    /// From the host's `authorized_keys` and `shim.toml`. `old` is a fingerprint (`SHA256:…`). The new
    /// key takes over the old one's `from=` unless it brings its own, and its list of phases.
    pub fn new(
        account: &AccountName,
        keys: &[u8],
        policy: &[u8],
        old: &str,
        new: &ControllerKey,
    ) -> Result<Self, SpecFault> {
        let policy = utf8(files::SHIM_TOML, policy)?;
        let entries = entries(utf8("authorized_keys", keys)?)?;
        let fingerprint = new.key().fingerprint();
        if old == fingerprint {
            return Err(fault("the new key is the old one".into()));
        }
        let Some(leaving) = entries.iter().find(|e| e.is(old)) else {
            let there: Vec<&str> =
                entries.iter().filter_map(|e| e.key.as_ref()).map(|k| k.fingerprint()).collect();
            return Err(fault(format!(
                "{old} is not among the host's keys, which are: {}",
                there.join(", ")
            )));
        };
        let line = if new.from().is_empty() {
            format!("{} {}", leaving.options, new.key().line())
        } else {
            files::authorized_keys(core::slice::from_ref(new)).lines().last().unwrap_or_default().to_owned()
        };
        let stay: Vec<&str> =
            entries.iter().filter(|e| !e.is(old) && !e.is(fingerprint)).map(|e| e.line).collect();
        let plan = |lines: &[&str], keep_old: bool| -> Result<Plan, SpecFault> {
            let text = format!("{}\n", lines.join("\n"));
            let changed = policy_with(policy, old, fingerprint, keep_old)?;
            Ok(Plan::keys(account, text, (changed != policy).then_some(changed)))
        };
        Ok(Self {
            add: plan(&[&stay[..], &[leaving.line, &line]].concat(), true)?,
            remove: plan(&[&stay[..], &[&line]].concat(), false)?,
        })
    }
}

/// Carries both plans out; `prover` logs in with the new key. The two options need two ids.
pub async fn rotate<S: HostShell + Sync, P: Prover + Sync>(
    shell: &S,
    prover: &P,
    rotation: &Rotation,
    options: &[Options; 2],
    watch: &mut (dyn FnMut(Event) + Send),
) -> Result<Outcome, RunError> {
    let [first, second] = options;
    run::apply_part(shell, prover, &rotation.add, first, watch).await?;
    run::apply_part(shell, prover, &rotation.remove, second, watch).await
}

fn fault(why: String) -> SpecFault {
    SpecFault::new("rotate-key", why)
}

fn utf8<'a>(what: &str, bytes: &'a [u8]) -> Result<&'a str, SpecFault> {
    core::str::from_utf8(bytes).map_err(|_| fault(format!("the host's {what} is not UTF-8")))
}

fn entries(text: &str) -> Result<Vec<Entry<'_>>, SpecFault> {
    text.lines()
        .zip(1usize..)
        .map(|(line, n)| {
            if line.is_empty() || line.starts_with('#') {
                return Ok(Entry { line, options: "", key: None });
            }
            // Options that were written here hold no blank.
            let (options, rest) = line
                .split_once(' ')
                .filter(|(o, _)| o.starts_with("restrict,"))
                .ok_or_else(|| fault(format!("line {n} of the host's keys was not written by muster")))?;
            let key = PublicKeyLine::parse(rest)
                .map_err(|e| fault(format!("line {n} of the host's keys: {}", e.why)))?;
            Ok(Entry { line, options, key: Some(key) })
        })
        .collect()
}

/// The policy with the new key's section beside the old one's, or in its place. What is written is read again: it must say
/// that, and for the rest what it said before.
fn policy_with(policy: &str, old: &str, new: &str, keep_old: bool) -> Result<String, SpecFault> {
    let mend = |why: String| fault(format!("{} {why}: mend it first", files::SHIM_TOML));
    let read = |text: &str| {
        text.parse::<toml::Table>()
            .map_err(|e| mend(format!("cannot be read ({})", e.message().lines().next().unwrap_or_default())))
    };
    let mut want = read(policy)?;
    let Some(listed) = want.get_mut("keys") else { return Ok(policy.to_owned()) };
    let limits = listed.get(old).cloned();
    let (Some(listed), Some(limits)) = (listed.as_table_mut(), limits) else {
        return Err(mend(format!("has a [keys] table without {old}")));
    };
    listed.entry(new).or_insert(limits);
    if !keep_old {
        listed.remove(old);
    }
    let by_hand = || mend(format!("does not list {old} under a line [keys.\"{old}\"]"));
    let text = with_section(policy, old, new, keep_old).ok_or_else(by_hand)?;
    if read(&text).ok() == Some(want) { Ok(text) } else { Err(by_hand()) }
}

/// The same on the lines, where they are as they are written here.
fn with_section(policy: &str, old: &str, new: &str, keep_old: bool) -> Option<String> {
    let head = |fingerprint: &str| format!("[keys.\"{fingerprint}\"]");
    let lines: Vec<&str> = policy.lines().collect();
    let start = lines.iter().position(|l| *l == head(old))?;
    let length = lines.iter().skip(start + 1).take_while(|l| !l.starts_with('[')).count() + 1;
    let section: Vec<&str> = lines.iter().skip(start).take(length).copied().collect();
    let body: Vec<&str> = section.iter().skip(1).copied().filter(|l| !l.is_empty()).collect();
    let there = lines.iter().any(|l| *l == head(new));
    let mut out: Vec<String> = lines.iter().take(start).map(|l| (*l).to_owned()).collect();
    if keep_old {
        out.push(head(old));
        out.extend(body.iter().map(|l| (*l).to_owned()));
        if !there {
            out.push(String::new());
        }
    }
    if !there {
        out.push(head(new));
        out.extend(body.iter().map(|l| (*l).to_owned()));
    }
    let rest: Vec<&str> = lines.iter().skip(start + length).copied().collect();
    if !rest.is_empty() {
        out.push(String::new());
        out.extend(rest.iter().map(|l| (*l).to_owned()));
    }
    out.dedup_by(|a, b| a.is_empty() && b.is_empty());
    while out.last().is_some_and(String::is_empty) {
        out.pop();
    }
    Some(format!("{}\n", out.join("\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::FromPattern;

    const A: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIH+Xc1Z7q6gPjBdbGJ7yKTqrRMLrcHyA8VTZ2lTzB0cF old one";
    const B: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGPKSUTyz1HwHReFVvD5obVsALAgJRNarH4TRpNePnAS new";
    const C: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q";

    fn key(line: &str) -> ControllerKey {
        ControllerKey::new(PublicKeyLine::parse(line).unwrap())
    }

    fn body(plan: &Plan, path: &str) -> Option<String> {
        plan.steps().iter().find(|s| s.path() == Some(path)).map(|s| String::from_utf8(s.input()).unwrap())
    }

    #[test]
    fn the_new_key_inherits_and_takes_the_place() {
        let from = |k: ControllerKey| k.with_from(vec![FromPattern::new("10.0.0.0/8").unwrap()]).unwrap();
        let keys = files::authorized_keys(&[from(key(A)), key(C)]);
        let a = key(A).key().fingerprint().to_owned();
        let r =
            Rotation::new(&AccountName::default(), keys.as_bytes(), b"host = \"x\"\n", &a, &key(B)).unwrap();
        let path = "/etc/muster/authorized_keys.d/muster";
        let both = body(&r.add, path).unwrap();
        let one = body(&r.remove, path).unwrap();
        assert!(both.contains(A) && both.contains(B) && both.contains(C));
        assert!(!one.contains(A) && one.contains(C));
        assert!(
            one.contains(&format!("restrict,command=\"/usr/bin/muster-shim\",from=\"10.0.0.0/8\" {B}\n")),
            "{one}"
        );
        assert_eq!(body(&r.add, files::SHIM_TOML), None);
        let again = Rotation::new(&AccountName::default(), both.as_bytes(), b"", &a, &key(B)).unwrap();
        assert_eq!(
            body(&again.add, path).unwrap().matches(B).count(),
            1,
            "a second try does not list it twice"
        );
        for (old, new, why) in
            [(a.as_str(), A, "is the old one"), ("SHA256:x", B, "not among the host's keys")]
        {
            let e = Rotation::new(&AccountName::default(), keys.as_bytes(), b"", old, &key(new)).unwrap_err();
            assert!(e.why.contains(why), "{e}");
        }
    }

    #[test]
    fn ve25_the_list_of_phases_goes_with_the_key() {
        let (a, b) = (key(A).key().fingerprint().to_owned(), key(B).key().fingerprint().to_owned());
        let policy = format!(
            "host = \"x\"\n\n[keys.\"{a}\"]\nphases = [\"probe\", \"join\"]\n\n[keys.\"SHA256:z\"]\nphases = []\n"
        );
        let add = policy_with(&policy, &a, &b, true).unwrap();
        assert_eq!(add.matches("phases = [\"probe\", \"join\"]").count(), 2, "{add}");
        let remove = policy_with(&add, &a, &b, false).unwrap();
        assert_eq!(remove, policy_with(&policy, &a, &b, false).unwrap(), "either way leads there");
        assert!(!remove.contains(&a) && remove.contains(&b) && remove.contains("SHA256:z"), "{remove}");
        assert!(policy_with("[keys.\"SHA256:z\"]\nphases = []\n", &a, &b, true).is_err());
        // A list in another form is a list too: without its limits the new key would be refused everything.
        for other in [
            format!("[ keys . \"{a}\" ]\nphases = []\n"),
            format!("[keys.'{a}']\nphases = []\n"),
            format!("keys = {{ \"{a}\" = {{ phases = [] }} }}\n"),
            format!("[keys.\"{a}\"]\nphases = []\n[keys.\"{a}\".x]\ny = 1\n"),
            "keys = 1\n".to_owned(),
            "x = \n".to_owned(),
        ] {
            let why = policy_with(&other, &a, &b, true).expect_err("not as it is written here").why;
            assert!(why.contains("mend it first"), "{other}: {why}");
        }
    }
}
