//! From the arguments of `muster node …` to plain settings.

use super::maybe_inventory;
use crate::args::InventoryFile;
use crate::args::node::calls::{Changes, Ends, JoinToken, Kubeconfig, Logs, On, SshKey, Upgrade};
use crate::args::node::{Caller as CallerArgs, Claim, List, Node, Pace, Pin, Select};
use crate::codes::Own;
use crate::commands::node::action::Action;
use crate::commands::node::claim::Proof;
use crate::commands::node::confirm::Meant;
use crate::commands::node::secrets::Secret;
use crate::commands::node::{
    access, action, apply, claim, known, logs, pin, secrets, services, status, upgrade, watch,
};
use crate::fault::{Fault, Faults, Outcome};
use crate::inventory::Inventory;
use crate::nodes::choose::{self, Chosen};
use crate::nodes::contexts::{self, Context, Contexts};
use crate::nodes::identity::Caller;
use crate::nodes::pins::{Store, is_name};
use crate::nodes::session::{self, Session, Unkept};
use crate::printer::Printer;
use crate::settings::{World, span};
use crate::terminal::Passphrases;
use muster_client::{DEFAULT_PORT, Endpoint, Identity};
use muster_tls::Fingerprint;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn dispatch(command: Node, world: &World, printer: &mut Printer) -> Outcome {
    match command {
        Node::Claim(a) => claim(&a, world, printer),
        Node::Pin(a) => pin(&a, world, printer),
        Node::List(a) => list(*a, world, printer),
        Node::Forget(a) => {
            let around = Around::look(&a.caller, world)?;
            known::forget(&around.choose(&a.select)?, &around.store, a.plan, printer)
        }
        Node::Status(a) => on_nodes(&a, world, printer, |s, p| status::run(&s, p)),
        Node::Services(a) => on_nodes(&a, world, printer, |s, p| services::run(&s, p)),
        Node::Apply(a) => {
            on_nodes(&a.on, world, printer, |s, p| apply::run(&s, &a.file, a.plan, world.now, p))
        }
        Node::Logs(a) => follow(&a, world, printer),
        Node::Restart(a) => on_nodes(&a.on, world, printer, |s, p| action::restart(&s, &a.unit, a.plan, p)),
        Node::Cordon(a) => changes(&a, Action::Cordon, world, printer),
        Node::Uncordon(a) => changes(&a, Action::Uncordon, world, printer),
        Node::Drain(a) => ends(&a, Action::Drain, world, printer),
        Node::Reboot(a) => ends(&a, Action::Reboot, world, printer),
        Node::Shutdown(a) => ends(&a, Action::Shutdown, world, printer),
        Node::Reset(a) => ends(&a, Action::Reset, world, printer),
        Node::SshKey(SshKey::Add(a)) => {
            on_nodes(&a.on, world, printer, |s, p| access::add(&s, &a.user, &a.key_file, a.plan, p))
        }
        Node::SshKey(SshKey::List(a)) => on_nodes(&a, world, printer, |s, p| access::list(&s, p)),
        Node::SshKey(SshKey::Revoke(a)) => {
            on_nodes(&a.on, world, printer, |s, p| access::revoke(&s, &a.key, a.plan, p))
        }
        Node::Kubeconfig(Kubeconfig { on, server, to }) => {
            let secret = Secret::Kubeconfig { server };
            on_nodes(&on.on(), world, printer, |s, p| secrets::run(&s, &secret, to.as_deref(), p))
        }
        Node::JoinToken(JoinToken { on, role, expiry, to }) => {
            let expiry = expiry.as_deref().map(|t| span("--expiry", t)).transpose()?.map(|s| format!("{s}s"));
            let secret = Secret::JoinToken { role, expiry };
            on_nodes(&on.on(), world, printer, |s, p| secrets::run(&s, &secret, to.as_deref(), p))
        }
        Node::Etcd(a) => on_nodes(&a, world, printer, |s, p| secrets::etcd(&s, p)),
        Node::Upgrade(a) => upgrade(a, world, printer),
    }
}

/// What stands around a command for nodes: the context, the inventory, the pins.
pub(super) struct Around {
    agent: Option<PathBuf>,
    context: Context,
    pub(super) inventory: Option<Inventory>,
    pub(super) store: Store,
}

impl Around {
    pub(super) fn look(a: &CallerArgs, world: &World) -> Result<Self, Faults> {
        let context = context(a.context.as_deref(), world)?;
        let named = a.inventory.inventory.clone().or_else(|| context.inventory.clone());
        let inventory = maybe_inventory(&InventoryFile { inventory: named }, world)?;
        let (agent, store) = (world.agent.clone(), Store::at(world.state.as_deref())?);
        Ok(Self { agent, context, inventory, store })
    }

