//! The commands of the README and of the page about hosts, typed in their order on a machine of a newcomer, with a real host.
//!
//! Changed are only what a reader changes: the address, the fingerprint, and the answers to questions (a passphrase, a yes).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use muster_testbed::{Node, Sudo, Testbed, binaries, require_root_or_skip};

use super::operator::fingerprint;

fn project() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The indented lines of a part of a page.
pub(crate) fn steps(page: &str, from: &str, to: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(project().join(page))?;
    let part = text.split_once(from).with_context(|| format!("{page} has no {from:?}"))?.1;
    let part = part.split_once(to).with_context(|| format!("{page} has no {to:?}"))?.0;
    Ok(part.lines().filter_map(|l| l.strip_prefix("    ")).map(str::to_owned).collect())
}

/// As the reader types it.
fn typed(line: &str, node: &Node, print: &str) -> String {
    let line = line.replace("10.0.0.11", &node.addr().to_string()).replace("SHA256:…", print);
    let asks = ["uninstall", "unprovision", "--lower", "-l ", "--all"].iter().any(|w| line.contains(w))
        && !line.contains("show");
    match line.as_str() {
        "muster init fleet" => format!("{line} --danger-no-passphrase"),
        l if l.starts_with("muster host") && asks => format!("{line} --yes"),
        _ => line,
    }
}

#[test]
fn cl3_the_commands_of_the_readme_and_of_the_page_about_hosts_run_as_they_are_written() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("pages")?;
    let node = bed.node("edge-1")?.boot()?;
    let admin = bed.keygen("admin")?;
    node.add_admin("debian", &admin, Sudo::NoPassword)?;
    let print = fingerprint(&node)?;

    let (home, built) = (bed.dir().join("newcomer"), binaries()?);
    for folder in [".local/bin", ".ssh"] {
        fs::create_dir_all(home.join(folder))?;
    }
    // By a program: what this process has had open for writing may not be run yet (ETXTBSY) when a test beside forks.
    for (program, name) in [(&built.muster, "muster"), (&built.shim, "muster-shim")] {
        let to = home.join(".local/bin").join(name);
        ensure!(Command::new("cp").arg("--").arg(program).arg(to).status()?.success());
    }
    fs::copy(&admin.private, home.join(".ssh/id_ed25519"))?;
    fs::set_permissions(home.join(".ssh/id_ed25519"), fs::Permissions::from_mode(0o600))?;
    ensure!(Command::new("cp").arg("-r").arg(project().join("profiles")).arg(&home).status()?.success());

    let readme = steps("README.md", "## The first ten minutes", "## From nothing to a claimed node")?;
    let begin =
        readme.iter().position(|l| l.starts_with("muster init")).context("README begins with init")?;
    let mut pages = vec![("README.md", readme.get(begin..).unwrap_or_default().to_vec())];
    let mut hosts = steps("docs/cli.md", "## First steps", "`init` makes")?;
    hosts.push("echo 0123456789abcdef > token".into());
    hosts.extend(steps("docs/hosts.md", "# Hosts", "## Adding a host")?);
    hosts.extend(steps("docs/hosts.md", "## Floors", "## Probing")?);
    pages.push(("docs/hosts.md", hosts));
    for (page, lines) in pages {
        ensure!(lines.len() > 12, "{page}: only {lines:?}");
        let script: String = lines.iter().map(|l| format!("{}\n", typed(l, &node, &print))).collect();
        let _ = fs::remove_dir_all(home.join("fleet"));
        let out = Command::new("timeout")
            .args([
                "--kill-after=5",
                "300",
                "setsid",
                "--wait",
                "bash",
                "-eux",
                "-o",
                "pipefail",
                "-c",
                &script,
            ])
            .current_dir(&home)
            .env_clear()
            .env("HOME", &home)
            .env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", home.join(".local/bin").display()))
            .output()?;
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        ensure!(out.status.success(), "{page}: {}\n{said}", out.status);
    }
    Ok(())
}
