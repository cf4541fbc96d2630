//! `provision:`, what hosts shall be beside their name and pools: under `defaults:` and at each host.
//!
//! A key at a host stands in the place of the default's; variables are joined by name, like `vars`. Options of a call stand above both.

use super::endpoint::Base;
use crate::codes::Own;
use crate::yaml::walk::{Walk, duration};
use crate::yaml::{Kind, Node};
use muster_core::{Phase, ProfileName};
use muster_provision::spec::{OnDisconnect, Terms};
use muster_provision::{AccountName, FromPattern};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The block; what is not written is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provisioning {
    /// Keys that may open the pool login; otherwise the host's identities.
    pub controllers: Option<Vec<Controller>>,
    /// Profiles that may run.
    pub profiles: Option<Vec<Profile>>,
    /// Variables that every script gets.
    pub env: BTreeMap<String, String>,
    /// Cap on an intent's deadline, in seconds.
    pub max_deadline: Option<u32>,
    /// How far above the floor one epoch may be.
    pub epoch_max_step: Option<u32>,
    /// The login of a fleet whose bash shim is swapped; `Some(None)` says that there is none.
    pub drop_in: Option<Option<AccountName>>,
    /// Envelope 1 is taken, on these terms; `Some(None)` says that it is not.
    pub envelope_one: Option<Option<Terms>>,
}

/// A key that may open the pool login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controller {
    /// Its `.pub` file, or the private key's.
    pub key: PathBuf,
    /// Where it may come from; empty is anywhere.
    pub from: Vec<FromPattern>,
    /// What it may ask for; every phase when none.
    pub phases: Option<Vec<Phase>>,
    /// Its line.
    pub line: usize,
}

/// A profile that may run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Name and least epoch are those of what is signed in this folder.
    Signed(PathBuf),
    /// By name and least epoch.
    Named(ProfileName, u32),
}

const KEYS: [&str; 7] =
    ["controllers", "profiles", "env", "max-deadline", "epoch-max-step", "drop-in", "envelope-1"];

impl Provisioning {
    /// What a host has that says `self`, where the defaults say `defaults`.
    pub(super) fn over(self, defaults: &Self) -> Self {
        let mut env = defaults.env.clone();
        env.extend(self.env);
        Self {
            controllers: self.controllers.or_else(|| defaults.controllers.clone()),
            profiles: self.profiles.or_else(|| defaults.profiles.clone()),
            env,
            max_deadline: self.max_deadline.or(defaults.max_deadline),
            epoch_max_step: self.epoch_max_step.or(defaults.epoch_max_step),
            drop_in: self.drop_in.or_else(|| defaults.drop_in.clone()),
            envelope_one: self.envelope_one.or_else(|| defaults.envelope_one.clone()),
        }
    }
}

pub(super) fn read(walk: &mut Walk<'_>, node: &Node, at: &str, base: Base<'_>) -> Provisioning {
    let Some(f) = walk.fields(node, at, &KEYS) else { return Provisioning::default() };
    let seconds = "a duration of 1s to 24h, such as 30m";
    let drop_in = f.get("drop-in").and_then(|n| {
        walk.value(n, &f.at("drop-in"), "the login of the fleet, or false", |t| match t {
            "false" => Some(None),
            "true" => None,
            name => AccountName::new(name).ok().map(Some),
        })
    });
    Provisioning {
        controllers: f.get("controllers").map(|n| {
            let items = walk.many(n);
            items.iter().filter_map(|i| controller(walk, i, &f.at("controllers"), base)).collect()
        }),
        profiles: f.get("profiles").map(|n| {
            let items = walk.many(n);
            items.iter().filter_map(|i| profile(walk, i, &f.at("profiles"), base)).collect()
        }),
        env: f.get("env").map(|n| variables(walk, n, &f.at("env"))).unwrap_or_default(),
        max_deadline: f
            .get("max-deadline")
            .and_then(|n| walk.value(n, &f.at("max-deadline"), seconds, a_day)),
        epoch_max_step: f.get("epoch-max-step").and_then(|n| {
            let form = "a whole number of 1 or more";
            walk.value(n, &f.at("epoch-max-step"), form, |t| t.parse().ok().filter(|s| *s > 0))
        }),
        drop_in,
        envelope_one: f.get("envelope-1").and_then(|n| terms(walk, n, &f.at("envelope-1"))),
    }
}

