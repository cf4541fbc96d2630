//! The node's half of a pairing, for tests.
#![allow(clippy::expect_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]

use super::{Reply, Seen, Server, reply};
use muster_pairing::code::Code;
use muster_pairing::door::{Door, Ledger, NoProof};
use muster_pairing::exchange::{Claim, Open, Outcome};
use muster_pairing::message::{Answer, Request, Started};
use muster_tls::OperatorCa;
use sha2::{Digest, Sha256};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

struct Tries(u8);

impl Ledger for Tries {
    type Error = ();
    fn tries(&self) -> u8 {
        self.0
    }
    fn store(&mut self, tries: u8) -> Result<(), ()> {
        self.0 = tries;
        Ok(())
    }
}

/// What a node makes of a claim that was proven.
pub type Became = dyn Fn(&Claim<'_>, &OperatorCa) -> Outcome + Send + Sync;

/// A node of this code; `outcome` is what it makes of a proven claim.
pub struct Pairing {
    code: Code,
    certificate: Mutex<Vec<u8>>,
    door: Mutex<(Door, Tries, u8)>,
    outcome: Box<Became>,
}

impl Pairing {
    /// An unclaimed node that shows this code.
    pub async fn start(code: &str, outcome: Box<Became>) -> (Server, Arc<Self>) {
        let pairing = Arc::new(Self {
            code: Code::parse(code).expect("a code"),
            certificate: Mutex::default(),
            door: Mutex::new((Door::default(), Tries(5), 0)),
            outcome,
        });
        let node = Arc::clone(&pairing);
        let server = Server::start(&[], Box::new(move |seen| node.answer(seen))).await;
        *pairing.certificate.lock().expect("no panic") = server.certificate.clone();
        (server, pairing)
    }

    /// Answers a step.
    pub fn answer(&self, seen: &Seen) -> Reply {
        assert_eq!(seen.line, "POST /v1/enroll HTTP/1.1");
        let certificate = self.certificate.lock().expect("no panic").clone();
        let mut held = self.door.lock().expect("no panic");
        let (door, tries, count) = &mut *held;
        *count += 1;
        let at = Duration::from_secs(u64::from(*count));
        match Request::parse(&seen.body).expect("a step") {
            Request::Start { share } => {
                let session = [*count; 16];
                let (open, share) =
                    Open::answer(&self.code, &certificate, &session, &share, [*count; 64]).expect("a point");
                door.admit(session, IpAddr::from([127, 0, 0, 1]), open, at);
                reply(200, "", Started { session, share }.render().as_bytes())
            }
            Request::Confirm { session, confirm, claim: body } => {
                let ca = OperatorCa::from_pem(&body.operator_ca, super::now()).expect("an authority");
                let claim = Claim {
                    node_certificate: &certificate,
                    operator_ca: ca.der(),
                    document: body.document.as_ref().map(|d| Sha256::digest(d.as_bytes()).into()),
                    acknowledge: body.acknowledge,
                };
                match door.judge(&session, &claim, &confirm, tries, at) {
                    Ok(proven) => {
                        let outcome = (self.outcome)(&claim, &ca);
                        let status = if matches!(outcome, Outcome::Refused { .. }) { 409 } else { 200 };
                        let confirm = Some(proven.confirm(&outcome));
                        reply(status, "", Answer { outcome, confirm }.render().as_bytes())
                    }
                    Err(NoProof::Wrong { left }) => reply(
                        401,
                        "",
                        format!("{{\"error\":\"wrong\",\"reason\":\"wrong-code\",\"triesLeft\":{left}}}")
                            .as_bytes(),
                    ),
                    Err(_) => reply(429, "retry-after: 1\r\n", b"{\"error\":\"wait\",\"reason\":\"pause\"}"),
                }
            }
            Request::Open { claim } => {
                let ca = OperatorCa::from_pem(&claim.operator_ca, super::now()).expect("an authority");
                let operator_ca = ca.fingerprint().to_string();
                let outcome = Outcome::Enrolled { operator_ca, warnings: vec!["taken by the first".into()] };
                reply(200, "", Answer { outcome, confirm: None }.render().as_bytes())
            }
        }
    }
}

/// It obeys.
pub fn enrolled(_: &Claim<'_>, ca: &OperatorCa) -> Outcome {
    Outcome::Enrolled { operator_ca: ca.fingerprint().to_string(), warnings: Vec::new() }
}
