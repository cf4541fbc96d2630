//! Why a certificate, a list or a key will not do.

use muster_core::UtcTime;
use thiserror::Error;

/// See the module. Each is one line that an operator can act on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Fault {
    /// A private key where only public things belong.
    #[error(
        "it has a private key in it: treat that key as stolen, make a new authority, and give only its certificate"
    )]
    PrivateKey,
    /// Not the number of certificates that was asked for.
    #[error("it has {0} certificates, and exactly one is wanted")]
    Count(usize),
    /// Not PEM, or not DER inside.
    #[error("it is no {0}")]
    Malformed(&'static str),
    /// The certificate is not allowed to sign what it should sign.
    #[error("it is no authority: {0}")]
    NoAuthority(&'static str),
    /// Not yet valid.
    #[error("it is not valid before {0}")]
    NotYet(UtcTime),
    /// No longer valid.
    #[error("it ended at {0}")]
    Ended(UtcTime),
    /// Signed by somebody else.
    #[error("it was not signed by {0}")]
    OtherIssuer(String),
    /// On the revocation list.
    #[error("it was revoked")]
    Revoked,
    /// Good, but for another purpose.
    #[error("it is not for {0}")]
    Purpose(&'static str),
    /// A certificate and a key that do not belong together.
    #[error("the certificate and the key do not belong together")]
    OtherKey,
    /// A signature that the certificate's key did not make.
    #[error("whoever shows it does not hold its key")]
    NotTheHolder,
    /// It would be valid for longer than what vouches for it.
    #[error("it would end at {0}, after its authority, which ends at {1}")]
    Outlives(UtcTime, UtcTime),
    /// Something of the library below.
    #[error("{0}")]
    Other(String),
}

impl Fault {
    /// A stable word for programs and the audit.
    #[must_use]
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::PrivateKey => "private-key",
            Self::Count(_) => "certificate-count",
            Self::Malformed(_) => "malformed",
            Self::NoAuthority(_) => "no-authority",
            Self::NotYet(_) => "not-yet-valid",
            Self::Ended(_) => "expired",
            Self::OtherIssuer(_) => "other-authority",
            Self::Revoked => "revoked",
            Self::Purpose(_) => "purpose",
            Self::OtherKey => "other-key",
            Self::NotTheHolder => "not-the-holder",
            Self::Outlives(_, _) => "outlives-authority",
            Self::Other(_) => "certificate",
        }
    }
}
