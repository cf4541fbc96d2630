//! From a fleet that was there before: raw hosts, and the bash shim that ours takes the place of.

use std::path::Path;

use anyhow::Result;
use muster_testbed::{Node, Sudo, Testbed, require_root_or_skip};

use super::operator::{Operator, field};

const JOIN: &str = "set -euo pipefail\necho \"joined as $KPSSH_NODE_NAME\"\nprintf '%s' \"$KPSSH_SECRET_TOKEN\" > /root/token\nid -u\n";

/// A host as the published documents set it up: account, forced command, sudoers, the bash shim.
fn old_fleet(node: &Node, key: &str, signer: &str) -> Result<()> {
    let bash = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/baseline/kpssh-shim");
    node.put_file(&bash, "/opt/kpssh/kpssh-shim", 0o755)?;
    node.put(
        "/etc/kpssh/allowed_signers",
        format!("kpssh namespaces=\"kpssh\" {signer}\n").as_bytes(),
        0o644,
    )?;
    node.sh("useradd --create-home --shell /bin/bash kpssh")?;
    node.add_ssh_line("kpssh", &format!("restrict,command=\"/opt/kpssh/kpssh-shim\" {key}"))?;
    node.put("/etc/sudoers.d/kpssh", b"kpssh ALL=(root) NOPASSWD: /opt/kpssh/kpssh-shim\n", 0o440)?;
    let block =
        "Match User kpssh\n  ForceCommand /opt/kpssh/kpssh-shim\n  PermitTTY no\n  AllowTcpForwarding no\n";
    node.put("/etc/ssh/sshd_config.d/50-kpssh.conf", block.as_bytes(), 0o644)?;
    node.reload_ssh()
}

/// Envelope 1 to the bash shim, then to ours in its place, then envelope 2 beside it; and a raw host on its way there.
#[test]
fn m6_a_fleet_of_bash_shims_is_taken_over_without_a_break() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("migration")?;
    let node = bed.node("old-1")?.boot()?;
    let (admin, pool) = (bed.keygen("admin")?, bed.keygen("pool")?);
    node.add_admin("ops", &admin, Sudo::NoPassword)?;
    let operator = Operator::new(&bed)?;
    operator.keep(&admin, "admin")?;
    operator.keep(&pool, "pool")?;
    let signer = operator.read("keys/signer.pub")?;
    old_fleet(&node, &pool.public_line()?, signer.trim())?;
    operator.administrator("ops")?;
    operator.add(&node, "--user kpssh --pool old")?;
    operator.edit(|t| {
        t.replace("      user: kpssh\n", "      user: kpssh\n      identities: [pool]\n    envelope: 1\n    vars: {KPSSH_NODE_NAME: {from: name}}\n")
    })?;
    // Envelope 1 has its own signature, over the script alone, and its own line in the trust file.
    let trust = operator.read("trust/allowed_signers")?;
    operator
        .write("trust/allowed_signers", &format!("{trust}kpssh namespaces=\"kpssh\" {}\n", signer.trim()))?;
    let dir = operator.dir.join("old");
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("join.sh"), JOIN)?;
    std::fs::write(dir.join("profile.yaml"), "profile: old\nepoch: 1\ntargets: [pool=old]\n")?;
    operator.run("script sign old --envelope 1", b"")?.good()?;
    operator.write("token", "a token of the cluster\n")?;
    let join = "host join old-1 --profile old --secret KPSSH_SECRET_TOKEN=@token -o json";
    let joined = |operator: &Operator| -> Result<()> {
        let rows = operator.run(join, b"")?.good()?.json()?;
        assert_eq!(field(&rows, "old-1", "stdout"), "joined as old-1\n0\n", "{rows:#}");
        assert_eq!(node.sh("cat /root/token")?, "a token of the cluster");
        node.sh("rm /root/token")?;
        Ok(())
    };
    joined(&operator)?;
    let probe = operator.run("host probe old-1 -o json", b"")?.good()?.json()?;
    assert_eq!(field(&probe, "old-1", "envelope"), 1, "{probe:#}");
    // A changed byte does not leave.
    std::fs::write(dir.join("join.sh"), JOIN.replace("id -u", "id -un"))?;
    let ran = operator.run(join, b"")?.ended(4)?;
    assert!(ran.err.contains("error[bytes-differ]"), "{}", ran.err);
    std::fs::write(dir.join("join.sh"), JOIN)?;

    // Ours at its place, with a login of its own beside it; the old one goes on without a change.
    operator.profile(
        "new",
        "profile: new\nepoch: 1\ntargets: [pool=old]\n",
        &[("join", "set -euo pipefail\nid -u\n")],
    )?;
    operator.edit(|t| {
        t.replace("      user: kpssh\n      identities: [pool]\n    envelope: 1\n", "      user: muster\n")
    })?;
    let block = "  provision: {profiles: [new], drop-in: kpssh, envelope-1: {on-disconnect: finish}}\n";
    operator.edit(|t| t.replace("defaults:\n", &format!("defaults:\n{block}")))?;
    let bash = node.sh("sha256sum /opt/kpssh/kpssh-shim")?;
    let provision = operator.provision("old-1", "");
    let ran = operator.run(&provision, b"")?.good()?;
    assert!(ran.err.contains("envelope 1 is taken"), "{}", ran.err);
    assert!(node.sh("cat /etc/muster/shim.toml")?.contains("on-disconnect = \"finish\""));
    let again = operator.run(&format!("{provision} -o json"), b"")?.good()?.json()?;
    assert_eq!(field(&again, "old-1", "result"), "unchanged", "the inventory keeps it all: {again:#}");
    operator.run("host join old-1 --profile new", b"")?.good()?;
    let to_old = |t: String| {
        t.replace("      user: muster\n", "      user: kpssh\n      identities: [pool]\n    envelope: 1\n")
    };
    let now = operator.read("inventory.yaml")?;
    let from = now.rfind("  old-1:").unwrap_or(0);
    operator.edit(|t| format!("{}{}", &t[..from], to_old(t[from..].to_owned())))?;
    joined(&operator)?;

    // The end of it: the fleet's own way in goes, then envelope 1 and the drop-in. That the bash shim comes back must be meant.
    node.sh(
        "userdel -f -r kpssh 2>/dev/null; rm /etc/sudoers.d/kpssh /etc/ssh/sshd_config.d/50-kpssh.conf; ",
    )?;
    node.reload_ssh()?;
    operator.edit(|_| now.replace(block, "  provision: {profiles: [new]}\n"))?;
    let rows = operator.run(&format!("{provision} -o json"), b"")?.ended(4)?.json()?;
    assert_eq!(field(&rows, "old-1", "reason"), "provision-widens", "{rows:#}");
    assert!(field(&rows, "old-1", "detail").as_str().unwrap().contains("--widen drop-in."), "{rows:#}");
    operator.run(&format!("{provision} --widen drop-in"), b"")?.good()?;
    assert_eq!(node.sh("sha256sum /opt/kpssh/kpssh-shim")?, bash);
    let doctor = operator.run("host doctor old-1 --no-attack -o json", b"")?.json()?;
    let checks = field(&doctor, "old-1", "checks").as_array().unwrap().clone();
    let one = checks.iter().find(|c| c["id"] == "envelope-1").unwrap();
    assert_eq!(one["verdict"], "pass", "{one:#}");
    Ok(())
}

