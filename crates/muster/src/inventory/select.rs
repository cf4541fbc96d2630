//! Which hosts a command is for.

use super::{Host, Inventory};
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use muster_core::PoolName;
use std::collections::BTreeMap;

/// What the operator named.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Hosts by name.
    pub names: Vec<String>,
    /// A selector.
    pub selector: Option<Selector>,
    /// Every host.
    pub all: bool,
}

/// Conditions on labels, pools and names; all must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<Condition>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Is(String, String),
    IsNot(String, String),
    Has(String),
    HasNot(String),
}

impl std::str::FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut out = Vec::new();
        for part in text.split(',') {
            let word = |t: &str| {
                let good =
                    !t.is_empty() && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"._/-".contains(&b));
                if good { Ok(t.to_owned()) } else { Err(format!("{part:?} is not a condition")) }
            };
            let part = part.trim();
            out.push(if let Some((k, v)) = part.split_once("!=") {
                Condition::IsNot(word(k)?, word(v)?)
            } else if let Some((k, v)) = part.split_once('=') {
                Condition::Is(word(k)?, word(v.strip_prefix('=').unwrap_or(v))?)
            } else if let Some(k) = part.strip_prefix('!') {
                Condition::HasNot(word(k)?)
            } else {
                Condition::Has(word(part)?)
            });
        }
        Ok(Self(out))
    }
}

impl Selector {
    /// Whether all conditions hold for a host.
    pub fn matches(&self, host: &Host) -> bool {
        self.hold(host.name.as_str(), &host.pools, &host.labels)
    }

    /// Whether all conditions hold. `pool=` asks for a pool, `name=` for the name, anything else for a label.
    pub fn hold(&self, name: &str, pools: &[PoolName], labels: &BTreeMap<String, String>) -> bool {
        let is = |k: &str, v: &str| match k {
            "pool" => pools.iter().any(|p| p.as_str() == v),
            "name" => name == v,
            _ => labels.get(k).is_some_and(|l| l == v),
        };
        let has = |k: &str| match k {
            "pool" => !pools.is_empty(),
            "name" => true,
            _ => labels.contains_key(k),
        };
        self.0.iter().all(|c| match c {
            Condition::Is(k, v) => is(k, v),
            Condition::IsNot(k, v) => !is(k, v),
            Condition::Has(k) => has(k),
            Condition::HasNot(k) => !has(k),
        })
    }
}

/// The hosts of a selection, in the order of the inventory, each once.
pub fn choose<'i>(inventory: &'i Inventory, selection: &Selection) -> Result<Vec<&'i Host>, Faults> {
    let mut faults = Vec::new();
    for name in &selection.names {
        faults.extend(inventory.host(name).err());
    }
    Faults::check(faults)?;
    if !selection.all && selection.names.is_empty() && selection.selector.is_none() {
        return Err(Fault::new(Own::NothingSelected, "no host was named").into());
    }
    let named = |h: &Host| selection.names.iter().any(|n| n == h.name.as_str());
    let chosen = |h: &&Host| {
        let wide = selection.all || selection.selector.is_some();
        named(h) || (wide && selection.selector.as_ref().is_none_or(|s| s.matches(h)))
    };
    let hosts: Vec<&Host> = inventory.hosts.iter().filter(chosen).collect();
    if hosts.is_empty() {
        let what = format!("no host of {} matches", inventory.file.display());
        return Err(Fault::new(Own::NothingSelected, what).into());
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn inventory() -> Inventory {
        let text = "hosts:\n  a: {ssh: {address: a}, pools: [edge], labels: {site: x}}\n  \
            b: {ssh: {address: b}, pools: [edge, gpu]}\n  c: {ssh: {address: c}, labels: {site: y}}\n";
        Inventory::parse(text, Path::new("i.yaml"), None).unwrap()
    }

    fn names(selection: &Selection) -> Result<String, String> {
        choose(&inventory(), selection)
            .map(|h| h.iter().map(|h| h.name.as_str()).collect())
            .map_err(|f| f.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn selectors() {
        for (text, want) in [
            ("pool=edge", "ab"),
            ("pool!=edge", "c"),
            ("site", "ac"),
            ("!site", "b"),
            ("site=x", "a"),
            ("pool=edge,!site", "b"),
            ("name=c", "c"),
            ("site==y", "c"),
            ("pool=edge,pool=gpu", "b"),
        ] {
            let selection = Selection { selector: Some(text.parse().unwrap()), ..Selection::default() };
            assert_eq!(names(&selection).unwrap(), want, "{text}");
        }
        for bad in ["", "a=", "=b", "a b", "a=b,", "!", "a in (b)"] {
            assert!(bad.parse::<Selector>().is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_and_unknown_are_said() {
        assert!(names(&Selection::default()).unwrap_err().contains("no host was named"));
        let all = Selection { all: true, ..Selection::default() };
        assert_eq!(names(&all).unwrap(), "abc");
        let named = Selection { names: vec!["b".into(), "a".into(), "b".into()], ..Selection::default() };
        assert_eq!(names(&named).unwrap(), "ab");
        let unknown = Selection { names: vec!["bb".into(), "zzz".into()], ..Selection::default() };
        assert_eq!(names(&unknown).unwrap_err().matches("no host").count(), 2);
        let none = Selection { selector: Some("site=q".parse().unwrap()), ..Selection::default() };
        assert!(names(&none).unwrap_err().contains("no host of i.yaml matches"));
    }
}
