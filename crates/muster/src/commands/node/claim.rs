//! `muster node claim`
//!
//! The code from the console proves the node's certificate, so the fingerprint need not be compared; where it is given it is
//! compared all the same, before anything is sent (N9). A node without a code proves nothing, so there the fingerprint, or the
//! operator's word, is demanded (N10). A confirmation that failed is never sent again by itself (N12).

use super::plan::{self, Planned};
use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Faults, Outcome};
use crate::files;
use crate::nodes::fault::told;
use crate::nodes::pins::{Pin, Store};
use crate::nodes::session::runtime;
use crate::printer::{Printer, clean};
use crate::signer::file::random;
use crate::terminal;
use muster_client::Endpoint;
use muster_client::claim::{Claimed, NotClaimed, Unclaimed, Wanted};
use muster_client::{Error, Turned};
use muster_core::UtcTime;
use muster_pairing::code::Code;
use muster_tls::{Fingerprint, OperatorCa};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest file of a code or an authority.
const MAX_SMALL: usize = 64 * 1024;

/// How the node is proven.
#[derive(Debug)]
pub enum Proof {
    /// By the code; from a file, or from the terminal.
    Code(Option<PathBuf>),
    /// The node asks for none.
    NoCode,
}

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// What the node is called here.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// How it is proven.
    pub proof: Proof,
    /// What its console shows.
    pub fingerprint: Option<Fingerprint>,
    /// What it shall be.
    pub document: Option<PathBuf>,
    /// Whom it shall obey.
    pub authority: PathBuf,
    /// What would be asked is meant.
    pub yes: bool,
    /// Only look.
    pub plan: bool,
    /// How long connecting may take.
    pub connect: Duration,
    /// Where pins are.
    pub store: Store,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Done {
    node: String,
    address: String,
    fingerprint: String,
    authority: String,
    /// Whether its certificate is pinned here.
    pinned: bool,
    warnings: Vec<String>,
}

/// Claims the node and pins its certificate.
pub fn run(settings: &Settings, now: UtcTime, printer: &mut Printer) -> Outcome {
    let authority_pem = files::read_text(&settings.authority, MAX_SMALL).map_err(|fault| {
        match fault.code == Own::FileMissing.into() {
            true => fault.fix("Make an authority with `muster pki init`, or name one with --authority."),
            false => fault,
        }
    })?;
    let authority =
        OperatorCa::from_pem(&authority_pem, now).map_err(|f| crate::pki::bad(&settings.authority, &f))?;
    let document = settings.document.as_deref().map(|d| document(d, now)).transpose()?;
    if settings.plan {
        let document = settings.document.as_ref().map(|d| format!(", as {} says", d.display()));
        let does = format!(
            "be claimed for {} ({}){}",
            authority.name(),
            authority.fingerprint(),
            document.unwrap_or_default()
        );
        return plan::show(vec![Planned::at(&settings.name, settings.endpoint.to_string(), does)], printer);
    }
    // Typed before the node is asked: a first step is forgotten after ten seconds.
    let code = match &settings.proof {
        Proof::Code(file) => Some(code(file.as_deref())?),
        Proof::NoCode => None,
    };
    // A code is good once; what could not be remembered of it must show before it is used.
    settings.store.ready()?;
    let claimed = runtime()?.block_on(async {
        let mut node = Unclaimed::connect(settings.endpoint.clone(), settings.connect)
            .await
            .map_err(|e| not_begun(&settings.name, &e))?;
        compare(settings, node.fingerprint(), code.is_none())?;
        let mut wanted = Wanted {
            authority: &authority,
            authority_pem: &authority_pem,
            document: document.as_deref(),
            acknowledge: settings.yes,
        };
        match once(&mut node, code.as_ref(), &wanted).await? {
            Err(NotClaimed::Refused { reason, detail }) if reason == "would-bootstrap" && !settings.yes => {
                // With a code the node has signed this refusal; the code is as good as before.
                mean_it(settings, &detail)?;
                wanted.acknowledge = true;
                once(&mut node, code.as_ref(), &wanted).await?.map_err(|e| fault(settings, &e))
            }
            other => other.map_err(|e| fault(settings, &e)),
        }
    })?;
    let pin =
        Pin { name: settings.name.clone(), endpoint: settings.endpoint.clone(), certificate: claimed.node };
    // What the code has proven is worth more than what was pinned before, which a reset has made void.
    let (print, kept) = (claimed.node, settings.store.set(pin, true));
    tell(settings, &authority, claimed, kept.is_ok(), printer);
    kept.map_err(|fault| unpinned(settings, print, &fault))?;
    Ok(Exit::Ok)
}

