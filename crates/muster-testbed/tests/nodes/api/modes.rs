//! How a node comes to an owner, or to none.

use anyhow::Context as _;

use super::operator::{Operator, active, holds, is_built, nothing_failed, other_than, shown, status, until};
use super::*;

/// Mode A: the certificate in clear. Nobody types anything.
#[test]
fn a_document_that_names_the_authority_makes_the_owner() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("mode-a")?;
    let node = installed(&bed, "a")?;
    let alice = Operator::new(&bed, "alice")?;
    node.describe(&alice.document()?)?;
    node.reboot()?;
    is_built(&node)?;
    alice.pin(&node)?;
    let status = status(&alice, &node)?;
    assert_eq!(status["management"]["claimedBy"].as_str(), Some("configuration"), "{status}");
    nothing_failed(&node)?;
    // An edited document does not open the door again.
    node.describe("muster:\n  role: init\n  api:\n    enabled: true\n    insecure: true\n")?;
    node.reboot()?;
    alice.is_let_in(&node)?;
    let mallory = Operator::new(&bed, "mallory")?;
    let args = ["node", "claim", &node.addr().to_string(), "--no-code", "--yes"];
    assert!(!mallory.muster(&args)?.ok(), "a node that has an owner is claimed by nobody");
    assert!(!mallory.muster(&["node", "status", &node.addr().to_string()])?.ok());
    Ok(())
}

/// Mode B: from a file that comes later.
#[test]
fn a_source_that_comes_later_is_waited_for() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("mode-b")?;
    let node = installed(&bed, "a")?;
    let alice = Operator::new(&bed, "alice")?;
    let document = "muster:\n  role: init\n  api:\n    operatorCAFrom:\n      file: /etc/muster/later.pem\n      waitFor: 10m\n";
    node.describe(document)?;
    node.reboot()?;
    active(&node, &["musterd-core.service"])?;
    assert!(
        !node.exec(&["test", "-e", "/var/lib/muster/bootstrapped"])?.ok(),
        "nothing is built without an owner"
    );
    node.put("/etc/muster/later.pem", alice.authority()?.as_bytes(), 0o644)?;
    holds(&node, "test -e /var/lib/muster/bootstrapped")?;
    alice.pin(&node)?;
    alice.is_let_in(&node)
}

/// `api.insecure`: whoever comes first, and it is told for ever.
#[test]
fn an_open_node_is_taken_by_the_first_and_says_so() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("mode-open")?;
    let node = installed(&bed, "a")?;
    let alice = Operator::new(&bed, "alice")?;
    node.describe("muster:\n  api:\n    enabled: true\n    insecure: true\n")?;
    node.reboot()?;
    active(&node, &["musterd-edge.service"])?;
    until("the console warns", || Ok(node.console().contains("NO CODE IS ASKED FOR").then_some(())))?;
    assert!(!node.console().contains("pairing code"), "{}", node.console());
    let address = node.addr().to_string();
    let blind = alice.muster(&["node", "claim", &address, "--name", "a", "--no-code"])?;
    assert!(!blind.ok(), "without a code and a fingerprint nobody knows what answered");
    // What its console says to type, as it stands there once the address is known.
    until("it is claimed", || {
        let console = node.console();
        let mut lines =
            console.lines().filter_map(|l| l.trim().strip_prefix("claim it")?.trim().strip_prefix("muster "));
        let Some(words) = lines.next_back().filter(|l| l.contains(&address)) else { return Ok(None) };
        assert!(words.contains("--fingerprint SHA256:"), "{words}");
        let words: Vec<&str> = words.split_whitespace().chain(["--name", "a"]).collect();
        Ok(alice.muster(&words)?.ok().then_some(()))
    })?;
    let status = until("its owner is let in", || Ok(status(&alice, &node).ok()))?;
    assert_eq!(status["management"]["unauthenticated"].as_bool(), Some(true), "{status}");
    Ok(())
}

/// No document, or one that turns it off: no port, no process, nothing failed; and `enabled: false` masks the unit.
#[test]
fn where_the_api_is_not_wanted_nothing_listens() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("mode-off")?;
    let node = installed(&bed, "a")?;
    node.reboot()?;
    let left = "[ \"$(systemctl show -p ActiveState --value musterd-core.service)\" = inactive ]";
    let quiet = |node: &Node| -> Result<()> {
        holds(node, left)?;
        assert_eq!(node.sh("ss -Hltn 'sport = :7443'; pgrep -a musterd || true")?, "");
        nothing_failed(node)
    };
    quiet(&node)?;
    assert!(
        !node.exec(&["test", "-e", "/var/lib/muster/bootstrapped"])?.ok(),
        "nobody said what it shall be"
    );

    node.describe("muster:\n  role: init\n  api:\n    enabled: false\n")?;
    node.reboot()?;
    holds(&node, "test -e /var/lib/muster/bootstrapped")?;
    quiet(&node)?;
    let masked = |node: &Node| -> Result<()> {
        for unit in
            ["musterd-core.service", "musterd-edge.service", "musterd-edge.socket", "musterd-control.socket"]
        {
            let enabled = node.exec(&["systemctl", "is-enabled", unit])?;
            assert_eq!(enabled.stdout_text(), "masked\n", "{unit}: enabled: false is a word for good");
        }
        Ok(())
    };
    masked(&node)?;
    // The same where it is said to a daemon that runs, often: its own unit is ended while it masks it.
    for _ in 0..5 {
        node.sh(
            "systemctl unmask --quiet musterd-core.service musterd-edge.service musterd-edge.socket musterd-control.socket; \
             systemctl daemon-reload; systemctl restart musterd-core.service",
        )?;
        quiet(&node)?;
        masked(&node)?;
    }
    Ok(())
}

