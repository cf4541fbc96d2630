//! What a provisioning changes in the host's policy, and which limits it takes away. Pure.
//!
//! Both sides are read by the same readers: what lies on the host, and the files that would be written.
//! A limit that is on the host and would not be there afterwards is *widened*, and that is refused unless
//! it was meant: a limit is easily left out and its absence is not seen. What somebody wrote down to be
//! added (a key, a profile, a signer, a pool) is shown and not refused. Values of variables are never shown.

mod from;
mod lists;

use crate::facts::Facts;
use crate::files;
use crate::key::PublicKeyLine;
use crate::policy::{Policy, Terms};
use crate::spec::{AccountName, HostSpec};
use core::fmt::{self, Display};
use lists::Revoked;
use muster_core::Phase;
use std::collections::{BTreeMap, BTreeSet};

macro_rules! limits {
    ($($(#[doc = $doc:literal])* $variant:ident = $word:literal;)*) => {
        /// Something that limits what can be done through a provisioned host.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Limit {
            $($(#[doc = $doc])* $variant,)*
        }

        impl Limit {
            /// Every limit.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word by which its loss is meant.
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }
        }
    };
}

limits! {
    /// The addresses that a key may come from.
    From = "from";
    /// The phases that a key may ask for.
    Phases = "phases";
    /// Other limits of a key's line, such as `expiry-time`.
    KeyOptions = "key-options";
    /// That envelope 1 is not taken, or in whose namespace and for whom.
    EnvelopeOne = "envelope-1";
    /// How long a phase of envelope 1 may take.
    Deadline = "deadline";
    /// How long an intent may ask to run.
    MaxDeadline = "max-deadline";
    /// How far above the floor an epoch may be.
    EpochMaxStep = "epoch-max-step";
    /// How many signers an intent needs.
    SignersNeeded = "signers-needed";
    /// The least epoch of a profile.
    MinEpoch = "min-epoch";
    /// Whose signatures are void.
    Revoked = "revoked";
    /// That our shim stands where the fleet's own one did.
    DropIn = "drop-in";
    /// What is there and cannot be read, so nobody knows what it limits.
    Unreadable = "unreadable";
}

impl Limit {
    /// The limit of that word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|l| l.word() == word)
    }
}

impl Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// One difference, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// What was, and what will be. May hold text of the host's.
    pub text: String,
    /// The limit that would be gone or wider.
    pub widens: Option<Limit>,
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The changes that widen something that was not `meant` to be widened.
pub fn not_meant(changes: &[Change], meant: &BTreeSet<Limit>) -> Vec<Change> {
    changes.iter().filter(|c| c.widens.is_some_and(|l| !meant.contains(&l))).cloned().collect()
}

/// Everything that becomes different on a host that said `facts`. Where nothing was provisioned yet,
/// all of it is new and nothing is widened.
pub fn changes(spec: &HostSpec, facts: &Facts) -> Vec<Change> {
    let keys = files::authorized_keys(&spec.controllers);
    let toml = files::shim_toml(spec);
    let after = Side::read(
        (toml.as_bytes(), keys.as_bytes()),
        (&spec.allowed_signers, &files::revoked_signers(spec)),
    );
    let mut out = Changes(Vec::new());
    match (before(&spec.account, facts), after) {
        (_, Err(why)) => out.wider(Limit::Unreadable, format!("what would be written cannot be read: {why}")),
        (Some(Err(why)), _) => {
            out.wider(Limit::Unreadable, format!("what limits the host now is not known: {why}"));
        }
        (None, Ok(after)) => out.all(&Side::default(), &after, false),
        (Some(Ok(before)), Ok(after)) => out.all(&before, &after, true),
    }
    let swapped = facts.baseline.iter().any(|(_, path)| path == files::KPSSH_SHIM);
    match (swapped, &spec.drop_in) {
        (false, Some(d)) => out.say(format!("+ drop-in for the login {}", d.account)),
        (true, None) => out.wider(
            Limit::DropIn,
            format!(
                "- drop-in: what was at {} before comes back, and its login is no longer hardened",
                files::KPSSH_SHIM
            ),
        ),
        _ => {}
    }
    out.0
}

/// A host's policy in comparable terms.
#[derive(Debug, Default)]
struct Side {
    policy: Option<Policy>,
    keys: BTreeMap<String, Key>,
    signers: BTreeSet<String>,
    revoked: Revoked,
}

/// A login key.
#[derive(Debug, Default, PartialEq, Eq)]
struct Key {
    /// Empty is anywhere.
    from: Vec<String>,
    /// `None` is every phase.
    phases: Option<BTreeSet<String>>,
    /// Options that limit and that are never written here.
    options: BTreeSet<String>,
}

impl Side {
    fn read((toml, keys): (&[u8], &[u8]), (allowed, revoked): (&[u8], &[u8])) -> Result<Self, String> {
        let policy = Policy::read(toml).map_err(|why| format!("{} {why}", files::SHIM_TOML))?;
        let keys = lists::login_keys(keys, |fingerprint| phases_of(&policy, fingerprint))?;
        Ok(Self {
            policy: Some(policy),
            keys,
            signers: lists::signers(allowed),
            revoked: Revoked::read(revoked),
        })
    }
}

/// `None` where there is nothing of ours; what there is cannot always be read.
fn before(account: &AccountName, facts: &Facts) -> Option<Result<Side, String>> {
    if facts.manifest.is_none() && !facts.files.contains_key(files::SHIM_TOML) {
        return None;
    }
    let body = |path: &str| match facts.files.get(path) {
        None => Ok(&b""[..]),
        Some(f) => f.body.as_deref().ok_or_else(|| format!("{path} is no file that can be read whole")),
    };
    let read = || {
        if !facts.files.contains_key(files::SHIM_TOML) {
            return Err(format!("{} is not there", files::SHIM_TOML));
        }
        let keys = format!("{}/{account}", files::AUTHORIZED_KEYS_DIR);
        Side::read(
            (body(files::SHIM_TOML)?, body(&keys)?),
            (body(files::ALLOWED_SIGNERS)?, body(files::REVOKED_SIGNERS)?),
        )
    };
    Some(read())
}

/// What a key may ask for: the shim takes a key that its table leaves out for one without phases, and
/// answers a probe whatever the table says.
fn phases_of(policy: &Policy, fingerprint: &str) -> Option<BTreeSet<String>> {
    let table = policy.keys.as_ref()?;
    let mut phases: BTreeSet<String> =
        table.get(fingerprint).map(|k| k.phases.iter().cloned().collect()).unwrap_or_default();
    phases.insert(Phase::Probe.as_str().to_owned());
    let every = files::ALL_PHASES.iter().all(|p| phases.contains(p.as_str()));
    (!every).then_some(phases)
}

fn shown(list: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    list.into_iter().map(|i| i.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}

impl Key {
    fn place_words(&self) -> String {
        if self.from.is_empty() { "any address".into() } else { shown(&self.from) }
    }

    fn phase_words(&self) -> String {
        self.phases.as_ref().map_or_else(|| "every phase".into(), shown)
    }

    /// May ask for what `other` may not.
    fn asks_more_than(&self, other: &Self) -> bool {
        match (&self.phases, &other.phases) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(now), Some(was)) => !now.is_subset(was),
        }
    }
}