/// Claimed it is, whatever became of the pin here.
fn unpinned(settings: &Settings, print: Fingerprint, fault: &Fault) -> Fault {
    let (name, place) = (&settings.name, &settings.endpoint);
    let why = fault.why.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
    Fault::new(fault.code, format!("{name} is claimed, but its certificate was not pinned"))
        .why(format!("{}{why}", fault.what))
        .fix(format!(
            "Mend that; then: muster node pin {place} --name {name} --fingerprint {print} --replace"
        ))
}

/// One claim, sent once.
async fn once(
    node: &mut Unclaimed,
    code: Option<&Code>,
    wanted: &Wanted<'_>,
) -> Result<Result<Claimed, NotClaimed>, Fault> {
    let mut bytes = [0; 64];
    random(&mut bytes)?;
    Ok(match code {
        Some(code) => node.pair(code, wanted, bytes).await,
        None => node.take(wanted).await,
    })
}

/// N9 and N10.
fn compare(settings: &Settings, shown: Fingerprint, unproven: bool) -> Result<(), Fault> {
    let place = &settings.endpoint;
    match settings.fingerprint {
        Some(console) if console != shown => {
            Err(Fault::new(Own::FingerprintDiffers, format!("{place} shows {shown}, not {console}")))
        }
        None if unproven && pinned_otherwise(settings, shown)? => {
            let what = format!("{} at {place} is pinned to another certificate than {shown}", settings.name);
            Err(Fault::new(Own::NodePinConflict, what)
                .fix("Compare --fingerprint with its console, or `muster node forget` it first."))
        }
        None if unproven && !settings.yes => {
            let question =
                format!("{place} shows {shown}, and asks for no code. Is that what its console shows?");
            agreed(&question, || {
                let what = format!("{place} shows {shown}, and nobody is there to compare it");
                Fault::new(Own::FingerprintNeeded, what)
            })
        }
        _ => Ok(()),
    }
}

/// Whether something else is pinned, which nothing that is proven here makes void.
fn pinned_otherwise(settings: &Settings, shown: Fingerprint) -> Result<bool, Fault> {
    let pins = settings.store.read()?;
    Ok(pins.of(&settings.name, &settings.endpoint).is_some_and(|there| there != shown))
}

fn mean_it(settings: &Settings, detail: &str) -> Result<(), Fault> {
    let question = format!("{}: {}. Claim it anyway?", settings.name, clean(detail));
    agreed(&question, || Fault::new(Own::WouldBootstrap, format!("{}: {detail}", settings.name)))
}

/// Asks; without a terminal it is the fault.
fn agreed(question: &str, nobody: impl Fn() -> Fault) -> Result<(), Fault> {
    match terminal::confirm(question) {
        Some(true) => Ok(()),
        Some(false) => Err(Fault::new(Own::Declined, "nothing was claimed")),
        None => Err(nobody()),
    }
}

/// Nothing was asked of the node yet that it could have done.
fn not_begun(name: &str, error: &Error) -> Fault {
    let what = format!("{name}: nothing was claimed: {error}");
    match error {
        Error::Deadline { .. } | Error::Lost { .. } => Fault::new(Own::NodeUnreachable, what),
        Error::Answer { .. } => Fault::new(Own::NodeAnswer, what),
        error => told(name, None, error),
    }
}