/// Without a document, a claim lets the node build what it was described as: the operator is asked whether he knows.
#[test]
fn a_claim_that_would_build_is_refused_until_it_is_meant() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("would")?;
    let node = installed(&bed, "a")?;
    let alice = Operator::new(&bed, "alice")?;
    node.describe("muster:\n  role: init\n  cluster:\n    name: lab\n  api:\n    enabled: true\n")?;
    // A /run on a disk would keep the code for whoever reads that disk later: there is none.
    let on_disk = b"[Service]\nBindPaths=/opt/run:/run/muster\n";
    node.put("/run/systemd/system/musterd-core.service.d/disk.conf", on_disk, 0o644)?;
    node.sh("mkdir -p /opt/run; systemctl daemon-reload; systemctl start --no-block musterd-core")?;
    holds(&node, "journalctl -u musterd-core -o cat | grep -q 'the pairing code must not be on a disk'")?;
    assert_eq!(node.sh("ls /opt/run/enrolment.json 2>/dev/null || true")?, "");
    // The drop-in goes with the boot.
    node.reboot()?;
    let refused = alice.claim(&node, &[])?;
    let said = refused.stderr_text();
    assert!(
        !refused.ok() && said.contains("init") && said.contains("lab") && said.contains("--yes"),
        "{said}"
    );
    assert!(!node.exec(&["test", "-e", "/var/lib/muster/api/operator-ca.pem"])?.ok());
    assert_eq!(tries(&node)?, 5, "the same code, and no try was spent");
    alice.claim(&node, &["--yes"])?.check()?;
    holds(&node, "test -e /var/lib/muster/bootstrapped")
}

/// Wrong codes that are still taken, as the core has it for itself.
fn tries(node: &Node) -> Result<u64> {
    let state: serde_json::Value = serde_json::from_str(&node.sh("cat /run/muster/enrolment.json")?)?;
    state["tries"].as_u64().with_context(|| state.to_string())
}

/// Five wrong codes shut the door, whatever is killed in between; root on the console opens it again.
#[test]
fn m17_wrong_codes_are_counted_over_a_crash_and_root_reopens() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("tries")?;
    let node = waiting(&bed, "a")?;
    let alice = Operator::new(&bed, "alice")?;
    let first = shown(&node)?;
    let wrong = if first.code.starts_with('0') { "1111-1111" } else { "0000-0000" };
    let address = node.addr().to_string();
    let guess = || {
        let args = ["node", "claim", &address, "--code-file", "-", "--fingerprint", &first.fingerprint];
        alice.muster_as("alice", &args, format!("{wrong}\n").as_bytes())
    };
    let left = |n: u64| -> Result<()> {
        until(&format!("a wrong code that leaves {n}"), || {
            assert!(!guess()?.ok());
            Ok((tries(&node)? <= n).then_some(()))
        })
    };
    left(3)?;
    node.sh("pkill -KILL -x musterd")?;
    active(&node, &["musterd-core.service", "musterd-edge.service"])?;
    assert_eq!(
        (shown(&node)?.code, tries(&node)?),
        (first.code.clone(), 3),
        "a crash makes no second code, and gives no try back"
    );
    left(0)?;
    let locked = until("the door is shut", || {
        let said = guess()?.stderr_text();
        Ok(said.contains("too many wrong codes").then_some(said))
    })?;
    assert!(locked.contains("pairing renew") || locked.contains("eboot"), "{locked}");
    // The right one comes too late, and the console shows none.
    let late = alice.claim_by(&node, &first, &[])?;
    assert!(!late.ok() && late.stderr_text().contains("too many wrong codes"), "{}", late.stderr_text());
    assert_eq!(node.notice()?.code, None);
    node.sh("musterd pairing renew")?;
    let second = other_than(&node, &first.code)?;
    assert_eq!(second.fingerprint, first.fingerprint);
    alice.claim(&node, &[])?.check()?;
    Ok(())
}
