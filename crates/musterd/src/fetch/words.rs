//! What core and fetcher say to each other: frames of [`crate::wire`].
//!
//! The fetcher begins with [`Told::Begun`]; the core sends [`Wanted`] and the trust anchors as a body (PEM; empty for the machine's
//! own); the fetcher answers [`Told::Got`] and a body, or [`Told::Failed`]. Why it failed is one of a closed list, so that nothing that
//! a server, or a fetcher that fell, wrote gets into a message of the core's.

use core::fmt;

use serde::{Deserialize, Serialize};
use zeroize::Zeroize as _;

/// Longest list of trust anchors that is handed over, in bytes of PEM.
pub const MAX_ANCHORS: usize = 1 << 20;

/// What to get.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// `https://HOST[:PORT]/PATH`.
    pub url: String,
    /// Longest body that is taken, in bytes.
    pub max: u32,
    /// In which it must be there.
    pub seconds: u16,
    /// For the header `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bearer: Option<String>,
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.bearer.zeroize();
    }
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").field("max", &self.max).finish_non_exhaustive()
    }
}

/// What comes of it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Told {
    /// The fetcher runs.
    Begun,
    /// The body follows.
    Got,
    /// Nothing follows.
    Failed {
        /// Why.
        why: Why,
    },
}

/// Why something was not got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "why", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Why {
    /// No address for the name, or none in time.
    Name,
    /// Nobody listens there.
    Refused,
    /// No way there, or no answer to the first packet.
    Unreachable,
    /// A status other than 200.
    Status {
        /// It.
        code: u16,
    },
    /// There is nothing to judge a certificate by.
    NoAnchors,
    /// The trust anchors cannot be read.
    BadAnchors,
    /// No anchor leads to the certificate.
    Issuer,
    /// The certificate has ended.
    Ended,
    /// It has not begun.
    NotBegun,
    /// It is another host's.
    OtherHost,
    /// It will not do for another reason.
    Certificate,
    /// No handshake of TLS 1.3 came about.
    Tls,
    /// The connection ended before the answer did.
    Cut,
    /// It is no answer of HTTP/1.1.
    NotHttp,
    /// The body is in a coding that was not asked for.
    Coded,
    /// The body is longer than is taken.
    Long,
    /// It was not there in time.
    Slow,
    /// The request is none, or the machine said no.
    Ours,
}

impl Why {
    /// Statuses of something that may be there later.
    const LATER: [u16; 7] = [404, 408, 425, 429, 502, 503, 504];

    /// Whether trying again may help: the source is not there yet. All else fails at once, since to ask again changes nothing of it.
    #[must_use]
    pub fn is_not_there_yet(self) -> bool {
        match self {
            Self::Name | Self::Refused | Self::Unreachable => true,
            Self::Status { code } => Self::LATER.contains(&code),
            _ => false,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "the name of its host leads to no address",
            Self::Refused => "nobody listens there (connection refused)",
            Self::Unreachable => "its host cannot be reached",
            Self::Status { code: code @ 300..=399 } => {
                return write!(f, "it answered {code}, and redirects are not followed: name the place itself");
            }
            Self::Status { code: code @ (401 | 403) } => {
                return write!(f, "it answered {code}: the bearer token of authFile is missing, wrong or of no use there");
            }
            Self::Status { code } => return write!(f, "it answered {code}"),
            Self::NoAnchors => {
                "this machine has no trust anchors: install its package ca-certificates, or put the authority of the server into /etc/muster/fetch-ca.pem"
            }
            Self::BadAnchors => "/etc/muster/fetch-ca.pem has no certificate in it that can be used (PEM)",
            Self::Issuer => {
                "no trust anchor leads to its certificate; the server's authority goes into /etc/muster/fetch-ca.pem, which then counts alone"
            }
            Self::Ended => "its certificate has ended, or this machine's clock is wrong",
            Self::NotBegun => "its certificate has not begun, or this machine's clock is wrong",
            Self::OtherHost => "its certificate is another host's",
            Self::Certificate => "its certificate will not do",
            Self::Tls => "no TLS 1.3 handshake came about",
            Self::Cut => "the connection ended before the answer did",
            Self::NotHttp => "what it answers is not HTTP/1.1",
            Self::Coded => "it answers in a content coding that was not asked for",
            Self::Long => "it answers more than is taken",
            Self::Slow => "its answer did not come in time",
            Self::Ours => "this machine could not ask; `journalctl -u 'muster-fetch@*'` says why",
        })
    }
}
