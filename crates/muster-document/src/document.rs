//! What a document says, once it was read.

use crate::secret::Secret;
use crate::values::{Cidr, SecretSource};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What a node is in its cluster. Not to be taken for the role in a client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The first control plane node: it makes the cluster.
    Init,
    /// A further control plane node.
    ControlPlane,
    /// A worker.
    Worker,
}

impl Role {
    /// As documents write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::ControlPlane => "controlplane",
            Self::Worker => "worker",
        }
    }

    /// The role of this word.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Init, Self::ControlPlane, Self::Worker].into_iter().find(|r| r.as_str() == word)
    }
}

/// How a node comes to an owner, which its `api:` block decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The API does not run: no daemon, no port.
    Disabled,
    /// The operators' authority is named by the document, in clear or by a source: nobody needs to claim the node.
    Configured,
    /// The node waits for somebody to claim it, and builds nothing until then.
    Maintenance,
}

/// A whole document. What is absent has its default, except where nothing is a meaning of its own.
#[derive(Clone, Debug)]
pub struct Document {
    /// Absent: the node waits to be told.
    pub role: Option<Role>,
    /// The cluster that it makes or joins.
    pub cluster: Cluster,
    /// How it gets in.
    pub join: Join,
    /// The cluster's networks.
    pub network: Network,
    /// The node's own name and marks.
    pub node: NodeSettings,
    /// The node's API.
    pub api: Api,
}

/// `cluster:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// For people; `kubernetes` unless said otherwise.
    pub name: String,
    /// Where its API server answers, `HOST:PORT`.
    pub endpoint: Option<String>,
    /// Further names of the API server.
    pub subject_alt_names: Vec<String>,
}

/// `join:`
#[derive(Clone, Debug, Default)]
pub struct Join {
    /// A kubeadm bootstrap token in clear.
    pub token: Option<Secret>,
    /// Where the token is to be had.
    pub token_from: Option<SecretSource>,
    /// `sha256:` and 64 hex digits each: the cluster's authority, by the hash of its public key.
    pub ca_cert_hashes: Vec<String>,
}

/// `network:`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// One, or one of each family.
    pub pod_cidr: Vec<Cidr>,
    /// One, or one of each family.
    pub service_cidr: Vec<Cidr>,
}

/// `node:`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSettings {
    /// Its host name.
    pub name: Option<String>,
    /// Labels at its first registration.
    pub labels: BTreeMap<String, String>,
    /// Taints at its first registration.
    pub taints: Vec<Taint>,
}

/// A taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Its key.
    pub key: String,
    /// Its value, which may be empty.
    pub value: String,
    /// What it does.
    pub effect: Effect,
}

/// What a taint does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// `NoSchedule`
    NoSchedule,
    /// `PreferNoSchedule`
    PreferNoSchedule,
    /// `NoExecute`
    NoExecute,
}

impl Effect {
    /// The effect of this word.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "NoSchedule" => Some(Self::NoSchedule),
            "PreferNoSchedule" => Some(Self::PreferNoSchedule),
            "NoExecute" => Some(Self::NoExecute),
            _ => None,
        }
    }
}

/// The operators' authority, as the document gives it.
#[derive(Clone, Debug)]
pub enum OperatorCa {
    /// Its certificate, PEM.
    Inline(String),
    /// Where its certificate is to be had.
    From(SecretSource),
}

/// `api:`
#[derive(Clone, Debug)]
pub struct Api {
    /// As written; see [`Document::mode`].
    pub enabled: Option<bool>,
    /// Whom the node obeys.
    pub operator_ca: Option<OperatorCa>,
    /// The first who comes claims it, without a code.
    pub insecure: bool,
    /// The bootstrap waits for a document, though this one names a role.
    pub await_config: bool,
    /// Where it listens.
    pub listen: SocketAddr,
    /// Destructive calls need a signature of their own.
    pub proof_required: bool,
    /// From where the node may be claimed; anywhere when empty.
    pub enrol_from: Vec<Cidr>,
}

impl Document {
    /// How the node comes to an owner.
    pub fn mode(&self) -> Mode {
        match (self.api.enabled, &self.api.operator_ca) {
            (Some(false), _) | (None, None) => Mode::Disabled,
            (_, Some(_)) => Mode::Configured,
            (Some(true), None) => Mode::Maintenance,
        }
    }

    /// The bootstrap waits for an owner.
    pub fn holds_for_claim(&self) -> bool {
        self.mode() == Mode::Maintenance
    }

    /// The bootstrap waits for a document beyond this one.
    pub fn holds_for_document(&self) -> bool {
        self.api.await_config || self.role.is_none()
    }

    /// Whoever comes first owns the node.
    pub fn open_enrolment(&self) -> bool {
        self.api.insecure && self.mode() == Mode::Maintenance
    }
}
