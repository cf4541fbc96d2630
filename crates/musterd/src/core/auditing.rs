//! `GET /v1/audit`: the lines of the chain as they stand, so that whoever gets them can verify them.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use muster_api::Fault;

use super::audit::{Audit, Cursor};
use super::server::Core;
use crate::ops::{Client, Done};

/// How often a quiet follower looks whether its client is there.
const LOOKS: Duration = Duration::from_secs(1);
/// Lines are sent together up to here.
const BATCH: usize = 32 * 1024;

/// Reads from the record after this number on, and goes on with what comes.
///
/// # Errors
/// The disk.
pub(crate) fn open(core: &Arc<Core>, after: u64, follow: bool) -> Result<Done, Fault> {
    // What waits is a part of the answer. If the disk takes nothing, what is on it still is.
    let _ = core.audit.flush();
    let cursor = core.audit.cursor(after).map_err(|e| Fault::failed("audit", e.to_string()))?;
    let audit = Arc::clone(&core.audit);
    Ok(Done::Stream(Box::new(move |client| pump(&audit, cursor, follow, client))))
}

fn pump(audit: &Audit, mut cursor: Cursor, follow: bool, client: &mut dyn Client) -> io::Result<()> {
    let mut head = audit.head().seq;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        while let Some(line) = cursor.next(head)? {
            batch.extend_from_slice(line);
            if batch.len() >= BATCH {
                client.write_all(&batch)?;
                batch.clear();
            }
        }
        client.write_all(&batch)?;
        batch.clear();
        if !follow {
            return Ok(());
        }
        loop {
            if client.gone() {
                return Ok(());
            }
            let now = audit.wait(head, LOOKS).seq;
            if now > head {
                head = now;
                break;
            }
        }
    }
}
