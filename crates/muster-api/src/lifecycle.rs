//! What was begun: reboot, shutdown, reset, and the two that change the image of the next boot.

use serde::{Deserialize, Serialize};

/// What was begun or done.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// `rebooting`, `shutting down`, `reset`, `applying`, `rolled back`.
    pub status: String,
    /// What comes next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl Status {
    /// Without a note.
    pub fn of(status: impl Into<String>) -> Self {
        Self { status: status.into(), note: None }
    }

    /// With one.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

/// What a reset wants to be told.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResetRequest {
    /// The node's own name.
    pub confirm: String,
}
