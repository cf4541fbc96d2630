//! Where everything is.

use std::path::{Path, PathBuf};

/// Paths and programs, all below one folder that is `/` on a node.
#[derive(Clone, Debug)]
pub struct Places {
    root: PathBuf,
}

impl Places {
    /// The node itself.
    #[must_use]
    pub fn system() -> Self {
        Self::below("/")
    }

    /// A folder that stands for `/`: for tests.
    pub fn below(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// An absolute path of the node, here.
    #[must_use]
    pub fn at(&self, absolute: &str) -> PathBuf {
        self.root.join(absolute.trim_start_matches('/'))
    }

    /// The folder that stands for `/`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// What outlives a boot; root only, but its parts for others say so.
pub const STATE: &str = "/var/lib/muster";
/// Ownership: `operator-ca.pem` (its presence is "claimed"), `server.key`, `server.crt`, `claim.json`, the revocation list.
pub const API: &str = "/var/lib/muster/api";
/// The audit chain.
pub const AUDIT: &str = "/var/lib/muster/audit";
/// Written last by a bootstrap that worked.
pub const BOOTSTRAPPED: &str = "/var/lib/muster/bootstrapped";
/// SSH keys that the API let in: a file for each account; sshd reads it as that account.
pub const SSH_KEYS: &str = "/var/lib/muster/ssh";
/// What the bootstrap made of the node.
pub const NODE: &str = "/var/lib/muster/node.json";
/// The phase of a reset that has begun; as long as it is there the node is being taken apart.
pub const RESET: &str = "/var/lib/muster/reset.json";
/// Two MiB of nothing: room for what a reset and a change of the authority write where the disk is full.
pub const ROOM: &str = "/var/lib/muster/room";
/// What does not outlive a boot; must be a tmpfs.
pub const VOLATILE: &str = "/run/muster";
/// Pairing code and count.
pub const ENROLMENT: &str = "/run/muster/enrolment.json";
/// What the consoles were told of a node that has an owner, in this boot.
pub const TOLD: &str = "/run/muster/told";
/// Somebody said what the node shall be, in the boot that it names.
pub const DESCRIBED: &str = "/run/muster/described";
/// A bootstrap runs, in this boot.
pub const BUILDING: &str = "/run/muster/building";
/// Which image is being pulled, in this boot; there until its end was seen.
pub const STAGING: &str = "/run/muster/stage.json";
/// What the pull has printed.
pub const STAGE_LOG: &str = "/run/muster/stage.log";
/// The machine goes down, as somebody was answered in this boot.
pub const GOING_DOWN: &str = "/run/muster/going-down.json";
/// Where the edge and nobody else reaches the core; 0660 root:muster-edge in a folder 0750.
pub const EDGE_SOCKET: &str = "/run/muster/edge/core.sock";
/// Where root on the machine reaches the core; 0600.
pub const CONTROL_SOCKET: &str = "/run/muster/control.sock";
/// The document of this boot that was fetched from the URL of `muster.config=`, 0600.
pub const FETCHED: &str = "/run/muster/document.json";
/// Where the core reaches a fetcher; 0600, made by systemd when something is to be fetched.
pub const FETCH_SOCKET: &str = "/run/muster/fetch.sock";
/// What servers of URLs are judged by, instead of the machine's own trust anchors, where it is there.
pub const FETCH_ANCHORS: &str = "/etc/muster/fetch-ca.pem";
/// The machine's own document.
pub const DOCUMENT: &str = muster_document::sources::Source::FILE;
/// Reached when the node has an owner and knows what to be.
pub const CLAIMED_TARGET: &str = "muster-claimed.target";
