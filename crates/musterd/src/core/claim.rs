//! `POST /v1/enroll`: how somebody becomes the owner of a node that has none.
//!
//! The order, once and for all (each step may end it, and then nothing that was before is undone by hand):
//!
//! 1. claimed? 2. tries? 3. the code, one guess, counted before it is compared ([`muster_pairing::door`]) 4. the authority
//! 5. the document 6. would it be built without having been described? 7. the document to disk 8. the authority pinned: the
//!    commit ([`super::record`]) 9. the claim record 10. the code removed 11. the bootstrap let go 12. the answer.
//!
//! What fails after 3 costs no try, keeps the code, and is confirmed by the pairing, so that nobody on the way can invent it. What fails
//! after 8 is a warning in an answer that says "enrolled", because that is what it is.
//!
//! Steps 1 to 10 are one change, which no other one comes between. For 11 the service manager is asked, which may be slow, so it is done
//! without the lock of changes: the owner is pinned by then, in memory as on the disk, and what is asked for is read anew
//! ([`Owner::settle`]), so a change or a reset that came between is not undone by it. The answer waits for it and tells what went wrong.
//!
//! Two checks are before their place, and neither compares anything: a body that is no step of the pairing, and an authority that is
//! no certificate at all, over which no confirmation can be computed.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use muster_api::{Fault, Kind};
use muster_core::machine::Membership;
use muster_document::Mode;
use muster_pairing::door::NoProof;
use muster_pairing::exchange::{Open, Proven};
use muster_pairing::message::{Answer, BadBody, ClaimBody, Request, Started};
use muster_pairing::{Claim, Confirmation, Outcome};
use muster_sys::{clock, system};
use muster_tls::OperatorCa;
use sha2::{Digest, Sha256};

use super::documents::{self, Judged};
use super::owner::{Enrolment, Owner, Pairing, Settings, State, Trust};
use super::record::{self, Method, Record};
use super::revocation::Held;
use super::{banner, enrolment, hold, step};
use crate::say;

/// Reasons of refusals that only somebody with the right code gets, beside those of the disk.
const PROVEN: &[&str] = &["would-bootstrap", "bad-document", "disk"];

/// What a body came to.
enum Step {
    /// To its answer.
    Answered(Enrolment),
    /// To a claim that was made or refused, and is to be confirmed where a code proved it.
    Claimed { taken: Result<(OperatorCa, Vec<String>), Refused>, proven: Option<Proven> },
}

/// A refusal of a claim whose code was right.
struct Refused {
    kind: Kind,
    reason: &'static str,
    detail: String,
}

fn refused(kind: Kind, reason: &'static str, detail: impl Into<String>) -> Refused {
    Refused { kind, reason, detail: detail.into() }
}

impl Owner {
    /// Answers a body of `POST /v1/enroll`, also on a node that has an owner (409 `claimed`). `address` is as the edge says.
    pub fn enroll(&self, body: &[u8], address: &str) -> Enrolment {
        let from = address_of(address);
        // A statement of its own, at whose end the lock is free.
        let step = self.step(&mut self.change(), body, from);
        let answer = match step {
            Ok(Step::Answered(answer)) => answer,
            Ok(Step::Claimed { taken, proven }) => self.answered(taken, proven),
            Err(fault) => failure(&fault),
        };
        // What costs nothing to send is not to fill a journal; the audit record counts it.
        if answer.claimed || answer.reason == "wrong-code" || PROVEN.contains(&answer.reason.as_str()) {
            // As it was read: a text of the edge's could hold another line.
            let from = from.map_or_else(|| "an unknown address".to_owned(), |a| a.to_string());
            say::warning(&format!("enrolment by {from}: {}", answer.reason));
        }
        answer
    }

    /// All that is one change.
    fn step(&self, pairing: &mut Pairing, body: &[u8], from: Option<IpAddr>) -> Result<Step, Fault> {
        let state = self.state();
        self.admitted(&state, pairing, from)?;
        match Request::parse(body).map_err(|e| bad_body(&e))? {
            Request::Start { share } => {
                self.start(&state, pairing, &share, from.unwrap_or(NOWHERE)).map(Step::Answered)
            }
            Request::Confirm { session, confirm, claim } => {
                let from = from.unwrap_or(NOWHERE);
                let proven = self.one_guess(&state, pairing, &session, &confirm, &claim, from)?;
                let taken = self.take_owner(&state, pairing, &claim, Method::PairingCode);
                Ok(Step::Claimed { taken, proven: Some(proven) })
            }
            Request::Open { claim } => self.open_claim(&state, pairing, &claim),
        }
    }

