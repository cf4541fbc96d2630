//! Whether the node would take an image without a signature: `policy.json` as the container tools read it.
//!
//! Format: containers-policy.json(5). A list of requirements is chosen by the most specific scope and holds whole: each of its
//! requirements must be met. For the transport `docker` scopes are, from the most specific: the image with its tag or digest, the
//! repository, each namespace above it, the registry with its port, `*.` and each domain above the registry's name; then the
//! transport's own `""`; then the policy's `default`.
//!
//! The tools refuse the whole file for a member that they do not know, have twice, miss, or find of another type, anywhere in it; and so do
//! we, down to the members of `fulcio`, `pki` and `signedIdentity`: what they would refuse for these at the pull is refused before it.
//! A little more is refused here: `null` for what may be left out, an empty list of keys, an empty key, and the kind
//! `signedBaseLayer`, which the manual does not have and the tools do not do. What is not judged here, and can still be refused at the pull:
//! whether a name or prefix in `signedIdentity` is one, the scopes of other transports than `docker`, and the files and keys themselves.
//!
//! An image passes here if at least one requirement of its list is a signature and none is `reject`. Whether the signature
//! is there is the container tools' business, at the pull.

use std::collections::BTreeMap;

use base64ct::{Base64, Encoding as _};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

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
        let Map(members) = Map::<Any>::deserialize(d)?;
        Members(&members).requirement().map_err(D::Error::custom)
    }
}

/// Exactly one of these is a signature's key.
const KEYS: [&str; 3] = ["keyPath", "keyPaths", "keyData"];
/// The same of sigstore's.
const SIGSTORE_KEYS: [&str; 6] = ["keyPath", "keyPaths", "keyData", "keyDatas", "fulcio", "pki"];
/// At most one of these is the key of a log.
const REKOR: [&str; 4] =
    ["rekorPublicKeyPath", "rekorPublicKeyPaths", "rekorPublicKeyData", "rekorPublicKeyDatas"];
/// What a key of `signedBy` can be.
const KEY_TYPES: [&str; 4] = ["GPGKeys", "signedByGPGKeys", "X509Certificates", "signedByX509CAs"];

/// The members of an object of the policy, as they are judged.
struct Members<'m>(&'m BTreeMap<String, Any>);

/// What is wrong, for nobody's eyes: a caller hears the line.
type Judged<T = ()> = Result<T, &'static str>;

