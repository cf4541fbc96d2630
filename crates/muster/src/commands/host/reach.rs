//! What every command on hosts needs: the hosts that were chosen, a way to each, a pace, and a yes where many are changed.

use super::fleet::Asker;
use crate::codes::Own;
use crate::fault::{Fault, Faults};
use crate::inventory::{Endpoint, Host, HostKey, Inventory, Selection, choose};
use crate::remote::login::{AdminOverride, Logins};
use crate::remote::pins::Store;
use crate::remote::session::Session;
use crate::terminal;
use muster_core::UtcTime;
use muster_ssh::{AskPassphrase, Client, Identity, Keepalive, RetryPolicy, Route, Secret, Timing};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How many at once, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Hosts worked on at the same time.
    pub parallel: usize,
    /// For one host in all.
    pub timeout: Option<Duration>,
    /// For each step of connecting.
    pub connect: Duration,
}

impl Pace {
    fn timing(&self) -> Timing {
        let usual = Timing::default();
        Timing {
            connect: self.connect,
            handshake: self.connect,
            channel: self.connect,
            keepalive: Keepalive { interval: Duration::from_secs(5), max: 3 },
            retry: RetryPolicy { within: self.connect.max(usual.retry.within), ..usual.retry },
            ..usual
        }
    }
}

/// The hosts of a command.
#[derive(Debug)]
pub struct Reach {
    /// The inventory.
    pub inventory: Inventory,
    /// What the operator named.
    pub selection: Selection,
    /// How many at once, and for how long.
    pub pace: Pace,
    /// Where pins are.
    pub state: Option<PathBuf>,
    /// `SSH_AUTH_SOCK`.
    pub agent: Option<PathBuf>,
    /// For the usual key files.
    pub home: Option<PathBuf>,
    /// The one `now`.
    pub now: UtcTime,
}

impl Reach {
    /// The hosts, each once, in the order of the inventory.
    pub fn hosts(&self) -> Result<Vec<&Host>, Faults> {
        choose(&self.inventory, &self.selection)
    }

    /// The pool logins of these hosts, in their order; every host that cannot be reached at all is named before any is.
    pub fn pool(&self, hosts: &[&Host], asker: &Asker) -> Result<Vec<Arc<Session>>, Faults> {
        self.pool_over(&self.client()?, hosts, asker)
    }

    /// The administrators' logins of these hosts and, where it is wanted, the pool's too, over one client: their bastions are
    /// shared. Who only puts back what was provisioned need not hold the controller key.
    pub fn logins(
        &self,
        hosts: &[&Host],
        asker: &Asker,
        (over, pool): (&AdminOverride, Pool),
    ) -> Result<Vec<Both>, Faults> {
        let client = self.client()?;
        let admin = self.sessions(&client, hosts, asker, &mut |logins, host| logins.admin(host, over))?;
        let pool: Vec<Option<Arc<Session>>> = match pool {
            Pool::Wanted => self.pool_over(&client, hosts, asker)?.into_iter().map(Some).collect(),
            Pool::Unused => hosts.iter().map(|_| None).collect(),
        };
        Ok(admin.into_iter().zip(pool).map(|(admin, pool)| Both { admin, pool }).collect())
    }

    fn pool_over(
        &self,
        client: &Arc<Client>,
        hosts: &[&Host],
        asker: &Asker,
    ) -> Result<Vec<Arc<Session>>, Faults> {
        let user = |host: &Host| host.ssh.user.clone();
        self.sessions(client, hosts, asker, &mut |logins, host| Ok((logins.pool(host)?, user(host))))
    }

    fn client(&self) -> Result<Arc<Client>, Fault> {
        let store = Store::at(self.state.as_deref())?;
        let client = Client::new(|| UtcTime::from_unix(muster_sys::clock::unix_seconds()));
        // A pin that could not be spelled out is as good as before.
        Ok(Arc::new(client.on_login(move |hop| {
            let _ = hop.key_line().as_deref().and_then(HostKey::parse).map(|key| store.spell_out(&key));
        })))
    }

    /// The way to a host's pool login with these identities and no others.
    pub fn pool_as(&self, host: &Host, logins: &[Identity], asker: &Asker) -> Result<Route, Faults> {
        self.with_logins(asker, &mut |l| l.pool_as(host, logins))
    }

    fn with_logins<T>(
        &self,
        asker: &Asker,
        work: &mut dyn FnMut(&mut Logins<'_>) -> Result<T, Faults>,
    ) -> Result<T, Faults> {
        let pins = Store::at(self.state.as_deref())?.read()?;
        let of = |end: &Endpoint| Ok(pins.of(end));
        let machine = (self.agent.as_deref(), self.home.as_deref());
        work(&mut Logins::new(&self.inventory, &of, ask(asker.clone()), machine, self.pace.timing()))
    }

    fn sessions(
        &self,
        client: &Arc<Client>,
        hosts: &[&Host],
        asker: &Asker,
        route: Way<'_>,
    ) -> Result<Vec<Arc<Session>>, Faults> {
        let pins = Store::at(self.state.as_deref())?.read()?;
        self.with_logins(asker, &mut |logins| {
            let mut faults = Vec::new();
            let mut sessions = Vec::new();
            for host in hosts {
                match route(logins, host) {
                    Ok((route, user)) => {
                        sessions.push(Arc::new(Session::new(Arc::clone(client), route, &user)))
                    }
                    Err(more) => {
                        let moved = pins.elsewhere(&host.ssh);
                        let hint = |place: &String| {
                            format!("{} is pinned at {place}, which is another address", host.name)
                        };
                        faults.extend(more.into_vec().into_iter().map(|f| match moved.first() {
                            None => f,
                            Some(place) => f.hint(hint(place)),
                        }));
                    }
                }
            }
            Faults::check(faults)?;
            Ok(sessions)
        })
    }

    /// Asks before more hosts are changed than were named one by one, or always where `always`.
    pub fn confirm(&self, yes: bool, always: bool, hosts: &[&Host], what: &str) -> Result<(), Fault> {
        let wide = self.selection.all || self.selection.selector.is_some();
        if yes || !(wide || always) {
            return Ok(());
        }
        let some: Vec<&str> = hosts.iter().take(6).map(|h| h.name.as_str()).collect();
        let more = hosts.len().saturating_sub(some.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let question = format!("{what} {}{more}?", some.join(", "));
        let said = question.trim_end_matches('?').to_owned();
        match terminal::confirm(&question) {
            Some(true) => Ok(()),
            Some(false) => Err(Fault::new(Own::Declined, said)),
            None => Err(Fault::new(Own::ConfirmNeeded, said)),
        }
    }
}

/// How a host's route and user are chosen.
type Way<'w> = &'w mut dyn FnMut(&mut Logins<'_>, &Host) -> Result<(Route, String), Faults>;

/// Whether a command of the administrator's uses the pool login too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// It does, and is refused where that login cannot be made.
    Wanted,
    /// It does not.
    Unused,
}

/// The two logins of a host.
pub struct Both {
    /// The administrator's.
    pub admin: Arc<Session>,
    /// The one that the shim answers, where it was wanted.
    pub pool: Option<Arc<Session>>,
}

fn ask(asker: Asker) -> AskPassphrase {
    Arc::new(move |source| {
        let secret = asker.ask_blocking(format!("Passphrase of {source}"))?;
        Some(Secret::new(secret.expose().to_vec()))
    })
}

/// The names, for the fleet.
pub fn names(hosts: &[&Host]) -> Vec<String> {
    hosts.iter().map(|h| h.name.to_string()).collect()
}
