//! Claiming a node that nobody owns: the pairing of `muster-pairing`, over `POST /v1/enroll`.
//!
//! Two requests of one route. The operator proves to know the code first, over what is claimed and over the certificate that
//! the TLS session showed; then the node proves it, over what became of the claim. Only then is the certificate known.
//!
//! Nothing here tries twice: whoever answers without knowing the code has, after each second step, made one guess at it.

use crate::connection::{Connection, Target, Trust};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::identity::Identity;
use crate::node::fault;
use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use muster_pairing::code::Code;
use muster_pairing::exchange::{Claim, Operator, Outcome, Random};
use muster_pairing::message::{Answer, ClaimBody, Request as Body, Started};
use muster_tls::{Fingerprint, OperatorCa};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;

/// Longest answer to a step of the pairing.
const MAX_ANSWER: usize = 64 * 1024;
/// How long a step may take. The node forgets a first step after ten seconds.
const STEP: Duration = Duration::from_secs(30);

/// Why a claim came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum NotClaimed {
    /// The first step, which changes nothing on a node: it is not claimed by this.
    #[error(transparent)]
    NotBegun(Error),
    /// The call itself, or the node's own fault; nothing of it is proven to be the node's word.
    #[error(transparent)]
    Call(#[from] Error),
    /// Whoever answered does not know the code. Not to be tried again.
    #[error("this is not the machine whose code was typed")]
    NotTheMachine,
    /// It obeys another authority than the one that was sent.
    #[error("the node says that it obeys {0}, which is not the authority that was sent")]
    OtherAuthority(String),
    /// The node, which has proven to be the one of the code, refuses; the code is as good as before.
    #[error("{detail}")]
    Refused {
        /// Stable word.
        reason: String,
        /// For people.
        detail: String,
    },
}

/// What is claimed, and for whom.
#[derive(Debug)]
pub struct Wanted<'w> {
    /// The authority that the node is to obey.
    pub authority: &'w OperatorCa,
    /// Its PEM.
    pub authority_pem: &'w str,
    /// The document that goes with the claim.
    pub document: Option<&'w str>,
    /// The operator knows what the node will build.
    pub acknowledge: bool,
}

/// A node that was claimed, and is now known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// What to pin.
    pub node: Fingerprint,
    /// What went wrong after the claim, which it does not undo.
    pub warnings: Vec<String>,
}

/// A node that shows a certificate, of which nothing is known yet.
pub struct Unclaimed {
    target: Target,
    connection: Option<Connection>,
    certificate: Vec<u8>,
}

