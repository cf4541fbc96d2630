//! The README's way from nothing to a claimed node, typed as it stands there.
//!
//! Changed are only what a reader changes: the address, and the answers to questions (a passphrase, the code).

use std::time::Duration;

use anyhow::ensure;
use muster_testbed::{Output, binaries};

use super::operator::{Operator, holds, shown};
use super::*;
use crate::hosts::pages::steps;

#[test]
fn cl3_the_commands_of_the_readme_claim_a_node() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("newcomer")?;
    let node = installed(&bed, "node-1")?;
    node.put("/etc/muster/config.yaml", b"muster:\n  api:\n    enabled: true\n", 0o600)?;
    node.reboot()?;
    let console = shown(&node)?;
    holds(&node, "[ -n \"$(ss -Hltn 'sport = :7443')\" ]")?;
    let newcomer = Operator::empty(&bed, "newcomer")?;
    newcomer.write("code", &format!("{}\n", console.code))?;
    let lines = steps("README.md", "## From nothing to a claimed node", "## Read on")?;
    let begin = lines.iter().position(|l| l.starts_with("muster pki init"));
    let lines = lines.get(begin.unwrap_or(lines.len())..).unwrap_or_default();
    ensure!(lines.len() >= 7, "only {lines:?}");
    let script: String = lines
        .iter()
        .map(|line| line.replace("198.18.1.10", &node.addr().to_string()))
        .map(|line| match line {
            l if l.starts_with("muster pki") => format!("{l} --danger-no-passphrase\n"),
            l if l.starts_with("muster node claim") => format!("{l} --code-file code\n"),
            l => format!("{l}\n"),
        })
        .collect();
    let mut shell = newcomer.command("/bin/bash".as_ref(), &["-eux", "-o", "pipefail", "-c", &script]);
    let folder = binaries()?.muster;
    let folder = folder.parent().map(|f| f.display().to_string()).unwrap_or_default();
    shell.env("PATH", format!("{folder}:/usr/bin:/bin"));
    let out = Output::of(&mut shell, b"", Duration::from_secs(120))?.check()?;
    ensure!(out.stdout_text().contains("claimed     node-1"), "{}", out.stdout_text());
    holds(&node, "test -e /var/lib/muster/bootstrapped")
}
