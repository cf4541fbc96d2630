//! What is sent to a host for a phase, decided and checked before anything is connected to.
//!
//! A load that exists is one that this side has verified as the host will: signatures, threshold, digest, target, validity,
//! parameters, all at one `now`. What a host would refuse for any of these never leaves.

use crate::profile::folder::{hex, sha256};
use crate::secret::Secret;
use muster_core::Phase;
use muster_signing::Refusal;
use muster_signing::envelope::{v1, v2};
use muster_signing::params::Param;
use std::sync::Arc;
use std::time::Duration;
use zeroize::Zeroizing;

/// A parameter's value.
#[derive(Clone, Debug)]
pub enum Value {
    /// May be shown.
    Plain(String),
    /// May not.
    Secret(Arc<Secret>),
}

impl Value {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(text) => text.as_bytes(),
            Self::Secret(secret) => secret.expose(),
        }
    }
}

/// Parameters, ascending by name.
pub type Values = Vec<(String, Value)>;

/// For the checks and the builders of the signing crate. The copy is the caller's to keep short.
pub fn plain(values: &Values) -> Vec<Param> {
    values.iter().map(|(name, value)| (name.clone(), value.bytes().to_vec())).collect()
}

/// What all hosts of one phase share.
#[derive(Debug)]
pub enum Shared {
    /// Envelope 2: the signed intent, its signatures, the script.
    Two {
        /// The bytes that were signed.
        intent: Vec<u8>,
        /// Armoured.
        signatures: Vec<String>,
        /// None for the phase `floor`.
        script: Option<Vec<u8>>,
        /// The intent's profile.
        profile: String,
        /// The intent's epoch.
        epoch: u32,
        /// Seconds that the host gives the run.
        deadline: u32,
        /// Whether the run goes on when we go away.
        finishes: bool,
    },
    /// Envelope 1: the script and the signature over it.
    One {
        /// Armoured.
        signature: String,
        /// The script.
        script: Vec<u8>,
    },
    /// An unsigned script for `sudo bash -s`.
    Raw {
        /// The script.
        script: Vec<u8>,
    },
}

/// A phase for one host.
#[derive(Clone, Debug)]
pub struct Load {
    /// Which.
    pub phase: Phase,
    /// What all hosts get.
    pub shared: Arc<Shared>,
    /// What this host gets.
    pub values: Values,
}

/// Hosts give envelope 1 and raw runs two hours unless they say otherwise.
const LONGEST: Duration = Duration::from_secs(7200);
/// For the way there and back, and for the end of the tree.
const MARGIN: Duration = Duration::from_secs(60);

impl Load {
    /// The bytes for standard input.
    pub fn build(&self) -> Result<Zeroizing<Vec<u8>>, Refusal> {
        let params = plain(&self.values);
        let built = match &*self.shared {
            Shared::Two { intent, signatures, script, .. } => v2::build(&v2::Parts {
                phase: self.phase,
                intent,
                signatures,
                params: &params,
                script: script.as_deref(),
            })?,
            Shared::One { signature, script } => v1::build(&v1::Parts {
                phase: self.phase,
                script,
                signature: signature.as_bytes(),
                params: &params,
            })?,
            Shared::Raw { script } => super::raw::input(&params, script),
        };
        for (_, value) in params {
            drop(Zeroizing::new(value));
        }
        Ok(Zeroizing::new(built))
    }

    /// What is asked of the login. A pinned one ignores it; one that is not pinned finds the shim by it or fails.
    pub fn command(&self, user: &str) -> &'static str {
        match &*self.shared {
            Shared::Two { .. } => super::phase::SHIM,
            Shared::One { .. } => super::phase::SHIM_ONE,
            Shared::Raw { .. } => super::raw::command(user),
        }
    }

    /// How long to wait for the end of a run that was begun.
    pub fn patience(&self) -> Duration {
        match &*self.shared {
            Shared::Two { deadline, .. } => Duration::from_secs(u64::from(*deadline)) + MARGIN,
            Shared::One { .. } | Shared::Raw { .. } => LONGEST + MARGIN,
        }
    }

    /// Whether a run goes on after we went away.
    pub fn finishes(&self) -> bool {
        matches!(&*self.shared, Shared::Two { finishes: true, .. })
    }

    /// SHA-256 of the signed intent in hex: what a host calls the run by.
    pub fn intent_sha256(&self) -> Option<String> {
        match &*self.shared {
            Shared::Two { intent, .. } => Some(hex(&sha256(intent))),
            Shared::One { .. } | Shared::Raw { .. } => None,
        }
    }

    /// Profile and epoch, where they are signed.
    pub fn epoch(&self) -> Option<(&str, u32)> {
        match &*self.shared {
            Shared::Two { profile, epoch, .. } => Some((profile, *epoch)),
            Shared::One { .. } | Shared::Raw { .. } => None,
        }
    }
}
