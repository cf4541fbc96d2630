//! A node, as its client sees it.

use crate::call::{Answer, Call, MAX_ANSWER};
use crate::connection::{Connection, Target};
use crate::error::Error;
use crate::lines::{Ends, Stream};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use muster_api::{AUDIT_HEADER, Fault, Kind, Nonce, PROOF_HEADER, ProofHeader, proof_text};
use muster_core::Operation;
use muster_core::audit::Head;
use muster_tls::Fingerprint;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// What a call may take beside the time that the node gives its operation.
const ON_THE_WAY: u64 = 5;

/// One node. Calls go one after the other over one connection, which is made when it is needed and made again when it is gone.
pub struct Node {
    target: Target,
    connection: tokio::sync::Mutex<Option<Connection>>,
    head: Mutex<Option<Head>>,
}

impl Node {
    /// A node; nothing is sent yet.
    pub fn new(target: Target) -> Self {
        Self { target, connection: tokio::sync::Mutex::new(None), head: Mutex::new(None) }
    }

    /// Which it is.
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// The newest head of the audit chain that this node handed out.
    pub fn head(&self) -> Option<Head> {
        *self.head.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call whose answer is a JSON value.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn get<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        let answer = self.call(call).await?;
        serde_json::from_slice(&answer.body).map_err(|e| Error::Answer {
            endpoint: self.target.endpoint.clone(),
            why: format!("{:?} at line {}, column {}", e.classify(), e.line(), e.column()),
        })
    }

