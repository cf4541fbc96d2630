//! Trying on a login what a pinned login must refuse: the tools of `muster host doctor`.
//!
//! Each attempt is made on a connection that is logged in, over a channel of its own, and undone
//! where it was accepted. What comes back is what the host did; whether that is good is for the
//! caller to say (a shell request on a login with a ForceCommand is accepted, and runs the forced
//! command: the output tells).

use core::time::Duration;
use std::sync::Arc;

use russh::client::Msg;
use russh::{Channel, ChannelMsg, ChannelOpenFailure};
use tokio::time::{Instant, timeout};

use crate::certificate::printable;
use crate::exec::{Closer, Ended, Pass, answer, open_session};
use crate::link::Link;
use crate::outcome::{Captured, ExecFault, Limits, Status};
use crate::tunnel::open_abandonable;

/// Something to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt<'a> {
    /// A login shell, fed with this input.
    Shell {
        /// What a shell would run.
        stdin: &'a [u8],
    },
    /// A terminal.
    Pty,
    /// An arbitrary command.
    Exec {
        /// The command.
        command: &'a str,
        /// Its input.
        stdin: &'a [u8],
    },
    /// A subsystem, such as `sftp`. OpenSSH passes on no standard error of one.
    Subsystem {
        /// Its name.
        name: &'a str,
        /// Its input, such as the first message of its protocol.
        stdin: &'a [u8],
    },
    /// A connection from the host to somewhere (`ssh -L`, `-J`).
    DirectTcpip {
        /// To where.
        host: &'a str,
        /// To which port.
        port: u16,
    },
    /// A connection to a Unix socket on the host. Name one on which something listens: OpenSSH gives
    /// the same answer where it is forbidden and where nobody is there, and it counts as refused.
    DirectStreamlocal {
        /// Its path there.
        path: &'a str,
    },
    /// A listening port on the host (`ssh -R`). Port 0 lets the host choose.
    TcpipForward {
        /// On which address there.
        address: &'a str,
        /// The port.
        port: u16,
    },
    /// A listening Unix socket on the host.
    StreamlocalForward {
        /// Its path there.
        path: &'a str,
    },
    /// Agent forwarding (`auth-agent-req@openssh.com`).
    AgentForward,
    /// X11 forwarding.
    X11,
    /// An environment variable.
    Env {
        /// Its name.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
}

/// What something said that a host ran for us, or connected us to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// How it ended, where it did.
    pub status: Option<Status>,
}

/// What the host did.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttemptOutcome {
    /// It would not.
    Refused {
        /// Its words.
        why: String,
    },
    /// It did as asked.
    Accepted {
        /// In words.
        what: String,
        /// Where something ran or answered: what it said.
        ran: Option<Box<Ran>>,
    },
    /// It cannot be tried with this client.
    Impossible {
        /// Why not.
        why: &'static str,
    },
    /// It neither did nor refused in time, or the connection ended.
    Unknown {
        /// What happened.
        why: String,
    },
}

impl AttemptOutcome {
    /// Whether the host refused.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Refused { .. })
    }

    fn accepted(what: impl Into<String>) -> Self {
        Self::Accepted { what: what.into(), ran: None }
    }
}

/// Output of an attempt is kept up to this.
const KEPT: Limits = Limits { stdout: 16 * 1024, stderr: 16 * 1024 };
/// How long a forwarded connection is listened to.
const LISTEN: Duration = Duration::from_millis(500);

impl crate::Connection {
    /// Tries something; at most 15 s.
    pub async fn attempt(&self, attempt: Attempt<'_>) -> AttemptOutcome {
        self.attempt_within(attempt, Duration::from_secs(15)).await
    }

    /// Tries something, for so long.
    pub async fn attempt_within(&self, attempt: Attempt<'_>, deadline: Duration) -> AttemptOutcome {
        let until = Instant::now() + deadline;
        match timeout(deadline + Duration::from_secs(1), perform(&self.link, attempt, until)).await {
            Ok(outcome) => outcome,
            Err(_) => AttemptOutcome::Unknown { why: "no answer in time".to_owned() },
        }
    }
}

async fn perform(link: &Arc<Link>, attempt: Attempt<'_>, until: Instant) -> AttemptOutcome {
    let held = Arc::clone(link);
    match attempt {
        Attempt::DirectTcpip { host, port } => {
            let host = host.to_owned();
            let open = open_abandonable(link, async move {
                held.handle.channel_open_direct_tcpip(host, u32::from(port), "127.0.0.1", 0).await
            });
            forwarded(link, open.await, true).await
        }
        Attempt::DirectStreamlocal { path } => {
            let path = path.to_owned();
            let open =
                open_abandonable(
                    link,
                    async move { held.handle.channel_open_direct_streamlocal(path).await },
                );
            forwarded(link, open.await, false).await
        }
        Attempt::TcpipForward { address, port } => {
            match link.handle.tcpip_forward(address, u32::from(port)).await {
                Ok(given) => {
                    let bound = if given == 0 { u32::from(port) } else { given };
                    let _ = link.handle.cancel_tcpip_forward(address, bound).await;
                    AttemptOutcome::accepted(format!("it listened on port {bound} for us"))
                }
                Err(e) => denied(link, &e),
            }
        }
        Attempt::StreamlocalForward { path } => match link.handle.streamlocal_forward(path).await {
            Ok(()) => {
                let _ = link.handle.cancel_streamlocal_forward(path).await;
                AttemptOutcome::accepted(format!("it listened on {path} for us"))
            }
            Err(e) => denied(link, &e),
        },
        in_session => session(link, in_session, until).await,
    }
}

