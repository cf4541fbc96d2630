//! Looking before doing, going on after a kill, and floors by hand, as whole commands on one host.

use std::time::Duration;

use anyhow::Result;
use muster_testbed::{Cable, PATIENCE, Sudo, Testbed, require_root_or_skip, wait_until};

use super::operator::{Operator, field};

#[test]
fn plans_change_nothing_a_killed_provisioning_is_resumed_and_floors_are_set() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("plans")?;
    let (node, operator, admin) = Operator::of_one_host(&bed, "edge-1", "root", Sudo::None)?;
    operator.tiny()?;
    let provision = operator.provision("edge-1", "--profile tiny -o json");

    let rows = operator.run(&format!("{provision} --plan"), b"")?.good()?.json()?;
    assert_eq!(field(&rows, "edge-1", "result"), "to do", "{rows:#}");
    let steps = field(&rows, "edge-1", "steps").as_array().map_or(0, Vec::len);
    assert!(steps > 5, "{rows:#}");
    node.sh("[ ! -e /usr/bin/muster-shim ] && [ ! -e /etc/muster ] && ! getent passwd muster")?;

    // Killed in the middle, of which the way to the host makes sure; the next one goes on with it.
    let cable = node.bad_cable(Cable { delay: Duration::from_millis(50), loss_percent: 0 })?;
    let mut run = operator.start(&provision, b"")?;
    wait_until("the transaction", PATIENCE, || {
        Ok(node.exec(&["test", "-e", "/var/lib/muster/provision/open/id"])?.ok())
    })?;
    let group = run.id().to_string();
    // The child of timeout(1) is muster.
    std::process::Command::new("pkill").args(["-KILL", "-P", &group]).status()?;
    run.kill()?;
    run.wait()?;
    drop(cable);
    node.sh("[ -e /var/lib/muster/provision/open/id ]")?;
    let ran = operator.run(&format!("{provision} --resume"), b"")?.good()?;
    assert!(ran.err.contains("it is gone on with"), "{}", ran.err);
    let rows = operator.run(&format!("{provision} --plan"), b"")?.good()?.json()?;
    assert_eq!(field(&rows, "edge-1", "result"), "unchanged", "{rows:#}");

    floors(&operator, &node)?;
    // Two at once, on every host of a pool, by an administrator who is not root and has to say a password.
    node.add_admin("ops", &admin, Sudo::Password("correct horse"))?;
    operator.write("sudo-password", "correct horse\n")?;
    let set = "host floor set -l pool=edge --yes -o json --floor tiny=4 --floor other=2 --admin-user ops --admin-key admin";
    let rows = operator.run(set, b"")?.ended(3)?.json()?;
    assert_eq!(field(&rows, "edge-1", "reason"), "admin-password", "{rows:#}");
    operator.run(&format!("{set} --sudo-password-file sudo-password"), b"")?.good()?;
    // The host has both; it shows those of profiles that may run there.
    let have = node.sh("grep '^floor: ' /var/lib/muster/shim/floors | sort")?;
    assert_eq!(have, "floor: other 2\nfloor: tiny 4\n");

    let rows = operator.run("host unprovision edge-1 --plan -o json", b"")?.good()?.json()?;
    assert_eq!(field(&rows, "edge-1", "result"), "to do", "{rows:#}");
    node.sh("[ -e /usr/bin/muster-shim ] && getent passwd muster")?;
    operator.run("host unprovision edge-1 --yes", b"")?.good()?;
    node.sh("[ ! -e /usr/bin/muster-shim ] && ! getent passwd muster")?;
    Ok(())
}

fn floors(operator: &Operator, node: &muster_testbed::Node) -> Result<()> {
    let file = "/var/lib/muster/shim/floors";
    let shown = || -> Result<serde_json::Value> {
        let rows = operator.run("host floor show edge-1 -o json", b"")?.good()?.json()?;
        Ok(field(&rows, "edge-1", "floors")["tiny"].clone())
    };
    let set =
        |more: &str, code: i32| operator.run(&format!("host floor set edge-1 {more}"), b"")?.ended(code);
    assert_eq!(shown()?, 3);
    set("--floor tiny=9 --plan", 0)?;
    assert_eq!(shown()?, 3);
    set("--floor tiny=9", 0)?;
    assert_eq!(shown()?, 9);
    assert!(set("--floor tiny=8", 4)?.out.contains("floor-lower"));
    assert!(set("--floor tiny=8 --lower", 4)?.err.contains("confirm-needed"));
    set("--floor tiny=8 --lower --plan", 0)?;
    assert_eq!(shown()?, 9);
    set("--floor tiny=8 --lower --yes", 0)?;
    assert_eq!(shown()?, 8);
    // The shim takes what was written: the intent of epoch 3 is below it.
    operator.run("host join edge-1 --profile tiny", b"")?.ended(6)?;
    node.sh(&format!("echo nonsense > {file}"))?;
    assert!(set("--floor tiny=9", 4)?.out.contains("floors-malformed"));
    set("--floor tiny=7 --rebuild --plan", 0)?;
    node.sh(&format!("grep -q nonsense {file}"))?;
    set("--floor tiny=3 --rebuild --yes", 0)?;
    assert_eq!(shown()?, 3);
    operator.run("host join edge-1 --profile tiny", b"")?.good()?;
    Ok(())
}
