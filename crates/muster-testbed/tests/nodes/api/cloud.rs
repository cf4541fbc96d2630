//! A document that comes with a machine's cloud-config, by the real cloud-init.

use super::operator::{Operator, holds, status};
use super::*;

/// The block is taken from among other keys, by a core that starts when cloud-init has merged them, and nothing else of it is told.
#[test]
fn the_block_of_a_cloud_config_is_taken_once_cloud_init_has_merged_it() -> Result<()> {
    require_root_or_skip!();
    let bed = crate::hosts::forms::with_cloud_init("api-cloud-init")?;
    let node = installed(&bed, "a")?;
    let alice = Operator::new(&bed, "alice")?;
    let pem: String = alice.authority()?.lines().map(|l| format!("      {l}\n")).collect();
    let config = format!(
        "#cloud-config\nwrite_files:\n  - path: /etc/written-by-cloud-init\n    permissions: '0600'\n    content: canary-8c1f77\n\
         muster:\n  role: init\n  cluster:\n    name: lab\n  api:\n    operatorCA: |\n{pem}x-of-somebody-else:\n  secret: canary-8c1f77\n"
    );
    node.put("/var/lib/cloud/seed/nocloud/user-data", config.as_bytes(), 0o600)?;
    node.put("/var/lib/cloud/seed/nocloud/meta-data", b"instance-id: a-1\nlocal-hostname: a\n", 0o644)?;
    // Of its modules the one whose work is looked at: the others want a network.
    let ours =
        b"datasource_list: [NoCloud]\nnetwork: {config: disabled}\ncloud_init_modules: [write-files]\n\
                 cloud_config_modules: []\ncloud_final_modules: []\n";
    node.put("/etc/cloud/cloud.cfg.d/99-testbed.cfg", ours, 0o644)?;
    node.reboot()?;
    holds(&node, "cloud-init status | grep -q 'status: done' && test -s /etc/written-by-cloud-init")?;
    holds(&node, "test -e /var/lib/muster/bootstrapped && test ! -e /etc/muster/config.yaml")?;
    alice.pin(&node)?;
    let state = super::operator::until("it answers", || Ok(status(&alice, &node).ok()))?;
    assert_eq!(
        (state["role"].as_str(), state["cluster"].as_str(), state["management"]["claimedBy"].as_str()),
        (Some("init"), Some("lab"), Some("configuration")),
        "{state}"
    );
    // In this order by their units, not by chance.
    let at = |unit: &str, what: &str| -> Result<u64> {
        let time = node.sh(&format!("systemctl show --value --property={what} {unit}"))?;
        Ok(time.trim().parse()?)
    };
    let merged = at("cloud-init.service", "ExecMainExitTimestampMonotonic")?;
    assert!(merged > 0 && at("musterd-core.service", "ExecMainStartTimestampMonotonic")? > merged);
    assert!(node.sh("systemctl show --value --property=After musterd-core")?.contains("cloud-init.service"));
    let journal = node.sh("journalctl --sync; journalctl -b -o export --all")?;
    assert!(journal.contains("musterd") && !journal.contains("canary-8c1f77"), "a key of somebody else's");
    let ours = node.sh("grep -rlF canary-8c1f77 /var/lib/muster /run/muster /etc/muster || true")?;
    assert_eq!(ours, "");
    super::operator::nothing_failed(&node)
}
