//! The second act: a node with the daemon, claimed by the code on its console and operated without a login.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use muster_testbed::Node;

use super::{Stage, title};

/// What the document of a node says that waits to be told everything.
const WAITS: &str = "muster:\n  api:\n    enabled: true\n";
const DOCUMENT: &str = "muster:\n  role: init\n  cluster:\n    name: lab\n  node:\n    name: node-1\n  api:\n    enabled: true\n";

/// Plays it on a third node.
pub(super) fn play(stage: &Stage) -> Result<()> {
    title("A third node, with the daemon. It has no owner: it builds nothing and waits");
    let node = stage.bed.node("node-1")?.boot()?;
    wait_for_an_owner(&node, &stage.musterd)?;
    let notice = notice(&node)?;
    println!("its console shows:\n{notice}");
    let failed = node.sh("systemctl --failed --plain --no-legend || true")?;
    ensure!(failed.trim().is_empty(), "a node that waits looks failed: {failed}");

    title("Its owner's authority, a client of it, and the claim; the code goes in, and is never sent");
    let word = |label: &str| -> Result<&str> {
        let line = notice.lines().find_map(|l| l.trim_start().strip_prefix(label));
        Ok(line.with_context(|| format!("the console shows no {label}"))?.trim())
    };
    stage.muster(&["pki", "init", "--danger-no-passphrase"])?;
    stage.muster(&["pki", "issue", "alice", "--role", "admin", "--danger-no-passphrase"])?;
    stage.muster(&["pki", "issue", "carol", "--role", "readonly", "--danger-no-passphrase"])?;
    fs::write(stage.folder.join("code"), format!("{}\n", word("pairing code")?))?;
    fs::write(stage.folder.join("node-1.yaml"), DOCUMENT)?;
    let (address, fingerprint) = (node.addr().to_string(), word("fingerprint")?.to_owned());
    let claim = ["node", "claim", &address, "--name", "node-1", "--code-file", "code"];
    let more = ["--fingerprint", &fingerprint, "--document", "node-1.yaml"];
    let alice = ["--client", "pki/clients/alice.pem"];
    stage.muster(&[&claim[..], &more].concat())?;
    until("the node is released", || Ok(node.exec(&["test", "-e", "/var/lib/muster/bootstrapped"])?.ok()))?;

    title("Operated without a login");
    let call = |args: &[&str]| stage.muster(&[args, &alice].concat());
    call(&["node", "status", "node-1"])?;
    call(&["node", "services", "node-1"])?;
    call(&["node", "logs", "node-1", "--unit", "muster-bootstrap", "--lines", "5"])?;
    call(&["audit", "verify", "node-1"])?;

    title("What is refused: a second claim, and a reader who would reboot");
    stage.refused(&claim)?;
    stage.refused(&["node", "reboot", "node-1", "--yes", "--client", "pki/clients/carol.pem"])?;

    title("Given up: reset, and it is nobody's again");
    call(&["node", "reset", "node-1", "--yes"])?;
    let before = word("pairing code")?.to_owned();
    until("the node shows another code", || {
        Ok(self::notice(&node).is_ok_and(|now| now.contains("pairing code") && !now.contains(&before)))
    })?;
    println!("its console shows:\n{}", self::notice(&node)?);
    Ok(())
}

/// Installs the daemon, and boots the node with a document that waits for everything.
pub(crate) fn wait_for_an_owner(node: &Node, musterd: &Path) -> Result<()> {
    node.install_musterd_from(musterd)?;
    node.put("/etc/muster/config.yaml", WAITS.as_bytes(), 0o600)?;
    node.reboot()
}

/// The newest notice on the node's console: what somebody who stands before it reads.
pub(crate) fn notice(node: &Node) -> Result<String> {
    let mut found = None;
    until("the console shows how to claim the node", || {
        let console = node.console().replace('\r', "");
        let begin = console.rfind("This machine has no owner.");
        found = begin.and_then(|at| console.get(at..)).filter(|n| n.contains("claim it")).map(|n| {
            let lines = n.lines().take_while(|l| !l.trim_start().starts_with("claim it"));
            let last = n.lines().find(|l| l.trim_start().starts_with("claim it")).unwrap_or_default();
            lines.chain([last]).collect::<Vec<_>>().join("\n")
        });
        Ok(found.is_some())
    })?;
    found.context("no notice")
}

fn until(what: &str, mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !done()? {
        if begun.elapsed() > Duration::from_secs(90) {
            bail!("{what}: not within 90 s");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}
