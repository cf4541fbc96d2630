//! The example profile, its four phases run as the shim runs them, on a plain Debian node.

use anyhow::{Context, Result, ensure};
use muster_testbed::{Node, Testbed, require_root_or_skip};
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs a phase with the environment of a run, built from nothing, and with umask 077.
fn phase(node: &Node, name: &str, values: &[&str]) -> Result<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../profiles/example-heartbeat")
        .join(format!("{name}.sh"));
    let script = std::fs::read(&file).with_context(|| file.display().to_string())?;
    let mut argv = vec![
        "/usr/bin/env",
        "-i",
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME=/root",
        "LANG=C.UTF-8",
    ];
    argv.extend(values);
    argv.extend(["/bin/sh", "-c", "cd /; umask 077; exec /bin/bash -s"]);
    let out = node.exec_with(&argv, &script, Duration::from_secs(60))?;
    ensure!(out.ok(), "{name}: {}{}", out.stdout_text(), out.stderr_text());
    Ok(out.stdout_text())
}

const LISTING: &str =
    "find /etc /usr/local /var/lib -xdev -not -path '/var/lib/systemd/*' -not -path '/etc/.updated' | sort";

#[test]
fn the_example_profile_installs_joins_leaves_and_uninstalls() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("heartbeat")?;
    let node = bed.node("a")?.boot()?;
    // systemd makes this folder for the first DynamicUser of a host, whoever that is.
    node.sh("mkdir -p -m 0700 /var/lib/private")?;
    let before = node.sh(LISTING)?;

    let early = phase(&node, "join", &["MUSTER_NODE_NAME=a", "MUSTER_HEARTBEAT_ENDPOINT=spool:x"]);
    assert!(
        early.is_err_and(|e| e.to_string().contains("not installed")),
        "join before install says what is missing"
    );
    phase(&node, "install", &[])?;
    phase(&node, "install", &[])?;
    assert_eq!(node.sh("systemctl is-active example-heartbeat.timer || true")?.trim(), "inactive");

    let values = [
        "MUSTER_NODE_NAME=edge-1",
        "MUSTER_HEARTBEAT_ENDPOINT=spool:example",
        "MUSTER_HEARTBEAT_TOKEN=canary-0123456789",
    ];
    let out = phase(&node, "join", &values)?;
    assert!(out.contains(" edge-1 spool:example\n"), "the first beat is part of joining: {out}");
    assert!(!out.contains("canary"), "{out}");
    assert_eq!(node.sh("stat -c '%a %U' /etc/example-heartbeat/token")?.trim(), "600 root");
    assert_eq!(node.sh("systemctl is-active example-heartbeat.timer")?.trim(), "active");
    let beats =
        || -> Result<usize> { Ok(node.sh("wc -l < /var/lib/example-heartbeat/beats")?.trim().parse()?) };
    let (first, started) = (beats()?, Instant::now());
    while beats()? < first + 2 {
        assert!(started.elapsed() < Duration::from_secs(90), "the timer does not beat");
        std::thread::sleep(Duration::from_secs(1));
    }

    // It survives a reboot, as a joined host must.
    node.reboot()?;
    assert_eq!(node.sh("systemctl is-active example-heartbeat.timer")?.trim(), "active");

    // Joined again under another name and without a token, nothing of before is left.
    phase(&node, "join", &["MUSTER_NODE_NAME=edge-2", "MUSTER_HEARTBEAT_ENDPOINT=spool:example"])?;
    assert!(node.sh("tail -n 1 /var/lib/example-heartbeat/beats")?.contains(" edge-2 "));
    assert!(node.sh("test -e /etc/example-heartbeat/token && echo there || echo gone")?.contains("gone"));

    phase(&node, "leave", &[])?;
    phase(&node, "leave", &[])?;
    assert_eq!(node.sh("systemctl is-active example-heartbeat.timer || true")?.trim(), "inactive");
    assert_eq!(
        node.sh("systemctl is-enabled example-heartbeat.timer 2>/dev/null || true")?.trim(),
        "disabled"
    );
    assert!(node.sh("ls -A /etc/example-heartbeat")?.trim().is_empty(), "name and token are forgotten");

    phase(&node, "uninstall", &[])?;
    phase(&node, "uninstall", &[])?;
    assert_eq!(node.sh(LISTING)?, before, "uninstall leaves what was there before install");
    Ok(())
}
