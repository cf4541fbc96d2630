//! Why a call came to nothing.

use crate::endpoint::Endpoint;
use muster_tls::Fingerprint;
use rustls::AlertDescription;
use std::error::Error as StdError;

/// Why a node's TLS turned the client away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turned {
    /// It wants a certificate and got none.
    NoCertificate,
    /// It does not take the one that it got: another authority's, or not a client's.
    OtherAuthority,
    /// The one that it got has ended, or has not begun by the node's clock.
    Ended,
    /// The one that it got was revoked.
    Revoked,
    /// Something else, by the alert's number.
    Alert(u8),
}

/// See the module. Says nothing of what was sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nothing answers there; nothing was sent.
    #[error("{endpoint} does not answer: {why}")]
    Unreachable {
        /// Where.
        endpoint: Endpoint,
        /// What the system said.
        why: String,
    },
    /// Its name leads nowhere; nothing was sent.
    #[error("{endpoint} is not found: {why}")]
    NoAddress {
        /// Where.
        endpoint: Endpoint,
        /// What the resolver said.
        why: String,
    },
    /// Something answers, but no TLS as this API has it; nothing was sent.
    #[error("{endpoint} answers, but not as a node does: {why}")]
    NotANode {
        /// Where.
        endpoint: Endpoint,
        /// What was wrong.
        why: String,
    },
    /// Another certificate than the pinned one; nothing was sent.
    #[error("{endpoint} shows the certificate {shown}, and {pinned} is pinned")]
    OtherCertificate {
        /// Where.
        endpoint: Endpoint,
        /// What it shows.
        shown: Fingerprint,
        /// What it must show.
        pinned: Fingerprint,
    },
    /// The node does not let this client in; the call was not looked at.
    #[error("{endpoint} does not let this client in")]
    TurnedAway {
        /// Where.
        endpoint: Endpoint,
        /// Why.
        why: Turned,
    },
    /// The call was not answered in time. It may have been done.
    #[error("{endpoint} did not answer within {secs} s")]
    Deadline {
        /// Where.
        endpoint: Endpoint,
        /// How long it had.
        secs: u64,
    },
    /// The connection was lost. The call may have been done.
    #[error("the connection to {endpoint} was lost: {why}")]
    Lost {
        /// Where.
        endpoint: Endpoint,
        /// What the system said.
        why: String,
    },
    /// The node answered that it will not or cannot.
    #[error("{0}")]
    Fault(Box<muster_api::Fault>),
    /// The node answered something that this client does not read.
    #[error("the answer of {endpoint} is none that is read here: {why}")]
    Answer {
        /// Where.
        endpoint: Endpoint,
        /// What is wrong with it.
        why: String,
    },
    /// The call cannot be made as it is; nothing was sent.
    #[error("{0}")]
    Call(&'static str),
}

impl Error {
    /// Whether the call may have been done all the same.
    pub const fn may_have_been_done(&self) -> bool {
        matches!(self, Self::Deadline { .. } | Self::Lost { .. } | Self::Answer { .. })
    }

    /// The node's own fault, where it is one.
    pub fn fault(&self) -> Option<&muster_api::Fault> {
        match self {
            Self::Fault(fault) => Some(fault),
            _ => None,
        }
    }

    /// Of a failure after the handshake: what the node's TLS said, where it said something.
    pub(crate) fn lost(endpoint: &Endpoint, error: &(dyn StdError + 'static)) -> Self {
        match alert(error) {
            Some(alert) => Self::TurnedAway { endpoint: endpoint.clone(), why: turned(alert) },
            None => Self::Lost { endpoint: endpoint.clone(), why: innermost(error) },
        }
    }
}

/// The TLS alert in a chain of errors.
pub(crate) fn alert(error: &(dyn StdError + 'static)) -> Option<AlertDescription> {
    let mut next = Some(error);
    while let Some(one) = next {
        if let Some(rustls::Error::AlertReceived(alert)) = tls(one) {
            return Some(*alert);
        }
        next = one.source();
    }
    None
}

/// rustls's own error, as it is or inside one of input and output.
pub(crate) fn tls<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e rustls::Error> {
    error.downcast_ref::<rustls::Error>().or_else(|| {
        let io = error.downcast_ref::<std::io::Error>()?;
        io.get_ref()?.downcast_ref::<rustls::Error>()
    })
}

pub(crate) fn turned(alert: AlertDescription) -> Turned {
    match alert {
        AlertDescription::CertificateRequired => Turned::NoCertificate,
        AlertDescription::UnknownCA
        | AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied
        | AlertDescription::DecryptError => Turned::OtherAuthority,
        AlertDescription::CertificateExpired => Turned::Ended,
        AlertDescription::CertificateRevoked => Turned::Revoked,
        other => Turned::Alert(other.into()),
    }
}

/// The last word of a chain of errors, which is what the system said.
pub(crate) fn innermost(error: &(dyn StdError + 'static)) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    let eof = |e: &std::io::Error| e.kind() == std::io::ErrorKind::UnexpectedEof;
    if last.downcast_ref::<std::io::Error>().is_some_and(eof) {
        // The words of the TLS library for it are advice to programmers.
        return "the other side closed it in the middle".to_owned();
    }
    last.to_string()
}
