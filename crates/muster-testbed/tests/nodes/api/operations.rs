//! What a node does when it is asked: under its real units and their sandbox, with the real systemd, journald and sshd.

use anyhow::Context as _;

use super::operator::{Operator, holds, nothing_failed, status, until};
use super::*;
use muster_testbed::KeyPair;

/// A node with an owner, and a service of the list that prints.
pub(super) fn operated(bed: &Testbed) -> Result<(Node, Operator)> {
    let node = installed(bed, "a")?;
    let alice = Operator::new(bed, "alice")?;
    node.describe(&alice.document()?)?;
    node.put(
        "/etc/systemd/system/kubelet.service",
        b"[Unit]\nDescription=prints\n[Service]\nExecStart=/bin/bash -c 'n=0; while :; do n=$((n+1)); echo \"tick $$ $n\"; \
          printf \"bytes \\\\377\\\\n\"; sleep 0.5; done'\n[Install]\nWantedBy=multi-user.target\n",
        0o644,
    )?;
    node.sh("systemctl enable --quiet kubelet.service")?;
    node.reboot()?;
    holds(&node, "test -e /var/lib/muster/bootstrapped")?;
    alice.pin(&node)?;
    alice.is_let_in(&node)?;
    Ok((node, alice))
}

#[test]
fn services_are_shown_restarted_and_read_and_no_other_is() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("services")?;
    let (node, alice) = operated(&bed)?;
    let shown = alice.muster(&["node", "services", "a"])?.check()?.stdout_text();
    for name in
        ["kubelet.service", "musterd-core.service", "musterd-edge.service", "muster-bootstrap.service"]
    {
        assert!(shown.contains(name), "{name}: {shown}");
    }
    assert!(!shown.contains("ssh"), "{shown}");
    let pid = || node.sh("systemctl show --property=MainPID --value kubelet.service");
    let before = pid()?;
    alice.muster(&["node", "restart", "a", "--unit", "kubelet"])?.check()?;
    assert_ne!(pid()?, before);
    for (unit, why) in [("musterd-core", "may not be restarted"), ("ssh", "no service of that name")] {
        let refused = alice.muster(&["node", "restart", "a", "--unit", unit])?;
        assert!(!refused.ok() && refused.stderr_text().contains(why), "{unit}: {}", refused.stderr_text());
    }
    let state = status(&alice, &node)?;
    assert_eq!(state["kubernetes"]["active"].as_bool(), Some(true), "{state}");
    assert!(state["health"]["uptimeSeconds"].is_u64() && state["os"]["name"].is_string(), "{state}");

    let four = || -> Result<String> {
        Ok(alice.muster(&["node", "logs", "a", "--unit", "kubelet", "-n", "4"])?.check()?.stdout_text())
    };
    // It was restarted just now.
    let read =
        until("its own lines", || Ok(Some(four()?).filter(|read: &String| !read.contains("systemd"))))?;
    assert_eq!(read.lines().count(), 4, "{read}");
    assert!(read.contains("tick ") && read.contains("bytes \u{fffd}"), "{read}");
    let follow = alice.start(&["node", "logs", "a", "--unit", "kubelet", "-n", "2", "--follow"])?;
    let ticks = until("ticks that go on", || {
        let said = follow.stdout();
        // A line is whole where the next has begun.
        let whole =
            said.rsplit_once('\n').map_or("", |(whole, _)| whole).lines().filter(|l| l.contains("tick "));
        let ticks: Vec<u32> = whole.filter_map(|l| l.split_whitespace().last()?.parse().ok()).collect();
        Ok((ticks.len() > 4).then_some(ticks))
    })
    .with_context(|| follow.said())?;
    drop(follow);
    assert!(ticks.windows(2).all(|w| w[1] == w[0] + 1), "none is missed and none comes twice: {ticks:?}");
    until("the journal's child ends with its follower", || {
        Ok(node.sh("pgrep -fc 'journalctl.*--follow' || true")?.trim().eq("0").then_some(()))
    })?;
    nothing_failed(&node)
}

#[test]
fn an_ssh_key_logs_in_and_does_not_once_it_was_taken_away() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("ssh-key")?;
    let (node, alice) = operated(&bed)?;
    node.wait_ssh()?;
    node.sh("useradd --create-home --shell /bin/bash maria")?;
    let key = KeyPair::generate(&bed.dir(), "maria", &["-t", "ed25519"])?;
    let login = || {
        Ok::<_, anyhow::Error>(bed.ssh(&node, "maria", &key).run("id -un", b"")?.stdout_text() == "maria\n")
    };
    assert!(!login()?);
    alice.write("maria.pub", &key.public_line()?)?;
    let add = ["node", "ssh-key", "add", "a", "--user", "maria", "--key-file", "maria.pub"];
    alice.muster(&add)?.check()?;
    until("the key logs in", || Ok(login()?.then_some(())))?;
    let listed = alice.muster(&["node", "ssh-key", "list", "a"])?.check()?.stdout_text();
    assert!(listed.contains(&key.fingerprint()?) && listed.contains("maria"), "{listed}");
    let nobody =
        alice.muster(&["node", "ssh-key", "add", "a", "--user", "nobody-here", "--key-file", "maria.pub"])?;
    assert!(!nobody.ok() && nobody.stderr_text().contains("no account"), "{}", nobody.stderr_text());
    let revoke = ["node", "ssh-key", "revoke", "a", "--key", &key.fingerprint()?];
    alice.muster(&revoke)?.check()?;
    assert!(!login()?, "it was taken away");
    nothing_failed(&node)
}
