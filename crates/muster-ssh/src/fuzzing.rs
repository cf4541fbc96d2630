//! Doors for the fuzz targets to readers that have no public one: what a peer or an agent sends, before it has proven who it is
//! and after.

use muster_core::UtcTime;

use crate::agent::{AgentFault, AgentKey, read_identities, read_signature};
use crate::certificate::CertificateFault;
use crate::error::Cause;
use crate::key::RsaHash;
use crate::observe::{Observer, Seen};
use crate::trust::{Basis, HostTrust, Untrusted};

/// What the reader of the clear part of a handshake kept.
#[derive(Debug, PartialEq, Eq)]
pub struct Handshake {
    /// `SSH-2.0-…`
    pub version: Option<String>,
    /// Its host key list.
    pub host_keys: Vec<String>,
    /// The host's key or certificate.
    pub host_key: Option<Vec<u8>>,
    /// Its words at parting.
    pub parting: Option<String>,
    /// Whether everything from here on is encrypted.
    pub over: bool,
    /// What ended it.
    pub end: Result<(), Cause>,
}

/// Feeds a server's bytes in pieces of `piece` bytes.
pub fn handshake(bytes: &[u8], piece: usize) -> Handshake {
    let (mut observer, mut seen) = (Observer::new(), Seen::default());
    let end = bytes.chunks(piece.max(1)).try_for_each(|part| observer.feed(part, &mut seen));
    Handshake {
        version: seen.version,
        host_keys: seen.host_keys,
        host_key: seen.host_key,
        parting: seen.parting,
        over: observer.is_over(),
        end,
    }
}

/// Why a host was not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTheHost {
    /// Its plain key is not pinned, is revoked, or is too weak; the last one says how.
    Key(Option<String>),
    /// Its certificate does not do.
    Certificate(CertificateFault),
}

impl From<Untrusted> for NotTheHost {
    fn from(why: Untrusted) -> Self {
        match why {
            Untrusted::Changed | Untrusted::Revoked(_) => Self::Key(None),
            Untrusted::Weak(how) => Self::Key(Some(how)),
            Untrusted::Certificate(fault) => Self::Certificate(fault),
        }
    }
}

/// Judges a plain host key.
pub fn host_key(trust: &HostTrust, blob: &[u8]) -> Result<Basis, NotTheHost> {
    trust.check_key(blob).map_err(NotTheHost::from)
}

/// Judges a host certificate.
pub fn host_certificate(trust: &HostTrust, blob: &[u8], now: UtcTime) -> Result<Basis, NotTheHost> {
    trust.check_certificate(blob, now).map_err(NotTheHost::from)
}

/// Reads an agent's list.
pub fn agent_identities(answer: &[u8]) -> Result<Vec<AgentKey>, AgentFault> {
    read_identities(answer)
}

/// Reads an agent's signature.
pub fn agent_signature(answer: &[u8], rsa: Option<RsaHash>) -> Result<Vec<u8>, AgentFault> {
    read_signature(answer, rsa)
}