    /// A call whose answer comes whole, in as long as the operation's row gives it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call(&self, call: &Call) -> Result<Answer, Error> {
        let secs = u64::from(call.operation.row().deadline) + ON_THE_WAY;
        let endpoint = || self.target.endpoint.clone();
        let work = async {
            let mut held = self.connection.lock().await;
            let proof = match call.operation.wants_proof() {
                true => self.prove(&mut held, call).await?,
                false => None,
            };
            let response = self.send(&mut held, call, proof).await?;
            let answer = self.whole(response).await;
            if answer.is_err() {
                *held = None;
            }
            answer
        };
        match tokio::time::timeout(Duration::from_secs(secs), work).await {
            Ok(done) => done,
            Err(_) => {
                // What was begun on this connection is not to be taken for the answer of the next call.
                *self.connection.lock().await = None;
                Err(Error::Deadline { endpoint: endpoint(), secs })
            }
        }
    }

    /// A call whose answer comes line by line, over a connection of its own.
    ///
    /// The node's clock is the one that ends it. Ours runs a little longer, from the call to the last line, so that a node
    /// that answers its network and nothing else is given up as well.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn stream(&self, call: &Call) -> Result<Stream, Error> {
        let secs = u64::from(call.operation.row().deadline) + ON_THE_WAY;
        let ends = Instant::now() + Duration::from_secs(secs);
        let mut held = None;
        let first = async {
            let proof = match call.operation.wants_proof() {
                true => self.prove(&mut held, call).await?,
                false => None,
            };
            let response = self.send(&mut held, call, proof).await?;
            if response.status().is_success() {
                return Ok(response);
            }
            self.whole(response).await?;
            Err(self.unread("a success without a stream"))
        };
        let endpoint = || self.target.endpoint.clone();
        let response = tokio::time::timeout_at(ends, first)
            .await
            .map_err(|_| Error::Deadline { endpoint: endpoint(), secs })??;
        Ok(Stream::new(response.into_body(), endpoint(), Ends { at: ends, secs }))
    }

    fn unread(&self, why: impl Into<String>) -> Error {
        Error::Answer { endpoint: self.target.endpoint.clone(), why: why.into() }
    }

    /// The header that proves a call, with a nonce that the node hands out for it.
    async fn prove(&self, held: &mut Option<Connection>, call: &Call) -> Result<Option<String>, Error> {
        let Some(identity) = &self.target.identity else { return Ok(None) };
        let (method, target) = call.target().ok_or(Error::Call("a name that cannot stand in a path"))?;
        let answer = self.send(held, &Call::new(Operation::ProofNonce), None).await?;
        let answer = self.whole(answer).await?;
        let Nonce { nonce, .. } = serde_json::from_slice(&answer.body)
            .map_err(|_| self.unread("no nonce where one was asked for"))?;
        let node = held.as_ref().map(|c| Fingerprint::of(&c.certificate));
        let node = node.ok_or_else(|| self.unread("no connection"))?;
        let body: [u8; 32] = Sha256::digest(&call.body).into();
        let request = format!("{} {target}", method.as_str());
        let text = proof_text(&request, &body, node.bytes(), &nonce);
        let (scheme, signature) =
            identity.sign(&text).ok_or(Error::Call("the client's key does not sign"))?;
        let header = ProofHeader { nonce, scheme, signature }.to_string();
        // What was handed out must not make a header of its own.
        match ProofHeader::parse(&header) {
            Some(_) => Ok(Some(header)),
            None => Err(self.unread("a nonce that is none")),
        }
    }

    /// Sends one request and waits for the head of its answer.
    async fn send(
        &self,
        held: &mut Option<Connection>,
        call: &Call,
        proof: Option<String>,
    ) -> Result<Response<Incoming>, Error> {
        let (method, target) = call.target().ok_or(Error::Call("a name that cannot stand in a path"))?;
        let build = || {
            let mut request = Request::builder()
                .method(method.as_str())
                .uri(&target)
                .header("host", self.target.endpoint.authority())
                .header("user-agent", concat!("muster/", env!("CARGO_PKG_VERSION")));
            if !call.body.is_empty() {
                request = request.header("content-type", call.content);
            }
            if let Some(proof) = &proof {
                request = request.header(PROOF_HEADER, proof);
            }
            request.body(Full::new(Bytes::from(call.body.clone())))
        };
        let mut request = build().map_err(|_| Error::Call("a request that HTTP cannot carry"))?;
        // A connection that was kept may have been closed by the node meanwhile: then the request comes back unsent.
        for again in [true, false] {
            let fresh = held.as_ref().is_none_or(|c| c.sender.is_closed());
            if fresh {
                *held = Some(Connection::open(&self.target).await?);
            }
            let Some(connection) = held.as_mut() else { break };
            if let Err(e) = connection.sender.ready().await {
                match held.take() {
                    Some(ended) if fresh => return Err(ended.lost(&self.target.endpoint, &e).await),
                    _ => continue,
                }
            }
            match connection.sender.try_send_request(request).await {
                Ok(response) => {
                    self.keep_head(&response);
                    return Ok(response);
                }
                Err(mut error) => {
                    let ended = held.take();
                    match (error.take_message(), ended) {
                        (Some(back), _) if again && !fresh => request = back,
                        (_, Some(ended)) => {
                            return Err(ended.lost(&self.target.endpoint, error.error()).await);
                        }
                        (_, None) => return Err(Error::lost(&self.target.endpoint, error.error())),
                    }
                }
            }
        }
        Err(self.unread("no connection"))
    }

    /// The whole of an answer: a success, or the node's own fault.
    async fn whole(&self, response: Response<Incoming>) -> Result<Answer, Error> {
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok());
        let content = header("content-type").unwrap_or_default().to_owned();
        let after = header("retry-after").and_then(|t| t.parse().ok());
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = match body {
            Ok(body) => body.to_bytes().to_vec(),
            Err(e) if e.is::<http_body_util::LengthLimitError>() => {
                return Err(self.unread(format!("over {MAX_ANSWER} bytes")));
            }
            Err(e) => return Err(Error::lost(&self.target.endpoint, e.as_ref())),
        };
        if (200..300).contains(&status) {
            return Ok(Answer { status, content, body });
        }
        Err(fault(status, after, &body).map_or_else(
            || self.unread(format!("status {status} without a reason that is read here")),
            |fault| Error::Fault(Box::new(fault)),
        ))
    }

    fn keep_head(&self, response: &Response<Incoming>) {
        let text = response.headers().get(AUDIT_HEADER).and_then(|v| v.to_str().ok());
        let Some(head) = text.and_then(|t| t.parse::<Head>().ok()) else { return };
        let mut held = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none_or(|h| h.seq <= head.seq) {
            *held = Some(head);
        }
    }
}

/// A fault as the node wrote it.
pub(crate) fn fault(status: u16, retry_after: Option<u64>, body: &[u8]) -> Option<Fault> {
    let mut fault: Fault = serde_json::from_slice(body).ok()?;
    fault.kind = Kind::of(status)?;
    fault.retry_after = fault.retry_after.or(retry_after);
    Some(fault)
}
