//! Services: `GET /v1/services`, `POST /v1/services/{unit}/restart`.

use serde::{Deserialize, Serialize};

/// The services that a node shows.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Services {
    /// By name.
    pub services: Vec<Service>,
}

/// One service.
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    /// The unit's name, with its `.service`.
    pub name: String,
    /// What it is for.
    pub purpose: String,
    /// It may be restarted through the API.
    pub restartable: bool,
    /// systemd's `ActiveState`: `active`, `inactive`, `failed`, …
    pub active: String,
    /// systemd's `SubState`: `running`, `dead`, `exited`, …
    pub sub: String,
    /// systemd's `UnitFileState`: `enabled`, `disabled`, `static`, `masked`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<String>,
    /// Since when it is in this state, `YYYY-MM-DDThh:mm:ssZ`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// systemd's `Result`: `success`, `exit-code`, `signal`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}
