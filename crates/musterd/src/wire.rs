//! What edge and core say to each other, over a Unix stream socket.
//!
//! A frame is one byte of kind, a length of four bytes (big endian, at most 64 KiB), and so many bytes. Three kinds: a message
//! (JSON), a piece of a body, the end of a body. A connection is begun by the edge and is one of three, as its first message says:
//!
//! - the **link**: one, for as long as the edge lives. The core says what to serve with; the edge shows the evidence of each
//!   client and gets a handle. Handles die with the link, and when the core says so.
//! - a **call**: [`Hello::Call`], the body of the request in pieces and its end; back come a [`Reply`], a body in pieces, its end. A
//!   connection that is closed before the end is an answer that was cut off, and a client that left.
//! - an **enrolment**: as a call, without a handle; taken only while nobody owns the node.
//!
//! The core believes nothing of it but that it came from the edge.

mod refused;

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use refused::{Refusal, Refused, Verb};

/// Of these messages. Both processes are one binary, so a difference means that one was not restarted after an update.
pub const VERSION: u32 = 2;
/// Bytes of the longest frame.
pub const MAX_FRAME: usize = 64 * 1024;
/// Bytes before the content of a frame.
pub const HEAD: usize = 5;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON.
    Message,
    /// A piece of a body.
    Piece,
    /// The body is whole.
    End,
}

impl Kind {
    const fn byte(self) -> u8 {
        match self {
            Self::Message => 1,
            Self::Piece => 2,
            Self::End => 3,
        }
    }
}

/// Why a stream of frames cannot be gone on with; the connection is closed.
#[derive(Debug, thiserror::Error)]
pub enum Broken {
    /// The stream ended inside a frame, or failed.
    #[error("the connection between edge and core: {0}")]
    Io(#[from] io::Error),
    /// A kind that is not known.
    #[error("a frame of kind {0}, which there is not")]
    Kind(u8),
    /// A length that is not taken.
    #[error("a frame of {0} bytes; {MAX_FRAME} are taken")]
    Long(usize),
    /// JSON that is not the message that belongs here.
    #[error("a message that does not belong here: {0}")]
    Message(String),
    /// A frame of a kind that does not belong here.
    #[error("a {0:?} where something else belongs")]
    Order(Kind),
    /// A body that is longer than its operation takes.
    #[error("a body of over {0} bytes")]
    Body(usize),
}

/// Kind and length of a frame, from its first bytes.
pub fn head(bytes: [u8; HEAD]) -> Result<(Kind, usize), Broken> {
    let [kind, a, b, c, d] = bytes;
    let kind = match kind {
        1 => Kind::Message,
        2 => Kind::Piece,
        3 => Kind::End,
        other => return Err(Broken::Kind(other)),
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > MAX_FRAME || (kind == Kind::End && length > 0) {
        return Err(Broken::Long(length));
    }
    Ok((kind, length))
}

/// A whole frame. `content` is at most [`MAX_FRAME`] long.
pub fn frame(kind: Kind, content: &[u8]) -> Result<Vec<u8>, Broken> {
    let length = u32::try_from(content.len()).ok().filter(|_| content.len() <= MAX_FRAME);
    let length = length.ok_or(Broken::Long(content.len()))?;
    let mut out = Vec::with_capacity(HEAD + content.len());
    out.push(kind.byte());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(content);
    Ok(out)
}

/// A message as a frame.
pub fn message(value: &impl Serialize) -> Result<Vec<u8>, Broken> {
    let text = serde_json::to_vec(value).map_err(|e| Broken::Message(e.to_string()))?;
    frame(Kind::Message, &text)
}

/// A message from the content of a frame. The words of serde may quote what was sent, so only kind and place are told.
pub fn parse<T: DeserializeOwned>(content: &[u8]) -> Result<T, Broken> {
    serde_json::from_slice(content)
        .map_err(|e| Broken::Message(format!("{:?} at byte {}", e.classify(), e.column())))
}

/// Reads one frame; `None` at an end between two.
pub fn read(from: &mut impl Read) -> Result<Option<(Kind, Vec<u8>)>, Broken> {
    let mut start = [0; HEAD];
    let mut had = 0;
    while had < HEAD {
        let space = start.get_mut(had..).unwrap_or_default();
        match from.read(space) {
            Ok(0) if had == 0 => return Ok(None),
            Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(n) => had += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.into()),
        }
    }
    let (kind, length) = head(start)?;
    let mut content = vec![0; length];
    from.read_exact(&mut content)?;
    Ok(Some((kind, content)))
}

/// Reads one message; `None` at an end.
pub fn read_message<T: DeserializeOwned>(from: &mut impl Read) -> Result<Option<T>, Broken> {
    match read(from)? {
        None => Ok(None),
        Some((Kind::Message, content)) => parse(&content).map(Some),
        Some((kind, _)) => Err(Broken::Order(kind)),
    }
}

/// Reads a body of at most `max` bytes, to its end.
pub fn read_body(from: &mut impl Read, max: usize) -> Result<Vec<u8>, Broken> {
    let mut body = Vec::new();
    loop {
        match read(from)? {
            None => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Some((Kind::Piece, piece)) if body.len() + piece.len() <= max => body.extend_from_slice(&piece),
            Some((Kind::Piece, _)) => return Err(Broken::Body(max)),
            Some((Kind::End, _)) => return Ok(body),
            Some((Kind::Message, _)) => return Err(Broken::Order(Kind::Message)),
        }
    }
}

/// Writes a body in pieces, and its end.
pub fn write_body(to: &mut impl Write, body: &[u8]) -> Result<(), Broken> {
    for piece in body.chunks(MAX_FRAME) {
        to.write_all(&frame(Kind::Piece, piece)?)?;
    }
    to.write_all(&frame(Kind::End, &[])?)?;
    Ok(())
}

/// Bytes in JSON: standard base64 with padding.
pub mod bytes {
    use base64ct::{Base64, Encoding as _};
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    /// For `#[serde(with)]`.
    pub fn serialize<S: Serializer>(bytes: &[u8], s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&Base64::encode_string(bytes))
    }

