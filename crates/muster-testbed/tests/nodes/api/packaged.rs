//! The daemon's package, made as a release makes it, in the hands of the real dpkg.

use std::process::Command;

use super::operator::{Operator, holds, nothing_failed, until};
use super::*;
use muster_testbed::{binaries, deb};

const UNITS: &str = "musterd-core.service musterd-edge.service musterd-edge.socket musterd-control.socket";

/// Puts the package of a version on the node, with the program of the tests, which is made smaller for it.
fn packed(bed: &Testbed, node: &Node, version: &str) -> Result<()> {
    let program = bed.dir().join("musterd");
    let strip = Command::new("strip").arg("-o").arg(&program).arg(&binaries()?.musterd).status();
    if !strip.is_ok_and(|s| s.success()) {
        std::fs::copy(&binaries()?.musterd, &program)?;
    }
    let package =
        deb::Package { name: "musterd", version, summary: "a test's", depends: deb::MUSTERD_DEPENDS };
    let made = deb::pack(&package, (&program, &[]), &bed.dir(), "1700000000", &["-Znone"])?;
    node.put_file(&made, &format!("/root/musterd-{version}.deb"), 0o644)
}

/// No port, no process, and nothing that failed.
fn quiet(node: &Node) -> Result<()> {
    holds(node, "[ \"$(systemctl show -p ActiveState --value musterd-core.service)\" = inactive ]")?;
    assert_eq!(node.sh("ss -Hltn 'sport = :7443'; pgrep -a musterd || true")?, "");
    nothing_failed(node)
}

fn dpkg(node: &Node, words: &str) -> Result<()> {
    let argv: Vec<&str> = ["dpkg"].into_iter().chain(words.split(' ')).collect();
    let done = node.exec(&argv)?.check()?;
    // A maintainer script says nothing where nothing is wrong, and systemctl warns of what it does not like.
    let said = done.stderr_text();
    anyhow::ensure!(!said.contains("ailed") && !said.contains("rror"), "dpkg {words}: {said}");
    Ok(())
}

/// Whether each unit that the package enables is so.
fn enabled(node: &Node) -> Result<Vec<String>> {
    let told = node.exec(&["bash", "-c", &format!("systemctl is-enabled {UNITS}")])?;
    Ok(told.stdout_text().lines().map(str::to_owned).collect())
}

#[test]
fn no_step_of_the_package_opens_a_port_that_was_closed_or_forgets_an_owner() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("dpkg")?;
    let node = bed.node("a")?.boot()?;
    let alice = Operator::new(&bed, "alice")?;
    packed(&bed, &node, "1.0.0")?;
    packed(&bed, &node, "1.0.1")?;

    // Nothing is described: neither the package nor a start opens anything.
    dpkg(&node, "-i /root/musterd-1.0.0.deb")?;
    assert_eq!(enabled(&node)?, ["enabled", "static", "enabled", "enabled"]);
    quiet(&node)?;
    node.sh("systemctl start musterd-core || true")?;
    quiet(&node)?;

    // A document that turns it off masks it, and no later version undoes that; nor does a removal.
    node.describe("muster:\n  role: init\n  api:\n    enabled: false\n")?;
    node.sh("systemctl start musterd-core || true")?;
    let off = ["masked"; 4];
    until("it is masked", || Ok((enabled(&node)? == off).then_some(())))?;
    for words in ["-i /root/musterd-1.0.1.deb", "-r musterd", "-i /root/musterd-1.0.1.deb"] {
        dpkg(&node, words)?;
        assert_eq!(enabled(&node)?, off, "{words}");
        quiet(&node)?;
    }

    // An owner: the port was open, and is open after a new version, with the same certificate.
    node.describe(&alice.document()?)?;
    node.sh(&format!("systemctl unmask --quiet {UNITS}; systemctl enable --quiet musterd-core; systemctl start musterd-core"))?;
    let answers = || alice.is_let_in(&node);
    let owned = || node.sh("cd /var/lib/muster; cat api/operator-ca.pem api/server.crt; ls bootstrapped");
    holds(&node, "test -e /var/lib/muster/bootstrapped")?;
    alice.pin(&node)?;
    answers()?;
    let (owner, halves) = (owned()?, node.sh("pgrep -x musterd | sort")?);
    dpkg(&node, "-i /root/musterd-1.0.0.deb")?;
    answers()?;
    assert_eq!(owned()?, owner);
    holds(&node, "[ $(pgrep -xc musterd) = 2 ]")?;
    let now = node.sh("pgrep -x musterd | sort")?;
    assert!(now.lines().all(|pid| !halves.contains(pid)), "both begin anew: {halves}{now}");
    nothing_failed(&node)?;

    // What an administrator stopped and disabled stays so.
    node.sh("systemctl disable --quiet --now musterd-core musterd-edge.socket musterd-control.socket; systemctl stop musterd-edge")?;
    dpkg(&node, "-i /root/musterd-1.0.1.deb")?;
    quiet(&node)?;
    let disabled = ["disabled", "static", "disabled", "disabled"];
    assert_eq!(enabled(&node)?, disabled);
    for words in ["-r musterd", "-i /root/musterd-1.0.1.deb"] {
        dpkg(&node, words)?;
        quiet(&node)?;
    }
    assert_eq!(enabled(&node)?, disabled, "also by a package that went in between");
    node.sh("systemctl enable --quiet musterd-core; systemctl start musterd-core")?;
    answers()?;

    // Removed it is quiet, and comes back with its owner at the next boot.
    dpkg(&node, "-r musterd")?;
    assert_eq!(
        node.sh(
            "ss -Hltn 'sport = :7443'; pgrep -a musterd || true; ls /usr/bin/musterd 2>/dev/null || true"
        )?,
        ""
    );
    assert_eq!(node.sh("systemctl list-units --plain --no-legend 'musterd*' 'muster-fetch*' || true")?, "");
    assert_eq!(owned()?, owner);
    dpkg(&node, "-i /root/musterd-1.0.1.deb")?;
    assert_eq!(enabled(&node)?, ["enabled", "static", "enabled", "enabled"]);
    assert_eq!(node.sh("ss -Hltn 'sport = :7443'")?, "", "that waits for a boot, or for whoever starts it");
    node.reboot()?;
    answers()?;
    assert_eq!(owned()?, owner);

    // Purged, the machine has the state of its owner and nothing of the program.
    dpkg(&node, "-P musterd")?;
    assert_eq!(
        node.sh("ss -Hltn 'sport = :7443'; pgrep -a musterd || true; dpkg -L musterd 2>/dev/null || true")?,
        ""
    );
    let left = node.sh(
        "find / -xdev -name '*muster*' -not -path '/root/*' -not -path '/proc/*' -not -path '/run/*' | sort",
    )?;
    assert_eq!(left, "/etc/muster\n/var/lib/muster\n", "folders of state alone");
    assert_eq!(owned()?, owner);
    nothing_failed(&node)
}
