//! What can go wrong on the way to a host and on it, whose fault it is, and whether a retry helps.
//!
//! Every `Display` here is one line: what, where, why, what to do. A peer's own words are cut, freed
//! of control characters, and quoted.

use core::fmt;
use core::time::Duration;

use crate::certificate::CertificateFault;
use crate::fingerprint::Fingerprint;

/// One hop, as messages name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HopRef {
    /// From 1; the target is `of`.
    pub index: usize,
    /// Hops in the route.
    pub of: usize,
    /// Its name in the inventory.
    pub name: String,
    /// `address:port`.
    pub endpoint: String,
}

impl fmt::Display for HopRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.of == 1 {
            write!(f, "{} ({})", self.name, self.endpoint)
        } else {
            let role = if self.index == self.of { "target" } else { "bastion" };
            write!(f, "hop {} of {}, {role} {} ({})", self.index, self.of, self.name, self.endpoint)
        }
    }
}

/// A step with a deadline of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// Resolving and connecting.
    Connect,
    /// From the first byte to a proven host key.
    Handshake,
    /// Logging in.
    Auth,
    /// Opening a channel.
    Channel,
    /// A command.
    Exec,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connecting",
            Self::Handshake => "the handshake",
            Self::Auth => "logging in",
            Self::Channel => "opening a channel",
            Self::Exec => "the command",
        })
    }
}

/// Whose move it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Ours: a setting, a key, a right that we lack.
    Caller,
    /// The host's.
    Host,
    /// The network's between, or nobody can tell.
    Network,
    /// The host is not whom it must be: re-installed, or somebody stands between.
    Trust,
}

/// Whether the same thing, done again, may end otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// It may.
    Helps,
    /// It will not: something must be changed first.
    Useless,
}

/// One identity that was offered, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// Of the key (of the certified key, for a certificate), where it is known.
    pub fingerprint: Option<Fingerprint>,
    /// `ssh-ed25519 key`, `ssh-rsa certificate "alice"`, `agent`.
    pub kind: String,
    /// `file /home/a/.ssh/id_ed25519`, `agent /run/…/agent`.
    pub source: String,
    /// What became of it.
    pub why: String,
}

impl fmt::Display for Tried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if let Some(fp) = self.fingerprint {
            write!(f, " {fp}")?;
        }
        write!(f, " ({}): {}", self.source, self.why)
    }
}

/// Why a hop was not reached or did not let us in.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// No such name, no route, nobody listens there.
    Unreachable {
        /// The system's or the bastion's words.
        why: String,
    },
    /// It took the connection and closed it before it said that it speaks SSH.
    DroppedBeforeBanner {
        /// What it said instead, if anything.
        said: Option<String>,
    },
    /// What answers there does not speak SSH 2.
    NotSsh {
        /// The beginning of what it said.
        said: String,
    },
    /// The two sides share no algorithm of one sort.
    NoCommonAlgorithm {
        /// `key exchange`, `host key`, `cipher`, `MAC`.
        sort: &'static str,
        /// What we take.
        ours: Vec<String>,
        /// What it offers.
        theirs: Vec<String>,
    },
    /// It broke the protocol, or offered only what is not safe.
    Protocol {
        /// What it did.
        why: String,
    },
    /// Its key is none of the pinned ones.
    HostKeyChanged {
        /// The pinned keys.
        pinned: Vec<Fingerprint>,
        /// What it showed: kind and fingerprint.
        presented: Vec<(String, Fingerprint)>,
    },
    /// It has no key of the kind of any pinned one: as good as another key.
    HostKeyKindGone {
        /// The pinned keys.
        pinned: Vec<Fingerprint>,
        /// The host key algorithms that it offers.
        offers: Vec<String>,
    },
    /// Its key, or the authority that vouches for it, is marked `@revoked`, or is too weak.
    HostKeyRefused {
        /// Which, and why.
        why: String,
    },
    /// Its certificate does not speak for it.
    HostCertificateRefused(CertificateFault),
    /// It let none of our identities in.
    AuthRefused {
        /// As whom.
        user: String,
        /// Every identity, in the order tried.
        tried: Vec<Tried>,
        /// The methods it would still take.
        methods: Vec<String>,
        /// Its own words at parting.
        said: Option<String>,
    },
    /// A step took longer than it may.
    Deadline {
        /// Which.
        stage: Stage,
        /// How long it was given.
        after: Duration,
    },
    /// A bastion would not connect us on, or the host would not open a channel.
    ChannelRefused {
        /// Its words.
        why: String,
    },
    /// The connection ended.
    Lost {
        /// How.
        why: String,
    },
}

