//! Images: `POST /v1/upgrade/stage`, `apply`, `rollback`.

use serde::{Deserialize, Serialize};

/// What to stage.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageRequest {
    /// `HOST[:PORT]/PATH[:TAG]` or `HOST[:PORT]/PATH@sha256:…`.
    pub image: String,
}

/// An image that runs, or is staged. What is not known is not there.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Its reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// `sha256:…`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Its own word for its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A line of the stream that staging answers with. The first is always `progress`, the last `staged` or `error`; a stream
/// that ends with neither was cut off.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StageEvent {
    /// A line of the tool that pulls.
    Progress(String),
    /// Done: what the next boot takes. It is the image that runs where nothing newer is behind its name.
    Staged(Image),
    /// It failed.
    Error(String),
}