fn fault(settings: &Settings, error: &NotClaimed) -> Fault {
    let (name, place) = (settings.name.as_str(), &settings.endpoint);
    match error {
        // Only a node that has an owner wants a certificate.
        NotClaimed::NotBegun(Error::TurnedAway { why: Turned::NoCertificate, .. })
        | NotClaimed::Call(Error::TurnedAway { why: Turned::NoCertificate, .. }) => {
            Fault::new(Own::NodeRefused, format!("{name}: claimed: this node has an owner")).fix(
                "Ask its owner; only a reset gives a node up. A node of yours is pinned: `muster node pin`.",
            )
        }
        NotClaimed::NotBegun(error) => not_begun(name, error),
        // It is not pinned: its console says what became of it, and nothing else can.
        NotClaimed::Call(error) if error.may_have_been_done() => told(name, None, error).fix(format!(
            "Look at its console: where it has an owner now, compare its fingerprint and run `muster node pin {place} --name {name} --fingerprint SHA256:…`; else claim it anew."
        )),
        NotClaimed::Call(error) => told(name, None, error),
        NotClaimed::NotTheMachine => Fault::new(Own::NotTheMachine, format!("{name}: {error}")),
        NotClaimed::OtherAuthority(_) => Fault::new(Own::NodeAnswer, format!("{name}: {error}")),
        NotClaimed::Refused { reason, detail } => {
            let code = if reason == "would-bootstrap" { Own::WouldBootstrap } else { Own::NodeRefused };
            Fault::new(code, format!("{name}: {reason}: {detail}"))
        }
    }
}

fn code(file: Option<&Path>) -> Result<Code, Fault> {
    let secret = match file {
        Some(file) => terminal::first_line(file).map_err(|f| {
            Fault::new(Own::PairingCode, format!("no pairing code in {}", file.display())).why(f.to_string())
        })?,
        None => terminal::passphrase("Pairing code from the node's console").map_err(|f| {
            match f.code == Own::Interrupted.into() {
                true => f,
                false => Fault::new(Own::PairingCode, "a pairing code is needed, and there is no terminal to ask on")
                    .fix("Give --code-file FILE (`-` is standard input), or --no-code where the node asks for none."),
            }
        })?,
    };
    let typed = core::str::from_utf8(secret.expose()).unwrap_or_default();
    Code::parse(typed).map_err(|e| Fault::new(Own::PairingCode, e.to_string()))
}

/// Reads a document and checks it as the node will: nothing is sent that the node would refuse.
pub fn document(file: &Path, now: UtcTime) -> Result<String, Faults> {
    let text = files::read_text(file, muster_pairing::message::MAX_DOCUMENT)?;
    let check = |pem: &str| OperatorCa::from_pem(pem, now).map(|_| ()).map_err(|f| f.to_string());
    match muster_document::read(&text, &check) {
        Ok(Some(_)) => Ok(text),
        Ok(None) => {
            Err(Fault::new(Own::ConfigMissing, format!("{} has no `muster:` document", file.display()))
                .into())
        }
        Err(faults) => {
            let all = faults.into_iter().map(|f| crate::yaml::told(f, file)).collect();
            match Faults::check(all) {
                Err(faults) => Err(faults),
                Ok(()) => Err(Fault::new(Own::ConfigValue, format!("{} will not do", file.display())).into()),
            }
        }
    }
}

fn tell(settings: &Settings, authority: &OperatorCa, claimed: Claimed, pinned: bool, printer: &mut Printer) {
    let done = Done {
        node: settings.name.clone(),
        address: settings.endpoint.to_string(),
        fingerprint: claimed.node.to_string(),
        authority: authority.fingerprint().to_string(),
        pinned,
        warnings: claimed.warnings,
    };
    for warning in &done.warnings {
        printer.warn(&clean(warning));
    }
    if printer.value(&done) {
        return;
    }
    if printer.looks().format == crate::printer::Format::Name {
        printer.data(&done.node);
        return;
    }
    printer.data(&format!("claimed     {} at {}", done.node, done.address));
    let pin = if pinned { "pinned" } else { "not pinned" };
    printer.data(&format!("node        {}  ({pin})", done.fingerprint));
    printer.data(&format!("obeys       {}  {}", authority.name(), done.authority));
    if pinned {
        printer.hint(&format!("next: muster node status {}", done.node));
    }
}
