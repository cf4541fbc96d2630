//! Whether the node would take an image without a signature: `policy.json` as the container tools read it.
//!
//! Format: containers-policy.json(5). A list of requirements is chosen by the most specific scope and holds whole: each of its
//! requirements must be met. For the transport `docker` scopes are, from the most specific: the image with its tag or digest, the
//! repository, each namespace above it, the registry with its port, `*.` and each domain above the registry's name; then the
//! transport's own `""`; then the policy's `default`. The tools refuse a file with a member that they do not know, or
//! with one twice, and so do we: what they would refuse at the pull is refused before it.
//!
//! An image passes here if at least one requirement of its list is a signature and none is `reject`. Whether the signature
//! is there is the container tools' business, at the pull.

use std::collections::BTreeMap;

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, de::IgnoredAny};

use super::reference::Reference;

/// Bytes of the longest policy that is read.
pub const MAX: u64 = 1 << 20;

/// A policy.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    default: Requirements,
    #[serde(default)]
    transports: Map<Map<Requirements>>,
}

/// A list that holds whole.
type Requirements = Vec<Requirement>;

/// One requirement; only its kind is of interest here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Requirement {
    /// Anything, unsigned as well.
    Anything,
    /// Nothing.
    Reject,
    /// `signedBy` or `sigstoreSigned`.
    Signed,
}

/// What a policy says of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is taken with a signature only.
    Signed,
    /// It would be taken without one.
    Unsigned,
    /// It is not taken at all.
    Rejected,
}

impl Policy {
    /// Reads a policy.
    ///
    /// # Errors
    /// What the container tools would refuse as well: one line, without its content.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let policy: Self = serde_json::from_slice(text).map_err(|e| {
            let what = match e.classify() {
                serde_json::error::Category::Data => "not a policy",
                _ => "no JSON",
            };
            format!("{what}: line {}, column {}", e.line(), e.column())
        })?;
        let lists = policy.transports.0.values().flat_map(|t| t.0.values());
        if policy.default.is_empty() || lists.into_iter().any(Vec::is_empty) {
            return Err("not a policy: a list of requirements is empty".to_owned());
        }
        Ok(policy)
    }

    /// What it says of an image that is pulled from its registry.
    #[must_use]
    pub fn judge(&self, image: &Reference) -> Verdict {
        let list = self.list(image);
        if list.contains(&Requirement::Reject) {
            Verdict::Rejected
        } else if list.contains(&Requirement::Signed) {
            Verdict::Signed
        } else {
            Verdict::Unsigned
        }
    }

    fn list(&self, image: &Reference) -> &Requirements {
        let Some(scopes) = self.transports.0.get("docker") else { return &self.default };
        let found = scopes_of(image).into_iter().find_map(|scope| scopes.0.get(&scope));
        found.or_else(|| scopes.0.get("")).unwrap_or(&self.default)
    }
}

/// The scopes of an image, from the most specific.
fn scopes_of(image: &Reference) -> Vec<String> {
    let mut scopes = vec![image.exact()];
    let mut name = image.name();
    loop {
        scopes.push(name.to_owned());
        match name.rsplit_once('/') {
            Some((above, _)) => name = above,
            None => break,
        }
    }
    let mut domain = image.host().split(':').next().unwrap_or_default();
    while let Some((_, above)) = domain.split_once('.') {
        scopes.push(format!("*.{above}"));
        domain = above;
    }
    scopes
}

/// A map in which nothing stands twice.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Map<T>(BTreeMap<String, T>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'d, T: Deserialize<'d>> Deserialize<'d> for Map<T> {
    fn deserialize<D: Deserializer<'d>>(d: D) -> Result<Self, D::Error> {
        struct Reader<T>(std::marker::PhantomData<T>);
        impl<'d, T: Deserialize<'d>> Visitor<'d> for Reader<T> {
            type Value = Map<T>;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'d>>(self, mut from: A) -> Result<Map<T>, A::Error> {
                let mut map = BTreeMap::new();
                while let Some((name, value)) = from.next_entry()? {
                    if map.insert(name, value).is_some() {
                        return Err(A::Error::custom("a member twice"));
                    }
                }
                Ok(Map(map))
            }
        }
        d.deserialize_map(Reader(std::marker::PhantomData))
    }
}

impl<'d> Deserialize<'d> for Requirement {
    fn deserialize<D: Deserializer<'d>>(d: D) -> Result<Self, D::Error> {
        let Map(members) = Map::<Word>::deserialize(d)?;
        let known: &[&str] = match members.get("type") {
            Some(Word(Some(kind))) if kind == "insecureAcceptAnything" => {
                return only(&members, &["type"]).map(|()| Self::Anything);
            }
            Some(Word(Some(kind))) if kind == "reject" => {
                return only(&members, &["type"]).map(|()| Self::Reject);
            }
            Some(Word(Some(kind))) if kind == "signedBy" => {
                &["type", "keyType", "keyPath", "keyPaths", "keyData", "signedIdentity"]
            }
            Some(Word(Some(kind))) if kind == "sigstoreSigned" => SIGSTORE,
            _ => return Err(D::Error::custom("a kind of requirement that there is not")),
        };
        only(&members, known)?;
        // Without a key nothing is demanded that the tools could check: they refuse the file.
        let keys = ["keyPath", "keyPaths", "keyData", "keyDatas", "fulcio", "pki"];
        if keys.iter().filter(|k| members.contains_key(**k)).count() != 1 {
            return Err(D::Error::custom("a signature of exactly one kind of key"));
        }
        Ok(Self::Signed)
    }
}

/// Members of a requirement of sigstore's signatures.
const SIGSTORE: &[&str] = &[
    "type",
    "keyPath",
    "keyPaths",
    "keyData",
    "keyDatas",
    "fulcio",
    "pki",
    "rekorPublicKeyPath",
    "rekorPublicKeyPaths",
    "rekorPublicKeyData",
    "rekorPublicKeyDatas",
    "signedIdentity",
];

fn only<T, E: serde::de::Error>(members: &BTreeMap<String, T>, known: &[&str]) -> Result<(), E> {
    if members.keys().all(|k| known.contains(&k.as_str())) {
        Ok(())
    } else {
        Err(E::custom("a member that there is not"))
    }
}

/// A text, or anything else.
struct Word(Option<String>);

impl<'d> Deserialize<'d> for Word {
    fn deserialize<D: Deserializer<'d>>(d: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Other(IgnoredAny),
        }
        Ok(Self(match Either::deserialize(d)? {
            Either::Text(text) => Some(text),
            Either::Other(_) => None,
        }))
    }
}

#[cfg(test)]
#[path = "policy/tests.rs"]
mod tests;
