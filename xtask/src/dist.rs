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
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sha2::{Digest as _, Sha256};

use crate::run::{root, run as spawn};
use crate::setup;

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
        depends: "libc6, libgcc-s1, systemd (>= 249)",
    },
];

/// What is done when the daemon's package comes (deb-postinst(5)). The second argument is the version before, also of one that was
/// removed; `was-enabled` is what its removal left. A node that has an owner keeps him over a new version: both halves start anew, and a
/// port is open after it only if it was before.
fn come() -> String {
    let always = muster_testbed::MUSTERD_INSTALLED;
    let first = muster_testbed::MUSTERD_FIRST;
    format!(
        "#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\n{always}\
         if [ -z \"$2\" ] || [ -e {WAS_ENABLED} ]; then\n  \
         [ \"$(systemctl is-enabled musterd-core.service 2>/dev/null)\" = masked ] || {first}  \
         rm -f {WAS_ENABLED}\nelse\n  \
         systemctl try-restart musterd-core.service musterd-edge.service || true\nfi\n"
    )
}

/// What is done when it goes. State stays: who owns the node is not forgotten because a package was removed.
fn go() -> String {
    format!(
        "#!/bin/sh\nset -e\n[ \"$1\" = remove ] || exit 0\n\
         ! systemctl is-enabled --quiet musterd-core.service || touch {WAS_ENABLED}\n\
         systemctl disable --quiet --now musterd-edge.service musterd-core.service musterd-edge.socket musterd-control.socket || true\n\
         systemctl stop --quiet muster-fetch.socket || true\n"
    )
}

const WAS_ENABLED: &str = "/var/lib/muster/was-enabled";

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
    let mut files = Vec::new();
    for program in PROGRAMS {
        let (triple, flags) =
            if program.is_static { muster_testbed::shim_target()? } else { (triple.clone(), "") };
        let built = build(program, &auditable, (&triple, flags), &epoch)?;
        let named = dist.join(format!("{}-{version}-{triple}", program.name));
        fs::copy(&built, &named)?;
        files.push(named);
        files.push(sbom(program, &dist, version)?);
        files.push(debian(program, &built, &dist, version, &epoch)?);
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

/// A Debian package: the program, its licence, for the CLI its manual pages and completions, for the daemon its units.
/// Only the daemon's has maintainer scripts; installing the others changes no account, no sudoers, no sshd.
fn debian(program: &Program, built: &Path, dist: &Path, version: &str, epoch: &str) -> Result<PathBuf> {
    let arch = String::from_utf8(Command::new("dpkg").arg("--print-architecture").output()?.stdout)?;
    let arch = arch.trim();
    let stage = tempfile::tempdir()?;
    let tree = stage.path().join("tree");
    let put = |path: &str, bytes: &[u8], mode: u32| -> Result<()> {
        let to = tree.join(path);
        fs::create_dir_all(to.parent().context("a path in a package has a folder")?)?;
        fs::write(&to, bytes)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(mode))?;
        Ok(())
    };
    put(&format!("usr/bin/{}", program.name), &fs::read(built)?, 0o755)?;
    let copyright = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\n\
         Copyright: the Muster authors\nLicense: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n".to_string();
    put(&format!("usr/share/doc/{}/copyright", program.name), copyright.as_bytes(), 0o644)?;
    match program.name {
        "muster" => pages(built, &tree)?,
        "musterd" => {
            for (path, bytes) in muster_testbed::musterd_files()? {
                put(path.trim_start_matches('/'), &bytes, 0o644)?;
            }
            for (link, to) in muster_testbed::MUSTERD_LINKS {
                let link = tree.join(link.trim_start_matches('/'));
                fs::create_dir_all(link.parent().context("a link in a package has a folder")?)?;
                symlink(to, link)?;
            }
            put("DEBIAN/postinst", come().as_bytes(), 0o755)?;
            put("DEBIAN/prerm", go().as_bytes(), 0o755)?;
        }
        _ => {}
    }
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: {arch}\nSection: admin\nPriority: optional\n\
         Maintainer: Muster maintainers <maintainers@muster.invalid>\nDepends: {depends}\n{recommends}Description: {summary}\n\
         \u{20}Part of Muster: machines that already exist join, are operated in and leave a cluster, and\n\
         \u{20}nothing runs as root on them that a trusted key did not vouch for.\n",
        name = program.name,
        depends = program.depends,
        // What servers of URLs are judged by, where the administrator names no anchors of his own.
        recommends = if program.name == "musterd" { "Recommends: ca-certificates\n" } else { "" },
        summary = program.summary,
    );
    put("DEBIAN/control", control.as_bytes(), 0o644)?;
    let out = dist.join(format!("{}_{version}_{arch}.deb", program.name));
    spawn(
        Command::new("dpkg-deb")
            .env("SOURCE_DATE_EPOCH", epoch)
            .args(["--root-owner-group", "--build"])
            .arg(&tree)
            .arg(&out)
            .stdout(Stdio::null()),
    )?;
    Ok(out)
}

/// Manual pages and completions, as the CLI itself writes them.
fn pages(muster: &Path, tree: &Path) -> Result<()> {
    let write = |args: &[&str], to: &str| -> Result<()> {
        let out = Command::new(muster).args(args).output()?;
        if !out.status.success() || out.stdout.is_empty() {
            bail!("muster {args:?} printed nothing: {}", String::from_utf8_lossy(&out.stderr));
        }
        let to = tree.join(to);
        fs::create_dir_all(to.parent().context("a path in a package has a folder")?)?;
        fs::write(to, out.stdout)?;
        Ok(())
    };
    write(&["completion", "bash"], "usr/share/bash-completion/completions/muster")?;
    write(&["completion", "zsh"], "usr/share/zsh/vendor-completions/_muster")?;
    write(&["completion", "fish"], "usr/share/fish/vendor_completions.d/muster.fish")?;
    let man = tree.join("usr/share/man/man1");
    fs::create_dir_all(&man)?;
    spawn(Command::new(muster).arg("man").arg(&man))
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