    pub(super) fn choose(&self, select: &Select) -> Result<Vec<Chosen>, Faults> {
        choose::choose(&select.selection()?, self.inventory.as_ref(), &self.store.read()?)
    }

    /// Who calls: what was said on the command line, else in the context, else in the inventory.
    pub(super) fn caller(&self, a: &CallerArgs) -> Caller {
        let typed = Caller { client: a.client.clone(), key: a.client_key.clone() };
        let of_inventory =
            self.inventory.as_ref().map(|i| Caller { client: i.api.client.clone(), key: i.api.key.clone() });
        Caller::first([typed, self.context.caller.clone(), of_inventory.unwrap_or_default()])
    }

    /// The same, with its key.
    pub(super) fn identity(&self, a: &CallerArgs) -> Result<Arc<Identity>, Fault> {
        self.caller(a).open(&a.pki, &Passphrases { file: a.passphrase_file.clone() }, self.agent.as_deref())
    }

    fn authority(&self, named: Option<PathBuf>, pki: &std::path::Path) -> PathBuf {
        let of_inventory = || self.inventory.as_ref().and_then(|i| i.api.authority.clone());
        named
            .or_else(|| self.context.authority.clone())
            .or_else(of_inventory)
            .unwrap_or_else(|| pki.join("operator-ca.pem"))
    }

    /// The name and the place of a node that need not be known yet.
    fn place(&self, node: &str, name: Option<&str>) -> Result<(String, Endpoint), Fault> {
        let all = choose::known(self.inventory.as_ref(), &self.store.read()?);
        if let Some(known) = all.iter().find(|n| n.name == node) {
            return Ok((name.unwrap_or(node).to_owned(), known.endpoint.clone()));
        }
        let endpoint: Endpoint = node.parse().map_err(|why: &str| {
            Fault::new(Own::NodeUnknown, format!("{node:?} is no node of the inventory and no address"))
                .why(why)
        })?;
        let of_inventory = all.iter().find(|n| n.endpoint == endpoint).map(|n| n.name.clone());
        let own = match endpoint.port() {
            DEFAULT_PORT => endpoint.host().to_owned(),
            _ => endpoint.to_string(),
        };
        let name = name.map(str::to_owned).or(of_inventory).unwrap_or(own);
        if !is_name(&name) {
            return Err(Fault::new(Own::Usage, format!("--name {name:?} is no name for a node"))
                .fix("Use letters, digits, `.`, `_`, `-`."));
        }
        Ok((name, endpoint))
    }
}

/// The context of a command: the one that is named, else the one in use, else none.
pub(super) fn context(named: Option<&str>, world: &World) -> Result<Context, Faults> {
    let current = match named {
        Some(name) => Some(name.to_owned()),
        None => contexts::current(world.state.as_deref())?,
    };
    match current {
        None => Ok(Context::default()),
        Some(name) => {
            let all = Contexts::read(world.config.as_deref(), world.home.as_deref())?;
            Ok(all.get(&name)?.clone())
        }
    }
}

pub(super) fn session(on: &On, world: &World) -> Result<Session, Faults> {
    let around = Around::look(&on.caller, world)?;
    let chosen = around.choose(&on.select)?;
    let pace = pace(&on.pace)?;
    // Before a passphrase is asked for: what cannot be called needs none.
    if chosen.iter().all(|c| c.pin.is_none()) {
        Faults::check(chosen.iter().filter_map(|c| c.pinned().err()).collect())?;
    }
    let identity = around.identity(&on.caller)?;
    let mut store = around.store;
    store.patience = pace.timeout.map_or(store.patience, |t| t.min(store.patience));
    Ok(Session { chosen, identity, store, pace, unkept: Unkept::default() })
}

/// Runs a command on nodes. Heads that could not be kept are told behind what the nodes said, and are no part of the exit code: it
/// says what became of the call.
pub(super) fn on_nodes(
    on: &On,
    world: &World,
    printer: &mut Printer,
    run: impl FnOnce(Session, &mut Printer) -> Outcome,
) -> Outcome {
    told_and_kept(session(on, world)?, printer, run)
}

/// What nodes did, they did, and it is told before anything is waited for: keeping their heads comes after, and that it failed is a
/// warning.
pub(super) fn told_and_kept(
    session: Session,
    printer: &mut Printer,
    run: impl FnOnce(Session, &mut Printer) -> Outcome,
) -> Outcome {
    let (unkept, store) = (session.unkept.clone(), session.store.clone());
    let exit = run(session, printer).unwrap_or_else(|faults| super::tell(&faults, printer));
    if let Err(fault) = unkept.keep(store.folder(), store.patience) {
        printer.warn(&crate::printer::clean(&format!("the newest audit heads were not kept: {fault}")));
    }
    Ok(exit)
}

