//! Debian packages, made by the real dpkg-deb(1): those of a release and those that a test installs are made by the same lines.
//!
//! Formats: deb-control(5), deb-postinst(5), deb-prerm(5).

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::daemon::{MUSTERD_FIRST, MUSTERD_INSTALLED, MUSTERD_LINKS, Packaged, musterd_files};
use crate::process::Output;

/// What a package says of itself.
#[derive(Debug)]
pub struct Package<'a> {
    /// Its name, which is its program's.
    pub name: &'a str,
    /// Its version.
    pub version: &'a str,
    /// One line of what it is.
    pub summary: &'a str,
    /// The value of `Depends`.
    pub depends: &'a str,
}

/// What the daemon's package needs.
pub const MUSTERD_DEPENDS: &str = "libc6, libgcc-s1, systemd (>= 249)";

/// What a removal of the package leaves beside the state of the node: whether its daemon was enabled. dpkg itself forgets a package
/// that has no conffiles.
const WAS_ENABLED: &str = "/var/lib/muster/was-enabled";
const WAS_DISABLED: &str = "/var/lib/muster/was-disabled";

/// What is done when the daemon's package comes (deb-postinst(5)). The second argument is the version before. A node that has an owner
/// keeps him over a new version: both halves start anew, and a port is open after it only if it was before.
fn come() -> String {
    format!(
        "#!/bin/sh\nset -e\n[ \"$1\" = configure ] || exit 0\n{MUSTERD_INSTALLED}\
         if [ -e {WAS_ENABLED} ] || {{ [ -z \"$2\" ] && [ ! -e {WAS_DISABLED} ]; }}; then\n  \
         [ \"$(systemctl is-enabled musterd-core.service 2>/dev/null)\" = masked ] || {MUSTERD_FIRST}\
         else\n  \
         systemctl try-restart musterd-core.service musterd-edge.service || true\nfi\n\
         rm -f {WAS_ENABLED} {WAS_DISABLED}\n"
    )
}

/// What is done when it goes. State stays: who owns the node is not forgotten because a package was removed.
fn go() -> String {
    format!(
        "#!/bin/sh\nset -e\n[ \"$1\" = remove ] || exit 0\n\
         if systemctl is-enabled --quiet musterd-core.service; then touch {WAS_ENABLED}; else touch {WAS_DISABLED}; fi\n\
         systemctl disable --quiet --now musterd-edge.service musterd-core.service musterd-edge.socket musterd-control.socket || true\n\
         systemctl stop --quiet muster-fetch.socket || true\n"
    )
}

/// Makes a Debian package in the folder `into`: the program, its licence, whatever is beside it (`more`, paths without a leading
/// slash, 0644), for the daemon its units and links. Only the daemon's has maintainer scripts; installing the others changes no account,
/// no sudoers, no sshd. `options` are dpkg-deb's, `epoch` is the time of all files, in seconds.
pub fn pack(
    package: &Package<'_>,
    (program, more): (&Path, &[Packaged]),
    into: &Path,
    epoch: &str,
    options: &[&str],
) -> Result<PathBuf> {
    let name = package.name;
    let arch = Output::of(Command::new("dpkg").arg("--print-architecture"), b"", crate::process::DEADLINE)?;
    let arch = arch.check()?.stdout_text();
    let arch = arch.trim();
    let stage = tempfile::tempdir()?;
    let tree = stage.path().join("tree");
    let put = |path: &str, bytes: &[u8], mode: u32| -> Result<()> {
        let to = tree.join(path.trim_start_matches('/'));
        fs::create_dir_all(to.parent().context("a path in a package has a folder")?)?;
        fs::write(&to, bytes)?;
        fs::set_permissions(&to, fs::Permissions::from_mode(mode))?;
        Ok(())
    };
    put(&format!("usr/bin/{name}"), &fs::read(program)?, 0o755)?;
    let copyright = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\n\
         Copyright: the Muster authors\nLicense: Apache-2.0\n On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.\n";
    put(&format!("usr/share/doc/{name}/copyright"), copyright.as_bytes(), 0o644)?;
    for (path, bytes) in more {
        put(path, bytes, 0o644)?;
    }
    let daemon = name == "musterd";
    if daemon {
        for (path, bytes) in musterd_files()? {
            put(&path, &bytes, 0o644)?;
        }
        for (link, to) in MUSTERD_LINKS {
            let link = tree.join(link.trim_start_matches('/'));
            fs::create_dir_all(link.parent().context("a link in a package has a folder")?)?;
            symlink(to, link)?;
        }
        put("DEBIAN/postinst", come().as_bytes(), 0o755)?;
        put("DEBIAN/prerm", go().as_bytes(), 0o755)?;
    }
    let control = format!(
        "Package: {name}\nVersion: {version}\nArchitecture: {arch}\nSection: admin\nPriority: optional\n\
         Maintainer: Muster maintainers <maintainers@muster.invalid>\nDepends: {depends}\n{recommends}Description: {summary}\n\
         \u{20}Part of Muster: machines that already exist join, are operated in and leave a cluster, and\n\
         \u{20}nothing runs as root on them that a trusted key did not vouch for.\n",
        version = package.version,
        depends = package.depends,
        // What servers of URLs are judged by, where the administrator names no anchors of his own.
        recommends = if daemon { "Recommends: ca-certificates\n" } else { "" },
        summary = package.summary,
    );
    put("DEBIAN/control", control.as_bytes(), 0o644)?;
    let out = into.join(format!("{name}_{}_{arch}.deb", package.version));
    let mut build = Command::new("dpkg-deb");
    build.env("SOURCE_DATE_EPOCH", epoch).args(options).args(["--root-owner-group", "--build"]);
    Output::of(build.arg(&tree).arg(&out), b"", std::time::Duration::from_secs(600))?.check()?;
    Ok(out)
}
