//! The root file system that all nodes lie on: made once by debootstrap, cached, never written to again.
//!
//! The cache is keyed by suite, packages and recipe version. It is built under a lock beside its final place and renamed,
//! so that a build that was killed is never taken for a good one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::mirror;
use crate::process::run;

/// Raise it when the steps in [`finish`] change.
const RECIPE: u32 = 1;

const CACHE: &str = "/var/cache/muster-testbed";

/// What every node has. No agent of ours: an ordinary Debian host with sshd and sudo.
const PACKAGES: &[&str] = &[
    "systemd",
    "systemd-sysv",
    "dbus",
    "libpam-systemd",
    "openssh-server",
    "openssh-client",
    "sudo",
    "iproute2",
    "procps",
    "libfaketime",
    "faketime",
];

const DEBOOTSTRAP_LIMIT: Duration = Duration::from_secs(540);

/// Which root file system is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RootfsSpec {
    /// Debian packages beside the usual ones, for instance `python3-minimal`.
    pub extra_packages: Vec<String>,
    /// Another suite of this machine's mirror; `None` is the machine's own.
    pub suite: Option<String>,
}

/// A root file system that is ready to lie under overlays.
#[derive(Debug, Clone)]
pub struct Rootfs {
    /// Its folder; treat as read-only.
    pub path: PathBuf,
    /// How long the build took, or zero when it came from the cache.
    pub built_in: Duration,
}

impl Rootfs {
    /// Takes it from the cache, or builds it (about a minute, once).
    pub fn ensure(spec: &RootfsSpec) -> Result<Self> {
        let mut mirror = mirror::of_this_machine()?;
        if let Some(suite) = &spec.suite {
            mirror.suite.clone_from(suite);
        }
        let mut packages: Vec<&str> = PACKAGES.to_vec();
        packages.extend(spec.extra_packages.iter().map(String::as_str));
        let key = format!("{}-{:016x}", mirror.suite, fnv1a(&format!("{RECIPE} {}", packages.join(","))));
        let cache = Path::new(CACHE);
        let path = cache.join(&key);
        fs::create_dir_all(cache).with_context(|| format!("cannot make {CACHE}"))?;
        if path.is_dir() {
            return Ok(Self { path, built_in: Duration::ZERO });
        }
        let lock = File::create(cache.join(".lock"))?;
        lock.lock().context("cannot lock the cache of root file systems")?;
        if path.is_dir() {
            return Ok(Self { path, built_in: Duration::ZERO });
        }
        let started = Instant::now();
        eprintln!("testbed: building the node root file system ({}, once, about a minute)", mirror.suite);
        // Only the holder of the lock builds, so whatever is here was left by a killed build.
        let half = cache.join(".building");
        if half.exists() {
            fs::remove_dir_all(&half).context("cannot remove a half-built root file system")?;
        }
        debootstrap(&mirror, &packages, &half, &cache.join("debs"))?;
        finish(&half)?;
        fs::rename(&half, &path)?;
        let built_in = started.elapsed();
        eprintln!("testbed: root file system ready in {:.1} s", built_in.as_secs_f64());
        Ok(Self { path, built_in })
    }
}

fn debootstrap(mirror: &mirror::Mirror, packages: &[&str], into: &Path, debs: &Path) -> Result<()> {
    fs::create_dir_all(debs)?;
    let mut command = Command::new("/usr/sbin/debootstrap");
    command
        .arg("--variant=minbase")
        .arg(format!("--include={}", packages.join(",")))
        .arg(format!("--cache-dir={}", debs.display()))
        .arg(&mirror.suite)
        .arg(into)
        .arg(&mirror.url)
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("LC_ALL", "C");
    run(&mut command, b"", DEBOOTSTRAP_LIMIT)?
        .check()
        .with_context(|| format!("debootstrap of {} from {} failed", mirror.suite, mirror.url))?;
    Ok(())
}

/// Takes out what must differ from node to node, and what only costs time at boot.
fn finish(root: &Path) -> Result<()> {
    for entry in fs::read_dir(root.join("etc/ssh"))?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("ssh_host_") {
            fs::remove_file(entry.path())?;
        }
    }
    fs::write(root.join("etc/machine-id"), "")?;
    let _ = fs::remove_file(root.join("var/lib/dbus/machine-id"));
    let _ = fs::remove_file(root.join("etc/resolv.conf"));
    fs::write(root.join("etc/hostname"), "node\n")?;
    fs::create_dir_all(root.join("var/log/journal"))?;
    let units = root.join("etc/systemd/system");
    for unit in [
        "apt-daily.timer",
        "apt-daily-upgrade.timer",
        "dpkg-db-backup.timer",
        "e2scrub_all.timer",
        "e2scrub_reap.service",
        "fstrim.timer",
        "systemd-timesyncd.service",
        "systemd-networkd-wait-online.service",
    ] {
        let link = units.join(unit);
        if !link.exists() {
            std::os::unix::fs::symlink("/dev/null", link)?;
        }
    }
    for dir in ["var/cache/apt/archives", "var/lib/apt/lists"] {
        for entry in fs::read_dir(root.join(dir))?.flatten() {
            if entry.file_type()?.is_file() {
                fs::remove_file(entry.path())?;
            }
        }
    }
    Ok(())
}

/// FNV-1a, 64 bit: a stable name for a list of packages, nothing that anybody could want to forge.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}
