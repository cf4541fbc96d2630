//! The SSH client: from here to a host, through any number of bastions, to one command's output.
//!
//! What it promises:
//! - A host is trusted for what was pinned *before* first contact (a key, a fingerprint, or a host
//!   certificate authority with the names it may speak for). Nothing is learned on the fly, and
//!   there is no option, environment variable or build flag that turns the check off.
//! - Every hop of a chain has its own trust, identities and deadlines, and every error names its hop.
//! - A refusal (host key, certificate, login) is never tried again; a flake of the network is, a few
//!   times, with jitter.
//! - What a peer sends is bounded in memory and in time at every stage, also before it has proven
//!   who it is.
//!
//! Out of scope: serving SSH, reading `ssh_config`, passwords, agent forwarding, learning keys.
//!
//! The protocol itself is `russh`, which does not show in this API. Formats: RFC 4251 to 4254,
//! RFC 8308 (extension info), RFC 8332 (RSA with SHA-2), OpenSSH `PROTOCOL`, `PROTOCOL.certkeys`,
//! `PROTOCOL.agent`, `PROTOCOL.key`, and `sshd(8)`, section SSH_KNOWN_HOSTS FILE FORMAT.
#![forbid(unsafe_code)]

mod agent;
mod algorithms;
mod attempt;
mod auth;
mod certificate;
mod client;
mod connection;
mod error;
mod exec;
mod fingerprint;
mod handler;
mod identity;
mod key;
mod keyfile;
mod known_hosts;
mod link;
mod observe;
mod outcome;
mod route;
mod stream;
mod trust;
mod tunnel;
mod wire;

pub use agent::{Agent, AgentFault, AgentKey};
pub use attempt::{Attempt, AttemptOutcome, Ran};
pub use certificate::CertificateFault;
pub use client::{Client, Progress};
pub use connection::Connection;
pub use error::{Cause, ConnectError, Fault, HopRef, Retry, Stage, Tried};
pub use exec::{Exec, Watch};
pub use fingerprint::{BadFingerprint, Fingerprint, KeyKind};
pub use handler::Algorithms;
pub use identity::{AskPassphrase, Identity, IdentityFault, Passphrase};
pub use key::{KeyFault, PrivateKey, RsaHash, Secret};
pub use keyfile::KeyFile;
pub use known_hosts::{KnownHosts, KnownHostsFault};
pub use link::HopReport;
pub use outcome::{Captured, ExecError, ExecFault, ExecOutcome, Limits, Output, Status};
pub use route::{Address, BadAddress, Family, Hop, Keepalive, RetryPolicy, Route, Timing};
pub use trust::{Authority, Basis, HostTrust, TrustBuilder, TrustFault};

#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "fuzzing")]
pub mod fuzzing;