    /// Whether the door is there at all.
    fn admitted(&self, state: &State, pairing: &Pairing, from: Option<IpAddr>) -> Result<(), Fault> {
        if state.trust.is_some() {
            return Err(Fault::state("claimed", "this node has an owner")
                .fix("Ask its owner. Only a reset gives a node up."));
        }
        if hold::membership(self.disk()).is_ok_and(|m| m != Membership::None) {
            return Err(
                Fault::state("resetting", "the node is being taken apart").fix("Wait until it is back.")
            );
        }
        let document = state.settings.document.as_ref();
        let allowed = document.map_or(&[][..], |d| d.api.enrol_from.as_slice());
        if !allowed.is_empty() && !from.is_some_and(|a| allowed.iter().any(|net| net.contains(a))) {
            let why = "this node may not be claimed from your address (api.enrolFrom)";
            return Err(Fault::new(Kind::Forbidden, "enrol-from", why));
        }
        match &pairing.session {
            Some(session) if session.tries() == 0 => Err(locked()),
            _ => Ok(()),
        }
    }

    fn start(
        &self,
        state: &State,
        pairing: &mut Pairing,
        share: &[u8; 32],
        from: IpAddr,
    ) -> Result<Enrolment, Fault> {
        let failed = |e: muster_sys::SysError| Fault::failed("random", e.line());
        let session = system::random_128().map_err(failed)?;
        let mut random = [0; 64];
        for part in random.chunks_mut(16) {
            let fresh = system::random_128().map_err(failed)?;
            part.iter_mut().zip(fresh).for_each(|(to, byte)| *to = byte);
        }
        let Some(code) = pairing.session.as_ref().map(enrolment::Session::code) else {
            return Err(no_code());
        };
        let (exchange, share) = Open::answer(code, &state.serving.certificate, &session, share, random)
            .map_err(|_| Fault::bad("pairing-share", "the share is none of this protocol"))?;
        pairing.door.admit(session, from, exchange, clock::since_boot());
        let body = Started { session, share }.render().into_bytes();
        Ok(Enrolment { status: 200, body, retry_after: None, claimed: false, reason: "started".to_owned() })
    }

    fn one_guess(
        &self,
        state: &State,
        pairing: &mut Pairing,
        session: &[u8; 16],
        confirm: &Confirmation,
        claim: &ClaimBody,
        from: IpAddr,
    ) -> Result<Proven, Fault> {
        let der = muster_tls::one_certificate(&claim.operator_ca)
            .map_err(|e| Fault::bad("bad-authority", format!("operatorCA: {e}")))?;
        let what = Claim {
            node_certificate: &state.serving.certificate,
            operator_ca: &der,
            document: claim.document.as_ref().map(|d| Sha256::digest(d.as_bytes()).into()),
            acknowledge: claim.acknowledge,
        };
        let Some(code) = pairing.session.as_mut() else { return Err(no_code()) };
        let judged =
            pairing.door.judge(session, &what, confirm, &mut code.ledger(self.disk()), clock::since_boot());
        step::reached("judged");
        let left = match judged {
            Ok(proven) => return Ok(proven),
            Err(NoProof::UnknownSession) => {
                return Err(Fault::state(
                    "unknown-session",
                    "this exchange is not open: it is used up or over ten seconds old",
                )
                .fix("Begin again with step 1."));
            }
            Err(NoProof::Pause(pause)) => return Err(paused(pause)),
            Err(NoProof::Locked) => return Err(locked()),
            Err(NoProof::Ledger(e)) => {
                return Err(Fault::failed("disk", format!("no code is compared: {e}")));
            }
            Err(NoProof::Wrong { left }) => left,
        };
        code.note(from, self.disk());
        self.show(pairing);
        if left == 0 {
            say::warning(
                "the pairing is shut: too many wrong codes; reboot, or `musterd pairing renew` as root",
            );
            return Err(locked());
        }
        let mut fault = Fault::new(Kind::Unproven, "wrong-code", "the code is wrong, or the claim was changed on its way")
            .fix("Read the code from the console again. If you are sure of it, somebody is between you and the node.");
        fault.tries_left = Some(left);
        Err(fault)
    }

    fn open_claim(&self, state: &State, pairing: &mut Pairing, claim: &ClaimBody) -> Result<Step, Fault> {
        if !state.settings.open_enrolment() {
            return Err(Fault::new(
                Kind::Unproven,
                "code-required",
                "this node asks for the code on its console",
            )
            .fix("Claim it with `muster node claim`, and type the code."));
        }
        say::warning("api.insecure is set: whoever comes first owns this node, and somebody just came");
        Ok(Step::Claimed { taken: self.take_owner(state, pairing, claim, Method::Open), proven: None })
    }

    /// Steps 11 and 12, with no lock of a change.
    fn answered(
        &self,
        taken: Result<(OperatorCa, Vec<String>), Refused>,
        proven: Option<Proven>,
    ) -> Enrolment {
        let (status, reason, outcome) = match taken {
            Ok((ca, mut warnings)) => {
                if let Err(e) = self.settle() {
                    warnings
                        .push(format!("the bootstrap could not be let go, the next boot tries again: {e}"));
                }
                say::info(&format!("owned by {} ({})", ca.name(), ca.fingerprint()));
                warnings.iter().for_each(|w| say::warning(w));
                let operator_ca = ca.fingerprint().to_string();
                (200, "enrolled".to_owned(), Outcome::Enrolled { operator_ca, warnings })
            }
            Err(r) => {
                let outcome = Outcome::Refused { reason: r.reason.to_owned(), detail: r.detail };
                (r.kind.status(), r.reason.to_owned(), outcome)
            }
        };
        let confirm = proven.map(|p| p.confirm(&outcome));
        let body = Answer { outcome, confirm }.render().into_bytes();
        Enrolment { status, body, retry_after: None, claimed: status == 200, reason }
    }

