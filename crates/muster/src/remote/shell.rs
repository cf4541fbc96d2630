//! The admin login as muster-provision wants it: scripts as root, over one connection that stays open.

use super::fault;
use super::session::Session;
use crate::codes::Own;
use muster_provision::elevate::{self, ElevateError, Elevation, SudoPassword};
use muster_provision::{HostShell, ShellError, ShellOutput};
use muster_ssh::{ConnectError, Exec, ExecFault, Limits, Stage, Status};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// Files of a host come back whole, in base64: a revocation list of 16 MiB, others of 1 MiB each.
const LIMITS: Limits = Limits { stdout: 32 << 20, stderr: 256 << 10 };

/// Where a sudo password comes from when a host wants one.
pub type AskSudo = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<SudoPassword>> + Send>> + Send + Sync>;

/// How the admin login becomes root.
pub enum Root {
    /// It is root.
    Already,
    /// Through sudo, with a password once a host asks for one.
    Sudo(AskSudo),
}

/// The admin login of a host.
pub struct AdminShell {
    session: Arc<Session>,
    root: Root,
    /// What was found to work, so that it is asked for once.
    found: Mutex<Option<Arc<Elevation>>>,
    deadline: Duration,
    marker: fn() -> Result<String, String>,
    /// The code of the last connection that was not made.
    why: std::sync::Mutex<Option<Own>>,
}

impl AdminShell {
    /// `marker` gives a fresh random word; `deadline` is how long one script may take.
    pub fn new(
        session: Arc<Session>,
        root: Root,
        deadline: Duration,
        marker: fn() -> Result<String, String>,
    ) -> Self {
        Self { session, root, found: Mutex::new(None), deadline, marker, why: std::sync::Mutex::new(None) }
    }

    /// Why the host was not reached, where it was not.
    pub fn why_unreachable(&self) -> Option<Own> {
        self.why.lock().ok().and_then(|why| *why)
    }

    fn unreachable(&self, e: &ConnectError) -> ShellError {
        if let Ok(mut why) = self.why.lock() {
            *why = Some(fault::code(e.cause()));
        }
        ShellError::Unreachable(fault::unreached(e))
    }

    async fn elevation(&self) -> Arc<Elevation> {
        let mut found = self.found.lock().await;
        let first = || match self.root {
            Root::Already => Arc::new(Elevation::Root),
            Root::Sudo(_) => Arc::new(Elevation::NoPassword),
        };
        Arc::clone(found.get_or_insert_with(first))
    }

    async fn once(&self, how: &Elevation, script: &str, stdin: &[u8]) -> Result<ShellOutput, ShellError> {
        let marker =
            (self.marker)().map_err(|why| ShellError::Unreachable(format!("no random word: {why}")))?;
        let remote = elevate::remote(how, &marker, script, stdin)?;
        let connection = self.session.connection().await.map_err(|e| self.unreachable(&e))?;
        let exec = Exec::new(&remote.command).stdin(&remote.stdin).limits(LIMITS).deadline(self.deadline);
        let before = self.session.sent();
        self.session.set_sent(true);
        let outcome = match connection.run(exec).await {
            Ok(outcome) => outcome,
            Err(e) if e.may_have_run() => {
                self.session.drop_connection().await;
                return Err(ShellError::Lost(fault::unended(&e)));
            }
            Err(e) => {
                if !matches!(
                    e.why(),
                    ExecFault::RequestRefused | ExecFault::Deadline { stage: Stage::Channel, .. }
                ) {
                    self.session.drop_connection().await;
                }
                self.session.set_sent(before);
                return Err(ShellError::Unreachable(fault::unended(&e)));
            }
        };
        if outcome.stdout.is_cut() {
            return Err(ShellError::Lost(format!("it answered with more than {} bytes", LIMITS.stdout)));
        }
        let status = match outcome.status {
            Status::Exited(code) => i32::try_from(code).ok(),
            _ => None,
        };
        let done = elevate::outcome(&marker, status, &outcome.stdout.bytes, &outcome.stderr.bytes);
        if matches!(done, Err(ShellError::Elevate(ElevateError::PasswordNeeded))) {
            // sudo says so before it reads the script.
            self.session.set_sent(before);
        }
        done
    }
}

impl HostShell for AdminShell {
    async fn run_root(&self, script: &str, stdin: &[u8]) -> Result<ShellOutput, ShellError> {
        let how = self.elevation().await;
        let first = self.once(&how, script, stdin).await;
        let wants = matches!(first, Err(ShellError::Elevate(ElevateError::PasswordNeeded)));
        let (true, Root::Sudo(ask)) = (wants && matches!(*how, Elevation::NoPassword), &self.root) else {
            return first;
        };
        // Nothing ran: sudo says so before the script is read.
        let Some(password) = ask().await else { return first };
        let how = Arc::new(Elevation::Password(password));
        *self.found.lock().await = Some(Arc::clone(&how));
        self.once(&how, script, stdin).await
    }
}
