//! What goes wrong, and what is said and done then.

use std::time::Duration;

use anyhow::Result;
use muster_testbed::{Node, PATIENCE, Sudo, Testbed, require_root_or_skip, wait_until};

use super::operator::{Operator, field, fingerprint};

const SLOW: &str = "set -euo pipefail\necho begins\ntouch /run/begun\nsleep \"$MUSTER_SECONDS\" & until ! kill -0 $! 2>/dev/null || [ -e /run/go ]; do sleep 0.1; done\nkill $! 2>/dev/null || true\necho ends\ntouch /run/ended\n";
const MANIFEST: &str = "profile: slow\nepoch: 3\ntargets: [pool=edge]\nparams:\n  MUSTER_SECONDS: {pattern: \"[0-9]{1,3}\", phases: [join]}\n\
    phases:\n  join: {deadline: 2m}\n";

/// A host that takes the profile `slow`.
fn slow_host(bed: &Testbed, name: &str) -> Result<(Node, Operator)> {
    let (node, operator, _) = Operator::of_one_host(bed, name, "root", Sudo::None)?;
    operator.profile("slow", MANIFEST, &[("join", SLOW), ("leave", "set -euo pipefail\nexit 7\n")])?;
    operator.run(&operator.provision(name, "--profile slow"), b"")?.good()?;
    Ok((node, operator))
}

/// The script of a run has begun.
fn begun(node: &Node) -> Result<()> {
    wait_until("the run", PATIENCE, || Ok(node.exec(&["test", "-e", "/run/begun"])?.ok()))
}

/// A busy host is waited for and then gets its run, once; a script's failure, a refusal and a busy host each have their code.
#[test]
fn s13_busy_is_waited_for_and_every_end_has_its_own_code() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("busy")?;
    let (node, operator) = slow_host(&bed, "edge-1")?;
    let first = operator.start("host join edge-1 --profile slow --param MUSTER_SECONDS=110 -o json", b"")?;
    begun(&node)?;
    let probe = operator.run("host probe edge-1 -o json", b"")?.good()?.json()?;
    assert_eq!(field(&probe, "edge-1", "facts")["running"]["phase"], "join", "{probe:#}");

    let short =
        operator.run("host leave edge-1 --profile slow --timeout 3s -o json", b"")?.ended(7)?.json()?;
    assert_eq!(field(&short, "edge-1", "result"), "busy", "{short:#}");
    assert!(
        field(&short, "edge-1", "detail").as_str().unwrap().contains("join runs there since"),
        "{short:#}"
    );
    let refused =
        || Ok::<_, anyhow::Error>(node.journal_of(&["--identifier=muster-shim"])?.matches("busy").count());
    let before = refused()?;
    let patient = operator.start("host join edge-1 --profile slow --param MUSTER_SECONDS=0 -o json", b"")?;
    wait_until("a busy host", PATIENCE, || Ok(refused()? > before))?;
    node.sh("touch /run/go")?;
    let first = Operator::finish(first)?.good()?.json()?;
    assert_eq!(field(&first, "edge-1", "sent"), 1);
    let patient = Operator::finish(patient)?.good()?.json()?;
    assert!(field(&patient, "edge-1", "sent").as_u64() >= Some(2), "{patient:#}");

    let failed = operator.run("host leave edge-1 --profile slow -o json", b"")?.ended(10)?.json()?;
    assert!(field(&failed, "edge-1", "detail").as_str().unwrap().contains("exited 7"), "{failed:#}");

    // The floor rises for the fleet by a signed intent; what is older is refused by the host, in the shim's own words.
    let old = operator.dir.join("old");
    std::process::Command::new("cp").arg("-r").arg(operator.dir.join("slow")).arg(&old).status()?;
    operator.profile("slow", &MANIFEST.replace("epoch: 3", "epoch: 4"), &[])?;
    operator.run("host floor raise --all --yes --profile slow", b"")?.good()?;
    let floors = operator.run("host floor show --all -o json", b"")?.good()?.json()?;
    assert_eq!(field(&floors, "edge-1", "floors")["slow"], 4, "{floors:#}");
    let ran = operator.run("host join edge-1 --profile old --param MUSTER_SECONDS=0", b"")?.ended(6)?;
    assert!(ran.err.contains("muster-shim: refused [epoch-floor]"), "{}", ran.err);
    assert!(ran.err.contains("muster explain epoch-floor"), "{}", ran.err);

    // Only root's hand lowers it, and only when it is meant.
    operator.run("host floor set edge-1 --floor slow=3", b"")?.ended(4)?;
    operator.run("host floor set edge-1 --floor slow=3 --lower --yes", b"")?.good()?;
    assert!(node.journal()?.contains("floor-lowered"));

    // Asked for here, refused here: nothing is connected to.
    for (line, code, word) in [
        ("host join edge-1 --profile slow", 4, "param-missing"),
        ("host join edge-1 --profile slow --param MUSTER_SECONDS=x", 4, "param-pattern"),
        (
            "host join edge-1 --profile slow --param MUSTER_SECONDS=1 --param MUSTER_X=1",
            4,
            "param-undeclared",
        ),
        ("host join edge-1 --profile slow --secret MUSTER_SECONDS=12345678", 2, "secret-on-argv"),
        ("host install edge-1 --profile slow", 3, "phase-missing"),
    ] {
        let ran = operator.run(line, b"")?.ended(code)?;
        assert!(ran.err.contains(&format!("error[{word}]")), "{line}: {}", ran.err);
    }
    Ok(())
}

