//! What ends a node, what the kernel said, and where a secret of its document is.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use super::faults::records;
use super::operator::{Operator, holds, nothing_failed, until};
use super::*;
use anyhow::Context as _;

/// A bootstrap token: its name is public, its secret is looked for.
const TOKEN: &str = "canary.7f3a9c51d0e2b846";
const SECRET: &str = "7f3a9c51d0e2b846";

fn worker() -> String {
    format!(
        "muster:\n  role: worker\n  cluster:\n    name: lab\n    endpoint: api.example:6443\n  join:\n    token: {TOKEN}\n    \
         caCertHashes: ['sha256:{}']\n  api:\n    enabled: true\n",
        "0".repeat(64)
    )
}

/// Command lines and environments of all processes of the node that show the secret.
fn shown_by_processes(node: &Node) -> Result<BTreeSet<String>> {
    let root = format!("/proc/{}/root/proc", node.leader()?);
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(&root)?.flatten() {
        for what in ["cmdline", "environ"] {
            let bytes = std::fs::read(entry.path().join(what)).unwrap_or_default();
            let text = String::from_utf8_lossy(&bytes).replace('\0', " ");
            if text.contains(SECRET) {
                found.insert(format!("{what}: {text}"));
            }
        }
    }
    Ok(found)
}

/// It is looked for while the node is claimed with it, built with it, asked and started anew.
#[test]
fn ku8_the_token_of_a_document_is_in_the_document_and_nowhere_else() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("token")?;
    let node = installed(&bed, "a")?;
    let alice = Operator::new(&bed, "alice")?;
    node.describe(WAITS)?;
    node.sh("systemctl start --no-block musterd-core.service")?;
    let document = alice.write("node.yaml", &worker())?;
    let document = document.to_string_lossy();
    let (stop, mut said) = (AtomicBool::new(false), Vec::new());
    let shown = std::thread::scope(|s| {
        let watcher = s.spawn(|| -> Result<BTreeSet<String>> {
            let mut found = BTreeSet::new();
            while !stop.load(Ordering::Relaxed) {
                found.extend(shown_by_processes(&node)?);
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            Ok(found)
        });
        let asked = (|| -> Result<()> {
            let mut keep = |ran: muster_testbed::Output| {
                said.push(format!("{}{}", ran.stdout_text(), ran.stderr_text()))
            };
            keep(alice.claim(&node, &["--document", &document])?.check()?);
            holds(&node, "test -e /var/lib/muster/bootstrapped")?;
            until("it answers", || Ok(alice.muster(&["node", "status", "a"])?.ok().then_some(())))?;
            for words in [
                "node status a -o json",
                "node logs a -n 1000",
                "node logs a -n 1000 -o json",
                "audit tail a -n 1000",
            ] {
                keep(alice.muster(&words.split(' ').collect::<Vec<_>>())?.check()?);
            }
            // What is refused is not quoted, here or there.
            keep(alice.muster(&["node", "apply", "a", "--file", &document])?);
            // A document that is nearly right, which nothing but the node reads.
            node.sh("sed -i 's/token: canary/token: Canary/' /etc/muster/config.yaml; systemctl restart musterd-core")?;
            until("it answers", || Ok(alice.muster(&["node", "status", "a"])?.ok().then_some(())))?;
            holds(&node, "journalctl -b -u musterd-core -o cat | grep -q 'no bootstrap token'")?;
            node.sh("sed -i 's/token: Canary/token: canary/' /etc/muster/config.yaml; systemctl restart musterd-core; musterd status >/dev/null")?;
            until("it answers", || Ok(alice.muster(&["node", "status", "a"])?.ok().then_some(())))
        })();
        stop.store(true, Ordering::Relaxed);
        let watched = watcher.join().map_err(|_| anyhow::anyhow!("the watcher broke"))?;
        asked.and(watched)
    })?;
    assert!(shown.is_empty(), "{shown:#?}");
    assert_eq!(said.iter().find(|text| text.contains(SECRET)), None);

    let journal = node.sh("journalctl --sync; journalctl -b -o export --all")?;
    assert!(journal.contains("musterd") && !journal.contains(SECRET), "the journal, each field of it");
    assert!(records(&node)?.len() > 5);
    // All that is on its disks, in memory's file systems too.
    let found = node.sh(&format!(
        "grep -rlF --devices=skip --exclude-dir=proc --exclude-dir=sys --exclude-dir=dev {SECRET} / 2>/dev/null || true"
    ))?;
    assert_eq!(found, "/etc/muster/config.yaml\n");
    assert_eq!(node.sh("stat -c '%a %U:%G' /etc/muster/config.yaml")?, "600 root:root\n");
    nothing_failed(&node)
}

/// It is gone after its answer, with a record of who asked; what is started later is another boot of it.
#[test]
fn a_node_is_shut_down_and_stays_off() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("shutdown")?;
    let (node, alice) = super::operations::operated(&bed)?;
    // A container's journal has none of the kernel's records: what is shown is that no other record takes their place.
    let kernel =
        alice.muster(&["node", "logs", "a", "--unit", "kernel", "-n", "100"])?.check()?.stdout_text();
    assert_eq!(kernel, node.sh("journalctl --quiet -b --dmesg -o cat || true")?);

    let boots = node.exits().len();
    let unsure = alice.muster(&["node", "shutdown", "a"])?;
    assert!(unsure.code() == Some(4) && node.exits().len() == boots, "{}", unsure.stderr_text());
    let told = alice.muster(&["node", "shutdown", "a", "--yes"])?.check()?;
    assert!(told.stdout_text().contains("shutting down"), "{}", told.stdout_text());
    until("it is off", || Ok((node.exits().len() > boots).then_some(())))?;
    // 0 is a machine that powered off, 133 one that reboots.
    assert_eq!(node.exits().last(), Some(&0), "{:?}", node.exits());
    let gone = alice.muster(&["node", "status", "a", "--timeout", "5s"])?;
    assert!(matches!(gone.code(), Some(5 | 11)), "{:?} {}", gone.code(), gone.stderr_text());

    node.power_on()?;
    until("it answers", || Ok(alice.muster(&["node", "status", "a"])?.ok().then_some(())))?;
    let all = records(&node)?;
    let ours: Vec<_> = all.iter().filter(|r| r["op"].as_str() == Some("shutdown")).collect();
    let events: Vec<_> = ours.iter().filter_map(|r| r["event"].as_str()).collect();
    assert_eq!(events, ["intent", "outcome"], "{ours:?}");
    let who = ours.first().context("a record")?["who"].to_string();
    assert!(who.contains("alice"), "{who}");
    assert_ne!(ours.last().context("a record")?["boot"], all.last().context("a record")?["boot"]);
    alice.muster(&["audit", "verify", "a"])?.check()?;
    nothing_failed(&node)
}
