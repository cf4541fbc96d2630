//! `muster node pin`: a node that has an owner already, by its document or by somebody else's claim.

use crate::codes::Own;
use crate::exit::Exit;
use crate::fault::{Fault, Outcome};
use crate::nodes::fault::told;
use crate::nodes::pins::{Pin, Store};
use crate::nodes::session::runtime;
use crate::printer::{Format, Printer, clean};
use crate::terminal;
use muster_client::claim::Unclaimed;
use muster_client::{Endpoint, Identity, Node};
use muster_core::Operation;
use muster_tls::Fingerprint;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// What was asked for.
#[derive(Debug)]
pub struct Settings {
    /// What the node is called here.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// What its console shows.
    pub fingerprint: Option<Fingerprint>,
    /// Another pin may be replaced.
    pub replace: bool,
    /// Who calls.
    pub identity: Arc<Identity>,
    /// How long connecting may take.
    pub connect: Duration,
    /// Where pins are.
    pub store: Store,
}

#[derive(Serialize)]
struct Done {
    node: String,
    address: String,
    fingerprint: String,
    role: String,
}

/// Compares the certificate, asks the node whether it lets us in, and pins it.
pub fn run(settings: &Settings, printer: &mut Printer) -> Outcome {
    let place = &settings.endpoint;
    let done = runtime()?.block_on(async {
        let fault = |e| told(&settings.name, Some(Operation::Health), &e);
        let shown = match settings.fingerprint {
            Some(console) => console,
            None => {
                let node = Unclaimed::connect(place.clone(), settings.connect).await.map_err(fault)?;
                agree(place, node.fingerprint())?
            }
        };
        let target = muster_client::Target {
            endpoint: place.clone(),
            trust: muster_client::Trust::Pinned(shown),
            identity: Some(Arc::clone(&settings.identity)),
            connect: settings.connect,
        };
        let health = Node::new(target).health().await.map_err(|e| match e {
            muster_client::Error::OtherCertificate { shown, pinned, .. } => {
                Fault::new(Own::FingerprintDiffers, format!("{place} shows {shown}, not {pinned}"))
            }
            other => fault(other),
        })?;
        Ok::<_, Fault>((shown, clean(&health.role)))
    })?;
    let (certificate, role) = done;
    let pin = Pin { name: settings.name.clone(), endpoint: place.clone(), certificate };
    settings.store.set(pin, settings.replace)?;
    let done = Done {
        node: settings.name.clone(),
        address: place.to_string(),
        fingerprint: certificate.to_string(),
        role,
    };
    if printer.value(&done) {
        return Ok(Exit::Ok);
    }
    match printer.looks().format {
        Format::Name => printer.data(&done.node),
        _ => printer.data(&format!(
            "pinned      {} at {}  {}  (you are {})",
            done.node, done.address, done.fingerprint, done.role
        )),
    }
    Ok(Exit::Ok)
}

fn agree(place: &Endpoint, shown: Fingerprint) -> Result<Fingerprint, Fault> {
    match terminal::confirm(&format!("{place} shows {shown}. Is that what its console or journal shows?")) {
        Some(true) => Ok(shown),
        Some(false) => Err(Fault::new(Own::Declined, "nothing was pinned")),
        None => {
            let what = format!("{place} shows {shown}, and nobody is there to compare it");
            Err(Fault::new(Own::FingerprintNeeded, what))
        }
    }
}
