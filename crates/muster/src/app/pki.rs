//! From the arguments of `muster pki` to its commands.

use crate::args::pki::{KeyArgs, Pki};
use crate::commands::pki::{self, InitSettings, IssueSettings, RevokeSettings};
use crate::fault::{Fault, Outcome};
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
            };
            pki::issue(&settings, world.now, printer)
        }
        Pki::List(a) => pki::list(&a.pki.pki, world.now, printer),
        Pki::Revoke(a) => {
            let ends = a.ends.as_deref().map(|text| span("--ends", text)).transpose()?;
            let settings = RevokeSettings {
                folder: a.pki.pki,
                who: a.who,
                all: a.all,
                ends,
                authority: Passphrases { file: a.authority_passphrase_file },
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
