//! The one place that turns a host of the inventory into a route: bastions, whom each hop must be, what to log in with.
//!
//! Invariants: a hop for which nothing is pinned is refused here, before anything is sent anywhere. A key file is read, and its
//! passphrase asked for, at most once, however many hosts it opens.

use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::inventory::{Endpoint, Host, HostKey, Identity, Inventory};
use crate::signer::{self, agent::Agent};
use muster_ssh::{
    Address, AskPassphrase, Authority, Fingerprint, Hop, HostTrust, Identity as Login, Passphrase, Route,
    Timing,
};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Key files that are offered where the inventory names nothing, in the order of ssh(1).
const USUAL: [&str; 3] = ["id_rsa", "id_ecdsa", "id_ed25519"];

/// Host keys that are pinned in the state folder for an endpoint.
pub type Pins<'p> = &'p dyn Fn(&Endpoint) -> Result<Vec<HostKey>, Fault>;

/// Makes routes. See the module documentation.
pub struct Logins<'i> {
    inventory: &'i Inventory,
    pins: Pins<'i>,
    ask: AskPassphrase,
    agent: Option<PathBuf>,
    home: Option<PathBuf>,
    timing: Timing,
    opened: HashMap<Identity, Login>,
}

/// How an administrator logs in, where the command line says other than the inventory.
#[derive(Clone, Debug, Default)]
pub struct AdminOverride {
    /// Another user.
    pub user: Option<String>,
    /// Other keys.
    pub keys: Vec<PathBuf>,
}

/// Who names a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// `identities:` of a host's `ssh:` or of a bastion.
    Inventory,
    /// `identities:` of a host's `admin:`.
    InventoryForAdmin,
    /// `--admin-key`.
    AdminKey,
    /// It is where ssh(1) looks by itself.
    Nobody,
}

/// What to log in with, and who says so.
#[derive(Clone, Copy)]
struct Keys<'k> {
    named: &'k [Identity],
    by: By,
}

/// For whom a key is opened.
struct Whose<'w> {
    end: &'w Endpoint,
    user: &'w str,
    by: By,
}

impl Whose<'_> {
    fn unusable(&self, error: &muster_ssh::IdentityFault, inventory: &Path) -> Fault {
        let by = match self.by {
            By::Inventory | By::InventoryForAdmin => "the key that the inventory names",
            By::AdminKey => "the key of --admin-key",
            By::Nobody => "the key in ~/.ssh",
        };
        let what = format!("cannot log in to {} as {} with {by}", self.end.name, self.user);
        let fault = Fault::new(Own::KeyFile, what).why(super::fault::line(error));
        match self.by {
            By::Inventory | By::InventoryForAdmin => fault.at(inventory, self.end.line),
            By::AdminKey | By::Nobody => fault,
        }
    }
}

impl<'i> Logins<'i> {
    /// `ask` is called off the async threads when a key wants its passphrase; `agent` is `SSH_AUTH_SOCK`.
    pub fn new(
        inventory: &'i Inventory,
        pins: Pins<'i>,
        ask: AskPassphrase,
        (agent, home): (Option<&Path>, Option<&Path>),
        timing: Timing,
    ) -> Self {
        let (agent, home) = (agent.map(Path::to_owned), home.map(Path::to_owned));
        Self { inventory, pins, ask, agent, home, timing, opened: HashMap::new() }
    }

    /// The way to the pool login, which the shim answers.
    pub fn pool(&mut self, host: &Host) -> Result<Route, Faults> {
        self.route(host, &host.ssh.user, Keys { named: &host.ssh.identities, by: By::Inventory })
    }

    /// The way to the pool login with these identities and no others, which may be none.
    pub fn pool_as(&mut self, host: &Host, logins: &[Login]) -> Result<Route, Faults> {
        let bastions = self.bastions(host);
        let mut hop = self.bare(&host.ssh, &host.ssh.user)?;
        for login in logins {
            hop = hop.identity(login.clone());
        }
        Ok(Route::via(bastions?, hop))
    }

