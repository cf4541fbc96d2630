//! From bare hosts to members and back, over logins of every kind.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use muster_testbed::{Node, Sudo, Testbed, require_root_or_skip};

use super::operator::{Operator, field, fingerprint};

fn example(operator: &Operator) -> Result<()> {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../profiles/example-heartbeat");
    let copied = Command::new("cp").arg("-r").arg(from).arg(operator.dir.join("heartbeat")).status()?;
    ensure!(copied.success());
    operator.run("script sign heartbeat", b"")?.good()?;
    Ok(())
}

/// What provisioning could have left, as text: files newer than a mark, the account, the sums of what holds accounts.
fn traces(node: &Node) -> Result<String> {
    node.sh(
        "set +o pipefail; find /etc /usr/bin /opt /var/lib/muster /run/muster -newer /root/before -type f \
         ! -path '/etc/machine-id' ! -path '/etc/systemd/*' ! -path '/etc/.pwd.lock' ! -path '/etc/*-' \
         ! -path /etc/passwd ! -path /etc/shadow ! -path /etc/group ! -path /etc/gshadow 2>/dev/null | sort || true; \
         ls -d /var/lib/muster /etc/muster 2>/dev/null || true; sha256sum /etc/passwd /etc/shadow /etc/group /etc/gshadow",
    )
}

/// Three hosts that differ in how an administrator gets in, provisioned, installed, joined, left, uninstalled and put back.
#[test]
fn three_hosts_live_under_a_signed_profile_and_are_put_back() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("three-hosts")?;
    let nodes = [bed.node("edge-1")?.boot()?, bed.node("edge-2")?.boot()?, bed.node("edge-3")?.boot()?];
    let admin = bed.keygen("admin")?;
    nodes[0].add_ssh_key("root", &admin)?;
    nodes[1].add_admin("ops", &admin, Sudo::NoPassword)?;
    nodes[2].add_admin("ops", &admin, Sudo::Password("correct horse battery"))?;
    let operator = Operator::new(&bed)?;
    operator.keep(&admin, "admin")?;
    operator.edit(|t| t.replace("defaults:\n", "defaults:\n  admin: {identities: [admin]}\n"))?;
    for (node, user) in nodes.iter().zip(["root", "ops", "ops"]) {
        operator.add(node, &format!("--admin-user {user} --pool example"))?;
        // Files have times of the kernel's tick, and `-newer` compares all of it.
        node.sh("sleep 0.1; touch /root/before; sleep 0.1")?;
    }
    let before = nodes.iter().map(traces).collect::<Result<Vec<_>>>()?;
    example(&operator)?;
    // A list of 2 MiB goes all the way: to the hosts, and back to whoever looks at them.
    let revoked: String = (0..42_000).map(|n| format!("SHA256:{n:042}A\n")).collect();
    operator.write("trust/revoked_signers", &revoked)?;

    // Without the password the third one is not changed, and says what is missing; the others are.
    let shim = operator.built.shim.display().to_string();
    let provision = format!("host provision --all --yes -o json --profile heartbeat --shim-binary {shim}");
    let rows = operator.run(&provision, b"")?.ended(3)?.json()?;
    assert_eq!(field(&rows, "edge-1", "result"), "changed", "{rows:#}");
    assert_eq!(field(&rows, "edge-2", "result"), "changed", "{rows:#}");
    assert_eq!(field(&rows, "edge-3", "reason"), "admin-password", "{rows:#}");
    assert_eq!(traces(&nodes[2])?, before[2]);
    operator.write("sudo-password", "correct horse battery\n")?;
    let with_password = format!("{provision} --sudo-password-file sudo-password");
    let ran = operator.run(&with_password, b"")?.good()?;
    let rows = ran.json()?;
    for (host, result) in [("edge-1", "unchanged"), ("edge-2", "unchanged"), ("edge-3", "changed")] {
        assert_eq!(field(&rows, host, "result"), result, "{rows:#}");
        assert!(
            field(&rows, host, "detail").as_str().unwrap().contains(&format!("answers as {host}")),
            "{rows:#}"
        );
    }
    for node in &nodes {
        assert!(!node.journal()?.contains("correct horse"), "{}", node.name());
    }
    let examined = operator.run("host doctor edge-1 --no-attack -o json", b"")?;
    assert!(examined.out.contains("required, and it can be read"), "{}{}", examined.out, examined.err);

    life(&operator, &nodes)?;

    // Everything goes back; the way of the administrator stays.
    let rows = operator
        .run("host unprovision --all --yes -o json --sudo-password-file sudo-password", b"")?
        .good()?;
    for (node, before) in nodes.iter().zip(&before) {
        assert_eq!(field(&rows.json()?, node.name(), "result"), "put back");
        assert_eq!(&traces(node)?, before, "{}", node.name());
    }
    // Once more: there is nothing to do, and that is no failure.
    let again = operator
        .run("host unprovision --all --yes -o json --sudo-password-file sudo-password", b"")?
        .good()?;
    assert_eq!(field(&again.json()?, "edge-2", "result"), "unchanged", "{}", again.out);
    // The pool login is gone with it.
    let rows = operator.run("host probe --all -o json", b"")?.ended(5)?.json()?;
    assert_eq!(field(&rows, "edge-2", "reason"), "auth-refused", "{rows:#}");
    Ok(())
}

