//! The README's way from nothing to a claimed node, typed as it stands there.
//!
//! Changed are only what a reader changes: the address, and the answers to questions (a passphrase, the code).

use std::time::Duration;

use anyhow::ensure;
use muster_testbed::{Output, binaries};

use super::operator::{Operator, Shown, holds, listens, shown};
use super::*;
use crate::hosts::pages::steps;

#[test]
fn cl3_the_commands_of_the_readme_claim_a_node() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("newcomer")?;
    let (node, newcomer, _) = newcomer(&bed, "node-1")?;
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
    let said = typed_by(&newcomer, &["-eux", "-o", "pipefail", "-c", &script])?;
    ensure!(said.contains("claimed     node-1"), "{said}");
    holds(&node, "test -e /var/lib/muster/bootstrapped")
}

/// A node that nobody owns, and somebody who has read its console and has nothing else: the code is in a file.
fn newcomer(bed: &Testbed, name: &str) -> Result<(Node, Operator, Shown)> {
    let node = waiting(bed, name)?;
    let console = shown(&node)?;
    listens(&node)?;
    let newcomer = Operator::empty(bed, "newcomer")?;
    newcomer.write("code", &format!("{}\n", console.code))?;
    Ok((node, newcomer, console))
}

/// What a shell shows that finds `muster` where an installation has it.
fn typed_by(reader: &Operator, args: &[&str]) -> Result<String> {
    let mut shell = reader.command("/bin/bash".as_ref(), args);
    let folder = binaries()?.muster;
    let folder = folder.parent().map(|f| f.display().to_string()).unwrap_or_default();
    shell.env("PATH", format!("{folder}:/usr/bin:/bin"));
    Ok(Output::of(&mut shell, b"", Duration::from_secs(240))?.check()?.stdout_text())
}

/// The page's lines, and what else the page takes for granted.
fn run_page(reader: &Operator, lines: &[String]) -> Result<String> {
    let script: String = lines.iter().map(|l| format!("{l}\n")).collect();
    typed_by(reader, &["-eux", "-c", &format!("export MUSTER_CLIENT=pki/clients/alice.pem\n{script}")])
}

#[test]
fn cl3_the_commands_of_the_pages_about_nodes_and_their_authority_run_as_they_are_written() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("nodepages")?;
    let (node, reader, console) = newcomer(&bed, "edge-1")?;
    let address = node.addr().to_string();
    let typed = |line: &String| {
        let line = line
            .replace("192.0.2.7", &address)
            .replace("192.0.2.8", &address)
            .replace("SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU", &console.fingerprint);
        match line.as_str() {
            l if l.starts_with("muster pki init") || l.starts_with("muster pki issue") => {
                format!("{l} --danger-no-passphrase")
            }
            l if l.starts_with("muster node claim") => format!("{l} --code-file code"),
            l if l.starts_with("muster pki rotate") => format!("{l} --yes"),
            // An hour is not waited for.
            l if l.contains("--follow") => format!("timeout 5 {l} || [ $? = 124 ]"),
            l => l.to_owned(),
        }
    };
    let page = "docs/nodes.md";
    let lines = steps(page, "## From nothing to a claimed node", "## Which nodes, as whom")?;
    ensure!(lines.len() == 5, "{lines:?}");
    let mut out = run_page(&reader, &lines.iter().map(typed).collect::<Vec<_>>())?;

    // Files of a record, as root on the node would hand them over.
    let all = node.sh("cat /var/lib/muster/audit/chain-*.jsonl")?;
    let lines: Vec<&str> = all.lines().collect();
    for (name, part) in
        ["chain-1.jsonl", "chain-4711.jsonl"].iter().zip(lines.chunks(lines.len().div_ceil(2).max(1)))
    {
        reader.write(name, &part.iter().map(|l| format!("{l}\n")).collect::<String>())?;
    }
    let mut lines = steps(page, "## What nodes were asked", "## Signed requests")?;
    ensure!(lines.len() == 4, "{lines:?}");
    lines.extend(steps(page, "## With curl", "## State")?.iter().map(|l| l.trim().to_owned()));
    // Two names of one node were two rotations of it; and a list must be signed before it is handed over.
    lines.extend(["muster node forget edge-2".to_owned(), "muster pki revoke".to_owned()]);
    lines.extend(steps("docs/pki.md", "## Lifetimes and revocation", "## Another authority")?);
    lines.extend(steps("docs/pki.md", "## Another authority", "Whoever stole")?);
    // The new authority's client is let in, and the old one is not.
    lines.push("muster node status edge-1 --client new/clients/alice.pem".to_owned());
    lines.push("! muster node status edge-1".to_owned());
    out += &run_page(&reader, &lines.iter().map(typed).collect::<Vec<_>>())?;
    for word in ["claimed     edge-1", "pinned      edge-2", "hold together", "rotated", "\"hostname\""] {
        ensure!(out.contains(word), "no {word:?}: {out}");
    }
    Ok(())
}
