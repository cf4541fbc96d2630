//! Real nodes for tests: a Debian root file system, an overlay on it for each node, a network namespace of its own on a
//! bridge, and `systemd-nspawn --boot` with real systemd, journald, sshd and sudo inside.
//!
//! Development only: nothing that ships depends on this crate.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! let bed = muster_testbed::Testbed::prepare("two-nodes")?;
//! let a = bed.node("a")?.boot()?;
//! let key = bed.keygen("admin")?;
//! a.add_ssh_key("root", &key)?;
//! assert_eq!(bed.ssh(&a, "root", &key).run("hostname", b"")?.stdout_text(), "a\n");
//! # Ok(()) }
//! ```
//!
//! Invariants:
//! - A bed owns one *slot*: a number from which its subnet, bridge, namespaces, cgroups and folders follow. A slot is held by
//!   a file lock, so that beds of several processes never collide and what a killed process left is found and removed by the
//!   next one (`place`).
//! - Nodes have no route to anywhere but their own bridge. Addresses are from 198.18.0.0/15 (RFC 2544, benchmarking) and a
//!   unique local IPv6 prefix, and a blackhole route catches what is sent to a bed that is gone.
//! - Dropping a [`Testbed`] removes all of it; [`Testbed::keep`] is the one exception, for the demo.
//!
//! Sources: systemd-nspawn(1), cgroups(7), network_namespaces(7), overlayfs in the kernel's documentation.

#![allow(
    clippy::disallowed_methods,
    reason = "development tool: it spawns ip, systemd-nspawn, nsenter and reads the clock"
)]
#![allow(clippy::indexing_slicing, reason = "development tool: a panic here is a failing test")]

mod accounts;
mod bed;
mod binaries;
mod boot;
mod cgroup;
mod daemon;
pub mod deb;
mod faults;
mod mirror;
mod net;
mod node;
mod owner;
mod place;
mod process;
mod relay;
mod requirements;
mod rootfs;
mod ssh;
pub mod surface;
mod trap;

pub use accounts::Sudo;
pub use bed::{NodeBuilder, Testbed};
pub use binaries::{Binaries, Programs, binaries, programs, shim_target};
pub use cgroup::Layout;
pub use daemon::{MUSTERD_LINKS, Packaged, musterd_files};
pub use node::Node;
pub use owner::{Notice, WAITS, owned_by};
pub use place::{collect_garbage, list, remove, remove_all};
pub use process::{Output, PATIENCE, until, wait_until};
pub use relay::{BadCable, Cable};
pub use requirements::{Missing, REQUIRED, missing_packages, why_not};
pub use rootfs::{Rootfs, RootfsSpec};
pub use ssh::{KeyPair, Ssh};
pub use trap::{Step, Trap};

/// Skips the calling test, with the reason, where real nodes cannot run; with `CI` set the test fails instead.
#[macro_export]
macro_rules! require_root_or_skip {
    () => {
        if let Some(reason) = $crate::why_not() {
            $crate::needs::skip(&reason);
            return $crate::needs::Skipped::skipped();
        }
    };
}

#[doc(hidden)]
pub use muster_needs as needs;
