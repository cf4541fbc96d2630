//! From the arguments of `muster pki` to its commands.

use super::node::on_nodes;
use crate::args::pki::{KeyArgs, Pki, Publish, Rotate};
use crate::commands::node::confirm::Meant;
use crate::commands::pki::nodes::{self, Rotation};
use crate::commands::pki::{self, InitSettings, IssueSettings, RevokeSettings};
use crate::fault::{Fault, Outcome};
use crate::nodes::identity::Caller;
use crate::printer::Printer;
use crate::settings::{World, span};
use crate::terminal::Passphrases;
use muster_tls::Lifetime;

pub(super) fn dispatch(command: Pki, world: &World, printer: &mut Printer) -> Outcome {
    match command {
        Pki::Init(a) => {
            let settings = InitSettings {
                folder: a.pki.pki,
                name: a.name,
                lifetime: lifetime(a.lifetime.as_deref(), Lifetime::AUTHORITY)?,
                passphrase: chosen(a.keys),
            };
            pki::init(&settings, world.now, printer)
        }
        Pki::Issue(a) => {
            let settings = IssueSettings {
                folder: a.pki.pki,
                name: a.name,
                role: a.role.into(),
                lifetime: lifetime(a.lifetime.as_deref(), Lifetime::CLIENT)?,
                authority: Passphrases { file: a.authority_passphrase_file },
                passphrase: chosen(a.keys),
                public: a.public_key,
            };
            pki::issue(&settings, world.now, printer)
        }
        Pki::Publish(a) => publish(&a, world, printer),
        Pki::Rotate(a) => rotate(*a, world, printer),
        Pki::List(a) => pki::list(&a.pki.pki, world.now, printer),
        Pki::Revoke(a) => {
            let ends = a.ends.as_deref().map(|text| span("--ends", text)).transpose()?;
            let settings = RevokeSettings {
                folder: a.pki.pki,
                who: a.who,
                all: a.all,
                ends,
                authority: Passphrases { file: a.authority_passphrase_file },
                plan: a.plan,
            };
            pki::revoke(&settings, world.now, printer)
        }
    }
}

/// How a new key gets its passphrase; `None` leaves it open.
fn chosen(keys: KeyArgs) -> Option<Passphrases> {
    (!keys.danger_no_passphrase).then_some(Passphrases { file: keys.passphrase_file })
}

fn lifetime(text: Option<&str>, default: Lifetime) -> Result<Lifetime, Fault> {
    text.map_or(Ok(default), |text| span("--lifetime", text).map(|secs| Lifetime { secs }))
}

fn publish(a: &Publish, world: &World, printer: &mut Printer) -> Outcome {
    let list = a.list.clone().unwrap_or_else(|| a.on.caller.pki.join("operator-ca.crl"));
    on_nodes(&a.on, world, printer, |s, p| nodes::publish(&s, &list, a.plan, p))
}

fn rotate(a: Rotate, world: &World, printer: &mut Printer) -> Outcome {
    let client = a.to_client.as_ref().map(|name| a.to.join("clients").join(format!("{name}.pem")));
    let new = Caller { client, key: None };
    let (proof, _) = new.files(&a.to)?;
    let sure = Meant { plan: a.plan, yes: a.yes };
    on_nodes(&a.on, world, printer, |session, printer| {
        let identity =
            new.open(&a.to, &Passphrases { file: a.to_passphrase_file }, world.agent.as_deref())?;
        let old = a.authority.unwrap_or_else(|| a.on.caller.pki.join("operator-ca.pem"));
        let rotation = Rotation { session, old, new: a.to.join("operator-ca.pem"), proof, identity, sure };
        nodes::rotate(rotation, world.now, printer)
    })
}