/// A hop that was not reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectError {
    inner: Box<Inner>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    hop: HopRef,
    cause: Cause,
    attempts: u32,
}

impl Cause {
    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unreachable { .. } => "unreachable",
            Self::DroppedBeforeBanner { .. } => "dropped-before-banner",
            Self::NotSsh { .. } => "not-ssh",
            Self::NoCommonAlgorithm { .. } => "no-common-algorithm",
            Self::Protocol { .. } => "protocol",
            Self::HostKeyChanged { .. } | Self::HostKeyKindGone { .. } => "host-key-changed",
            Self::HostKeyRefused { .. } => "host-key-refused",
            Self::HostCertificateRefused(_) => "host-certificate-refused",
            Self::AuthRefused { .. } => "auth-refused",
            Self::Deadline { .. } => "deadline",
            Self::ChannelRefused { .. } => "channel-refused",
            Self::Lost { .. } => "connection-lost",
        }
    }

    /// What to do, where there is something to say. Ours alone: a peer's words never stand in it.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unreachable { .. } => "check the address, the network and that sshd runs there",
            Self::DroppedBeforeBanner { .. } => {
                "look at sshd's MaxStartups and PerSourcePenalties and at firewalls that ban"
            }
            Self::NotSsh { .. } => "check the address and the port",
            Self::NoCommonAlgorithm { .. } => "update its sshd",
            Self::HostKeyChanged { .. } | Self::HostKeyKindGone { .. } => COMPARE,
            Self::HostCertificateRefused(_) => "issue it a new one, or mend the pinned authority",
            Self::AuthRefused { tried, .. } if !tried.is_empty() && nothing_offered(tried) => {
                "load a key into the agent with `ssh-add`, or name a key file"
            }
            Self::Protocol { .. }
            | Self::HostKeyRefused { .. }
            | Self::AuthRefused { .. }
            | Self::Deadline { .. }
            | Self::ChannelRefused { .. }
            | Self::Lost { .. } => return None,
        })
    }

    /// Whose move it is.
    pub fn fault(&self) -> Fault {
        match self {
            Self::Unreachable { .. } | Self::Deadline { .. } | Self::Lost { .. } => Fault::Network,
            Self::DroppedBeforeBanner { .. }
            | Self::NotSsh { .. }
            | Self::NoCommonAlgorithm { .. }
            | Self::Protocol { .. }
            | Self::ChannelRefused { .. } => Fault::Host,
            Self::HostKeyChanged { .. }
            | Self::HostKeyKindGone { .. }
            | Self::HostKeyRefused { .. }
            | Self::HostCertificateRefused(_) => Fault::Trust,
            Self::AuthRefused { .. } => Fault::Caller,
        }
    }

    /// Whether the same thing, done again, may end otherwise.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Unreachable { .. }
            | Self::DroppedBeforeBanner { .. }
            | Self::Deadline { .. }
            | Self::Lost { .. } => Retry::Helps,
            _ => Retry::Useless,
        }
    }
}

/// Whether the host was shown no key at all: an agent that holds none, or that is not there.
fn nothing_offered(tried: &[Tried]) -> bool {
    tried.iter().all(|t| t.fingerprint.is_none())
}