/// Every node that is known, where nothing was said.
pub(super) fn every_one(select: Select) -> Select {
    let all = select.all || (select.names.is_empty() && select.selector.is_none());
    Select { all, ..select }
}

fn list(a: List, world: &World, printer: &mut Printer) -> Outcome {
    let around = Around::look(&a.caller, world)?;
    if !a.watch {
        return known::list(around.inventory.as_ref(), &around.store, &a.select.selection()?, printer);
    }
    let every = span("--every", &a.every).map(Duration::from_secs)?;
    let on = On { select: every_one(a.select), caller: a.caller, pace: a.pace };
    on_nodes(&on, world, printer, |s, p| watch::run(&s, every, p))
}

fn pace(a: &Pace) -> Result<session::Pace, Fault> {
    let seconds = |option, text: &str| span(option, text).map(Duration::from_secs);
    Ok(session::Pace {
        parallel: a.parallel.map(usize::from),
        timeout: a.link.timeout.as_deref().map(|t| seconds("--timeout", t)).transpose()?,
        connect: seconds("--connect-timeout", &a.link.connect_timeout)?,
    })
}

fn ends(a: &Ends, action: Action, world: &World, printer: &mut Printer) -> Outcome {
    let sure = Meant { plan: a.plan, yes: a.yes };
    on_nodes(&a.on, world, printer, |s, p| action::ending(&s, action, sure, p))
}

fn changes(a: &Changes, action: Action, world: &World, printer: &mut Printer) -> Outcome {
    on_nodes(&a.on, world, printer, |s, p| action::run(&s, action, a.plan, p))
}

fn follow(a: &Logs, world: &World, printer: &mut Printer) -> Outcome {
    let wanted = muster_client::Logs {
        unit: a.unit.clone(),
        lines: a.lines,
        since: a.since.as_deref().map(|t| span("--since", t)).transpose()?,
        follow: a.follow,
    };
    on_nodes(&a.on.on(), world, printer, |s, p| logs::run(&s, &wanted, p))
}

fn fingerprint(text: Option<&str>) -> Result<Option<Fingerprint>, Fault> {
    let read = |t: &str| {
        t.parse().map_err(|why: &str| Fault::new(Own::Usage, format!("--fingerprint {t:?} is none: {why}")))
    };
    text.map(read).transpose()
}

fn claim(a: &Claim, world: &World, printer: &mut Printer) -> Outcome {
    if a.code.is_some() {
        return Err(Fault::new(Own::SecretOnArgv, "the pairing code was given on the command line")
            .fix("Leave --code out and type it when it is asked for, or give --code-file FILE (`-` is standard input).")
            .into());
    }
    let around = Around::look(&a.caller, world)?;
    let (name, endpoint) = around.place(&a.node, a.name.as_deref())?;
    let settings = claim::Settings {
        name,
        endpoint,
        proof: if a.no_code { Proof::NoCode } else { Proof::Code(a.code_file.clone()) },
        fingerprint: fingerprint(a.fingerprint.as_deref())?,
        document: a.document.clone(),
        authority: around.authority(a.authority.clone(), &a.caller.pki),
        yes: a.yes,
        plan: a.plan,
        connect: span("--connect-timeout", &a.connect_timeout).map(Duration::from_secs)?,
        store: around.store,
    };
    claim::run(&settings, world.now, printer)
}

fn pin(a: &Pin, world: &World, printer: &mut Printer) -> Outcome {
    let around = Around::look(&a.caller, world)?;
    let (name, endpoint) = around.place(&a.node, a.name.as_deref())?;
    let settings = pin::Settings {
        name,
        endpoint,
        fingerprint: fingerprint(a.fingerprint.as_deref())?,
        replace: a.replace,
        identity: around.identity(&a.caller)?,
        connect: span("--connect-timeout", &a.connect_timeout).map(Duration::from_secs)?,
        store: around.store,
    };
    pin::run(&settings, printer)
}

/// How often a node that is on its way is asked.
const POLL: Duration = Duration::from_secs(10);

fn upgrade(a: Upgrade, world: &World, printer: &mut Printer) -> Outcome {
    let sure = Meant { plan: a.plan, yes: a.yes };
    let settle = span("--settle", &a.settle).map(Duration::from_secs)?;
    // A test's node comes back faster than one that boots.
    let poll = POLL.min(settle / 10);
    on_nodes(&a.on.on(), world, printer, |session, printer| {
        let Some(image) = a.image else { return action::rollback(&session, a.drop_staged, sure, printer) };
        let settings = upgrade::Settings { session, image, stage_only: a.stage_only, settle, poll, sure };
        upgrade::run(&settings, printer)
    })
}
