//! The second act: a node with the daemon, claimed by the code on its console and operated without a login.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use muster_testbed::{Node, Notice, PATIENCE, WAITS, wait_until};

use super::{Stage, title};

const DOCUMENT: &str = "muster:\n  role: init\n  cluster:\n    name: lab\n  node:\n    name: node-1\n  api:\n    enabled: true\n";

/// Plays it on a third node.
pub(super) fn play(stage: &Stage) -> Result<()> {
    title("A third node, with the daemon. It has no owner: it builds nothing and waits");
    let node = stage.bed.node("node-1")?.boot()?;
    wait_for_an_owner(&node, &stage.musterd)?;
    let notice = node.notice()?;
    println!("its console shows:\n{}", notice.text);
    let failed = node.sh("systemctl --failed --plain --no-legend || true")?;
    ensure!(failed.trim().is_empty(), "a node that waits looks failed: {failed}");

    title("Its owner's authority, a client of it, and the claim; the code goes in, and is never sent");
    let code = notice.code.context("the console shows no pairing code")?;
    stage.muster(&["pki", "init", "--danger-no-passphrase"])?;
    stage.muster(&["pki", "issue", "alice", "--role", "admin", "--danger-no-passphrase"])?;
    stage.muster(&["pki", "issue", "carol", "--role", "readonly", "--danger-no-passphrase"])?;
    fs::write(stage.folder.join("code"), format!("{code}\n"))?;
    fs::write(stage.folder.join("node-1.yaml"), DOCUMENT)?;
    let address = node.addr().to_string();
    let claim = ["node", "claim", &address, "--name", "node-1", "--code-file", "code"];
    let more = ["--fingerprint", &notice.fingerprint, "--document", "node-1.yaml"];
    let alice = ["--client", "pki/clients/alice.pem"];
    stage.muster(&[&claim[..], &more].concat())?;
    let built = || Ok(node.exec(&["test", "-e", "/var/lib/muster/bootstrapped"])?.ok());
    wait_until("the node is released", PATIENCE, built)?;

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
    let other = |now: &Notice| now.code.as_ref().is_some_and(|now| *now != code);
    println!("its console shows:\n{}", node.notice_where("the node shows another code", other)?.text);
    Ok(())
}

/// Installs the daemon, and boots the node with a document that waits for everything.
pub(crate) fn wait_for_an_owner(node: &Node, musterd: &Path) -> Result<()> {
    node.install_musterd_from(musterd)?;
    node.describe(WAITS)?;
    node.reboot()
}
