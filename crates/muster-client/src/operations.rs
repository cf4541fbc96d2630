//! Each operation by its name, with its types.

use crate::call::{Answer, Call};
use crate::error::Error;
use crate::lines::Stream;
use crate::node::Node;
use muster_api::access::{SshKey, SshKeyRequest, SshKeys, SshRevoked};
use muster_api::lifecycle::{ResetRequest, Status};
use muster_api::node::{Health, Node as State};
use muster_api::ownership::{ConfigAnswer, ConfigRequest, ListAnswer, RotateAnswer, RotateRequest};
use muster_api::services::{Service, Services};
use muster_api::upgrade::StageRequest;
use muster_core::Operation as O;

/// Which records of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logs {
    /// A unit, or `kernel`; all that the node shows when absent.
    pub unit: Option<String>,
    /// How many of the newest.
    pub lines: Option<u32>,
    /// Seconds back from now.
    pub since: Option<u64>,
    /// Goes on with what comes.
    pub follow: bool,
}

/// Errors of all of them: see [`Error`].
#[expect(
    missing_docs,
    clippy::missing_errors_doc,
    reason = "each is the operation of its name; the errors are one type"
)]
impl Node {
    pub async fn health(&self) -> Result<Health, Error> {
        self.get(&Call::new(O::Health)).await
    }

    pub async fn state(&self) -> Result<State, Error> {
        self.get(&Call::new(O::NodeState)).await
    }

    pub async fn services(&self) -> Result<Services, Error> {
        self.get(&Call::new(O::Services)).await
    }

    /// Records are [`muster_api::logs::Record`].
    pub async fn logs(&self, logs: &Logs) -> Result<Stream, Error> {
        let call = Call::new(O::Logs)
            .maybe("unit", logs.unit.clone())
            .maybe("lines", logs.lines.map(|n| n.to_string()))
            .maybe("since", logs.since.map(|s| format!("{s}s")))
            .maybe("follow", logs.follow.then_some("true"));
        self.stream(&call).await
    }

    /// The service after the restart.
    pub async fn restart(&self, unit: &str) -> Result<Service, Error> {
        self.get(&Call::new(O::ServiceRestart).segment(unit)).await
    }

    /// Lines are [`muster_api::upgrade::StageEvent`].
    pub async fn stage(&self, image: &str) -> Result<Stream, Error> {
        self.stream(&Call::new(O::UpgradeStage).json(&StageRequest { image: image.to_owned() })).await
    }

    pub async fn apply(&self) -> Result<Status, Error> {
        self.get(&Call::new(O::UpgradeApply)).await
    }

    /// `drop_staged`: also where an image is staged, which a rollback takes away.
    pub async fn rollback(&self, drop_staged: bool) -> Result<Status, Error> {
        let drop_staged = drop_staged.then(|| "true".to_owned());
        self.get(&Call::new(O::UpgradeRollback).maybe("discard", drop_staged)).await
    }

    pub async fn cordon(&self) -> Result<Status, Error> {
        self.get(&Call::new(O::Cordon)).await
    }

    pub async fn uncordon(&self) -> Result<Status, Error> {
        self.get(&Call::new(O::Uncordon)).await
    }

    pub async fn drain(&self) -> Result<Status, Error> {
        self.get(&Call::new(O::Drain)).await
    }

    pub async fn reboot(&self) -> Result<Status, Error> {
        self.get(&Call::new(O::Reboot)).await
    }

    pub async fn shutdown(&self) -> Result<Status, Error> {
        self.get(&Call::new(O::Shutdown)).await
    }

    /// `name` is the node's own.
    pub async fn reset(&self, name: &str) -> Result<Status, Error> {
        self.get(&Call::new(O::Reset).json(&ResetRequest { confirm: name.to_owned() })).await
    }

    pub async fn config(&self, document: &str) -> Result<ConfigAnswer, Error> {
        self.get(&Call::new(O::ConfigApply).json(&ConfigRequest { document: document.to_owned() })).await
    }

    pub async fn rotate(&self, rotation: &RotateRequest) -> Result<RotateAnswer, Error> {
        self.get(&Call::new(O::CaRotate).json(rotation)).await
    }

    pub async fn ssh_keys(&self) -> Result<SshKeys, Error> {
        self.get(&Call::new(O::SshKeys)).await
    }

    pub async fn ssh_key_add(&self, user: &str, key: &str) -> Result<SshKey, Error> {
        let body = SshKeyRequest { user: user.to_owned(), key: key.to_owned() };
        self.get(&Call::new(O::SshKeyAdd).json(&body)).await
    }

    pub async fn ssh_key_remove(&self, fingerprint: &str) -> Result<SshRevoked, Error> {
        self.get(&Call::new(O::SshKeyRemove).query("fingerprint", fingerprint)).await
    }

    /// YAML. It is the cluster administrator's: never to be logged.
    pub async fn kubeconfig(&self, server: Option<&str>) -> Result<Answer, Error> {
        self.call(&Call::new(O::Kubeconfig).maybe("server", server)).await
    }

    /// Text. Whoever has it may join: never to be logged.
    pub async fn join_token(&self, role: Option<&str>, expiry: Option<&str>) -> Result<Answer, Error> {
        self.call(&Call::new(O::JoinToken).maybe("role", role).maybe("expiry", expiry)).await
    }

    pub async fn etcd(&self) -> Result<serde_json::Value, Error> {
        self.get(&Call::new(O::EtcdState)).await
    }

    /// Lines are those of the chain, byte for byte.
    pub async fn audit(&self, after: Option<u64>, follow: bool) -> Result<Stream, Error> {
        let call = Call::new(O::AuditRead)
            .maybe("after", after.map(|n| n.to_string()))
            .maybe("follow", follow.then_some("true"));
        self.stream(&call).await
    }

    /// PEM or DER, each under its own media type.
    pub async fn revocation_list(&self, list: &[u8]) -> Result<ListAnswer, Error> {
        let media = if list.starts_with(b"-----BEGIN") { "text/plain" } else { "application/pkix-crl" };
        self.get(&Call::new(O::CrlUpload).body(media, list)).await
    }
}