impl Members<'_> {
    fn requirement(&self) -> Judged<Requirement> {
        match self.kind()? {
            "insecureAcceptAnything" => self.only(&["type"]).map(|()| Requirement::Anything),
            "reject" => self.only(&["type"]).map(|()| Requirement::Reject),
            "signedBy" => self.signed_by().map(|()| Requirement::Signed),
            "sigstoreSigned" => self.sigstore().map(|()| Requirement::Signed),
            _ => Err("a kind of requirement that there is not"),
        }
    }

    fn signed_by(&self) -> Judged {
        self.only(&[&["type", "keyType", "signedIdentity"], &KEYS[..]].concat())?;
        if !matches!(self.0.get("keyType"), Some(Any::Text(kind)) if KEY_TYPES.contains(&kind.as_str())) {
            return Err("a signature whose type of key is not said, or is none");
        }
        self.one_of(&KEYS)?;
        self.identity()
    }

    fn sigstore(&self) -> Judged {
        self.only(&[&["type", "signedIdentity"], &SIGSTORE_KEYS[..], &REKOR[..]].concat())?;
        self.one_of(&SIGSTORE_KEYS)?;
        if let Some(fulcio) = self.object("fulcio")? {
            fulcio.only(&["caPath", "caData", "oidcIssuer", "subjectEmail"])?;
            fulcio.one_of(&["caPath", "caData"])?;
            fulcio.all_of(&["oidcIssuer", "subjectEmail"])?;
            // Its certificates live for minutes: without a log nobody knows when they were used.
            self.one_of(&REKOR)?;
        }
        if let Some(pki) = self.object("pki")? {
            let (roots, between) =
                (["caRootsPath", "caRootsData"], ["caIntermediatesPath", "caIntermediatesData"]);
            let subject = ["subjectEmail", "subjectHostname"];
            pki.only(&[roots, between, subject].concat())?;
            pki.one_of(&roots)?;
            pki.at_most_one_of(&between)?;
            if pki.count(&subject) == 0 {
                return Err("certificates of nobody");
            }
        }
        self.at_most_one_of(&REKOR)?;
        self.identity()
    }

    /// Which name the signature must be for.
    fn identity(&self) -> Judged {
        let Some(identity) = self.object("signedIdentity")? else { return Ok(()) };
        let wanted: &[&str] = match identity.kind()? {
            "matchExact" | "matchRepoDigestOrExact" | "matchRepository" => &[],
            "exactReference" => &["dockerReference"],
            "exactRepository" => &["dockerRepository"],
            "remapIdentity" => &["prefix", "signedPrefix"],
            _ => return Err("a kind of identity that there is not"),
        };
        identity.only(&[&["type"], wanted].concat())?;
        identity.all_of(wanted)
    }

    fn kind(&self) -> Judged<&str> {
        match self.0.get("type") {
            Some(Any::Text(kind)) => Ok(kind),
            _ => Err("an object without a kind"),
        }
    }

    fn object(&self, name: &str) -> Judged<Option<Members<'_>>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(Any::Object(members)) => Ok(Some(Members(members))),
            Some(_) => Err("a member that should be an object"),
        }
    }

    /// No others, and each of its type, which its name says.
    fn only(&self, known: &[&str]) -> Judged {
        for (name, value) in self.0 {
            if !known.contains(&name.as_str()) {
                return Err("a member that there is not");
            }
            let right = match (name.as_str(), value) {
                ("fulcio" | "pki" | "signedIdentity", Any::Object(_)) => true,
                (name, Any::List(all)) if name.ends_with("Paths") => is_filled(all, |_| true),
                (name, Any::List(all)) if name.ends_with("Datas") => is_filled(all, is_base64),
                (name, Any::Text(text)) if name.ends_with("Data") => is_base64(text),
                (name, Any::Text(text)) => {
                    !text.is_empty() && !name.ends_with("Paths") && !name.ends_with("Datas")
                }
                _ => false,
            };
            if !right {
                return Err("a member of another type than it has");
            }
        }
        Ok(())
    }

    fn count(&self, names: &[&str]) -> usize {
        names.iter().filter(|name| self.0.contains_key(**name)).count()
    }

    fn one_of(&self, names: &[&str]) -> Judged {
        if self.count(names) == 1 { Ok(()) } else { Err("not exactly one of its keys") }
    }

    fn at_most_one_of(&self, names: &[&str]) -> Judged {
        if self.count(names) <= 1 { Ok(()) } else { Err("two of what it has one of") }
    }

    fn all_of(&self, names: &[&str]) -> Judged {
        if self.count(names) == names.len() { Ok(()) } else { Err("a member that is not there") }
    }
}

/// Texts, at least one, and all of them such.
fn is_filled(all: &[Any], such: impl Fn(&str) -> bool) -> bool {
    !all.is_empty() && all.iter().all(|one| matches!(one, Any::Text(text) if !text.is_empty() && such(text)))
}

/// Bytes in base64 with its padding, at least one. The tools' reader passes over ends of lines.
fn is_base64(text: &str) -> bool {
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    Base64::decode_vec(&text).is_ok_and(|bytes| !bytes.is_empty())
}

/// A value of JSON, in whose objects nothing stands twice.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Any {
    Text(String),
    List(Vec<Any>),
    Object(BTreeMap<String, Any>),
    /// A number, a truth value or `null`: the policy has none of them anywhere.
    Other,
}

impl<'d> Deserialize<'d> for Any {
    fn deserialize<D: Deserializer<'d>>(d: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'d> Visitor<'d> for Reader {
            type Value = Any;

            fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str("a value")
            }

            fn visit_str<E>(self, text: &str) -> Result<Any, E> {
                Ok(Any::Text(text.to_owned()))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Any, E> {
                Ok(Any::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Any, E> {
                Ok(Any::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Any, E> {
                Ok(Any::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Any, E> {
                Ok(Any::Other)
            }

            fn visit_unit<E>(self) -> Result<Any, E> {
                Ok(Any::Other)
            }

            fn visit_seq<A: SeqAccess<'d>>(self, mut from: A) -> Result<Any, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = from.next_element()? {
                    all.push(one);
                }
                Ok(Any::List(all))
            }

            fn visit_map<A: MapAccess<'d>>(self, from: A) -> Result<Any, A::Error> {
                let map = Map::deserialize(serde::de::value::MapAccessDeserializer::new(from))?;
                Ok(Any::Object(map.0))
            }
        }
        d.deserialize_any(Reader)
    }
}

#[cfg(test)]
#[path = "policy/tests.rs"]
mod tests;
