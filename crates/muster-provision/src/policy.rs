//! `shim.toml` as it lies on a host, for what is judged and compared here.
//!
//! The shim is what refuses a file with a key that it does not know; this reader passes over one.

use crate::spec::{EPOCH_MAX_STEP, MAX_DEADLINE};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The file. Defaults are the shim's.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Policy {
    pub(crate) host: Option<String>,
    #[serde(default)]
    pub(crate) pools: Vec<String>,
    #[serde(default)]
    pub(crate) envelope_1: bool,
    #[serde(default = "one")]
    pub(crate) signers_needed: usize,
    #[serde(default = "required")]
    pub(crate) revoked_signers: String,
    #[serde(default = "max_deadline")]
    pub(crate) max_deadline: u32,
    #[serde(default = "epoch_max_step")]
    pub(crate) epoch_max_step: u32,
    pub(crate) profiles: Option<BTreeMap<String, Profile>>,
    #[serde(default)]
    pub(crate) envelope1: Terms,
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) keys: Option<BTreeMap<String, Key>>,
}

/// `[profiles.NAME]`
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Profile {
    pub(crate) min_epoch: Option<u32>,
}

/// `[envelope1]`
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct Terms {
    pub(crate) on_disconnect: String,
    pub(crate) deadline: BTreeMap<String, u32>,
    pub(crate) namespace: String,
    pub(crate) principal: String,
}

impl Default for Terms {
    fn default() -> Self {
        let kpssh = || "kpssh".to_owned();
        Self {
            on_disconnect: "end".into(),
            deadline: BTreeMap::new(),
            namespace: kpssh(),
            principal: kpssh(),
        }
    }
}

/// `[keys."SHA256:…"]`
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Key {
    pub(crate) phases: Vec<String>,
}

fn one() -> usize {
    1
}

fn required() -> String {
    "required".into()
}

fn max_deadline() -> u32 {
    MAX_DEADLINE
}

fn epoch_max_step() -> u32 {
    EPOCH_MAX_STEP
}

impl Policy {
    /// Reads the bytes; why not, with the line where there is one.
    pub(crate) fn read(body: &[u8]) -> Result<Self, String> {
        let text = core::str::from_utf8(body).map_err(|_| "is not UTF-8".to_owned())?;
        toml::from_str(text).map_err(|e| {
            let line = e.span().map_or(0, |s| text.bytes().take(s.start).filter(|b| *b == b'\n').count() + 1);
            format!("line {line}: {}", e.message().lines().next().unwrap_or_default())
        })
    }
}