const COMPARE: &str = "nothing was sent to it: compare with the fingerprint on the host's console, and if it \
                       was re-installed, pin the new key with `muster host rotate-key`";

fn join<T: fmt::Display>(items: &[T], with: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(with)
}

impl Cause {
    fn what(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { why } => write!(f, "unreachable: {why}"),
            Self::DroppedBeforeBanner { said } => {
                f.write_str("closed the connection before it spoke SSH")?;
                said.as_ref().map_or(Ok(()), |said| write!(f, " (it said {said:?})"))
            }
            Self::NotSsh { said } => write!(f, "does not speak SSH 2 (it said {said:?})"),
            Self::NoCommonAlgorithm { sort, ours, theirs } => write!(
                f,
                "no {sort} algorithm in common: it offers {}, this program takes {}",
                join(theirs, ","),
                join(ours, ",")
            ),
            Self::Protocol { why } => write!(f, "{why}"),
            Self::HostKeyChanged { pinned, presented } => {
                let shown: Vec<String> = presented.iter().map(|(k, fp)| format!("{k} {fp}")).collect();
                write!(
                    f,
                    "host key changed: it presents {}, pinned is {}",
                    shown.join(" and "),
                    join(pinned, " or ")
                )
            }
            Self::HostKeyKindGone { pinned, offers } => write!(
                f,
                "host key changed: it has no key of the kind of the pinned {}, it offers {}",
                join(pinned, " or "),
                join(offers, ",")
            ),
            Self::HostKeyRefused { why } => write!(f, "host key refused: {why}"),
            Self::HostCertificateRefused(fault) => write!(f, "host certificate refused: {fault}"),
            Self::AuthRefused { user, tried, methods, said } => {
                if tried.is_empty() {
                    write!(
                        f,
                        "does not let {user:?} in: no identity to offer: name a key file, an agent or a certificate"
                    )?;
                } else if nothing_offered(tried) {
                    write!(f, "no key to log in with as {user:?}: {}", join(tried, "; "))?;
                } else {
                    write!(f, "does not let {user:?} in: tried {}", join(tried, "; "))?;
                }
                if !methods.is_empty() {
                    write!(f, "; it takes {}", methods.join(","))?;
                }
                said.as_ref().map_or(Ok(()), |said| write!(f, "; it said {said:?}"))
            }
            Self::Deadline { stage, after } => {
                write!(f, "deadline: {stage} took longer than {} s", after.as_secs_f32())
            }
            Self::ChannelRefused { why } => write!(f, "channel refused: {why}"),
            Self::Lost { why } => write!(f, "connection lost: {why}"),
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what(f)?;
        self.advice().map_or(Ok(()), |advice| write!(f, "; {advice}"))
    }
}

impl ConnectError {
    pub(crate) fn new(hop: HopRef, cause: Cause, attempts: u32) -> Self {
        Self { inner: Box::new(Inner { hop, cause, attempts }) }
    }

    /// Which hop.
    pub fn hop(&self) -> &HopRef {
        &self.inner.hop
    }

    /// Why.
    pub fn cause(&self) -> &Cause {
        &self.inner.cause
    }

    /// How often that hop was tried.
    pub fn attempts(&self) -> u32 {
        self.inner.attempts
    }

    /// A stable word for programs.
    pub fn code(&self) -> &'static str {
        self.inner.cause.code()
    }

    /// Whose move it is.
    pub fn fault(&self) -> Fault {
        self.inner.cause.fault()
    }

    /// Whether the same thing, done again, may end otherwise.
    pub fn retry(&self) -> Retry {
        self.inner.cause.retry()
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.inner.hop, self.inner.cause)?;
        if self.inner.attempts > 1 {
            write!(f, " (tried {} times)", self.inner.attempts)?;
        }
        Ok(())
    }
}

impl core::error::Error for ConnectError {}