    /// The way to the administrator's login, and its user.
    pub fn admin(&mut self, host: &Host, over: &AdminOverride) -> Result<(Route, String), Faults> {
        let user = over.user.as_ref().or(host.admin.user.as_ref()).ok_or_else(|| {
            Fault::new(Own::ConfigMissing, format!("nobody is named who administers {}", host.name))
                .at(&self.inventory.file, host.line)
                .fix("Give --admin-user, or write `admin: {user: NAME}` in the inventory.")
        })?;
        let given: Vec<Identity> =
            over.keys.iter().map(|key| Identity::File { key: key.clone(), certificate: None }).collect();
        let keys = if given.is_empty() {
            Keys { named: &host.admin.identities, by: By::InventoryForAdmin }
        } else {
            Keys { named: &given, by: By::AdminKey }
        };
        let route = self.route(host, user, keys)?;
        Ok((route, user.clone()))
    }

    fn route(&mut self, host: &Host, user: &str, keys: Keys<'_>) -> Result<Route, Faults> {
        let bastions = self.bastions(host);
        let target = self.hop(&host.ssh, user, keys);
        match (bastions, target) {
            (Ok(bastions), Ok(target)) => Ok(Route::via(bastions, target)),
            (Err(faults), Ok(_)) => Err(faults),
            (Ok(_), Err(fault)) => Err(fault.into()),
            (Err(faults), Err(fault)) => {
                let mut all = faults.into_vec();
                all.push(fault);
                Err(Faults::check(all)
                    .err()
                    .unwrap_or_else(|| Fault::new(Own::Fault, "a hop was refused without a reason").into()))
            }
        }
    }

    /// The hops before a host.
    fn bastions(&mut self, host: &Host) -> Result<Vec<Hop>, Faults> {
        let inventory = self.inventory;
        let mut faults = Vec::new();
        let mut bastions = Vec::new();
        for end in host.ssh.via.iter().filter_map(|name| inventory.bastions.get(name)) {
            match self.hop(end, &end.user, Keys { named: &end.identities, by: By::Inventory }) {
                Ok(hop) => bastions.push(hop),
                Err(fault) => faults.push(fault),
            }
        }
        Faults::check(faults)?;
        Ok(bastions)
    }

    /// A hop without anything to log in with.
    fn bare(&self, end: &Endpoint, user: &str) -> Result<Hop, Fault> {
        let file = &self.inventory.file;
        let address = Address::parse(&end.address)
            .map_err(|e| Fault::new(Own::ConfigValue, e.to_string()).at(file, end.line))?;
        let trust = trust(end, &(self.pins)(end)?).map_err(|f| f.at(file, end.line))?;
        Ok(Hop::new(end.name.clone(), address, user, trust).port(end.port).timing(self.timing))
    }

    fn hop(&mut self, end: &Endpoint, user: &str, keys: Keys<'_>) -> Result<Hop, Fault> {
        let hop = self.bare(end, user)?;
        let mut logins = Vec::new();
        let mut unusable = None;
        for identity in keys.named {
            logins.push(self.open(identity, &Whose { end, user, by: keys.by })?);
        }
        if keys.named.is_empty() {
            for identity in self.usual() {
                match self.open(&identity, &Whose { end, user, by: By::Nobody }) {
                    Ok(login) => logins.push(login),
                    // Nobody named it: it stands in the way of no other that works.
                    Err(fault) => unusable = unusable.or(Some(fault)),
                }
            }
        }
        if logins.is_empty() {
            return Err(unusable.unwrap_or_else(|| self.nothing_to_offer(end, user, keys.by)));
        }
        Ok(logins.into_iter().fold(hop, Hop::identity))
    }

