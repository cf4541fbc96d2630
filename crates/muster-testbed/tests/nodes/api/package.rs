//! What installing the package does, and what it does not.

use super::*;

#[test]
fn the_units_are_sound_and_there_is_an_account_that_owns_nothing() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("package")?;
    let node = installed(&bed, "a")?;
    // A word of a unit that this systemd does not know, or a ring of orderings, is told here.
    let said = node.exec(&[
        "systemd-analyze",
        "verify",
        "musterd-core.service",
        "musterd-edge.service",
        "muster-bootstrap.service",
    ])?;
    assert_eq!((said.ok(), said.stderr_text().as_str()), (true, ""), "systemd-analyze verify");
    let account = node.sh("getent passwd muster-edge")?;
    assert!(account.trim_end().ends_with(":/nonexistent:/usr/sbin/nologin"), "{account}");
    assert_eq!(node.sh("find / -xdev -user muster-edge -print")?, "", "a file of the edge's own");
    assert_eq!(
        node.sh("stat -c '%a %U:%G' /run/muster /run/muster/edge")?,
        "755 root:root\n750 root:muster-edge\n"
    );
    assert_eq!(
        node.sh("systemctl is-enabled musterd-core.service musterd-edge.socket musterd-control.socket")?,
        "enabled\nenabled\nenabled\n"
    );
    assert_eq!(node.sh("ss -Hltn 'sport = :7443'")?, "", "installing opens no port");
    Ok(())
}