    /// Steps 4 to 10.
    fn take_owner(
        &self,
        state: &State,
        pairing: &mut Pairing,
        claim: &ClaimBody,
        method: Method,
    ) -> Result<(OperatorCa, Vec<String>), Refused> {
        let ca = OperatorCa::from_pem(&claim.operator_ca, self.now())
            .map_err(|e| refused(Kind::Bad, "bad-authority", format!("operatorCA: {e}")))?;
        let document = match &claim.document {
            Some(text) => Some(self.sound(text)?),
            None => {
                self.would_not_bootstrap(state, claim.acknowledge)?;
                None
            }
        };
        let record = Record::new(method, self.now(), None);
        let _lock = hold::lock(self.disk()).map_err(|e| refused(Kind::State, "busy", e))?;
        let mut warnings = record::commit(self.disk(), &ca, record.clone(), claim.document.clone())
            .map_err(|e| refused(Kind::Failed, "disk", format!("the claim was not made: {e}")))?;
        let settings = document.map(|document| {
            if document.mode() == Mode::Disabled {
                warnings
                    .push("the document does not turn the API on: it ends with the next start".to_owned());
            }
            Arc::new(Settings { document: Some(document), broken: None })
        });
        self.trust_anew(pairing, Some(Trust::new(ca.clone(), Held::None)), |state| {
            state.record = Some(record);
            if let Some(settings) = settings {
                state.settings = settings;
            }
        });
        // Nothing of an owner before can be in force; what lies there names another authority anyway.
        let dropped = super::revocation::drop_all(self.disk());
        pairing.session = None;
        let removed = enrolment::remove(self.disk());
        warnings.extend([dropped, removed].into_iter().filter_map(Result::err));
        banner::remove(self.disk());
        self.tell_owned();
        step::reached("session");
        Ok((ca, warnings))
    }

    fn sound(&self, text: &str) -> Result<muster_document::Document, Refused> {
        let bad = |e: String| refused(Kind::Bad, "bad-document", e);
        documents::parse(text, "document", Judged::Now(self.now()))
            .map_err(bad)?
            .ok_or_else(|| bad("document: there is none in this text".to_owned()))
    }

    /// Without a document the node is built as it was described before anybody owned it. Whoever claims it must know that.
    fn would_not_bootstrap(&self, state: &State, acknowledged: bool) -> Result<(), Refused> {
        let Some(document) = state.settings.document.as_ref() else { return Ok(()) };
        if acknowledged || !state.settings.is_complete(hold::is_described(self.disk())) {
            return Ok(());
        }
        let role = document.role.map_or("nothing", muster_document::Role::as_str);
        let name = document.node.name.as_deref().unwrap_or("its own host name");
        Err(refused(
            Kind::State,
            "would-bootstrap",
            format!(
                "claimed without a document, this node would be built at once as {role} of cluster {}, named {name}; say that you know it, or send a document",
                document.cluster.name
            ),
        ))
    }
}

const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// An address with or without a port, as the edge writes it.
fn address_of(text: &str) -> Option<IpAddr> {
    let plain = text.parse::<IpAddr>().ok();
    plain.or_else(|| text.parse::<SocketAddr>().ok().map(|a| a.ip())).map(|a| a.to_canonical())
}

fn locked() -> Fault {
    Fault::state("locked", "too many wrong codes were typed; this node takes no more")
        .fix("Reboot it, or run `musterd pairing renew` on it as root: both make a new code.")
}

fn no_code() -> Fault {
    Fault::state("open-enrolment", "this node asks for no code (api.insecure)")
        .fix("Claim it by the fingerprint that its console shows: `--no-code --fingerprint SHA256:…`.")
}

fn paused(pause: Duration) -> Fault {
    let secs = pause.as_secs() + u64::from(pause.subsec_nanos() > 0);
    let mut fault =
        Fault::new(Kind::TooMany, "pause", format!("a wrong code was typed; the next is taken in {secs} s"));
    fault.retry_after = Some(secs);
    fault
}

fn bad_body(bad: &BadBody) -> Fault {
    match bad {
        BadBody::TooLong(_) => Fault::new(Kind::TooLarge, "body-too-large", bad.to_string()),
        BadBody::OneStep => Fault::bad("pairing-protocol", bad.to_string()),
        BadBody::Malformed(_) | BadBody::Field { .. } => Fault::bad("bad-request", bad.to_string()),
    }
}

fn failure(fault: &Fault) -> Enrolment {
    Enrolment {
        status: fault.kind.status(),
        body: serde_json::to_vec(fault).unwrap_or_default(),
        retry_after: fault.retry_after,
        claimed: false,
        reason: fault.reason.clone(),
    }
}