    /// For `#[serde(with)]`.
    pub fn deserialize<'d, D: Deserializer<'d>>(d: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(d)?;
        Base64::decode_vec(&text).map_err(|_| D::Error::custom("no base64"))
    }
}

/// What a client's certificate and handshake come to: [`muster_tls::Evidence`] on the wire.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// Its certificate, DER.
    #[serde(with = "bytes")]
    pub certificate: Vec<u8>,
    /// The text that it signed.
    #[serde(with = "bytes")]
    pub message: Vec<u8>,
    /// SignatureScheme.
    pub scheme: u16,
    /// The signature.
    #[serde(with = "bytes")]
    pub signature: Vec<u8>,
}

/// The first message of a connection.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Hello {
    /// A link.
    Link {
        /// [`VERSION`].
        version: u32,
    },
    /// A call.
    Call(Call),
    /// A body of `POST /v1/enroll`.
    Enroll {
        /// Where from, as the edge says.
        address: String,
    },
}

/// A call by a client that has a handle.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// Who: 32 hex digits.
    pub handle: String,
    /// What.
    pub ask: Ask,
    /// Method, canonical path and query, for the audit and for a signed request.
    pub request: String,
    /// `Muster-Proof`, as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<String>,
}

/// An operation with what stands in path and query. What is in the body is the core's to read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case", deny_unknown_fields)]
#[expect(missing_docs, reason = "each is the operation of its name, described in the table")]
pub enum Ask {
    Health,
    NodeState,
    Services,
    Logs {
        /// A unit of the allow-list, with or without `.service`, or `kernel`; all of the list when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<String>,
        /// How many of the newest lines.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lines: Option<u32>,
        /// Seconds back from now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
        /// Goes on with what comes.
        follow: bool,
    },
    SshKeys,
    EtcdState,
    AuditRead {
        /// After this number.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<u64>,
        /// Goes on with what comes.
        follow: bool,
    },
    ProofNonce,
    ServiceRestart {
        /// A unit of the allow-list.
        unit: String,
    },
    UpgradeStage,
    Cordon,
    Uncordon,
    Drain,
    UpgradeApply,
    UpgradeRollback {
        /// Also where that takes away what is staged.
        drop_staged: bool,
    },
    Reboot,
    Shutdown,
    Reset,
    ConfigApply,
    CaRotate,
    CrlUpload,
    Kubeconfig {
        /// What to write as the server.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        server: Option<String>,
    },
    JoinToken {
        /// `worker` or `controlplane`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<String>,
        /// Seconds that it is good for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expiry: Option<u64>,
    },
    SshKeyAdd,
    SshKeyRemove {
        /// `SHA256:…`
        fingerprint: String,
    },
}

impl Ask {
    /// Which operation it is.
    #[must_use]
    pub const fn operation(&self) -> muster_core::Operation {
        use muster_core::Operation as O;
        match self {
            Self::Health => O::Health,
            Self::NodeState => O::NodeState,
            Self::Services => O::Services,
            Self::Logs { .. } => O::Logs,
            Self::SshKeys => O::SshKeys,
            Self::EtcdState => O::EtcdState,
            Self::AuditRead { .. } => O::AuditRead,
            Self::ProofNonce => O::ProofNonce,
            Self::ServiceRestart { .. } => O::ServiceRestart,
            Self::UpgradeStage => O::UpgradeStage,
            Self::Cordon => O::Cordon,
            Self::Uncordon => O::Uncordon,
            Self::Drain => O::Drain,
            Self::UpgradeApply => O::UpgradeApply,
            Self::UpgradeRollback { .. } => O::UpgradeRollback,
            Self::Reboot => O::Reboot,
            Self::Shutdown => O::Shutdown,
            Self::Reset => O::Reset,
            Self::ConfigApply => O::ConfigApply,
            Self::CaRotate => O::CaRotate,
            Self::CrlUpload => O::CrlUpload,
            Self::Kubeconfig { .. } => O::Kubeconfig,
            Self::JoinToken { .. } => O::JoinToken,
            Self::SshKeyAdd => O::SshKeyAdd,
            Self::SshKeyRemove { .. } => O::SshKeyRemove,
        }
    }
}

