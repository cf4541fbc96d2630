//! A connection to a host, on which any number of commands run, one after the other or side by side.

use core::time::Duration;
use std::sync::Arc;

use tokio::time::timeout;

use crate::exec::Exec;
use crate::link::{HopReport, Link};
use crate::outcome::{ExecError, ExecOutcome, Limits};

/// A connection that is logged in. Dropping it closes it at once; what runs on it is cut off.
pub struct Connection {
    pub(crate) link: Arc<Link>,
}

impl core::fmt::Debug for Connection {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Connection({})", self.link.report.hop)
    }
}

impl Connection {
    pub(crate) fn new(link: Arc<Link>) -> Self {
        Self { link }
    }

    /// What the host proved to be, and how we got in.
    pub fn report(&self) -> &HopReport {
        &self.link.report
    }

    /// The same for every hop, the first bastion first and the host last.
    pub fn hops(&self) -> Vec<&HopReport> {
        let mut hops = Vec::new();
        let mut at = Some(&self.link);
        while let Some(link) = at {
            hops.push(&link.report);
            at = link.outer.as_ref();
        }
        hops.reverse();
        hops
    }

    /// Whether another command can be tried on it. A host that was just lost may still look alive
    /// until its silence is noticed.
    pub fn is_alive(&self) -> bool {
        self.link.is_alive()
    }

    /// How often the host tried to open a channel to us. All were refused.
    pub fn unasked_channels(&self) -> u32 {
        self.link.shared.notes().unasked
    }

    /// Runs one command: `stdin` is sent whole and then closed. See [`Exec`] for deadlines and live
    /// output.
    pub async fn exec(&self, command: &str, stdin: &[u8], limits: Limits) -> Result<ExecOutcome, ExecError> {
        self.run(Exec::new(command).stdin(stdin).limits(limits)).await
    }

    /// Runs one command. Dropping the future closes the command's channel: sshd then closes the
    /// command's standard streams, and nothing more.
    pub async fn run(&self, exec: Exec<'_>) -> Result<ExecOutcome, ExecError> {
        crate::exec::run(&self.link, exec).await
    }

    /// Says goodbye and closes. Dropping does the same without the goodbye.
    pub async fn close(self) {
        let goodbye = self.link.handle.disconnect(russh::Disconnect::ByApplication, "", "");
        let _ = timeout(Duration::from_secs(1), goodbye).await;
        let gone = async {
            while !self.link.handle.is_closed() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let _ = timeout(Duration::from_secs(1), gone).await;
    }
}
