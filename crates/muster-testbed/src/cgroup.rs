//! Control groups: each node lives in one of its own, so that it can be frozen, and killed whole, from outside.
//!
//! Both shapes of host are served: version 2 alone, and "hybrid" (version 1 controllers, systemd's named hierarchy, and a
//! version 2 tree without controllers beside them). Source: cgroups(7), Documentation/admin-guide/cgroup-v2.rst.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::wait_until;

/// What a node sees under `/sys/fs/cgroup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Version 2 alone, as Debian 11 and later boot.
    #[default]
    Unified,
    /// Version 1 controllers with a version 2 tree at `/sys/fs/cgroup/unified`, as older hosts boot. Only where this
    /// machine itself is hybrid.
    Hybrid,
}

impl Layout {
    /// Whether this machine can give a node this layout.
    #[must_use]
    pub fn available(self) -> bool {
        match self {
            Self::Unified => unified_root().is_some(),
            Self::Hybrid => Path::new("/sys/fs/cgroup/unified/cgroup.procs").exists(),
        }
    }
}

/// The version 2 tree, wherever it is mounted.
pub(crate) fn unified_root() -> Option<PathBuf> {
    ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"]
        .into_iter()
        .map(PathBuf::from)
        .find(|p| p.join("cgroup.controllers").exists())
}

/// Every tree in which systemd of a node keeps its units; the version 2 one first.
pub(crate) fn roots() -> Vec<PathBuf> {
    let named = PathBuf::from("/sys/fs/cgroup/systemd");
    unified_root().into_iter().chain(named.join("cgroup.procs").exists().then_some(named)).collect()
}

/// The groups of one bed or node, one per tree; `path` is `SLOT` or `SLOT/NODE`.
pub(crate) fn groups(path: &str) -> Vec<PathBuf> {
    roots().into_iter().map(|r| r.join("muster-testbed").join(path)).collect()
}

/// Stops every process below `path`, or lets them go on.
pub(crate) fn set_frozen(path: &str, frozen: bool) -> Result<()> {
    let root = unified_root().context("freezing needs a cgroup v2 tree")?;
    let group = root.join("muster-testbed").join(path);
    fs::write(group.join("cgroup.freeze"), if frozen { "1" } else { "0" })
        .with_context(|| format!("cannot freeze or thaw {}", group.display()))?;
    let want = if frozen { "frozen 1" } else { "frozen 0" };
    wait_until("freezer", Duration::from_secs(10), || {
        Ok(fs::read_to_string(group.join("cgroup.events"))?.lines().any(|l| l == want))
    })?;
    Ok(())
}

/// Kills every process below `path` and waits until none is left; the groups stay.
pub(crate) fn kill(path: &str) -> Result<()> {
    wait_until("killing a node's processes", Duration::from_secs(20), || {
        let mut left = 0;
        for group in groups(path).iter().filter(|g| g.exists()) {
            // A frozen group cannot die by signals alone on old kernels.
            let _ = fs::write(group.join("cgroup.freeze"), "0");
            let whole = fs::write(group.join("cgroup.kill"), "1").is_ok();
            for pid in members(group) {
                left += 1;
                if !whole {
                    crate::process::try_call("kill", &["-KILL", &pid.to_string()]);
                }
            }
        }
        Ok(left == 0)
    })?;
    Ok(())
}

/// Removes the groups below `path`, which must be empty of processes.
pub(crate) fn remove(path: &str) {
    for group in groups(path) {
        remove_tree(&group);
    }
}

fn remove_tree(group: &Path) {
    for child in children(group) {
        remove_tree(&child);
    }
    let _ = fs::remove_dir(group);
}

fn children(group: &Path) -> Vec<PathBuf> {
    let Ok(dir) = fs::read_dir(group) else { return Vec::new() };
    dir.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect()
}

/// Process ids in `group` and below it. A zombie has left its group on version 2.
fn members(group: &Path) -> Vec<u32> {
    let mut pids: Vec<u32> = fs::read_to_string(group.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
        .filter_map(|l| l.parse().ok())
        .filter(|pid| *pid != 0)
        .collect();
    for child in children(group) {
        pids.extend(members(&child));
    }
    pids
}
