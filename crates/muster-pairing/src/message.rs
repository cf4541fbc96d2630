//! The bodies of `POST /v1/enroll`: JSON, bytes in standard base64 with padding.
//!
//! ```json
//! {"step":1,"share":"…"}                                             operator, answered by
//! {"session":"…","share":"…"}                                        the node
//! {"step":2,"session":"…","confirm":"…","operatorCA":"…","document":"…","acknowledge":false}
//! {"enrolled":true,"operatorCA":"SHA256:…","warnings":[],"confirm":"…"}          or
//! {"reason":"would-bootstrap","error":"…","confirm":"…"}
//! {"open":true,"operatorCA":"…","document":"…","acknowledge":false}  where the node asks for no code (`api.insecure`)
//! ```
//!
//! A body of the one-step protocol (`code` and `operatorCA` together) is named as such: the code would travel.

use base64ct::{Base64, Encoding};
use serde::{Deserialize, Serialize};

use crate::cpace::{SHARE, Share};
use crate::exchange::{CONFIRMATION, Confirmation, Outcome, SESSION, Session};

/// Bytes of the longest document, wherever it is sent.
pub const MAX_DOCUMENT: usize = 1 << 20;
/// Bytes of the longest body: a document as a JSON string, where every byte may be escaped as two, and an authority.
pub const MAX_BODY: usize = 2 * MAX_DOCUMENT + 64 * 1024;
/// Bytes of the longest authority (PEM).
pub const MAX_AUTHORITY: usize = 16 * 1024;

/// What an operator sends.
#[derive(Debug)]
pub enum Request {
    /// Step 1.
    Start {
        /// The operator's share.
        share: Share,
    },
    /// Step 2.
    Confirm {
        /// As the node named it.
        session: Session,
        /// The operator's proof.
        confirm: Confirmation,
        /// What is asked for.
        claim: ClaimBody,
    },
    /// A claim without a code.
    Open {
        /// What is asked for.
        claim: ClaimBody,
    },
}

/// The claim itself, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimBody {
    /// PEM.
    pub operator_ca: String,
    /// The `muster:` document.
    pub document: Option<String>,
    /// Whether the operator knows what a claim without a document builds.
    pub acknowledge: bool,
}

/// Why a body is refused. No try is spent, and nothing of the body is repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadBody {
    /// 413.
    #[error("the body has {0} bytes; at most {MAX_BODY} are taken")]
    TooLong(usize),
    /// 400, `pairing-protocol`.
    #[error(
        "this is a claim in one step, with the code in it; this node pairs in two steps so that the code never travels: use `muster node claim`"
    )]
    OneStep,
    /// 400, `bad-request`.
    #[error("the body is not a step of the pairing: {0}")]
    Malformed(String),
    /// 400, `bad-request`.
    #[error("`{field}` {why}")]
    Field {
        /// Name as in the body.
        field: &'static str,
        /// What it is not.
        why: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    step: Option<u8>,
    open: Option<bool>,
    share: Option<String>,
    session: Option<String>,
    confirm: Option<String>,
    #[serde(rename = "operatorCA")]
    operator_ca: Option<String>,
    document: Option<String>,
    acknowledge: Option<bool>,
    code: Option<serde::de::IgnoredAny>,
}

impl Request {
    /// Reads a body.
    ///
    /// # Errors
    /// See [`BadBody`]. A field that the step does not have is refused like an unknown one.
    pub fn parse(body: &[u8]) -> Result<Self, BadBody> {
        if body.len() > MAX_BODY {
            return Err(BadBody::TooLong(body.len()));
        }
        let wire: Wire = serde_json::from_slice(body).map_err(|e| BadBody::Malformed(place(&e)))?;
        if wire.code.is_some() {
            return Err(BadBody::OneStep);
        }
        match (wire.step, wire.open) {
            (Some(1), None) => wire.start(),
            (Some(2), None) => wire.confirm(),
            (None, Some(true)) => wire.open(),
            _ => Err(BadBody::Field { field: "step", why: "is 1 or 2" }),
        }
    }

    /// The body to send.
    #[must_use]
    pub fn render(&self) -> String {
        let claim = |claim: &ClaimBody| {
            let mut object = serde_json::Map::new();
            object.insert("operatorCA".to_owned(), claim.operator_ca.clone().into());
            if let Some(document) = &claim.document {
                object.insert("document".to_owned(), document.clone().into());
            }
            object.insert("acknowledge".to_owned(), claim.acknowledge.into());
            object
        };
        let object = match self {
            Self::Start { share } => object([("step", 1.into()), ("share", b64(share))]),
            Self::Confirm { session, confirm, claim: body } => {
                let mut all =
                    object([("step", 2.into()), ("session", b64(session)), ("confirm", b64(&confirm.0))]);
                all.extend(claim(body));
                all
            }
            Self::Open { claim: body } => {
                let mut all = object([("open", true.into())]);
                all.extend(claim(body));
                all
            }
        };
        serde_json::Value::Object(object).to_string()
    }
}

impl Wire {
    fn start(self) -> Result<Request, BadBody> {
        none("session", self.session.as_ref())?;
        none("confirm", self.confirm.as_ref())?;
        none("operatorCA", self.operator_ca.as_ref())?;
        none("document", self.document.as_ref())?;
        none("acknowledge", self.acknowledge.as_ref())?;
        Ok(Request::Start { share: bytes::<SHARE>("share", self.share.as_deref())? })
    }

