//! Another owner, and another document, for a node that has an owner (S15).
//!
//! A rotation shows the new authority, and a certificate of a client under it: that it is the right file. A signature by that client's
//! key over [`muster_api::rotation_text`] shows that somebody holds the key; it is demanded where the node demands proofs. Two authorities
//! at once there are not. Root at the console needs neither: it owns the machine.

use std::sync::Arc;

use muster_api::{Fault, Kind};
use muster_core::machine::Membership;
use muster_document::Mode;
use muster_tls::{Fingerprint, OperatorCa};

use super::documents::{self, Judged};
use super::owner::{Owner, Pairing, Settings, Trust, unclaimed};
use super::record::{self, Method, Record};
use super::revocation::{self, Held};
use super::{enrolment, hold, identity, room};
use crate::places;
use crate::say;

/// What became of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Where it was written.
    pub path: String,
    /// The role that it names.
    pub role: Option<&'static str>,
    /// Whether the API runs after the next boot.
    pub api: bool,
    /// Whether the bootstrap goes on now.
    pub released: bool,
}

/// What somebody who would be the new owner shows.
#[derive(Clone, Copy, Debug)]
pub struct Rotation<'r> {
    /// Its certificate, PEM.
    pub authority: &'r str,
    /// A client's certificate under it, PEM.
    pub proof: &'r str,
    /// [`Owner::trusts`] by which whoever asks was let in.
    pub judged_by: u64,
    /// By the key of `proof`, over [`muster_api::rotation_text`]: a SignatureScheme of TLS 1.3, and the signature.
    pub signature: Option<(u16, &'r [u8])>,
}

impl Owner {
    /// Takes a document for a node that is not built yet, and releases the bootstrap if it says all that is needed. `judged_by` is
    /// [`Owner::trusts`] by which whoever asks was let in.
    ///
    /// # Errors
    /// 400 `bad-document`, 409 of the node's state, 500.
    pub fn apply_document(&self, text: &str, judged_by: u64) -> Result<Applied, Fault> {
        let pairing = self.change();
        let trust = self.trust().ok_or_else(unclaimed)?;
        // What the node shall be is the word of its owner, not of one who was it when the call came and had to wait.
        self.still(judged_by)?;
        let document = documents::parse(text, "document", Judged::Now(self.now()))
            .map_err(|e| Fault::bad("bad-document", e))?
            .ok_or_else(|| Fault::bad("bad-document", "document: there is none in this text"))?;
        let failed = |e: String| Fault::failed("disk", e);
        {
            let _lock = hold::lock(self.disk()).map_err(|e| Fault::state("busy", e))?;
            if hold::membership(self.disk()).map_err(failed)? != Membership::None {
                let f = muster_core::operation::Forbidden::Bootstrapped;
                return Err(Fault::state(f.reason(), "the node is built, or being built").fix(f.fix()));
            }
            // Else the next start would put the claim's document over this one.
            record::recover(self.disk(), Some(trust.authority())).map_err(failed)?;
            if record::is_pending(self.disk()) {
                return Err(failed("what came with the claim cannot be put in its place".to_owned()));
            }
            record::place_document(self.disk(), text).map_err(failed)?;
        }
        let (role, api) =
            (document.role.map(muster_document::Role::as_str), document.mode() != Mode::Disabled);
        let settings = Settings { document: Some(document), broken: None };
        settings.warn_of_another(trust.authority());
        self.set(&pairing, |state| state.settings = Arc::new(settings));
        let released = self.machine().hold() == muster_core::machine::Hold::Released;
        drop(pairing);
        // The document is there: the next boot does what systemd does not do now.
        let settled = self.settle();
        if let Err(e) = &settled {
            say::warning(e);
        }
        let path = places::DOCUMENT.to_owned();
        Ok(Applied { path, role, api, released: released && settled.is_ok() })
    }

    /// Whether whom the node obeys is who it was when a call was let in. It stays so for as long as the caller holds [`Owner::change`].
    ///
    /// # Errors
    /// 409 `busy`.
    pub(crate) fn still(&self, judged_by: u64) -> Result<(), Fault> {
        if judged_by == self.trusts() {
            return Ok(());
        }
        let error = "whom the node obeys has changed since this call was let in";
        Err(Fault::state("busy", error).fix("Ask again."))
    }

