//! Every key that a document may have, once.
//!
//! The reader asks this table which keys are known, and the published schema is made of it, so that the two cannot drift.

/// The form of a value.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// One line of text, with the pattern that it has (ECMA 262, whole value), if it has one.
    Text(Option<&'static str>),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A time span such as `90s` or `15m`.
    Span,
    /// PEM text of several lines.
    Pem,
    /// One value of a form, or a list of them.
    Many(&'static Form),
    /// A list of mappings.
    Rows(&'static [Key]),
    /// A mapping whose keys are free, with values of a form.
    Free(&'static Form),
    /// A mapping.
    Keys(&'static [Key]),
}

/// A key, its value's form, and what it means.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The word.
    pub name: &'static str,
    /// What may stand there.
    pub form: Form,
    /// For people.
    pub doc: &'static str,
}

const fn key(name: &'static str, form: Form, doc: &'static str) -> Key {
    Key { name, form, doc }
}

const ANY: Form = Form::Text(None);
const CIDR: Form = Form::Text(Some("[0-9A-Fa-f.:]+/[0-9]{1,3}"));
/// A host name or a node's name (RFC 1123 label).
const LABEL: Form = Form::Text(Some("[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"));

/// `role`
pub const ROLES: &[&str] = &["init", "controlplane", "worker"];
/// `node.taints[].effect`
pub const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// `api.proof`
pub const PROOFS: &[&str] = &["off", "required"];

/// Where a value is to be had, instead of standing in the document.
pub const SOURCE: &[Key] = &[
    key("url", Form::Text(Some("https://.+")), "An https URL. Either this or file."),
    key("file", Form::Text(Some("/.+")), "An absolute path on the node. Either this or url."),
    key("authFile", Form::Text(Some("/.+")), "A file with a bearer token to send to the url."),
    key("waitFor", Form::Span, "How long to wait for it to appear, at most 1h; one attempt when absent."),
];

/// A row of `node.taints`.
pub const TAINT: &[Key] = &[
    key("key", ANY, "The taint's key."),
    key("value", ANY, "The taint's value; may be absent."),
    key("effect", Form::Word(EFFECTS), "What it does to pods."),
];

/// `cluster`
pub const CLUSTER: &[Key] = &[
    key("name", LABEL, "The cluster's name, for people; kubernetes when absent."),
    key(
        "endpoint",
        ANY,
        "Where the cluster's API server answers: HOST or HOST:PORT, 6443 when no port is given. Needed to join.",
    ),
    key("subjectAltNames", Form::Many(&ANY), "Further names and addresses of the API server."),
];

/// `join`
pub const JOIN: &[Key] = &[
    key(
        "token",
        Form::Text(Some("[a-z0-9]{6}\\.[a-z0-9]{16}")),
        "A kubeadm bootstrap token. Not together with tokenFrom.",
    ),
    key("tokenFrom", Form::Keys(SOURCE), "Where the token is to be had."),
    key(
        "caCertHashes",
        Form::Many(&Form::Text(Some("sha256:[0-9a-f]{64}"))),
        "The public keys of the cluster's authority, as kubeadm prints them. Needed to join: a token alone proves nothing of the cluster.",
    ),
];

/// `network`
pub const NETWORK: &[Key] = &[
    key("podCIDR", Form::Many(&CIDR), "The pods' network, or one of each family; 10.244.0.0/16 when absent."),
    key(
        "serviceCIDR",
        Form::Many(&CIDR),
        "The services' network, or one of each family; 10.96.0.0/12 when absent.",
    ),
];

/// `node`
pub const NODE: &[Key] = &[
    key("name", LABEL, "The node's host name; its present one when absent."),
    key("labels", Form::Free(&ANY), "Labels at the node's first registration."),
    key("taints", Form::Rows(TAINT), "Taints at the node's first registration."),
];

/// `api`
pub const API: &[Key] = &[
    key(
        "enabled",
        Form::Flag,
        "Turns the node's API on. false also keeps anything from turning it on later.",
    ),
    key(
        "operatorCA",
        Form::Pem,
        "The certificate of the authority whose client certificates the node obeys. It is public. Turns the API on.",
    ),
    key("operatorCAFrom", Form::Keys(SOURCE), "Where that certificate is to be had. Turns the API on."),
    key("insecure", Form::Flag, "The first client who comes claims the node, without a pairing code."),
    key(
        "awaitConfig",
        Form::Flag,
        "Builds nothing until its owner sent a document, though this one names a role.",
    ),
    key("listen", ANY, "ADDRESS:PORT to listen on; [::]:7443 when absent."),
    key(
        "proof",
        Form::Word(PROOFS),
        "Whether destructive calls need a signature of their own; off when absent.",
    ),
    key("enrolFrom", Form::Many(&CIDR), "Networks from which the node may be claimed; any when absent."),
];

/// The top of the document.
pub const TOP: &[Key] = &[
    key(
        "role",
        Form::Word(ROLES),
        "What the node is in its cluster. Absent: it waits to be told, which needs the API.",
    ),
    key("cluster", Form::Keys(CLUSTER), "The cluster that the node makes or joins."),
    key("join", Form::Keys(JOIN), "How the node gets into a cluster that is there."),
    key("network", Form::Keys(NETWORK), "The cluster's networks."),
    key("node", Form::Keys(NODE), "The node's own name and marks."),
    key("api", Form::Keys(API), "The node's API: whether it runs and whom it obeys."),
];

/// The words of a table, for the reader.
pub fn names(keys: &[Key]) -> Vec<&'static str> {
    keys.iter().map(|k| k.name).collect()
}
