//! A disk that is full under a node's state, under its real units.

use super::operator::{Operator, active, is_built, nothing_failed, shown, status};
use super::*;

const STATE: &str = "/var/lib/muster";
const INIT: &str = "muster:\n  role: init\n  cluster:\n    name: lab\n  api:\n    enabled: true\n";
/// What there is of an owner, and of what he said.
const HALF: &str =
    "cd /var/lib/muster; ls -d bootstrapped node.json api/*.pem api/*.json 2>/dev/null || true";

/// A claim and a document are refused in words, and leave nothing half done; what is asked is answered; with room again all of it works.
#[test]
fn s15_a_claim_and_a_document_on_a_full_disk_are_refused_and_go_through_with_room() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("full")?;
    let node = installed(&bed, "a")?;
    let alice = Operator::new(&bed, "alice")?;
    let document = alice.write("node.yaml", INIT)?;
    let document = document.to_string_lossy();
    node.describe(WAITS)?;
    node.small_disk(STATE, "4m")?;
    node.sh("systemctl start --no-block musterd-core.service")?;
    let first = shown(&node)?;
    let before = node.sh(HALF)?;

    node.fill_disk(STATE)?;
    let refused = alice.claim(&node, &["--document", &document])?;
    let said = refused.stderr_text();
    assert!(!refused.ok() && said.contains("No space left on device"), "{said}");
    assert_eq!(node.sh(HALF)?, before, "nobody's, and nothing of it is there: {said}");
    assert_eq!(node.sh("cat /etc/muster/config.yaml")?, "muster:\n  api:\n    enabled: true\n");
    active(&node, &["muster-parked.target", "musterd-core.service", "musterd-edge.service"])?;
    let enrolment: serde_json::Value = serde_json::from_str(&node.sh("cat /run/muster/enrolment.json")?)?;
    assert_eq!(enrolment["code"].as_str().map(|c| c.replace('-', "")), Some(first.code.replace('-', "")));
    assert_eq!(enrolment["tries"].as_u64(), Some(5), "no try was spent: {enrolment}");

    node.free_disk(STATE)?;
    alice.claim(&node, &[])?.check()?;
    alice.is_let_in(&node)?;
    let owned = node.sh(HALF)?;
    node.fill_disk(STATE)?;
    let refused = alice.muster(&["node", "apply", "a", "--file", &document])?;
    let said = refused.stderr_text();
    assert!(!refused.ok() && said.contains("No space left on device"), "{said}");
    assert_eq!(node.sh(HALF)?, owned, "{said}");
    assert_eq!(node.sh("cat /etc/muster/config.yaml")?, "muster:\n  api:\n    enabled: true\n");
    // What only reads goes on, also for a core that is started on the full disk.
    assert_eq!(status(&alice, &node)?["bootstrapped"].as_bool(), Some(false));
    node.sh("systemctl restart musterd-core")?;
    alice.is_let_in(&node)?;

    node.free_disk(STATE)?;
    alice.muster(&["node", "apply", "a", "--file", &document])?.check()?;
    is_built(&node)?;
    assert_eq!(node.sh("cat /etc/muster/config.yaml")?, INIT);
    alice.muster(&["audit", "verify", "a"])?.check()?;
    nothing_failed(&node)
}