    /// Makes another authority the owner (S15). It is pinned when this returns; [`Owner::announce`] is called when the answer is out.
    ///
    /// # Errors
    /// 400 of the authority or the proof, 401 of the signature, 409 `unclaimed` or `same-authority`, 500.
    pub fn rotate(&self, rotation: &Rotation<'_>) -> Result<OperatorCa, Fault> {
        let pairing = self.change();
        let state = self.state();
        let trust = state.trust.clone().ok_or_else(unclaimed)?;
        // Of two rotations at once the second is by a client of an owner that was.
        self.still(rotation.judged_by)?;
        let new = OperatorCa::from_pem(rotation.authority, self.now())
            .map_err(|e| Fault::bad("bad-authority", format!("operatorCA: {e}")))?;
        if new.same_key(trust.authority()) {
            return Err(Fault::state(
                "same-authority",
                "operatorCA has the key of the authority that owns the node now",
            )
            .fix("A rotation is to another key: make one with `muster pki init`."));
        }
        let bad = |e: muster_tls::Fault| Fault::bad("bad-proof", format!("proof: {e}"));
        let der = muster_tls::one_certificate(rotation.proof).map_err(bad)?;
        let client = new.verify_client(&der, None, self.now()).map_err(bad)?;
        if client.role.is_none() {
            return Err(Fault::bad(
                "bad-proof",
                "proof: the certificate names no role, so nobody could manage the node",
            ));
        }
        match rotation.signature {
            Some((scheme, signature)) => {
                let text = muster_api::rotation_text(
                    state.serving.fingerprint().bytes(),
                    trust.authority().fingerprint().bytes(),
                    new.fingerprint().bytes(),
                    trust.held.number(),
                );
                muster_tls::evidence::verify_signed(&der, &text, scheme, signature)
                    .map_err(|e| Fault::new(Kind::Unproven, "bad-signature", format!("signature: {e}")))?;
            }
            None if state.settings.proof_required() => {
                let why = "this node demands proofs: a rotation needs `signature`, by the key of `proof`";
                return Err(Fault::new(Kind::Unproven, "proof-required", why)
                    .fix("Rotate with `muster pki rotate`, which signs."));
            }
            None => {}
        }
        self.replace_owner(&pairing, trust.authority(), &new)
            .map_err(|e| Fault::failed("disk", format!("the owner is as it was: {e}")))?;
        say::warning(&format!(
            "{} (proof of {}) made {} the owner",
            trust.authority().name(),
            client.name,
            new.fingerprint()
        ));
        Ok(new)
    }

    /// Makes another authority the owner, on the word of root at the console.
    ///
    /// # Errors
    /// One line. A node that nobody owns is not given to somebody so: it is claimed.
    pub fn set_authority(&self, pem: &str) -> Result<Fingerprint, String> {
        let pairing = self.change();
        let trust = self
            .trust()
            .ok_or("nobody owns this node: claim it, this is for one whose owner lost its key")?;
        let new = OperatorCa::from_pem(pem, self.now()).map_err(|e| format!("the file: {e}"))?;
        // Else its list would go, and whom it revoked would be let in again.
        if new.same_key(trust.authority()) {
            return Err(
                "the file has the key of the authority that owns the node already; nothing was changed"
                    .to_owned(),
            );
        }
        self.replace_owner(&pairing, trust.authority(), &new)?;
        drop(pairing);
        self.announce();
        say::warning(&format!("root at the console made {} the owner", new.fingerprint()));
        Ok(new.fingerprint())
    }

    fn replace_owner(&self, pairing: &Pairing, old: &OperatorCa, new: &OperatorCa) -> Result<(), String> {
        let _lock = hold::lock(self.disk())?;
        room::give(self.disk());
        let replaced = self.replaced(pairing, old, new);
        // A reset that is under way has more use for it.
        if !matches!(hold::membership(self.disk()), Ok(Membership::Leaving)) {
            room::keep(self.disk());
        }
        replaced
    }

    fn replaced(&self, pairing: &Pairing, old: &OperatorCa, new: &OperatorCa) -> Result<(), String> {
        // Else the change would be written over a claim whose document is not in its place yet, and the node be built by another.
        record::recover(self.disk(), Some(old))?;
        if record::is_pending(self.disk()) {
            return Err("what came with the claim cannot be put in its place, and comes first".to_owned());
        }
        record::keep_previous(self.disk(), old)?;
        let before = self.state().record;
        let mut record = Record::new(Method::Rotation, self.now(), before.as_ref());
        record.tainted |= before.is_none();
        record::commit(self.disk(), new, record.clone(), None)?.iter().for_each(|w| say::warning(w));
        // The old one's list goes with it; if it cannot be removed, it names an authority that counts no longer.
        if let Err(e) = revocation::drop_all(self.disk()) {
            say::warning(&e);
        }
        let trust = Some(Trust::new(new.clone(), Held::None));
        self.trust_anew(pairing, trust, |state| state.record = Some(record));
        self.tell_owned();
        Ok(())
    }

    /// A new serving key, after the old one was seen by somebody. Every client pins anew.
    ///
    /// # Errors
    /// One line.
    pub fn rekey(&self) -> Result<Fingerprint, String> {
        let mut pairing = self.change();
        let serving = identity::mint(self.disk(), self.now())?;
        let fingerprint = serving.fingerprint();
        self.set(&pairing, |state| state.serving = Arc::new(serving));
        // Open exchanges are bound to the old certificate.
        pairing.door = muster_pairing::door::Door::default();
        if self.trust().is_none() {
            self.show(&mut pairing);
        }
        self.tell_owned();
        drop(pairing);
        self.announce();
        Ok(fingerprint)
    }

    /// A new pairing code with all its tries, shown as at the start.
    ///
    /// # Errors
    /// One line: the node has an owner, or asks for no code.
    pub fn renew_pairing(&self) -> Result<(), String> {
        let mut pairing = self.change();
        if self.trust().is_some() {
            return Err("this node has an owner; only a reset gives it up".to_owned());
        }
        if pairing.session.is_none() {
            return Err("this node asks for no code (api.insecure)".to_owned());
        }
        pairing.session = Some(enrolment::Session::mint(self.disk())?);
        pairing.door = muster_pairing::door::Door::default();
        self.show(&mut pairing);
        Ok(())
    }
}
