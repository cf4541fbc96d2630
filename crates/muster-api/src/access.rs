//! SSH keys: `GET`, `POST`, `DELETE /v1/access/ssh`.

use serde::{Deserialize, Serialize};

/// A key to let in.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SshKeyRequest {
    /// An account that there is.
    pub user: String,
    /// A line as in `id_ed25519.pub`: type, key, comment.
    pub key: String,
}

/// A key that is let in. The key itself is not told.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshKey {
    /// As whom.
    pub user: String,
    /// `ssh-ed25519`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// `SHA256:…`
    pub fingerprint: String,
    /// What stood behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// What went wrong after it was let in: it may not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

/// The keys that are let in.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshKeys {
    /// By account, then as they were added.
    pub keys: Vec<SshKey>,
}

/// The keys that are let in no longer.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshRevoked {
    /// `revoked`.
    pub status: String,
    /// Which; one for each account that had the key.
    pub removed: Vec<SshKey>,
}
