//! What root on the machine asks of the core, over a socket of its own (S19): never the edge's, and nobody but root.
//!
//! One line of JSON each way. The socket is 0600, made by a systemd socket unit; who connects is asked of the kernel all the same
//! (SO_PEERCRED, unix(7)). One caller at a time: a person at a console.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use muster_core::machine::{Hold, Membership};
use muster_sys::service::Peer;
use muster_sys::system;
use serde::{Deserialize, Serialize};

use super::owner::{Owner, Revocation};
use crate::say;

/// Longest line, either way: a certificate in JSON.
const MAX: u64 = 256 * 1024;
/// For what is asked; what is done may take longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Asked {
    /// Who owns the node, and what it waits for.
    Status,
    /// The pairing: code and tries.
    Pairing,
    /// A new pairing code.
    RenewPairing,
    /// Another owner.
    SetCa {
        /// Its certificate, PEM.
        authority: String,
    },
    /// Another serving key.
    Rekey,
}

impl Asked {
    /// The command, where it changes something.
    const fn change(&self) -> Option<&'static str> {
        match self {
            Self::Status | Self::Pairing => None,
            Self::RenewPairing => Some("pairing-renew"),
            Self::SetCa { .. } => Some("set-ca"),
            Self::Rekey => Some("rekey"),
        }
    }
}

/// What is answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum Told {
    /// To [`Asked::Status`].
    Status(Status),
    /// To [`Asked::Pairing`] and [`Asked::RenewPairing`].
    Pairing(Pairing),
    /// What counts now: an owner's or a serving certificate's fingerprint.
    Fingerprint {
        /// `SHA256:…`
        fingerprint: String,
    },
    /// Not done. One line.
    Refused {
        /// Why.
        why: String,
    },
}

/// The state of the node, for people.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// One line, as the service manager shows it.
    pub summary: String,
    /// `SHA256:…` of the owner; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How it came to be the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Whoever came first got it.
    pub unauthenticated: bool,
    /// Of the serving certificate.
    pub fingerprint: String,
    /// Where the edge listens.
    pub listen: String,
    /// `claim`, `document` or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// `none`, `list NUMBER`, `ended NUMBER`, or why it is lost.
    pub revocation: String,
    /// Why the node's document cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_fault: Option<String>,
}

/// The pairing of a node that nobody owns.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pairing {
    /// The code, as the console shows it.
    pub code: String,
    /// Wrong codes that are still taken.
    pub tries: u8,
    /// Of the serving certificate.
    pub fingerprint: String,
    /// Who typed wrong ones.
    pub spent: Vec<String>,
}

impl core::fmt::Debug for Pairing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Pairing").field("tries", &self.tries).finish_non_exhaustive()
    }
}

