//! What a node says of itself: `GET /v1/health`, `GET /v1/node`.

use serde::{Deserialize, Serialize};

use crate::upgrade::Image;

/// That the node answers, and as what the caller counts.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// The caller's role as it stands in a certificate.
    pub role: String,
}

/// A node. What is not known is not there.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its own name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// machine-id(5).
    #[serde(default, rename = "machineID", skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// It was built as its document says.
    pub bootstrapped: bool,
    /// What it was built as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The name of its cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Where its cluster's API is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Kernel and images.
    #[serde(default)]
    pub os: Os,
    /// Its part of Kubernetes.
    #[serde(default)]
    pub kubernetes: Kubernetes,
    /// Whether it is well.
    #[serde(default)]
    pub health: NodeHealth,
    /// Who owns it, and how that came.
    #[serde(default)]
    pub management: Management,
    /// The operation that takes the node apart, where one is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<ResetState>,
}

/// Kernel and images.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Os {
    /// `PRETTY_NAME` of os-release(5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The running kernel's release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The image that runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub booted: Option<Image>,
    /// The image that the next boot takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub staged: Option<Image>,
    /// The image that a rollback would make the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Image>,
}

/// Its part of Kubernetes.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kubernetes {
    /// The kubelet's version, with its `v`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The unit that runs it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// That unit is active.
    pub active: bool,
}

/// Whether a node is well.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeHealth {
    /// greenboot's verdict on this boot: `passed` or `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub greenboot: Option<String>,
    /// `passed` or `failed`, by whichever of greenboot and `boot-complete.target` there is, in this order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<String>,
    /// Who gave the verdict: `greenboot` or `boot-complete.target`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Seconds since the machine was started; of a container since its own start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_seconds: Option<u64>,
    /// Of this boot alone: the kernel's id of it (proc_sys_kernel(5), `random/boot_id`), and when process 1 was started.
    #[serde(default, rename = "bootID", skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
}

/// Who owns a node, and how that came.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Management {
    /// `configuration`, `pairing-code`, `open` or `rotation` (the owner before, or root at the console, named another).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// Whoever came first took it, at the beginning of its present ownership.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unauthenticated: bool,
    /// Whoever comes first takes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub open_enrolment: bool,
    /// What its bootstrap waits for: `claim` or `document`; absent when it waits for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// `none`, or the number of the revocation list that it obeys; in words, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation: Option<String>,
    /// Fingerprint of the authority that it obeys; absent while nobody owns it.
    #[serde(default, rename = "operatorCA", skip_serializing_if = "Option::is_none")]
    pub operator_ca: Option<String>,
    /// The revocation list that it has; absent where it never took one under this authority, or lost it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_list: Option<RevocationList>,
}

/// A revocation list that a node has.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevocationList {
    /// Its number (crlNumber, RFC 5280), hex in lower case.
    pub number: String,
    /// How many certificates it revokes.
    pub revoked: u64,
    /// When it ends, where it does: RFC 3339, UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_update: Option<String>,
    /// It has ended: the node lets look, and takes the next list, and nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ended: bool,
}

/// How far a node is taken apart.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResetState {
    /// The step that comes next.
    pub phase: String,
    /// Why the last try of it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}