/// The link goes away in the middle of a run: the outcome is called unknown, the host is asked, nothing runs again by itself.
#[test]
fn s13_a_link_cut_in_a_run_is_an_unknown_outcome_that_the_host_is_asked_for() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("cut")?;
    let (node, operator) = slow_host(&bed, "edge-1")?;
    let run = operator.start("host join edge-1 --profile slow --param MUSTER_SECONDS=100 -o json", b"")?;
    begun(&node)?;
    node.cut_link()?;
    // The host ends the tree about 15 s after it lost us; then it can be asked again.
    wait_until("the end of the script", Duration::from_secs(60), || {
        Ok(node.pids("^sleep 100$")?.is_empty())
    })?;
    node.restore_link()?;
    let ran = Operator::finish(run)?.ended(8)?;
    let rows = ran.json()?;
    assert_eq!(field(&rows, "edge-1", "result"), "unknown", "{rows:#}");
    assert_eq!(field(&rows, "edge-1", "known")["state"], "ended", "{rows:#}");
    assert_eq!(field(&rows, "edge-1", "known")["verdict"], "peer-gone", "{rows:#}");
    assert_eq!(
        field(&rows, "edge-1", "known")["by"],
        "run",
        "the shim said its id before the script: {rows:#}"
    );
    assert_eq!(field(&rows, "edge-1", "sent"), 1, "nothing is run again by itself");
    node.sh("[ ! -e /run/ended ]")?;
    Ok(())
}

/// A host that was set up anew: nothing is sent to it until the operator has pinned the new key, with both on record.
#[test]
fn st5_a_changed_host_key_stops_everything_until_it_is_rotated() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("rekeyed")?;
    let (node, operator) = slow_host(&bed, "edge-1")?;
    let old = fingerprint(&node)?;
    node.sh("rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh")?;
    node.wait_ssh()?;
    let new = fingerprint(&node)?;
    for line in [
        "host probe edge-1",
        "host join edge-1 --profile slow --param MUSTER_SECONDS=0",
        "host doctor edge-1",
        "host unprovision edge-1 --yes",
        "host floor set edge-1 --floor slow=3",
    ] {
        let ran = operator.run(line, b"")?.ended(5)?;
        assert!(ran.out.contains(&old) && ran.out.contains(&new), "{line}: {}", ran.out);
    }
    let wrong = format!("host rotate-key edge-1 --host-key {new} --old-host-key {new} --yes");
    operator.run(&wrong, b"")?.ended(4)?;
    operator
        .run(&format!("host rotate-key edge-1 --host-key {new} --old-host-key {old} --yes"), b"")?
        .good()?;
    operator.run("host join edge-1 --profile slow --param MUSTER_SECONDS=0", b"")?.good()?;
    let log = operator.read(".local/state/muster/host-keys.log")?;
    assert!(log.lines().last().unwrap().contains(&format!("from {old} to {new}")), "{log}");
    Ok(())
}

