//! Trying with the pool login's key what only a thief of it would try, for `muster host doctor`.
//!
//! Each attempt has a connection of its own, so that what one of them spoils does not speak for the next. What comes back is
//! what the host did; the verdict is muster-provision's.

use super::fault;
use super::session::Session;
use crate::fault::{Fault, Faults};
use crate::signer::file;
use muster_provision::doctor::attack::{Answer, Attack, Attacker, Canary, Observation, Ran};
use muster_ssh::{Attempt, AttemptOutcome, Cause, Client, Identity, Passphrase, Route, Status};
use std::sync::Arc;

/// A subsystem that no host has.
const NO_SUBSYSTEM: &str = "muster-doctor";

/// A thief of the key.
pub struct Thief {
    session: Arc<Session>,
    client: Client,
    bare: Route,
    strange: Route,
    stranger: String,
    /// The host's own sshd.
    port: u16,
}

impl Thief {
    /// With the key of `session`. `client` must share nothing with it; `route` is the way to the same login with these
    /// identities and no others.
    pub fn new(
        session: Arc<Session>,
        client: Client,
        port: u16,
        route: &mut dyn FnMut(&[Identity]) -> Result<Route, Faults>,
    ) -> Result<Self, Faults> {
        let key = file::generate("muster-doctor, listed nowhere")?;
        let pem = file::render(&key, None)?;
        let broken = |why: String| Fault::new(crate::codes::Own::Fault, "cannot make a key").why(why);
        let identity = Identity::key("a stranger's key", pem.as_bytes(), Passphrase::None)
            .map_err(|e| broken(e.to_string()))?;
        let stranger = key.public_key().to_openssh().map_err(|e| broken(e.to_string()))?;
        let (bare, strange) = (route(&[])?, route(&[identity])?);
        Ok(Self { session, client, bare, strange, stranger, port })
    }

    async fn one(&self, attempt: Attempt<'_>) -> Observation {
        let connection = match self.session.fresh().await {
            Ok(connection) => connection,
            Err(e) => return Observation::fault(fault::unreached(&e)),
        };
        let outcome = connection.attempt(attempt).await;
        connection.close().await;
        observed(outcome)
    }

    /// Every variable; one that is taken is enough.
    async fn env(&self) -> Observation {
        let connection = match self.session.fresh().await {
            Ok(connection) => connection,
            Err(e) => return Observation::fault(fault::unreached(&e)),
        };
        let mut taken = Vec::new();
        for (name, value) in Attack::VARIABLES {
            match connection.attempt(Attempt::Env { name, value }).await {
                AttemptOutcome::Accepted { .. } => taken.push(name),
                AttemptOutcome::Refused { .. } => {}
                other => return observed(other),
            }
        }
        connection.close().await;
        if taken.is_empty() {
            Observation::refused("no variable was taken")
        } else {
            Observation::accepted(taken.join(", "))
        }
    }

    /// Offers no key: the host lets us in, or says what it would take.
    async fn password(&self) -> Observation {
        match self.client.connect(&self.bare).await {
            Ok(_) => Observation::accepted("`none`: nothing was asked for"),
            Err(e) => match e.cause() {
                Cause::AuthRefused { methods, .. } => {
                    let weak: Vec<&str> = methods
                        .iter()
                        .map(String::as_str)
                        .filter(|m| !matches!(*m, "publickey" | "hostbased"))
                        .collect();
                    if methods.is_empty() {
                        Observation::fault("the host did not say what it would take")
                    } else if weak.is_empty() {
                        Observation::refused(format!("it takes {} alone", methods.join(", ")))
                    } else {
                        Observation::accepted(weak.join(", "))
                    }
                }
                _ => Observation::fault(fault::unreached(&e)),
            },
        }
    }

    async fn stranger_login(&self) -> Observation {
        match self.client.connect(&self.strange).await {
            Ok(_) => Observation::accepted("a key that nobody listed"),
            Err(e) => match e.cause() {
                Cause::AuthRefused { .. } => Observation::refused("the stranger's key was not taken"),
                _ => Observation::fault(fault::unreached(&e)),
            },
        }
    }
}

fn observed(outcome: AttemptOutcome) -> Observation {
    match outcome {
        AttemptOutcome::Refused { why } => Observation::refused(why),
        AttemptOutcome::Accepted { what, ran } => Observation {
            answer: Answer::Accepted(what),
            ran: ran.map(|r| Ran {
                stdout: r.stdout.bytes,
                stderr: r.stderr.bytes,
                exit: match r.status {
                    Some(Status::Exited(code)) => i32::try_from(code).ok(),
                    _ => None,
                },
            }),
        },
        AttemptOutcome::Impossible { why } => Observation::fault(why),
        AttemptOutcome::Unknown { why } => Observation::fault(why),
        _ => Observation::fault("the client does not say what happened"),
    }
}

impl Attacker for Thief {
    async fn attempt(&self, attack: Attack, canary: &Canary, socket: &str) -> Observation {
        let stdin = attack.stdin(canary);
        let command = attack.command(canary).unwrap_or_default();
        match attack {
            Attack::Shell => self.one(Attempt::Shell { stdin: &stdin }).await,
            Attack::Exec | Attack::Injection => {
                self.one(Attempt::Exec { command: &command, stdin: &stdin }).await
            }
            Attack::Pty => self.one(Attempt::Pty).await,
            Attack::Sftp => self.one(Attempt::Subsystem { name: "sftp", stdin: &stdin }).await,
            Attack::Subsystem => self.one(Attempt::Subsystem { name: NO_SUBSYSTEM, stdin: &stdin }).await,
            Attack::Env => self.env().await,
            Attack::LocalForward => {
                self.one(Attempt::DirectTcpip { host: "127.0.0.1", port: self.port }).await
            }
            Attack::RemoteForward => self.one(Attempt::TcpipForward { address: "127.0.0.1", port: 0 }).await,
            Attack::LocalSocket => self.one(Attempt::DirectStreamlocal { path: Attack::SYSTEM_SOCKET }).await,
            Attack::RemoteSocket => self.one(Attempt::StreamlocalForward { path: socket }).await,
            Attack::Agent => self.one(Attempt::AgentForward).await,
            Attack::X11 => self.one(Attempt::X11).await,
            Attack::Tun => Observation::fault("it is read from sshd's settings"),
            Attack::Password => self.password().await,
            Attack::PlantedKeys => self.stranger_login().await,
            Attack::PlantedShell | Attack::PlantedRc | Attack::PlantedEnvironment => {
                self.one(Attempt::Shell { stdin: b"" }).await
            }
        }
    }

    fn stranger(&self) -> String {
        self.stranger.clone()
    }
}
