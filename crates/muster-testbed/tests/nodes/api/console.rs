//! Root at the console of a real node, under the real units: another owner, another key, and who is heard.

use super::operator::{Operator, holds, nothing_failed};
use super::*;

/// The owner lost its key: root makes another authority the owner, in the same boot, and the old one is nobody.
#[test]
fn s19_root_at_the_console_sets_another_owner_and_another_key() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("console")?;
    let (node, alice) = claimed(&bed, "a", &[])?;
    let bob = Operator::new(&bed, "bob")?;
    assert!(node.sh("musterd status")?.contains("waits for its owner's document"));

    // Nobody but root, whatever the mode of the socket; and what is no authority changes nothing.
    let asked = "chmod 0666 /run/muster/control.sock; runuser -u nobody -- musterd rekey";
    assert!(!node.exec(&["bash", "-c", asked])?.ok());
    assert!(
        !node
            .exec_with(
                &["musterd", "set-ca", "--file", "-"],
                b"nonsense",
                std::time::Duration::from_secs(30)
            )?
            .ok()
    );
    alice.muster(&["node", "status", "a"])?.check()?;

    node.put("/root/ca.pem", bob.authority()?.as_bytes(), 0o600)?;
    node.sh("musterd set-ca --file /root/ca.pem")?;
    bob.pin(&node)?;
    bob.is_let_in(&node)?;
    assert!(!alice.muster(&["node", "status", "a"])?.ok(), "the old one is nobody");

    let said = node.sh("musterd rekey")?;
    assert!(!bob.muster(&["node", "status", "a"])?.ok(), "it is pinned to the old key");
    let shown = said.split_whitespace().find(|w| w.starts_with("SHA256:")).unwrap_or_default().to_owned();
    assert_eq!(operator::fingerprint(&node)?, shown);
    holds(
        &node,
        "test \"$(cat /var/lib/muster/audit/chain-*.jsonl | grep -c '\"event\":\"console\"')\" -ge 2",
    )?;
    nothing_failed(&node)
}