/// A door that would not open for us is put back as it was; a key that rotates is proven before the old one goes.
#[test]
fn a_login_that_is_not_proven_is_put_back_and_keys_rotate_without_a_gap() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("proof")?;
    let (node, operator, _) = Operator::of_one_host(&bed, "edge-1", "ops", Sudo::NoPassword)?;
    operator.profile("slow", MANIFEST, &[("join", SLOW)])?;
    let provision = operator.provision("edge-1", "--profile slow -o json");
    let sums =
        || node.sh("find /etc/passwd /etc/ssh /etc/sudoers.d /usr/bin -type f | sort | xargs sha256sum");
    let before = sums()?;
    // From another network this key could log in; from here it cannot.
    let closed = format!("{provision} --controller-key keys/controller.pub;from=192.0.2.0/24");
    let rows = operator.run(&closed, b"")?.ended(1)?.json()?;
    assert_eq!(field(&rows, "edge-1", "reason"), "provision-failed", "{rows:#}");
    assert!(field(&rows, "edge-1", "detail").as_str().unwrap().contains("put back"), "{rows:#}");
    assert_eq!(sums()?, before);

    operator.run(&provision, b"")?.good()?;
    let next = bed.keygen("next")?;
    operator.keep(&next, "keys/next")?;
    operator.write("keys/next.pub", &format!("{}\n", next.public_line()?))?;
    operator.run("host rotate-key edge-1 --controller-key keys/next", b"")?.good()?;
    let refused = operator.run("host probe edge-1 -o json", b"")?.ended(5)?.json()?;
    assert_eq!(field(&refused, "edge-1", "reason"), "auth-refused", "{refused:#}");
    operator.edit(|t| t.replace("keys/controller", "keys/next"))?;
    operator.run("host probe edge-1", b"")?.good()?;
    Ok(())
}

/// Each failure of reaching a host is told apart, and none of them ends with 0.
#[test]
fn cl1_hosts_that_are_not_reached_never_end_with_success() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("not-reached")?;
    let (node, operator) = slow_host(&bed, "edge-1")?;
    let addr = node.addr().to_string();
    let key = fingerprint(&node)?;
    operator
        .run(&format!("host add closed --address {addr} --port 9 --host-key {key} --pool edge"), b"")?
        .good()?;
    operator
        .run(&format!("host add nobody --address 127.0.0.1 --port 1 --host-key {key} --pool edge"), b"")?
        .good()?;
    operator
        .run(
            &format!(
                "host add stranger --address {} --user root --host-key {key} --pool edge",
                node.addr_v6()
            ),
            b"",
        )?
        .good()?;
    for line in
        ["host probe", "host leave --profile slow", "host floor show", "host floor raise --profile slow"]
    {
        for (host, word) in [
            ("closed", "connect-unreachable"),
            ("nobody", "connect-unreachable"),
            ("stranger", "auth-refused"),
        ] {
            let ran = operator.run(&format!("{line} {host} -o json --connect-timeout 5s"), b"")?;
            let rows = ran.ended(5)?.json()?;
            assert!(rows.to_string().contains(word) || line == "host floor show", "{line} {host}: {rows:#}");
        }
    }
    // One bad host among good ones is still a failure, and the good ones ran.
    let ran = operator.run("host join edge-1 nobody --profile slow --param MUSTER_SECONDS=0 -o json", b"")?;
    let rows = ran.ended(5)?.json()?;
    assert_eq!(field(&rows, "edge-1", "result"), "ok", "{rows:#}");
    // Different failures together.
    let mixed = operator.run("host leave edge-1 nobody --profile slow -o json", b"")?.ended(1)?.json()?;
    assert_eq!(field(&mixed, "edge-1", "exit"), 10, "{mixed:#}");
    assert_eq!(field(&mixed, "nobody", "exit"), 5, "{mixed:#}");
    // No pin, no connection.
    operator.edit(|t| format!("{t}  unpinned: {{ssh: {{address: 192.0.2.9}}}}\n"))?;
    let ran = operator.run("host probe unpinned edge-1", b"")?.ended(4)?;
    assert!(ran.err.contains("error[pin-missing]"), "{}", ran.err);
    Ok(())
}
