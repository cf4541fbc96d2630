//! Secrets and stolen keys.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use muster_testbed::{Node, Sudo, Testbed, require_root_or_skip};

use super::operator::{Operator, Ran, field};

const CANARY: &str = "canary-7f3a9c51-do-not-show";

/// What the secret may look like in a place where it must not be.
fn shows(text: &str) -> bool {
    const BASE64: &str = "Y2FuYXJ5LTdmM2E5YzUxLWRvLW5vdC1zaG93";
    text.contains(CANARY) || text.contains("7f3a9c51") || text.contains(&BASE64[4..30])
}

/// Every command line of the node and of this machine, looked at again and again until told to stop.
fn watch(node: Node, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<Result<BTreeSet<String>>> {
    std::thread::spawn(move || {
        let mut found = BTreeSet::new();
        while !stop.load(Ordering::Relaxed) {
            found.extend(node.command_lines()?.into_iter().filter(|l| shows(l)));
            for entry in std::fs::read_dir("/proc")?.flatten() {
                if let Ok(bytes) = std::fs::read(entry.path().join("cmdline"))
                    && shows(&String::from_utf8_lossy(&bytes))
                {
                    found.insert(format!("here: {}", String::from_utf8_lossy(&bytes).replace('\0', " ")));
                }
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(found)
    })
}

/// A script that tries hard to show its secret, and one that fails while it does.
const LOUD: &str = r#"set -euo pipefail
echo "token: $MUSTER_TOKEN"
echo "token: $MUSTER_TOKEN" >&2
printf '%s' "$MUSTER_TOKEN" | base64
printf '%s' "$MUSTER_TOKEN" | od -An -tx1 | tr -d ' \n'; echo
printf 'x%.0s' $(seq 1 5000); echo "$MUSTER_TOKEN"
set -x
test -n "$MUSTER_TOKEN"
sleep 0.3
exit "$MUSTER_CODE"
"#;

/// No phase leaves the secret on a command line, in the journal, in sudo's logs, on stderr or in JSON, though the script shouts
/// it and the host's sudo logs input and output.
#[test]
fn no_secret_is_on_a_command_line_in_a_log_or_in_what_is_shown() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("canary")?;
    let sudo = Sudo::Password("sudo-canary-7f3a9c51");
    let (node, operator, _) = Operator::of_one_host(&bed, "edge-1", "ops", sudo)?;
    // The worst sudo there is: it logs what goes in and out, for everybody.
    node.put("/etc/sudoers.d/00-log", b"Defaults log_input, log_output, use_pty\n", 0o440)?;
    let manifest = "profile: loud\nepoch: 1\ntargets: [pool=edge]\nparams:\n  MUSTER_TOKEN: {pattern: \"[a-z0-9-]+\"}\n  MUSTER_CODE: {pattern: \"[0-9]\"}\n";
    let scripts = ["install", "join", "leave", "uninstall"].map(|phase| (phase, LOUD));
    operator.profile("loud", manifest, &scripts)?;
    operator.write("token", &format!("{CANARY}\n"))?;
    operator.write("sudo-password", "sudo-canary-7f3a9c51\n")?;

    let stop = Arc::new(AtomicBool::new(false));
    let watcher = watch(node.clone(), Arc::clone(&stop));
    let mut shown = Vec::new();
    let mut keep = |what: String, ran: Ran, code: i32| -> Result<()> {
        let ran = ran.ended(code).with_context(|| what.clone())?;
        shown.push((what, format!("{}\n{}", ran.out, ran.err)));
        Ok(())
    };
    let provision = operator.provision("edge-1", "--profile loud --sudo-password-file sudo-password");
    keep("provision".into(), operator.run(&provision, b"")?, 0)?;
    for phase in ["install", "join", "leave", "uninstall"] {
        for (form, code, exit) in [("table", 0, 0), ("json", 3, 10), ("yaml", 0, 0)] {
            let line = format!(
                "host {phase} edge-1 --yes --profile loud -o {form} --secret MUSTER_TOKEN=- --param MUSTER_CODE={code}"
            );
            keep(format!("{phase} {form}"), operator.run(&line, format!("{CANARY}\n").as_bytes())?, exit)?;
        }
    }
    let plan =
        "host join edge-1 --plan --profile loud -o json --secret MUSTER_TOKEN=@token --param MUSTER_CODE=0";
    keep("plan".into(), operator.run(plan, b"")?, 0)?;
    let doctor = "host doctor edge-1 -o json --no-attack --sudo-password-file sudo-password";
    let ran = operator.run(doctor, b"")?;
    let code = ran.code;
    keep("doctor".into(), ran, code)?;
    stop.store(true, Ordering::Relaxed);
    let on_command_lines = watcher.join().map_err(|_| anyhow::anyhow!("the watcher broke"))??;
    assert!(on_command_lines.is_empty(), "{on_command_lines:#?}");
    for (what, text) in &shown {
        assert!(!shows(text), "{what}: {text}");
    }
    let redacted = shown.iter().filter(|(_, text)| text.contains("[REDACTED]")).count();
    assert!(
        redacted >= 12,
        "the script shouted and only {redacted} outputs show that something was taken out"
    );
    assert!(!shows(&node.journal()?), "journal");
    let logs = node.sh("cat /var/lib/muster/shim/runs.log; find /var/log -type f -print0 | xargs -0 cat; \
        find /var/log/sudo-io -type f -name '*' -print0 2>/dev/null | xargs -0 -r zcat -f 2>/dev/null || true")?;
    assert!(logs.contains("join"), "the run log was read");
    assert!(!shows(&logs), "logs");
    let state = operator.read(".local/state/muster/host-keys.log")?;
    assert!(!shows(&state));
    Ok(())
}

/// A thief of the controller key gets nothing but what was signed; and the doctor notices when a host would give more.
#[test]
fn ve21_a_stolen_controller_key_opens_nothing_and_the_doctor_proves_it() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("thief")?;
    let (node, operator, _) = Operator::of_one_host(&bed, "edge-1", "ops", Sudo::NoPassword)?;
    operator.tiny()?;
    operator.run(&operator.provision("edge-1", "--profile tiny"), b"")?.good()?;
    let shim = operator.built.shim.display().to_string();
    let doctor = format!("host doctor edge-1 -o json --shim-binary {shim}");
    let ran = operator.run(&doctor, b"")?;
    let rows = ran.json()?;
    let checks = field(&rows, "edge-1", "checks").as_array().context("checks")?.clone();
    let bad: Vec<String> =
        checks.iter().filter(|c| c["verdict"] == "fail").map(ToString::to_string).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let attacks: Vec<_> =
        checks.iter().filter(|c| c["id"].as_str().unwrap().starts_with("attack-")).collect();
    assert_eq!(attacks.len(), 19, "{attacks:#?}");
    for attack in &attacks {
        assert_eq!(attack["verdict"], "pass", "{attack:#}");
    }
    let password = attacks.iter().find(|a| a["id"] == "attack-password").context("attack-password")?;
    assert_eq!(password["found"], "refused: it takes publickey alone", "the host was asked");

    // The same key on a host where somebody opened the door a little.
    node.put(
        "/etc/ssh/sshd_config.d/00-a-hole.conf",
        b"Match User muster\n  PermitTTY yes\n  AllowTcpForwarding yes\n  DisableForwarding no\n  PasswordAuthentication yes\n  AuthenticationMethods any\n",
        0o644,
    )?;
    node.reload_ssh()?;
    let ran = operator.run(&doctor, b"")?.ended(1)?;
    let rows = ran.json()?;
    // The key's own `restrict` still holds where sshd's file no longer does; the doctor names the file all the same.
    assert_eq!(verdict_of(&rows, "attack-local-forward"), "pass", "{rows:#}");
    node.sh("sed -i 's/^restrict[^ ]* //' /etc/muster/authorized_keys.d/muster")?;
    let ran = operator.run(&doctor, b"")?.ended(1)?;
    let rows = ran.json()?;
    for id in ["attack-local-forward", "attack-remote-forward", "attack-pty", "attack-password"] {
        assert_eq!(verdict_of(&rows, id), "fail", "{rows:#}");
    }
    let checks = field(&rows, "edge-1", "checks").as_array().context("checks")?;
    assert!(
        checks
            .iter()
            .filter(|c| c["verdict"] == "fail")
            .all(|c| c["fix"].as_str().is_some_and(|f| !f.is_empty()))
    );
    Ok(())
}

fn verdict_of<'r>(rows: &'r serde_json::Value, id: &str) -> &'r str {
    let checks = field(rows, "edge-1", "checks").as_array();
    let check = checks.and_then(|all| all.iter().find(|c| c["id"] == id));
    check.and_then(|c| c["verdict"].as_str()).unwrap_or("missing")
}
