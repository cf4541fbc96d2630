//! The programs under test, built once for all test processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::run;

/// Where the built programs are.
#[derive(Debug, Clone)]
pub struct Binaries {
    /// `muster-shim` as it ships: static, profile `shim`.
    pub shim: PathBuf,
    /// `muster-shim` linked dynamically and asking libc for the time, profile `dev`: libfaketime can stand in its way.
    pub shim_dynamic: PathBuf,
    /// The `muster` command line, profile `dev`.
    pub muster: PathBuf,
    /// `musterd`, profile `dev`.
    pub musterd: PathBuf,
}

/// What an installation has.
#[derive(Debug, Clone)]
pub struct Programs {
    /// As [`Binaries::shim`].
    pub shim: PathBuf,
    /// As [`Binaries::muster`].
    pub muster: PathBuf,
    /// As [`Binaries::musterd`].
    pub musterd: PathBuf,
}

/// Builds them, or takes `MUSTER_SHIM_BIN`, `MUSTER_SHIM_DYNAMIC_BIN`, `MUSTER_BIN` and `MUSTERD_BIN` where they are set.
///
/// Once per process; between processes a file lock makes the others wait, and then cargo finds all of it fresh.
pub fn binaries() -> Result<Binaries> {
    static BUILT: OnceLock<Result<Binaries, String>> = OnceLock::new();
    BUILT.get_or_init(|| build().map_err(|e| format!("{e:#}"))).clone().map_err(|e| anyhow::anyhow!(e))
}

/// Builds them for a person who waits for them: says what is built, and shows cargo's progress. Takes the same variables.
pub fn programs() -> Result<Programs> {
    let site = Site::take(true)?;
    Ok(Programs {
        shim: site.program("MUSTER_SHIM_BIN", "muster-shim, static, as it is released", static_shim)?,
        muster: site.program("MUSTER_BIN", "muster, the command line", muster)?,
        musterd: site.program("MUSTERD_BIN", "musterd, the node's daemon", musterd)?,
    })
}

/// Cargo builds are slow on a machine that is busy: this only ends a hang.
const BUILD_LIMIT: Duration = Duration::from_secs(1500);

fn build() -> Result<Binaries> {
    let site = Site::take(false)?;
    Ok(Binaries {
        shim: site.program("MUSTER_SHIM_BIN", "muster-shim", static_shim)?,
        shim_dynamic: site.program("MUSTER_SHIM_DYNAMIC_BIN", "muster-shim, dynamic", dynamic_shim)?,
        muster: site.program("MUSTER_BIN", "muster", muster)?,
        musterd: site.program("MUSTERD_BIN", "musterd", musterd)?,
    })
}

/// Where is built, by one process at a time.
struct Site {
    workspace: PathBuf,
    target: PathBuf,
    /// Whether somebody watches.
    shown: bool,
    _lock: File,
}

impl Site {
    fn take(shown: bool) -> Result<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
        let target = given("CARGO_TARGET_DIR").unwrap_or_else(|| workspace.join("target"));
        fs::create_dir_all(&target)?;
        let lock = File::create(target.join(".muster-binaries.lock"))?;
        if shown && lock.try_lock().is_err() {
            eprintln!("waiting for another program that builds in {}", target.display());
        }
        lock.lock()?;
        Ok(Self { workspace, target, shown, _lock: lock })
    }

    fn program(&self, variable: &str, what: &str, build: fn(&Self) -> Result<PathBuf>) -> Result<PathBuf> {
        let path = match given(variable) {
            Some(path) => path,
            None => {
                if self.shown {
                    eprintln!("building {what}");
                }
                build(self)?
            }
        };
        if !path.is_file() {
            bail!("{} was not built", path.display());
        }
        Ok(path)
    }

    fn cargo(&self, target: &Path, args: &[&str], rustflags: &str) -> Result<()> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(args).arg("--locked").arg("--target-dir").arg(target).current_dir(&self.workspace);
        if !rustflags.is_empty() {
            command.env("RUSTFLAGS", rustflags);
        }
        let doing = || format!("cargo {}", args.join(" "));
        if self.shown {
            let status = command.status().with_context(doing)?;
            if !status.success() {
                bail!("{}: {status}", doing());
            }
        } else {
            run(&mut command, b"", BUILD_LIMIT)?.check().with_context(doing)?;
        }
        Ok(())
    }
}

fn given(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).map(PathBuf::from)
}

fn muster(site: &Site) -> Result<PathBuf> {
    site.cargo(&site.target, &["build", "--package", "muster", "--bin", "muster"], "")?;
    Ok(site.target.join("debug/muster"))
}

fn musterd(site: &Site) -> Result<PathBuf> {
    site.cargo(&site.target, &["build", "--package", "musterd", "--bin", "musterd"], "")?;
    Ok(site.target.join("debug/musterd"))
}

/// What the shim is built for: the triple, and the flags of the compiler. With musl where this toolchain has
/// its target, else with glibc, static both ways.
///
/// musl asks the processor nothing when a program starts; glibc asks it some fifty times, and on a virtual
/// machine every question is a trip to its host. For the same reason, and because it is smaller, the portable
/// arithmetic of curve25519-dalek, which asks nothing either.
pub fn shim_target() -> Result<(String, &'static str)> {
    let ask = |arg: &str| -> Result<String> {
        Ok(run(Command::new("rustc").arg(arg), b"", Duration::from_secs(60))?.check()?.stdout_text())
    };
    let version = ask("-vV")?;
    let host = version.lines().find_map(|l| l.strip_prefix("host: ")).context("rustc -vV names no host")?;
    let sysroot = ask("--print=sysroot")?;
    let musl = host.replace("-linux-gnu", "-linux-musl");
    if musl != host && Path::new(sysroot.trim()).join("lib/rustlib").join(&musl).join("lib").is_dir() {
        return Ok((musl, r#"--cfg curve25519_dalek_backend="serial""#));
    }
    Ok((host.to_owned(), r#"-C target-feature=+crt-static --cfg curve25519_dalek_backend="serial""#))
}

/// The shim as it ships: `--target` keeps its flags away from build scripts.
fn static_shim(site: &Site) -> Result<PathBuf> {
    let (triple, flags) = shim_target()?;
    let dir = site.target.join("static");
    let args = [
        "build",
        "--package",
        "muster-shim",
        "--bin",
        "muster-shim",
        "--profile",
        "shim",
        "--target",
        &triple,
    ];
    site.cargo(&dir, &args, flags)?;
    Ok(dir.join(&triple).join("shim/muster-shim"))
}

/// The flag makes rustix call libc; as shipped it asks the kernel by itself, which no preloaded library sees.
fn dynamic_shim(site: &Site) -> Result<PathBuf> {
    let dir = site.target.join("libc-calls");
    let args = ["build", "--package", "muster-shim", "--bin", "muster-shim"];
    site.cargo(&dir, &args, "--cfg=rustix_use_libc")?;
    Ok(dir.join("debug/muster-shim"))
}