fn lost(link: &Link) -> AttemptOutcome {
    let (hop, why) = link.blame();
    AttemptOutcome::Unknown { why: format!("{hop}: {why}") }
}

fn denied(link: &Link, e: &russh::Error) -> AttemptOutcome {
    match e {
        russh::Error::RequestDenied => AttemptOutcome::Refused { why: "request denied".to_owned() },
        _ => lost(link),
    }
}

/// A direct channel: what it opened to says something, or not. `tells` = the host answers otherwise
/// where it may not connect than where nobody listens.
async fn forwarded(link: &Link, opened: Result<Channel<Msg>, russh::Error>, tells: bool) -> AttemptOutcome {
    let mut channel = match opened {
        Ok(channel) => channel,
        // The host tried: it may connect for us, there was only nobody there.
        Err(russh::Error::ChannelOpenFailure(ChannelOpenFailure::ConnectFailed)) if tells => {
            return AttemptOutcome::accepted("it tried to connect for us, and nobody listened there");
        }
        Err(russh::Error::ChannelOpenFailure(reason)) => {
            let why = link.shared.notes().refused.take().unwrap_or_else(|| reason.description().to_owned());
            return AttemptOutcome::Refused { why: printable(&why) };
        }
        Err(_) => return lost(link),
    };
    let said = match timeout(LISTEN, channel.wait()).await {
        Ok(Some(ChannelMsg::Data { data })) => {
            Some(Box::new(Ran { stdout: Captured::of(&data, KEPT.stdout), ..Ran::default() }))
        }
        _ => None,
    };
    let _ = channel.close().await;
    AttemptOutcome::Accepted { what: "it connected for us".to_owned(), ran: said }
}

/// A request on a session channel.
async fn session(link: &Arc<Link>, attempt: Attempt<'_>, until: Instant) -> AttemptOutcome {
    let (mut reader, writer) = match open_session(link).await {
        Ok(halves) => halves,
        Err(e) => {
            return match e.why() {
                ExecFault::ChannelRefused { why } => AttemptOutcome::Refused { why: why.clone() },
                _ => AttemptOutcome::Unknown { why: e.to_string() },
            };
        }
    };
    let writer = Arc::new(writer);
    let mut closer = Closer::new(&writer, link);
    let (sent, stdin) = match attempt {
        Attempt::Shell { stdin } => (writer.request_shell(true).await, Some(stdin)),
        Attempt::Exec { command, stdin } => (writer.exec(true, command).await, Some(stdin)),
        Attempt::Subsystem { name, stdin } => (writer.request_subsystem(true, name).await, Some(stdin)),
        Attempt::Pty => (writer.request_pty(true, "dumb", 80, 24, 0, 0, &[]).await, None),
        Attempt::AgentForward => (writer.agent_forward(true).await, None),
        Attempt::X11 => {
            let cookie = "00112233445566778899aabbccddeeff";
            (writer.request_x11(true, false, "MIT-MAGIC-COOKIE-1", cookie, 0).await, None)
        }
        Attempt::Env { name, value } => (writer.set_env(true, name, value).await, None),
        _ => return AttemptOutcome::Impossible { why: "not a request of a session" },
    };
    if sent.is_err() {
        return lost(link);
    }
    match answer(&mut reader).await {
        Some(true) => {}
        Some(false) => return AttemptOutcome::Refused { why: "request refused".to_owned() },
        None => return lost(link),
    }
    let Some(stdin) = stdin else { return AttemptOutcome::accepted("it agreed") };
    let mut pass = Pass::new(KEPT, None);
    let ended = pass.drive(&mut reader, &writer, stdin, until, Duration::from_secs(1)).await;
    if matches!(ended, Ended::Closed) {
        closer.disarm();
    }
    let what = match ended {
        Ended::Closed | Ended::Lingered => "it ran something",
        Ended::Lost => "it ran something, and the connection ended",
        Ended::Deadline => "it ran something that did not end in time",
    };
    let ran = Ran { stdout: pass.stdout, stderr: pass.stderr, status: pass.status };
    AttemptOutcome::Accepted { what: what.to_owned(), ran: Some(Box::new(ran)) }
}