    /// No key file, no agent, none in the inventory: no host need be asked to hear that it lets nobody in.
    fn nothing_to_offer(&self, end: &Endpoint, user: &str, by: By) -> Fault {
        let fix = match by {
            By::InventoryForAdmin => "Give --admin-key FILE, write `admin: {identities: [FILE]}`",
            _ if self.inventory.bastions.contains_key(&end.name) => {
                "Write `identities: [FILE]` at the bastion"
            }
            _ => "Write `ssh: {identities: [FILE]}`",
        };
        Fault::new(Own::IdentityMissing, format!("there is no key to log in to {} with as {user}", end.name))
            .at(&self.inventory.file, end.line)
            .why(format!(
                "the inventory names none, SSH_AUTH_SOCK names no agent, and ~/.ssh has no {}",
                USUAL.join(", ")
            ))
            .fix(format!("{fix} in the inventory, or load a key into an SSH agent."))
    }

    /// What ssh(1) would offer: the agent, then the usual files.
    fn usual(&self) -> Vec<Identity> {
        let agent = self.agent.as_ref().map(|_| Identity::Agent(None));
        let ssh = self.home.as_ref().map(|h| h.join(".ssh"));
        let files =
            USUAL.iter().filter_map(|name| ssh.as_ref().map(|s| s.join(name))).filter(|p| p.is_file());
        agent.into_iter().chain(files.map(|key| Identity::File { key, certificate: None })).collect()
    }

    fn open(&mut self, identity: &Identity, whose: &Whose<'_>) -> Result<Login, Fault> {
        if let Some(there) = self.opened.get(identity) {
            return Ok(there.clone());
        }
        let opened = match identity {
            Identity::File { key, certificate } => {
                let refuse = |e: muster_ssh::IdentityFault| whose.unusable(&e, &self.inventory.file);
                let login = Login::key_file(key, Passphrase::Ask(self.ask.clone())).map_err(refuse)?;
                match certificate {
                    Some(path) => login.with_certificate_file(path).map_err(refuse)?,
                    None => login,
                }
            }
            Identity::Agent(which) => self.agent_keys(which.as_deref())?,
        };
        self.opened.insert(identity.clone(), opened.clone());
        Ok(opened)
    }

    fn agent_keys(&self, which: Option<&str>) -> Result<Login, Fault> {
        let agent = Agent::at(self.agent.as_deref())?;
        let only = match which {
            None => None,
            Some(text) => {
                let fingerprint = if text.starts_with("SHA256:") {
                    text.to_owned()
                } else if text.ends_with(".pub") {
                    signer::read_public(Path::new(text))?.fingerprint()
                } else {
                    agent.find(text, None)?.fingerprint()
                };
                let print = Fingerprint::parse(&fingerprint).map_err(|e| {
                    Fault::new(Own::ConfigValue, format!("agent key {text:?}")).why(e.to_string())
                })?;
                Some(vec![print])
            }
        };
        // `Agent::at` refuses when there is none.
        let socket = self.agent.clone().unwrap_or_default();
        Ok(Login::agent(&socket, only))
    }
}

/// Whom a hop must be: the keys of the inventory and of the state folder, or what a host CA vouches for.
pub fn trust(end: &Endpoint, pinned: &[HostKey]) -> Result<HostTrust, Fault> {
    let bad = |e: &dyn core::fmt::Display| Fault::new(Own::ConfigValue, format!("{}: {e}", end.name));
    let mut builder = HostTrust::builder();
    for key in end.host_keys.iter().chain(pinned) {
        builder = match key {
            HostKey::Fingerprint(text) => builder.pin(Fingerprint::parse(text).map_err(|e| bad(&e))?, None),
            HostKey::Key(line) => builder.key(line).map_err(|e| bad(&e))?,
        };
    }
    for line in &end.host_cas {
        let names = if end.host_principals.is_empty() {
            vec![end.address.clone()]
        } else {
            end.host_principals.clone()
        };
        builder = builder.authority(Authority::new(line, names).map_err(|e| bad(&e))?);
    }
    builder.build().map_err(|_| {
        Fault::new(Own::PinMissing, format!("no host key is pinned for {}", end.name))
            .why("nothing is learned from the network")
    })
}
