//! `cargo xtask dist`: what a release is made of, under `dist/`.
//!
//! The shim is static (with musl where the toolchain has that target, else with glibc) and runs on any
//! Linux of its architecture; the CLI is linked to the glibc of
//! the machine that builds it, so release builds belong on the oldest system that is supported.
//! Both carry their dependency list (cargo auditable) and have an SBOM (CycloneDX) beside them.
//! Times inside the packages come from `SOURCE_DATE_EPOCH`, else from the last commit, so that
//! two builds of one commit differ as little as the toolchain allows.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use muster_testbed::deb;
use sha2::{Digest as _, Sha256};

use crate::run::{root, run as spawn};
use crate::{generate, setup};

const AUDITABLE: &str = "0.7.7";
const CYCLONEDX: &str = "0.5.9";

/// One program and how it is packaged.
struct Program {
    name: &'static str,
    profile: &'static str,
    /// No shared library at all.
    is_static: bool,
    summary: &'static str,
    depends: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        name: "muster-shim",
        profile: "shim",
        is_static: true,
        summary: "runs only what a trusted key signed (ForceCommand target)",
        depends: "openssh-server, sudo, bash",
    },
    Program {
        name: "muster",
        profile: "release",
        is_static: false,
        summary: "signs, provisions and operates hosts that run only signed scripts",
        depends: "libc6, libgcc-s1",
    },
    Program {
        name: "musterd",
        profile: "release",
        is_static: false,
        summary: "the API of a node that is claimed and not logged into",
        depends: deb::MUSTERD_DEPENDS,
    },
];

/// Builds everything.
pub(crate) fn run() -> Result<()> {
    let dist = root()?.join("dist");
    if dist.exists() {
        fs::remove_dir_all(&dist)?;
    }
    fs::create_dir_all(&dist)?;
    let epoch = source_date()?;
    let triple = host_triple()?;
    let auditable = setup::cargo_tool("cargo-auditable", AUDITABLE)?;
    let version = env!("CARGO_PKG_VERSION");
    let manual = tempfile::tempdir()?;
    generate::run(manual.path())?;
    let mut files = vec![archive(manual.path(), &dist, version, &epoch)?];
    for program in PROGRAMS {
        let (triple, flags) =
            if program.is_static { muster_testbed::shim_target()? } else { (triple.clone(), "") };
        let built = build(program, &auditable, (&triple, flags), &epoch)?;
        let named = dist.join(format!("{}-{version}-{triple}", program.name));
        fs::copy(&built, &named)?;
        files.push(named);
        files.push(sbom(program, &dist, version)?);
        files.push(debian(program, (&built, manual.path()), &dist, version, &epoch)?);
    }
    sums(&dist, &files)
}

fn host_triple() -> Result<String> {
    let out = Command::new("rustc").arg("-vV").output().context("rustc -vV")?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().find_map(|l| l.strip_prefix("host: ")).map(str::to_owned).context("rustc names no host")
}

/// Seconds since the epoch that stand for "now" in what is built.
fn source_date() -> Result<String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let out = Command::new("git").current_dir(root()?).args(["log", "-1", "--format=%ct"]).output()?;
    if !out.status.success() {
        bail!("not in a git checkout: set SOURCE_DATE_EPOCH");
    }
    Ok(String::from_utf8_lossy(&out.stdout).trim().to_owned())
}

fn build(program: &Program, auditable: &Path, (triple, flags): (&str, &str), epoch: &str) -> Result<PathBuf> {
    let target = root()?.join("target/dist");
    let mut c = Command::new(auditable);
    // Called by its own name, cargo-auditable wants the subcommand as cargo would pass it.
    c.current_dir(root()?).args(["auditable", "build", "--locked", "--package", program.name]);
    c.args(["--bin", program.name, "--profile", program.profile, "--target", triple, "--target-dir"]);
    c.arg(&target).env("SOURCE_DATE_EPOCH", epoch);
    if !flags.is_empty() {
        c.env("RUSTFLAGS", flags);
    }
    spawn(&mut c)?;
    Ok(target.join(triple).join(program.profile).join(program.name))
}

fn sbom(program: &Program, dist: &Path, version: &str) -> Result<PathBuf> {
    let tool = setup::cargo_tool("cargo-cyclonedx", CYCLONEDX)?;
    let manifest = root()?.join("crates").join(program.name).join("Cargo.toml");
    let name = format!("{}-{version}.cdx", program.name);
    let mut c = Command::new(tool);
    c.current_dir(root()?).args(["cyclonedx", "--format", "json", "--override-filename", &name]);
    spawn(c.arg("--manifest-path").arg(&manifest))?;
    // It writes one beside each manifest of the workspace; only this program's is wanted.
    let mut found = None;
    let mut folders = vec![root()?.join("xtask")];
    for entry in fs::read_dir(root()?.join("crates"))? {
        folders.push(entry?.path());
    }
    for folder in folders {
        let file = folder.join(format!("{name}.json"));
        if file.is_file() {
            if file.parent() == manifest.parent() {
                let to = dist.join(format!("{name}.json"));
                fs::copy(&file, &to)?;
                found = Some(to);
            }
            fs::remove_file(file)?;
        }
    }
    found.with_context(|| format!("cargo cyclonedx wrote no {name}.json"))
}

