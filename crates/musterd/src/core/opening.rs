//! The start of the core: from what the disk and the documents say to an [`Owner`].

use std::cell::RefCell;
use std::time::Duration;

use muster_core::UtcTime;
use muster_core::machine::Membership;
use muster_document::values::SecretSource;
use muster_document::{Mode, OperatorCa as Named};
use muster_tls::OperatorCa;

use super::disk::Disk;
use super::documents::{self, Judged};
use super::enrolment::{self, Session};
use super::owner::{CannotOpen, Clock, Opened, Owner, Patience, Settings, State, Trust};
use super::record::{self, Method, Record};
use super::{banner, hold, identity, revocation, room, source, units, waiting};
use crate::places::Places;
use crate::say;

impl Owner {
    pub(super) fn open_at(places: &Places, now: Clock, patience: Patience<'_>) -> Result<Opened, CannotOpen> {
        let disk = Disk::open(places)?;
        // Before a claim that was cut short is completed, which says it for this boot.
        hold::forget_other_boots(&disk)?;
        let mut authority = record::authority(&disk)?;
        record::recover(&disk, authority.as_ref())?;
        let membership = hold::membership(&disk)?;
        // A reset goes on to its end, whatever the document that it gave back says.
        let kept = authority.is_some() || membership == Membership::Leaving;
        let Some(settings) = settings(&disk, kept, now(), patience)? else { return Ok(Opened::Ended) };
        let mode = settings.mode(authority.is_some());
        if mode == Mode::Disabled && membership != Membership::Leaving {
            return not_wanted(&disk, &settings, membership);
        }
        let (serving, why) = identity::load_or_mint(&disk, now())?;
        if let Some(why) = why {
            say::warning(&format!("the serving certificate is a new one, clients must pin it again: {why}"));
        }
        let mut session = None;
        if authority.is_none() && membership != Membership::Leaving {
            match mode {
                Mode::Configured => match named(&disk, &settings, membership, patience)? {
                    Some(pem) => authority = Some(pin(&disk, &pem, &now)?),
                    None => return Ok(Opened::Ended),
                },
                _ if membership != Membership::None => return Err(nobody_of_a_member()),
                _ if settings.open_enrolment() => enrolment::remove(&disk)?,
                _ => session = Some(code_of_this_boot(&disk)?),
            }
        }
        let mut state = State::new(serving, settings);
        state.record = record::record(&disk).filter(|_| authority.is_some());
        if let Some(authority) = authority {
            state.settings.warn_of_another(&authority);
            let held = revocation::load(&disk, &authority);
            state.trust = Some(Trust::new(authority, held));
        }
        let owner = Self::of(disk, now, state, session);
        owner.begin(membership);
        Ok(Opened::Wanted(owner))
    }

    /// Tells and does what follows from the state that was found.
    fn begin(&self, membership: Membership) {
        if self.trust().is_some() {
            // A claim that was cut short may have left them.
            banner::remove(self.disk());
            let _ = enrolment::remove(self.disk());
            self.tell_owned();
        } else if membership == Membership::None {
            self.show(&mut self.change());
        }
        if membership != Membership::Leaving {
            room::keep(self.disk());
        }
        let settled = match membership {
            Membership::Member if self.trust().is_some() => units::reach(self.disk().places()),
            _ => self.settle(),
        };
        if let Err(e) = settled {
            say::warning(&e);
        }
    }
}

impl Settings {
    /// How the node comes to an owner. One that has an owner and no document at all stays reachable: a document can say otherwise.
    fn mode(&self, claimed: bool) -> Mode {
        match &self.document {
            Some(document) => document.mode(),
            None if claimed => Mode::Maintenance,
            None => Mode::Disabled,
        }
    }

    /// The pinned one counts; the document is edited by whoever can write it, and that is not to open the door again.
    pub(super) fn warn_of_another(&self, pinned: &OperatorCa) {
        let named = self.document.as_ref().and_then(|d| d.api.operator_ca.as_ref());
        let Some(Named::Inline(pem)) = named else { return };
        let other = muster_tls::one_certificate(pem).is_ok_and(|der| der != *pinned.der());
        if other {
            say::warning(&format!(
                "the document names another authority than the owner {}, which stays; change it with `muster pki rotate` or `musterd set-ca`",
                pinned.fingerprint()
            ));
        }
    }
}