    fn confirm(self) -> Result<Request, BadBody> {
        none("share", self.share.as_ref())?;
        let session = bytes::<SESSION>("session", self.session.as_deref())?;
        let confirm = Confirmation(bytes::<CONFIRMATION>("confirm", self.confirm.as_deref())?);
        Ok(Request::Confirm { session, confirm, claim: self.claim()? })
    }

    fn open(self) -> Result<Request, BadBody> {
        none("share", self.share.as_ref())?;
        none("session", self.session.as_ref())?;
        none("confirm", self.confirm.as_ref())?;
        Ok(Request::Open { claim: self.claim()? })
    }

    fn claim(self) -> Result<ClaimBody, BadBody> {
        let operator_ca =
            self.operator_ca.ok_or(BadBody::Field { field: "operatorCA", why: "is missing" })?;
        if operator_ca.len() > MAX_AUTHORITY {
            return Err(BadBody::Field { field: "operatorCA", why: "is longer than 16 KiB" });
        }
        if self.document.as_ref().is_some_and(|d| d.len() > MAX_DOCUMENT) {
            return Err(BadBody::Field { field: "document", why: "is longer than 1 MiB" });
        }
        Ok(ClaimBody { operator_ca, document: self.document, acknowledge: self.acknowledge.unwrap_or(false) })
    }
}

/// The node's answer to step 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Started {
    /// What to name in step 2.
    pub session: Session,
    /// The node's share.
    pub share: Share,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StartedWire {
    session: String,
    share: String,
}

impl Started {
    /// The body to send.
    #[must_use]
    pub fn render(&self) -> String {
        serde_json::Value::Object(object([("session", b64(&self.session)), ("share", b64(&self.share))]))
            .to_string()
    }

    /// Reads a node's answer, which is not to be trusted.
    ///
    /// # Errors
    /// See [`BadBody`].
    pub fn parse(body: &[u8]) -> Result<Self, BadBody> {
        let wire: StartedWire = answer(body)?;
        Ok(Self {
            session: bytes("session", Some(&wire.session))?,
            share: bytes("share", Some(&wire.share))?,
        })
    }
}

/// The node's answer to step 2 where the code was right, with its proof; without one where it asked for no code.
#[derive(Debug, Clone)]
pub struct Answer {
    /// What became of the claim.
    pub outcome: Outcome,
    /// The node's proof.
    pub confirm: Option<Confirmation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerWire {
    enrolled: Option<bool>,
    #[serde(rename = "operatorCA")]
    operator_ca: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
    reason: Option<String>,
    error: Option<String>,
    confirm: Option<String>,
}

impl Answer {
    /// The body to send.
    #[must_use]
    pub fn render(&self) -> String {
        let mut all = match &self.outcome {
            Outcome::Enrolled { operator_ca, warnings } => object([
                ("enrolled", true.into()),
                ("operatorCA", operator_ca.clone().into()),
                ("warnings", warnings.clone().into()),
            ]),
            Outcome::Refused { reason, detail } => {
                object([("reason", reason.clone().into()), ("error", detail.clone().into())])
            }
        };
        if let Some(confirm) = &self.confirm {
            all.insert("confirm".to_owned(), b64(&confirm.0));
        }
        serde_json::Value::Object(all).to_string()
    }

    /// Reads a node's answer. It is worth something only after [`crate::exchange::Awaiting::check`].
    ///
    /// # Errors
    /// See [`BadBody`].
    pub fn parse(body: &[u8]) -> Result<Self, BadBody> {
        let wire: AnswerWire = answer(body)?;
        let confirm = match &wire.confirm {
            Some(text) => Some(Confirmation(bytes("confirm", Some(text))?)),
            None => None,
        };
        let outcome = match (wire.enrolled, wire.operator_ca, wire.reason) {
            (Some(true), Some(operator_ca), None) => {
                Outcome::Enrolled { operator_ca, warnings: wire.warnings }
            }
            (None | Some(false), None, Some(reason)) => {
                Outcome::Refused { reason, detail: wire.error.unwrap_or_default() }
            }
            _ => return Err(BadBody::Malformed("neither enrolled nor refused".to_owned())),
        };
        Ok(Self { outcome, confirm })
    }
}

fn answer<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, BadBody> {
    if body.len() > MAX_BODY {
        return Err(BadBody::TooLong(body.len()));
    }
    serde_json::from_slice(body).map_err(|e| BadBody::Malformed(place(&e)))
}

/// Kind and place of a JSON fault. serde's own words can quote the body, which may hold a code.
fn place(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Data => "a field is unknown, doubled or of another type",
        serde_json::error::Category::Eof => "it ends too early",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "it is not JSON",
    };
    format!("{kind} (line {}, column {})", error.line(), error.column())
}

fn bytes<const N: usize>(field: &'static str, text: Option<&str>) -> Result<[u8; N], BadBody> {
    let text = text.ok_or(BadBody::Field { field, why: "is missing" })?;
    let mut out = [0; N];
    let taken = Base64::decode(text, &mut out).map(<[u8]>::len);
    if taken != Ok(N) {
        return Err(BadBody::Field { field, why: "is not base64 of its length" });
    }
    Ok(out)
}

fn none<T>(field: &'static str, value: Option<&T>) -> Result<(), BadBody> {
    if value.is_some() {
        return Err(BadBody::Field { field, why: "does not belong to this step" });
    }
    Ok(())
}

fn b64(bytes: &[u8]) -> serde_json::Value {
    Base64::encode_string(bytes).into()
}

fn object<const N: usize>(
    fields: [(&str, serde_json::Value); N],
) -> serde_json::Map<String, serde_json::Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
#[path = "message/tests.rs"]
mod tests;