fn life(operator: &Operator, nodes: &[Node]) -> Result<()> {
    let ran = operator.run("host probe --all -o json", b"")?.good()?;
    for node in nodes {
        let facts = field(&ran.json()?, node.name(), "facts").clone();
        assert_eq!(facts["policy"]["host"], node.name(), "{facts:#}");
        assert_eq!(facts["policy"]["profiles"]["example-heartbeat"], 1, "{facts:#}");
        assert_eq!(facts["last-run"], serde_json::Value::Null, "{facts:#}");
    }
    operator.write("token", "heartbeat-token-0123456789\n")?;
    for phase in ["install", "join", "leave", "uninstall"] {
        let secret = if phase == "join" { "--secret MUSTER_HEARTBEAT_TOKEN=@token" } else { "" };
        let plan =
            operator.run(&format!("host {phase} --all --profile heartbeat --plan {secret}"), b"")?.good()?;
        assert!(!plan.out.contains("heartbeat-token"), "{}", plan.out);
        let ran =
            operator.run(&format!("host {phase} --all --yes --profile heartbeat -o json {secret}"), b"")?;
        let rows = ran.good()?.json()?;
        for node in nodes {
            assert_eq!(field(&rows, node.name(), "result"), "ok", "{phase}: {rows:#}");
            assert_eq!(field(&rows, node.name(), "sent"), 1);
            assert_eq!(field(&rows, node.name(), "profile"), "example-heartbeat");
        }
        if phase == "join" {
            for node in nodes {
                assert_eq!(node.sh("cat /etc/example-heartbeat/token")?, "heartbeat-token-0123456789");
                let said = field(&rows, node.name(), "stdout").as_str().unwrap();
                assert!(said.contains(&format!("joined as {}", node.name())), "{said}");
                node.sh("systemctl is-active example-heartbeat.timer")?;
            }
        }
    }
    for node in nodes {
        node.sh(
            "! systemctl cat example-heartbeat.timer 2>/dev/null; [ ! -e /usr/local/lib/example-heartbeat ]",
        )?;
    }
    // For people: a line a host while it happens, a table at the end, nothing drawn where there is no terminal.
    let ran = operator.run("host install edge-1 edge-2 --profile heartbeat", b"")?.good()?;
    assert!(ran.err.contains("edge-1 | "), "{}", ran.err);
    assert!(ran.err.contains("edge-2: ok in "), "{}", ran.err);
    assert!(ran.out.starts_with("HOST"), "{}", ran.out);
    assert!(!ran.err.contains('\u{1b}') && !ran.out.contains('\u{1b}'));
    let ran = operator.run("host probe edge-1 -o json", b"")?.good()?;
    let facts = field(&ran.json()?, "edge-1", "facts").clone();
    assert_eq!(facts["last-run"]["phase"], "install", "{facts:#}");
    assert_eq!(facts["last-run"]["verdict"], "ok", "{facts:#}");
    Ok(())
}

/// Two bastions, each with its own pinned key, and a target that is told apart from both.
#[test]
fn st6_a_chain_of_two_bastions_where_each_hop_has_its_own_key() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("chain")?;
    let outer = bed.node("outer")?.boot()?;
    let inner = bed.node("inner")?.boot()?;
    let target = bed.node("target")?.boot()?;
    let (admin, jump) = (bed.keygen("admin")?, bed.keygen("jump")?);
    target.add_ssh_key("root", &admin)?;
    for node in [&outer, &inner] {
        node.add_admin("jump", &jump, Sudo::None)?;
    }
    let operator = Operator::new(&bed)?;
    operator.keep(&admin, "admin")?;
    operator.keep(&jump, "jump")?;
    let bastion = |node: &Node| -> Result<String> {
        let print = fingerprint(node)?;
        let (name, addr) = (node.name(), node.addr());
        Ok(format!("  {name}: {{address: {addr}, user: jump, host-key: \"{print}\", identities: [jump]}}\n"))
    };
    let bastions = format!("bastions:\n{}{}", bastion(&outer)?, bastion(&inner)?);
    operator.edit(|t| format!("{bastions}{t}"))?;
    operator.administrator("root")?;
    operator.add(&target, "--via outer --via inner")?;
    operator.profile(
        "tiny",
        "profile: tiny\nepoch: 1\ntargets: [host=target]\n",
        &[("join", "set -euo pipefail\nhostname\n")],
    )?;
    operator.run(&operator.provision("target", "--profile tiny"), b"")?.good()?;
    let ran = operator.run("host join target --profile tiny -o json", b"")?.good()?;
    let rows = ran.json()?;
    let hops = field(&rows, "target", "hops").as_array().unwrap();
    let seen: Vec<(&str, &str)> =
        hops.iter().map(|h| (h["name"].as_str().unwrap(), h["host-key"].as_str().unwrap())).collect();
    let keys = [fingerprint(&outer)?, fingerprint(&inner)?, fingerprint(&target)?];
    let want: Vec<(&str, &str)> =
        ["outer", "inner", "target"].into_iter().zip(keys.iter().map(String::as_str)).collect();
    assert_eq!(seen, want);
    let stdout = field(&rows, "target", "stdout").as_str().unwrap();
    assert!(stdout.contains("target"), "{stdout}");

    // A bastion whose key changed is named, and nothing goes past it.
    inner.sh("rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh")?;
    inner.wait_ssh()?;
    let ran = operator.run("host join target --profile tiny -o json", b"")?.ended(5)?;
    let rows = ran.json()?;
    assert_eq!(field(&rows, "target", "reason"), "host-key-changed", "{rows:#}");
    let detail = field(&rows, "target", "detail").as_str().unwrap();
    assert!(
        detail.contains("hop 2 of 3, bastion inner") && detail.contains(&fingerprint(&inner)?),
        "{detail}"
    );
    assert_eq!(field(&rows, "target", "sent"), 0);
    Ok(())
}