/// `None`: told to end meanwhile.
fn settings(
    disk: &Disk,
    claimed: bool,
    now: UtcTime,
    patience: Patience<'_>,
) -> Result<Option<Settings>, CannotOpen> {
    let judged = if claimed { Judged::Read } else { Judged::Now(now) };
    let found = match documents::fetch_pointed(disk, judged, patience) {
        Ok(true) => documents::find(disk, judged),
        Ok(false) => return Ok(None),
        Err(e) => Err(e),
    };
    match found {
        Ok(found) => Ok(Some(Settings { document: found.map(|f| f.document), broken: None })),
        Err(e) if claimed => {
            say::warning(&format!(
                "the document of the node cannot be read; the API runs on its defaults and demands proofs: {e}"
            ));
            Ok(Some(Settings { document: None, broken: Some(e) }))
        }
        Err(e) => Err(CannotOpen(e)),
    }
}

fn not_wanted(disk: &Disk, settings: &Settings, membership: Membership) -> Result<Opened, CannotOpen> {
    let Some(document) = &settings.document else {
        stand_down(disk, false);
        return Ok(Opened::NotWanted("no document says that the API is wanted".to_owned()));
    };
    banner::remove(disk);
    if membership == Membership::None {
        // Nobody needs to own it, since it listens to nobody.
        units::release(disk.places())?;
    }
    stand_down(disk, document.api.enabled == Some(false));
    Ok(Opened::NotWanted("the document does not turn the API on".to_owned()))
}

/// What cannot be stopped is told, and is no reason to go on serving.
fn stand_down(disk: &Disk, forever: bool) {
    if let Err(e) = units::stand_down(disk.places(), forever) {
        say::warning(&e);
    }
}

/// The code of this boot. Where it would be written to a disk, there is none: whoever reads that disk later would have it.
fn code_of_this_boot(disk: &Disk) -> Result<Session, CannotOpen> {
    if !disk.is_volatile()? {
        return Err(CannotOpen(format!(
            "{} is not in memory (tmpfs), and the pairing code must not be on a disk; mount a tmpfs on /run",
            crate::places::VOLATILE
        )));
    }
    Ok(Session::load_or_mint(disk)?)
}

fn nobody_of_a_member() -> CannotOpen {
    CannotOpen(
        "this node is built and nobody owns it; a claim over the network would hand a member of a cluster to whoever comes: name \
         its owner in /etc/muster/config.yaml (api.operatorCA), or leave the API off"
            .to_owned(),
    )
}

/// Modes A and B: the document names the owner. `None`: told to end while waiting.
fn named(
    disk: &Disk,
    settings: &Settings,
    membership: Membership,
    patience: Patience<'_>,
) -> Result<Option<String>, CannotOpen> {
    match settings.document.as_ref().and_then(|d| d.api.operator_ca.as_ref()) {
        Some(Named::Inline(pem)) => Ok(Some(pem.clone())),
        Some(Named::From(source)) => Ok(resolve(disk, source, membership, patience)?),
        None => Err(CannotOpen("the document names no authority".to_owned())),
    }
}

/// Waits for the authority in sight: a node that waits is parked, and so is one that waited for nothing, beside the fault.
fn resolve(
    disk: &Disk,
    source: &SecretSource,
    membership: Membership,
    patience: Patience<'_>,
) -> Result<Option<String>, String> {
    let park = |longest| {
        if membership == Membership::None
            && let Err(e) = units::park(disk.places(), longest)
        {
            say::warning(&e);
        }
    };
    let told = RefCell::new(String::new());
    let waits = |why: &str, left: Duration| {
        if told.borrow().is_empty() {
            park(left.clamp(source::LAST, units::TIME));
        }
        if told.replace(why.to_owned()) != why {
            say::info(&format!("waits for an owner: {why}"));
            waiting::tell(&format!("parked: waits for an owner: {why}"));
        }
    };
    let found = source::resolve(disk, source, patience, &waits).inspect_err(|_| {
        if told.borrow().is_empty() {
            park(if source.wait_for.is_some() { source::LAST } else { units::TIME });
        }
    })?;
    Ok(found.map(|text| text.to_string()))
}

fn pin(disk: &Disk, pem: &str, now: &Clock) -> Result<OperatorCa, CannotOpen> {
    let ca = OperatorCa::from_pem(pem, now()).map_err(|e| format!("the operators' authority: {e}"))?;
    let record = Record::new(Method::Configuration, now(), None);
    record::commit(disk, &ca, record, None)?.iter().for_each(|w| say::warning(w));
    say::info(&format!("owned by {} ({}), as the document says", ca.name(), ca.fingerprint()));
    Ok(ca)
}