impl Unclaimed {
    /// Connects, without a certificate of the client: there is nobody yet whom the node could let in.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn connect(endpoint: Endpoint, connect: Duration) -> Result<Self, Error> {
        let mut target = Target { endpoint, trust: Trust::ByCode, identity: None, connect };
        let connection = Connection::open(&target).await?;
        let certificate = connection.certificate.to_vec();
        // From here on there is one certificate for all that follows.
        target.trust = Trust::Pinned(Fingerprint::of(&certificate));
        Ok(Self { target, connection: Some(connection), certificate })
    }

    /// What the node shows. Compared with its console it is proof; by itself it is none.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// The same place as a node that has an owner, for calls after the claim.
    pub fn claimed(self, identity: Arc<Identity>) -> Target {
        Target { identity: Some(identity), ..self.target }
    }

    /// Claims it by its code.
    ///
    /// # Errors
    /// See [`NotClaimed`]. After one of them this code is not to be sent again without a person's word, except after
    /// [`NotClaimed::Refused`], which the node itself has signed.
    pub async fn pair(
        &mut self,
        code: &Code,
        wanted: &Wanted<'_>,
        random: Random,
    ) -> Result<Claimed, NotClaimed> {
        let claim = Claim {
            node_certificate: &self.certificate.clone(),
            operator_ca: wanted.authority.der(),
            document: wanted.document.map(|d| Sha256::digest(d.as_bytes()).into()),
            acknowledge: wanted.acknowledge,
        };
        let operator = Operator::start(code, &self.certificate, random);
        let start = self.step(&Body::Start { share: operator.share() }).await.and_then(success);
        let (_, started) = start.map_err(NotClaimed::NotBegun)?;
        let unread = |why: String| NotClaimed::NotBegun(self.unread(why));
        let started = Started::parse(&started).map_err(|e| unread(e.to_string()))?;
        let (confirm, awaiting) = operator
            .claim(&started.session, &started.share, &claim)
            .map_err(|_| unread("its share of the pairing is none".to_owned()))?;
        let body = Body::Confirm { session: started.session, confirm, claim: wanted.body() };
        let (status, answer) = self.step(&body).await?;
        let read = Answer::parse(&answer).ok();
        match read.and_then(|a| Some((a.outcome, a.confirm?))) {
            Some((outcome, confirm)) => {
                awaiting.check(&outcome, &confirm).map_err(|_| NotClaimed::NotTheMachine)?;
                self.became(outcome, wanted)
            }
            // A success, or a refusal that would make the operator say more, is believed with proof alone.
            None if status < 400 || says_would_bootstrap(&answer) => Err(NotClaimed::NotTheMachine),
            None => Err(told(&self.target.endpoint, status, &answer).into()),
        }
    }

    /// Claims a node that asks for no code. Whoever answers is believed to be the node: the operator has compared its
    /// fingerprint, or has said that it does not matter.
    ///
    /// # Errors
    /// See [`NotClaimed`].
    pub async fn take(&mut self, wanted: &Wanted<'_>) -> Result<Claimed, NotClaimed> {
        let (status, answer) = self.step(&Body::Open { claim: wanted.body() }).await?;
        match Answer::parse(&answer) {
            Ok(read) if status < 400 || matches!(read.outcome, Outcome::Refused { .. }) && status == 409 => {
                self.became(read.outcome, wanted)
            }
            _ => Err(told(&self.target.endpoint, status, &answer).into()),
        }
    }

    fn became(&self, outcome: Outcome, wanted: &Wanted<'_>) -> Result<Claimed, NotClaimed> {
        match outcome {
            Outcome::Enrolled { operator_ca, warnings } => {
                if operator_ca != wanted.authority.fingerprint().to_string() {
                    return Err(NotClaimed::OtherAuthority(operator_ca));
                }
                Ok(Claimed { node: self.fingerprint(), warnings })
            }
            Outcome::Refused { reason, detail } => Err(NotClaimed::Refused { reason, detail }),
        }
    }

    fn unread(&self, why: String) -> Error {
        Error::Answer { endpoint: self.target.endpoint.clone(), why }
    }

    /// One step: status and body.
    async fn step(&mut self, body: &Body) -> Result<(u16, Vec<u8>), Error> {
        let endpoint = self.target.endpoint.clone();
        match tokio::time::timeout(STEP, self.post(body.render())).await {
            Ok(done) => done,
            Err(_) => Err(Error::Deadline { endpoint, secs: STEP.as_secs() }),
        }
    }

    async fn post(&mut self, body: String) -> Result<(u16, Vec<u8>), Error> {
        let endpoint = &self.target.endpoint;
        let request = Request::post(muster_api::ENROLL)
            .header("host", endpoint.authority())
            .header("user-agent", concat!("muster/", env!("CARGO_PKG_VERSION")))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .map_err(|_| Error::Call("a request that HTTP cannot carry"))?;
        // A person may have thought about the fingerprint for longer than the node keeps a silent connection.
        let kept = self.connection.take().filter(|c| !c.sender.is_closed());
        let mut connection = match kept {
            Some(connection) => connection,
            None => Connection::open(&self.target).await?,
        };
        let sent = match connection.sender.ready().await {
            Ok(()) => connection.sender.send_request(request).await,
            Err(e) => Err(e),
        };
        let response = match sent {
            Ok(response) => response,
            Err(e) => return Err(connection.lost(endpoint, &e).await),
        };
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = match body {
            Ok(body) => body.to_bytes().to_vec(),
            Err(e) if e.is::<http_body_util::LengthLimitError>() => {
                return Err(self.unread(format!("over {MAX_ANSWER} bytes")));
            }
            Err(e) => return Err(Error::lost(endpoint, e.as_ref())),
        };
        self.connection = Some(connection);
        Ok((status, body))
    }
}

impl Wanted<'_> {
    fn body(&self) -> ClaimBody {
        ClaimBody {
            operator_ca: self.authority_pem.to_owned(),
            document: self.document.map(str::to_owned),
            acknowledge: self.acknowledge,
        }
    }
}

fn says_would_bootstrap(answer: &[u8]) -> bool {
    fault(409, None, answer).is_some_and(|f| f.reason == "would-bootstrap")
}

/// A body of a status that is a success.
fn success((status, body): (u16, Vec<u8>)) -> Result<(u16, Vec<u8>), Error> {
    match fault(status, None, &body) {
        Some(fault) => Err(Error::Fault(Box::new(fault))),
        None => Ok((status, body)),
    }
}

fn told(endpoint: &Endpoint, status: u16, body: &[u8]) -> Error {
    match fault(status, None, body) {
        Some(fault) => Error::Fault(Box::new(fault)),
        None => Error::Answer { endpoint: endpoint.clone(), why: format!("status {status} in a pairing") },
    }
}