struct Changes(Vec<Change>);

impl Changes {
    fn say(&mut self, text: String) {
        self.0.push(Change { text, widens: None });
    }

    fn wider(&mut self, limit: Limit, text: String) {
        self.0.push(Change { text, widens: Some(limit) });
    }

    /// A change that widens or does not.
    fn is(&mut self, widens: bool, limit: Limit, text: String) {
        self.0.push(Change { text, widens: widens.then_some(limit) });
    }

    fn number<T: PartialEq + Display>(&mut self, limit: Limit, (was, now): (T, T), widens: bool) {
        if was != now {
            self.is(widens, limit, format!("{limit}: {was} -> {now}"));
        }
    }

    fn set<T: Ord + AsRef<str>>(&mut self, what: &str, was: &BTreeSet<T>, now: &BTreeSet<T>) {
        now.difference(was).for_each(|n| self.say(format!("+ {what} {}", n.as_ref())));
        was.difference(now).for_each(|n| self.say(format!("- {what} {}", n.as_ref())));
    }

    /// `there`: something was provisioned before, so a limit can be lost.
    fn all(&mut self, before: &Side, after: &Side, there: bool) {
        self.keys(&before.keys, &after.keys);
        self.policy(before.policy.as_ref(), after.policy.as_ref());
        self.set("signer", &before.signers, &after.signers);
        if let Some((text, widens)) = before.revoked.becomes(&after.revoked) {
            self.is(widens && there, Limit::Revoked, text);
        }
    }

    fn keys(&mut self, before: &BTreeMap<String, Key>, after: &BTreeMap<String, Key>) {
        let bound = !before.is_empty() && before.values().all(|k| !k.from.is_empty());
        let limited = !before.is_empty() && before.values().all(|k| k.phases.is_some());
        for (name, now) in after {
            let Some(was) = before.get(name) else {
                self.say(format!("+ key {name} from {}, for {}", now.place_words(), now.phase_words()));
                // A key that nobody limited, where every key was.
                if bound && now.from.is_empty() {
                    self.wider(
                        Limit::From,
                        format!("key {name} may come from any address, no key there may"),
                    );
                }
                if limited && now.phases.is_none() {
                    self.wider(
                        Limit::Phases,
                        format!("key {name} may ask for every phase, no key there may"),
                    );
                }
                continue;
            };
            if was.from != now.from {
                let text = format!("key {name}: from {} -> {}", was.place_words(), now.place_words());
                self.is(from::is_wider(&was.from, &now.from), Limit::From, text);
            }
            if was.phases != now.phases {
                let text = format!("key {name}: {} -> {}", was.phase_words(), now.phase_words());
                self.is(now.asks_more_than(was), Limit::Phases, text);
            }
            let lost = shown(was.options.difference(&now.options));
            if !lost.is_empty() {
                self.wider(Limit::KeyOptions, format!("key {name}: {lost} -> nothing"));
            }
        }
        before.keys().filter(|n| !after.contains_key(*n)).for_each(|n| self.say(format!("- key {n}")));
    }