/// On the link, to the core.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToCore {
    /// A client has shown and signed.
    Open {
        /// Of the edge's choice, to tell answers apart.
        id: u64,
        /// Where from, as the edge says.
        address: String,
        /// What it showed.
        proof: Proof,
    },
    /// A client has left.
    Close {
        /// Its handle.
        handle: String,
    },
    /// A client was turned away in the handshake; for the audit.
    TurnedAway {
        /// Where from, as the edge says.
        address: String,
        /// A stable word: `no-certificate`, or as [`muster_tls::Fault`] has it.
        reason: String,
        /// The certificate that it showed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        certificate: Option<String>,
    },
    /// A request was refused by the edge itself; for the audit.
    Refused(Refused),
    /// So many of the two above found no room in a flood, and nothing more is known of them.
    Untold {
        /// How many.
        count: u64,
    },
}

/// On the link, to the edge.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ToEdge {
    /// What to serve with from now on: the first message, and again whenever it changes.
    Serve(Serve),
    /// This client may call, with this handle.
    Opened {
        /// As asked.
        id: u64,
        /// 32 hex digits.
        handle: String,
    },
    /// This one may not.
    NotOpened {
        /// As asked.
        id: u64,
        /// What to answer its requests.
        fault: FaultMessage,
    },
    /// Somebody else is served from the next [`ToEdge::Serve`] on: whoever comes until then waits for it.
    Hold,
    /// This handle is dead; close its connection.
    Drop {
        /// The handle.
        handle: String,
    },
}

/// What the edge serves with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// The node's certificate, DER.
    #[serde(with = "bytes")]
    pub certificate: Vec<u8>,
    /// Its key, PKCS#8.
    #[serde(with = "bytes")]
    pub key: Vec<u8>,
    /// Where to listen.
    pub listen: std::net::SocketAddr,
    /// Whom clients must be signed by, DER; absent where nobody owns the node.
    pub authority: Option<String>,
}

/// A [`muster_api::Fault`] with its status.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultMessage {
    /// The status code.
    pub status: u16,
    /// The body.
    pub fault: muster_api::Fault,
}

/// What the core answers a call; the body follows in pieces.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Media type of the body.
    pub content: String,
    /// The newest record of the audit chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<String>,
    /// Seconds, for `Retry-After`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// Nobody on the way may keep it.
    pub no_store: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_went() {
        let mut stream = Vec::new();
        stream.extend(message(&Hello::Link { version: VERSION }).expect("short"));
        write_body(&mut stream, &vec![7; MAX_FRAME + 1]).expect("a vector takes all");
        let mut from = stream.as_slice();
        assert!(matches!(read_message::<Hello>(&mut from), Ok(Some(Hello::Link { version: VERSION }))));
        assert_eq!(read_body(&mut from, MAX_FRAME + 1).expect("whole").len(), MAX_FRAME + 1);
        assert!(read(&mut from).expect("an end").is_none());
    }

    #[test]
    fn what_is_too_long_unknown_or_cut_is_refused_before_it_is_stored() {
        assert!(matches!(head([1, 0x40, 0, 0, 0]), Err(Broken::Long(0x4000_0000))));
        assert!(matches!(head([9, 0, 0, 0, 0]), Err(Broken::Kind(9))));
        assert!(matches!(head([3, 0, 0, 0, 1]), Err(Broken::Long(1))));
        assert!(matches!(read(&mut [2, 0, 0].as_slice()), Err(Broken::Io(_))));
        assert!(matches!(read(&mut [2, 0, 0, 0, 4, 1].as_slice()), Err(Broken::Io(_))));
        assert!(frame(Kind::Piece, &vec![0; MAX_FRAME + 1]).is_err());
        let mut long = Vec::new();
        write_body(&mut long, &[0; 9]).expect("a vector takes all");
        assert!(matches!(read_body(&mut long.as_slice(), 8), Err(Broken::Body(8))));
    }

    #[test]
    fn each_operation_is_asked_for_by_its_own_name() {
        for operation in muster_core::Operation::ALL {
            let mut fields = serde_json::json!({ "op": operation.row().name, "follow": false, "unit": "x", "fingerprint": "x" });
            let found = ["follow", "unit", "fingerprint"].iter().fold(None, |found, name| {
                let ask = serde_json::from_value::<Ask>(fields.clone());
                fields.as_object_mut().expect("an object").remove(*name);
                found.or(ask.ok())
            });
            let found = found.or_else(|| serde_json::from_value(fields.clone()).ok());
            let found = found.or_else(|| {
                let only = |name: &str, value: serde_json::Value| {
                    serde_json::from_value(serde_json::json!({ "op": operation.row().name, name: value }))
                        .ok()
                };
                only("follow", false.into())
                    .or_else(|| only("fingerprint", "x".into()))
                    .or_else(|| only("unit", "x".into()))
                    .or_else(|| only("drop_staged", false.into()))
            });
            assert_eq!(found.map(|ask: Ask| ask.operation()), Some(*operation));
        }
    }
}
