//! From a node that nobody owns to one that is operated, and back.

use super::operator::{Operator, active, is_built, nothing_failed, other_than, shown, status, until};
use super::*;

/// What stands above a login prompt, by agetty's own reading, which wants a terminal.
const PROMPT: &str = "script -qc 'agetty --show-issue' /dev/null";
const INIT: &str = "muster:\n  role: init\n  cluster:\n    name: lab\n  api:\n    enabled: true\n";

/// The whole way: unclaimed, claimed with a document, released in the same boot, still claimed after a reboot, reset, unclaimed.
#[test]
fn a_node_is_claimed_with_a_document_released_and_reset() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("claim")?;
    let node = installed(&bed, "a")?;
    node.describe(WAITS)?;
    node.reboot()?;
    let first = shown(&node)?;
    // It looks parked, not failed; and nothing was built.
    active(&node, &["muster-parked.target", "musterd-core.service", "musterd-edge.service"])?;
    assert_eq!(
        node.sh("systemctl is-active muster-claimed.target muster-bootstrap.service || true")?,
        "inactive\ninactive\n"
    );
    nothing_failed(&node)?;
    assert!(node.journal()?.contains(&first.code), "the code is in the journal");
    assert!(node.sh(PROMPT)?.contains(&first.code), "the code is above the login prompt");
    assert!(!node.journal()?.contains("agetty --reload:"), "it could be told to read it anew");

    let alice = Operator::new(&bed, "alice")?;
    let document = alice.write("node.yaml", INIT)?;
    let document = document.to_string_lossy();
    let claimed = alice.claim(&node, &["--document", &document])?.check()?;
    assert!(claimed.stdout_text().contains("SHA256:"), "{}", claimed.stdout_text());
    // In the same boot.
    is_built(&node)?;
    assert_eq!(node.sh("systemctl is-active muster-parked.target || true")?, "inactive\n");
    assert!(node.exits().len() == 1, "one reboot, before the claim: {:?}", node.exits());
    let status = status(&alice, &node)?;
    assert_eq!(
        (status["bootstrapped"].as_bool(), status["role"].as_str(), status["cluster"].as_str()),
        (Some(true), Some("init"), Some("lab"))
    );
    assert_eq!(status["management"]["claimedBy"].as_str(), Some("pairing-code"), "{status}");
    assert!(!node.sh(PROMPT)?.contains(&first.code));

    // Nobody else may, and another document is refused.
    let mallory = Operator::new(&bed, "mallory")?;
    let args =
        ["node", "claim", &node.addr().to_string(), "--code-file", "-", "--fingerprint", &first.fingerprint];
    let refused = mallory.muster_as("alice", &args, format!("{}\n", first.code).as_bytes())?;
    assert!(!refused.ok() && refused.stderr_text().contains("has an owner"), "{}", refused.stderr_text());
    let again = alice.muster(&["node", "apply", "a", "--file", &document])?;
    assert!(!again.ok() && again.stderr_text().contains("bootstrapped"), "{}", again.stderr_text());

    node.reboot()?;
    active(&node, &["musterd-core.service", "musterd-edge.service"])?;
    assert_eq!(node.sh("systemctl is-active muster-parked.target || true")?, "inactive\n");
    alice.is_let_in(&node)?;
    assert!(!node.exec(&["test", "-e", "/run/muster/enrolment.json"])?.ok(), "a claimed node has no code");

    let boot = node.sh("cat /proc/sys/kernel/random/boot_id")?;
    alice.muster(&["node", "reset", "a", "--yes"])?.check()?;
    until("it has rebooted", || {
        Ok(node.sh("cat /proc/sys/kernel/random/boot_id").ok().filter(|now| *now != boot))
    })?;
    node.wait_boot()?;
    let second = other_than(&node, &first.code)?;
    assert_ne!(second.fingerprint, first.fingerprint, "it is another machine to whoever pinned it");
    assert_eq!(
        node.sh("ls /var/lib/muster/api/operator-ca.pem /var/lib/muster/bootstrapped 2>/dev/null || true")?,
        ""
    );
    active(&node, &["muster-parked.target"])?;
    nothing_failed(&node)
}
