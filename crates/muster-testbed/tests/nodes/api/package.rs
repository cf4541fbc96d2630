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
        "muster-fetch.socket",
        "muster-fetch@.service",
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

/// What the edge says of its own confinement, under its unit on a node whose manager lets it.
#[test]
fn the_edge_is_confined_by_landlock_and_seccomp() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("confined")?;
    let node = waiting(&bed, "a")?;
    super::operator::holds(&node, "journalctl -u musterd-edge -o cat | grep -q 'edge: confined'")?;
    let said = node.sh("journalctl -u musterd-edge -o cat | grep 'edge: confined'")?;
    assert!(!said.contains("no Landlock"), "{said}");
    let status =
        node.sh("grep -E '^(CapEff|CapBnd|Seccomp|NoNewPrivs):' /proc/$(pgrep -f 'musterd edge')/status")?;
    assert_eq!(
        status.split_whitespace().collect::<Vec<_>>(),
        ["CapEff:", "0000000000000000", "CapBnd:", "0000000000000000", "NoNewPrivs:", "1", "Seccomp:", "2"]
    );
    Ok(())
}

/// As the core sees it from its sandbox, whose `/proc` has the boot id of the kernel below: what nspawn lays over it is not there.
#[test]
fn m19_records_name_the_boot_and_the_next_boot_of_a_container_is_another() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("boots")?;
    let node = installed(&bed, "a")?;
    node.describe(WAITS)?;
    let boot = || -> Result<String> {
        node.reboot()?;
        let start = node.sh("cut -d ' ' -f 22 /proc/1/stat")?.trim().to_owned();
        super::operator::until("a record of this start", || {
            let all =
                node.sh("grep -h '\"event\":\"started\"' /var/lib/muster/audit/chain-*.jsonl || true")?;
            let record: Option<serde_json::Value> =
                all.lines().last().map(serde_json::from_str).transpose()?;
            let boot = record.and_then(|r| r["boot"].as_str().map(str::to_owned));
            Ok(boot.filter(|boot| boot.ends_with(&format!(".{start}"))))
        })
    };
    let (first, second) = (boot()?, boot()?);
    assert_ne!(first, second);
    let kernel = |boot: &str| boot.split('.').next().map(str::to_owned);
    assert_eq!(kernel(&first), kernel(&second), "the kernel has not booted");
    Ok(())
}