fn a_day(text: &str) -> Option<u32> {
    duration(text).filter(|s| (1..=86_400).contains(s)).and_then(|s| u32::try_from(s).ok())
}

fn controller(walk: &mut Walk<'_>, node: &Node, at: &str, base: Base<'_>) -> Option<Controller> {
    let bare = |key: &str, line| Controller { key: base.path(key), from: Vec::new(), phases: None, line };
    if !matches!(node.kind, Kind::Map(_)) {
        return walk.text(node, at).map(|path| bare(&path, node.line));
    }
    let f = walk.fields(node, at, &["key", "from", "phases"])?;
    // A limit without a value reads as "nobody" and would be written as "anybody".
    for e in walk.entries(node, at).unwrap_or_default() {
        let empty = match &e.value.kind {
            Kind::List(items) => items.is_empty(),
            kind => *kind == Kind::Null,
        };
        if empty && e.key != "key" {
            let fix = "List what the key is limited to, or take the line out to limit nothing.";
            walk.fault(
                Own::ConfigValue,
                e.line,
                format!("{at}.{}: nothing is listed", e.key),
                Some(fix.into()),
            );
        }
    }
    let key = f.need(walk, "key", "the path of a .pub file").and_then(|n| walk.text(n, &f.at("key")));
    let listed = f.get("from").map(|n| {
        let form = "addresses or CIDR blocks, such as 10.0.0.0/8";
        let items = walk.many(n);
        items
            .iter()
            .filter_map(|i| walk.value(i, &f.at("from"), form, |t| FromPattern::new(t).ok()))
            .collect()
    });
    let phases = f.get("phases").map(|n| {
        let form = "probe, install, join, leave, uninstall or floor";
        let items = walk.many(n);
        items.iter().filter_map(|i| walk.value(i, &f.at("phases"), form, Phase::from_word)).collect()
    });
    Some(Controller { from: listed.unwrap_or_default(), phases, ..bare(&key?, f.line()) })
}

fn profile(walk: &mut Walk<'_>, node: &Node, at: &str, base: Base<'_>) -> Option<Profile> {
    if !matches!(node.kind, Kind::Map(_)) {
        return walk.text(node, at).map(|path| Profile::Signed(base.path(&path)));
    }
    let f = walk.fields(node, at, &["name", "min-epoch"])?;
    let name = f.need(walk, "name", "the profile's name").and_then(|n| walk.parsed(n, &f.at("name")));
    let form = "a whole number of 1 or more";
    let epoch = f
        .need(walk, "min-epoch", form)
        .and_then(|n| walk.value(n, &f.at("min-epoch"), form, |t| t.parse().ok().filter(|e| *e > 0)));
    Some(Profile::Named(name?, epoch?))
}

fn variables(walk: &mut Walk<'_>, node: &Node, at: &str) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    for e in walk.entries(node, at).unwrap_or_default() {
        let at = format!("{at}.{}", e.key);
        if let Some(why) = muster_core::variable::why_not_set(&e.key) {
            walk.fault(Own::ConfigValue, e.line, format!("{at} {why}"), None);
            continue;
        }
        let form = "one line of text";
        let value =
            walk.value(&e.value, &at, form, |t| (!t.contains(char::is_control)).then(|| t.to_owned()));
        out.extend(value.map(|v| (e.key.clone(), v)));
    }
    out
}