/// The manual pages of all programs and the completions, for who takes the programs without a package: unpacked in a prefix.
fn archive(manual: &Path, dist: &Path, version: &str, epoch: &str) -> Result<PathBuf> {
    let out = dist.join(format!("muster-manual-{version}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=a+rX,u+w,go-w"]);
    spawn(
        tar.arg(format!("--mtime=@{epoch}"))
            .args(["--use-compress-program=gzip -9n", "-cf"])
            .arg(&out)
            .arg("-C")
            .arg(manual)
            .arg("share"),
    )?;
    Ok(out)
}

/// A Debian package: the program with its manual pages and completions.
fn debian(
    program: &Program,
    (built, manual): (&Path, &Path),
    dist: &Path,
    version: &str,
    epoch: &str,
) -> Result<PathBuf> {
    let Program { name, summary, depends, .. } = *program;
    let package = deb::Package { name, version, summary, depends };
    deb::pack(&package, (built, &pages(name, manual)?), dist, epoch, &[])
}

/// Of what was made, what belongs to a program: path in the package and bytes. Manual pages are compressed, without name and time in
/// them, as Debian policy 12.1 wants it.
fn pages(program: &str, manual: &Path) -> Result<Vec<(String, Vec<u8>)>> {
    let mut out = Vec::new();
    for (folder, is_manual) in [
        ("share/man/man1", true),
        ("share/man/man8", true),
        ("share/bash-completion/completions", false),
        ("share/zsh/vendor-completions", false),
        ("share/fish/vendor_completions.d", false),
    ] {
        for entry in fs::read_dir(manual.join(folder)).with_context(|| folder.to_owned())? {
            let file = entry?.path();
            let name = file.file_name().context("a file has a name")?.to_string_lossy().into_owned();
            let stem = name.split('.').next().unwrap_or_default().trim_start_matches('_');
            // The shim's page begins with the name of the command line's program.
            let owner =
                PROGRAMS.iter().map(|p| p.name).find(|p| stem == *p || stem.starts_with(&format!("{p}-")));
            if owner != Some(program) {
                continue;
            }
            if is_manual {
                let packed = Command::new("gzip").arg("-9nc").arg(&file).output().context("gzip")?;
                if !packed.status.success() {
                    bail!("gzip {}: {}", file.display(), String::from_utf8_lossy(&packed.stderr));
                }
                out.push((format!("usr/{folder}/{name}.gz"), packed.stdout));
            } else {
                out.push((format!("usr/{folder}/{name}"), fs::read(&file)?));
            }
        }
    }
    if out.is_empty() {
        bail!("{program} has no manual page");
    }
    out.sort();
    Ok(out)
}

/// `SHA256SUMS`, as `sha256sum -c` reads it.
fn sums(dist: &Path, files: &[PathBuf]) -> Result<()> {
    let mut out = fs::File::create(dist.join("SHA256SUMS"))?;
    for file in files {
        let digest: String = Sha256::digest(fs::read(file)?).iter().map(|b| format!("{b:02x}")).collect();
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        println!("{digest}  {name}");
        writeln!(out, "{digest}  {name}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn each_package_has_its_own_pages() {
        let made = tempfile::tempdir().unwrap();
        for file in [
            "man/man1/muster.1",
            "man/man1/muster-node-claim.1",
            "man/man8/muster-shim.8",
            "man/man8/musterd.8",
            "man/man8/musterd-set-ca.8",
            "bash-completion/completions/muster",
            "bash-completion/completions/musterd",
            "zsh/vendor-completions/_muster",
            "fish/vendor_completions.d/muster.fish",
        ] {
            let file = made.path().join("share").join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "text").unwrap();
        }
        let of = |program| {
            pages(program, made.path()).unwrap().into_iter().map(|(path, _)| path).collect::<Vec<_>>()
        };
        assert_eq!(of("muster-shim"), ["usr/share/man/man8/muster-shim.8.gz"]);
        assert_eq!(
            of("muster"),
            [
                "usr/share/bash-completion/completions/muster",
                "usr/share/fish/vendor_completions.d/muster.fish",
                "usr/share/man/man1/muster-node-claim.1.gz",
                "usr/share/man/man1/muster.1.gz",
                "usr/share/zsh/vendor-completions/_muster",
            ]
        );
        assert_eq!(
            of("musterd"),
            [
                "usr/share/bash-completion/completions/musterd",
                "usr/share/man/man8/musterd-set-ca.8.gz",
                "usr/share/man/man8/musterd.8.gz",
            ]
        );
        // gzip's flags and time (RFC 1952, 2.3): no name, no time, so that two builds are the same.
        let (_, packed) = pages("muster-shim", made.path()).unwrap().remove(0);
        assert_eq!(packed.get(..8), Some(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0][..]));
        assert!(pages("muster-manager", made.path()).is_err(), "a program without a page");
    }
}
