//! Proving logins anew, over connections of their own, for muster-provision.

use super::phase::ask_probe;
use super::probe::Probe;
use super::session::Session;
use super::{answer, fault};
use crate::printer::clean;
use muster_provision::{ProofFailure, Prover};
use muster_ssh::{Exec, Status};
use std::sync::Arc;
use std::time::Duration;

/// The second logins of a host.
pub struct Logins {
    pool: Option<Arc<Session>>,
    admin: Arc<Session>,
    /// What the host must call itself.
    name: Option<String>,
}

impl Logins {
    /// Both; without a pool login its proof fails.
    pub fn new(pool: Option<Arc<Session>>, admin: Arc<Session>, name: &str) -> Self {
        Self { pool, admin, name: Some(name.to_owned()) }
    }

    /// The administrator's alone, for what takes the pool login away.
    pub fn admin_only(admin: Arc<Session>) -> Self {
        Self { pool: None, admin, name: None }
    }

    async fn pool(&self) -> Result<String, String> {
        let session = self.pool.as_ref().ok_or("no pool login was asked for")?;
        let connection = session.fresh().await.map_err(|e| fault::unreached(&e))?;
        let probe = ask_probe(&connection, 2).await?;
        connection.close().await;
        let Probe::Two(two) = probe else { return Err("it answered on envelope 1".into()) };
        let policy = two.policy.as_ref().map_err(|why| format!("it has no policy: {why}"))?;
        if policy.host != self.name {
            let called = policy.host.as_deref().unwrap_or("nothing");
            return Err(format!(
                "it calls itself {called}, not {}",
                self.name.as_deref().unwrap_or_default()
            ));
        }
        Ok(clean(&format!(
            "muster-shim {} answers as {}",
            two.text(&["shim", "version"]),
            policy.host.as_deref().unwrap_or_default()
        )))
    }

    async fn admin(&self) -> Result<String, String> {
        let connection = self.admin.fresh().await.map_err(|e| fault::unreached(&e))?;
        let exec = Exec::new("true").deadline(Duration::from_secs(20));
        let outcome = connection.run(exec).await.map_err(|e| fault::unended(&e))?;
        connection.close().await;
        match outcome.status {
            Status::Exited(0) => Ok("a second login works".into()),
            other => Err(format!("`true` did not succeed: {}", fault::end(&other))),
        }
    }
}

impl Prover for Logins {
    async fn pool_login(&self) -> Result<String, ProofFailure> {
        self.pool().await.map_err(|why| ProofFailure { what: "pool login", why })
    }

    async fn admin_login(&self) -> Result<String, ProofFailure> {
        self.admin().await.map_err(|why| ProofFailure { what: "admin login", why })
    }
}

impl From<answer::NotTheShim> for String {
    fn from(not: answer::NotTheShim) -> Self {
        not.why
    }
}