fn terms(walk: &mut Walk<'_>, node: &Node, at: &str) -> Option<Option<Terms>> {
    if !matches!(node.kind, Kind::Map(_)) {
        return walk.value(node, at, "its terms, {} for the usual ones, or false", |t| {
            (t == "false").then_some(None)
        });
    }
    let f = walk.fields(node, at, &["on-disconnect", "deadlines", "namespace", "principal"])?;
    let mut terms = Terms::default();
    if let Some(n) = f.get("on-disconnect") {
        let word = walk.value(n, &f.at("on-disconnect"), "end or finish", |t| match t {
            "end" => Some(OnDisconnect::End),
            "finish" => Some(OnDisconnect::Finish),
            _ => None,
        });
        terms.on_disconnect = word.unwrap_or_default();
    }
    if let Some(n) = f.get("deadlines") {
        let at = f.at("deadlines");
        for e in walk.entries(n, &at).unwrap_or_default() {
            let Some(phase) = Phase::from_word(&e.key).filter(|p| p.is_scripted()) else {
                let fix = Some("Use install, join, leave, uninstall.".into());
                walk.fault(Own::ConfigValue, e.line, format!("{at} has the phase {:?}", e.key), fix);
                continue;
            };
            let form = "a duration of 1s to 24h, such as 30m";
            let seconds = walk.value(&e.value, &format!("{at}.{phase}"), form, a_day);
            terms.deadlines.extend(seconds.map(|s| (phase, s)));
        }
    }
    let mut word = |key: &str| f.get(key).and_then(|n| walk.text(n, &f.at(key)));
    terms.namespace = word("namespace");
    terms.principal = word("principal");
    Some(Some(terms))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::Inventory;
    use std::path::Path;

    fn read(text: &str) -> Result<Inventory, Vec<String>> {
        Inventory::parse(text, Path::new("fleet/inventory.yaml"), Some(Path::new("/home/o")))
            .map_err(|f| f.iter().map(ToString::to_string).collect())
    }

    const DEFAULTS: &str = "defaults:\n  provision:\n    controllers:\n      - {key: keys/a.pub, from: [10.0.0.0/8, '!10.9.0.0/16'], phases: [probe, join]}\n      - keys/b.pub\n    profiles: [profiles/x, {name: tls, min-epoch: 7}]\n    env: {HTTPS_PROXY: 'http://p:1', NO_PROXY: x}\n    max-deadline: 30m\n    epoch-max-step: 50\n    drop-in: kpssh\n    envelope-1: {on-disconnect: finish, deadlines: {join: 15m, leave: 90s}, namespace: ours, principal: us}\nhosts:\n";

    #[test]
    fn a_host_says_what_the_defaults_do_not() {
        let inv = read(&format!(
            "{DEFAULTS}  a: {{ssh: {{address: a}}}}\n  b:\n    ssh: {{address: b}}\n    provision:\n      controllers: keys/c.pub\n      profiles: []\n      env: {{NO_PROXY: y}}\n      max-deadline: 1h\n      drop-in: false\n      envelope-1: false\n  c: {{ssh: {{address: c}}, provision: {{envelope-1: {{}}}}}}\n"
        ))
        .unwrap();
        let at = |name: &str| &inv.host(name).unwrap().provision;
        let a = at("a");
        let first = &a.controllers.as_ref().unwrap()[0];
        assert_eq!(first.key, Path::new("fleet/keys/a.pub"));
        assert_eq!(
            first.from.iter().map(FromPattern::as_str).collect::<Vec<_>>(),
            ["10.0.0.0/8", "!10.9.0.0/16"]
        );
        assert_eq!((first.phases.as_deref(), first.line), (Some(&[Phase::Probe, Phase::Join][..]), 4));
        let second = &a.controllers.as_ref().unwrap()[1];
        assert_eq!((second.from.len(), &second.phases), (0, &None));
        assert_eq!(
            a.profiles.as_deref().unwrap(),
            [Profile::Signed("fleet/profiles/x".into()), Profile::Named(ProfileName::new("tls").unwrap(), 7)]
        );
        assert_eq!((a.max_deadline, a.epoch_max_step), (Some(1800), Some(50)));
        assert_eq!(a.drop_in, Some(Some(AccountName::new("kpssh").unwrap())));
        let terms = a.envelope_one.clone().unwrap().unwrap();
        assert_eq!(terms.on_disconnect, OnDisconnect::Finish);
        assert_eq!(terms.deadlines, [(Phase::Join, 900), (Phase::Leave, 90)].into());
        assert_eq!((terms.namespace.as_deref(), terms.principal.as_deref()), (Some("ours"), Some("us")));
        let b = at("b");
        assert_eq!(b.controllers.as_ref().unwrap().len(), 1);
        assert_eq!(b.profiles.as_deref(), Some(&[][..]));
        assert_eq!(
            b.env,
            [("HTTPS_PROXY".into(), "http://p:1".into()), ("NO_PROXY".into(), "y".into())].into()
        );
        assert_eq!((b.max_deadline, b.epoch_max_step), (Some(3600), Some(50)));
        assert_eq!((&b.drop_in, &b.envelope_one), (&Some(None), &Some(None)));
        assert_eq!(at("c").envelope_one, Some(Some(Terms::default())));
    }

    #[test]
    fn a_limit_that_is_misspelt_is_no_limit_and_is_refused() {
        for (block, want) in [
            (
                "controller: a",
                "unknown key \"controller\" in hosts.a.provision. Did you mean \"controllers\"?",
            ),
            ("controllers: [{key: a, form: 10.0.0.0/8}]", "unknown key \"form\""),
            ("controllers: [{from: 10.0.0.0/8}]", "hosts.a.provision.controllers has no \"key\""),
            ("controllers: [{key: a, from: [10.0.0.1/8]}]", "controllers.from is \"10.0.0.1/8\""),
            ("controllers: [{key: a, from: []}]", "controllers.from: nothing is listed"),
            ("controllers: [{key: a, from: }]", "controllers.from: nothing is listed"),
            ("controllers: [{key: a, phases: ~}]", "controllers.phases: nothing is listed"),
            ("controllers: [{key: a, phases: [jion]}]", "controllers.phases is \"jion\""),
            ("profiles: [{name: A_b, min-epoch: 1}]", "profiles.name: profile name \"A_b\""),
            ("profiles: [{name: a}]", "has no \"min-epoch\""),
            ("profiles: [{name: a, min-epoch: 0}]", "profiles.min-epoch is \"0\""),
            ("env: {LD_PRELOAD: x}", "hosts.a.provision.env.LD_PRELOAD"),
            ("env: {A: [x]}", "hosts.a.provision.env.A is a list"),
            ("max-deadline: 600", "max-deadline is \"600\""),
            ("max-deadline: 25h", "max-deadline is \"25h\""),
            ("epoch-max-step: 0", "epoch-max-step is \"0\""),
            ("drop-in: true", "drop-in is \"true\""),
            ("drop-in: root", "drop-in is \"root\""),
            ("envelope-1: true", "envelope-1 is \"true\""),
            ("envelope-1: {on-disconnect: stop}", "on-disconnect is \"stop\""),
            ("envelope-1: {deadlines: {probe: 1m}}", "envelope-1.deadlines has the phase \"probe\""),
            ("envelope-1: {deadlines: {join: 0s}}", "deadlines.join is \"0s\""),
        ] {
            let got =
                read(&format!("hosts:\n  a: {{ssh: {{address: b}}, provision: {{{block}}}}}\n")).unwrap_err();
            assert_eq!(got.len(), 1, "{block}: {got:#?}");
            assert!(got[0].contains(want) && got[0].contains(":2: "), "{block}: {}", got[0]);
        }
    }
}