/// Told of each change that root asked for, by the name of its command, and of whether it was made: for the audit record.
pub type Noted<'n> = &'n dyn Fn(&'static str, bool);

/// Answers root, as long as the process lives.
pub fn serve(owner: &Owner, listener: &UnixListener, noted: Noted<'_>) {
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => {
                if let Err(e) = one(owner, &stream, noted) {
                    say::warning(&format!("the control socket: {e}"));
                }
            }
            // Out of descriptors, most likely; one of them will be closed.
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn one(owner: &Owner, stream: &UnixStream, noted: Noted<'_>) -> Result<(), String> {
    exchange(stream, |asked| {
        let told = answer(owner, asked);
        if let Some(change) = asked.change() {
            noted(change, !matches!(told, Told::Refused { .. }));
        }
        told
    })
}

/// Answers root's one question with why there is no answer yet.
pub(super) fn refuse(stream: &UnixStream, why: &str) {
    let refused = |_: &Asked| Told::Refused { why: why.to_owned() };
    if let Err(e) =
        stream.set_nonblocking(false).map_err(|e| e.to_string()).and_then(|()| exchange(stream, refused))
    {
        say::warning(&format!("the control socket: {e}"));
    }
}

fn exchange(stream: &UnixStream, answer: impl FnOnce(&Asked) -> Told) -> Result<(), String> {
    let peer = Peer::of(stream).map_err(|e| e.line())?;
    // Whoever runs the core: root, on a node.
    if peer.uid != system::user_ids().1 {
        return Err(format!("user {} (process {}) is turned away", peer.uid, peer.pid));
    }
    let line = |e: std::io::Error| e.to_string();
    stream.set_read_timeout(Some(PATIENCE)).map_err(line)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(line)?;
    let mut text = String::new();
    BufReader::new(stream.take(MAX)).read_line(&mut text).map_err(line)?;
    let told = match serde_json::from_str(&text) {
        Ok(asked) => answer(&asked),
        Err(e) => {
            Told::Refused { why: format!("this is nothing that the core is asked: {:?}", e.classify()) }
        }
    };
    let mut out = serde_json::to_vec(&told).map_err(|e| e.to_string())?;
    out.push(b'\n');
    let mut stream = stream;
    stream.write_all(&out).map_err(line)
}

fn answer(owner: &Owner, asked: &Asked) -> Told {
    let fingerprint = |f: muster_tls::Fingerprint| Told::Fingerprint { fingerprint: f.to_string() };
    let done = match asked {
        Asked::Status => Ok(Told::Status(status(owner))),
        Asked::Pairing => owner.pairing().map(Told::Pairing),
        Asked::RenewPairing => owner.renew_pairing().and_then(|()| owner.pairing()).map(Told::Pairing),
        Asked::SetCa { authority } => owner.set_authority(authority).map(fingerprint),
        Asked::Rekey => owner.rekey().map(fingerprint),
    };
    done.unwrap_or_else(|why| Told::Refused { why })
}

fn status(owner: &Owner) -> Status {
    let (machine, ownership) = (owner.machine(), owner.ownership());
    let waits_for = match (machine.hold(), machine.membership()) {
        (Hold::Claim, Membership::None) => Some("claim".to_owned()),
        (Hold::Document, Membership::None) => Some("document".to_owned()),
        _ => None,
    };
    let revocation = match owner.revocation() {
        Revocation::None => "none".to_owned(),
        Revocation::List { number, ended: false, .. } => format!("list {number}"),
        Revocation::List { number, .. } => format!("ended {number}"),
        Revocation::Lost(why) => format!("lost: {why}"),
    };
    Status {
        summary: owner.status(),
        owner: ownership.authority.map(|f| f.to_string()),
        method: ownership.method,
        since: ownership.at.map(|t| t.to_string()),
        unauthenticated: ownership.tainted || ownership.open_enrolment,
        fingerprint: owner.node_fingerprint().to_string(),
        listen: owner.listen().to_string(),
        waits_for,
        revocation,
        document_fault: owner.document_fault(),
    }
}

impl Owner {
    /// The code of a node that nobody owns.
    ///
    /// # Errors
    /// One line: it has an owner, or asks for no code.
    pub fn pairing(&self) -> Result<Pairing, String> {
        let pairing = self.change();
        let state = self.state();
        if state.trust.is_some() {
            return Err("this node has an owner; only a reset gives it up".to_owned());
        }
        let session = pairing.session.as_ref().ok_or("this node asks for no code (api.insecure)")?;
        Ok(Pairing {
            code: session.code().expose(),
            tries: session.tries(),
            fingerprint: state.serving.fingerprint().to_string(),
            spent: session.spent().iter().map(ToString::to_string).collect(),
        })
    }
}

/// Asks the core behind a socket.
///
/// # Errors
/// One line: nobody listens, or what comes back is no answer.
pub fn ask(socket: &std::path::Path, asked: &Asked) -> Result<Told, String> {
    let failed = |e: std::io::Error| {
        format!("{}: {e}; is musterd-core.service running, and are you root?", socket.display())
    };
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    // A change waits for the one before it, and minting for random numbers.
    stream.set_read_timeout(Some(PATIENCE * 12)).map_err(failed)?;
    let mut line = serde_json::to_vec(asked).map_err(|e| e.to_string())?;
    line.push(b'\n');
    stream.write_all(&line).map_err(failed)?;
    let mut text = String::new();
    BufReader::new(stream.take(MAX)).read_line(&mut text).map_err(failed)?;
    serde_json::from_str(&text).map_err(|_| format!("{}: what came back is no answer", socket.display()))
}