/// Raw is what the inventory says and what is typed, both, each time, and it is said each time.
#[test]
fn a_raw_host_is_spelled_out_each_time() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("raw")?;
    let node = bed.node("raw-1")?.boot()?;
    let admin = bed.keygen("admin")?;
    node.add_admin("ops", &admin, Sudo::NoPassword)?;
    let operator = Operator::new(&bed)?;
    operator.keep(&admin, "admin")?;
    operator.add(&node, "--user ops --pool old")?;
    let dir = operator.dir.join("old");
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("join.sh"), JOIN)?;
    std::fs::write(dir.join("leave.sh"), "echo going >&2; false; echo never\n")?;
    let line =
        "host join raw-1 --profile old --param KPSSH_NODE_NAME=it's_$(id) --secret KPSSH_SECRET_TOKEN=-";
    let ran = operator.run(&format!("{line} --danger-raw"), b"0123456789\n")?.ended(4)?;
    assert!(ran.err.contains("error[raw-not-allowed]"), "{}", ran.err);
    operator.edit(|t| {
        t.replace("      user: ops\n", "      user: ops\n      identities: [admin]\n    exec-mode: raw\n")
    })?;
    let ran = operator.run(line, b"0123456789\n")?.ended(4)?;
    assert!(ran.err.contains("error[raw-not-spelled]"), "{}", ran.err);
    node.sh("[ ! -e /root/token ]")?;
    let ran = operator.run(&format!("{line} --danger-raw -o json"), b"0123456789\n")?.good()?;
    assert!(ran.err.contains("runs as root through `sudo bash -s`"), "{}", ran.err);
    assert_eq!(field(&ran.json()?, "raw-1", "stdout"), "joined as it's_$(id)\n0\n");
    assert_eq!(node.sh("cat /root/token")?, "0123456789");
    assert!(!node.journal()?.contains("0123456789"));
    let ran = operator.run("host leave raw-1 --profile old --danger-raw -o json", b"")?.ended(10)?;
    let detail = field(&ran.json()?, "raw-1", "detail").as_str().unwrap().to_owned();
    assert_eq!(detail, "exit 1: going");
    let probe = operator.run("host probe raw-1 -o json", b"")?.good()?.json()?;
    assert_eq!(field(&probe, "raw-1", "facts")["machine"], "x86_64", "{probe:#}");
    Ok(())
}