    fn policy(&mut self, was: Option<&Policy>, now: Option<&Policy>) {
        let Some(now) = now else { return };
        let pools =
            |p: Option<&Policy>| p.iter().flat_map(|p| p.pools.iter().cloned()).collect::<BTreeSet<_>>();
        self.set("pool", &pools(was), &pools(Some(now)));
        self.profiles(was, now);
        let env = |p: Option<&Policy>| p.map(|p| p.environment.clone()).unwrap_or_default();
        let (env_was, env_now) = (env(was), env(Some(now)));
        let names = |e: &BTreeMap<String, String>| e.keys().cloned().collect::<BTreeSet<_>>();
        self.set("variable", &names(&env_was), &names(&env_now));
        for (name, value) in &env_now {
            if env_was.get(name).is_some_and(|was| was != value) {
                self.say(format!("variable {name}: another value"));
            }
        }
        let Some(was) = was else {
            if now.envelope_1 {
                self.say(format!("+ envelope 1, on-disconnect {}", now.envelope1.on_disconnect));
            }
            return;
        };
        if was.host != now.host {
            let name = |p: &Policy| p.host.clone().unwrap_or_else(|| "none".into());
            self.say(format!("host name: {} -> {}", name(was), name(now)));
        }
        let (a, b) = (was.signers_needed, now.signers_needed);
        self.number(Limit::SignersNeeded, (a, b), b < a);
        let (a, b) = (was.max_deadline, now.max_deadline);
        self.number(Limit::MaxDeadline, (a, b), b > a);
        let (a, b) = (was.epoch_max_step, now.epoch_max_step);
        self.number(Limit::EpochMaxStep, (a, b), b > a);
        match (was.envelope_1, now.envelope_1) {
            (false, true) => self.wider(Limit::EnvelopeOne, "envelope-1: off -> on".into()),
            (true, false) => self.say("envelope-1: on -> off".into()),
            (true, true) => self.terms(&was.envelope1, &now.envelope1),
            (false, false) => {}
        }
    }

    fn profiles(&mut self, was: Option<&Policy>, now: &Policy) {
        let least = |p: Option<&Policy>| -> BTreeMap<String, u32> {
            let table = p.and_then(|p| p.profiles.as_ref()).into_iter().flatten();
            table.map(|(name, v)| (name.clone(), v.min_epoch.unwrap_or(1))).collect()
        };
        let (was, now) = (least(was), least(Some(now)));
        for (name, epoch) in &now {
            match was.get(name) {
                None => self.say(format!("+ profile {name} from epoch {epoch}")),
                Some(old) if old != epoch => {
                    let text = format!("profile {name}: min-epoch {old} -> {epoch}");
                    self.is(epoch < old, Limit::MinEpoch, text);
                }
                Some(_) => {}
            }
        }
        was.keys().filter(|n| !now.contains_key(*n)).for_each(|n| self.say(format!("- profile {n}")));
    }

    fn terms(&mut self, was: &Terms, now: &Terms) {
        if was.on_disconnect != now.on_disconnect {
            self.say(format!("envelope-1 on-disconnect: {} -> {}", was.on_disconnect, now.on_disconnect));
        }
        for (key, a, b) in
            [("namespace", &was.namespace, &now.namespace), ("principal", &was.principal, &now.principal)]
        {
            if a != b {
                self.wider(Limit::EnvelopeOne, format!("envelope-1 {key}: {a} -> {b}"));
            }
        }
        for phase in files::ALL_PHASES.iter().filter(|p| p.is_scripted()).map(|p| p.as_str()) {
            let of = |t: &Terms| t.deadline.get(phase).copied().unwrap_or(crate::spec::MAX_DEADLINE);
            let (a, b) = (of(was), of(now));
            if a != b {
                self.is(b > a, Limit::Deadline, format!("envelope-1 deadline of {phase}: {a} -> {b}"));
            }
        }
    }
}

/// A key's fingerprint, where `text` begins with one in the form of a `.pub` file.
fn fingerprint(text: &str) -> Option<String> {
    PublicKeyLine::parse(text).ok().map(|k| k.fingerprint().to_owned())
}

#[cfg(test)]
mod tests;
