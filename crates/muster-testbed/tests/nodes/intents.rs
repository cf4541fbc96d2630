//! Envelope 2 through real sshd and sudo: what the intent binds, what the record says, what stays secret.

use anyhow::{Context, Result};
use muster_testbed::{KeyPair, Layout, Node, Output, Sudo, Testbed, binaries, require_root_or_skip};
use serde_json::Value;

use crate::host::{Host, Name, Options, POLICY, intent, intent_between, utc};

const SCRIPT: &str = "#!/bin/bash\nset -eu\necho \"$MUSTER_PROFILE $MUSTER_PHASE [${MUSTER_X-unset}] [${MUSTER_ENDPOINT-unset}]\" | tee -a /root/ran\n";

fn host(bed: &Testbed, policy: &str) -> Result<Host> {
    Host::provision(bed, "a", &Options::new(Name::Muster, &binaries()?.shim).policy(policy))
}

fn send(host: &Host, phase: &str, intent: &str, params: &str) -> Result<Output> {
    host.send(&host.envelope_two(phase, intent, SCRIPT, params)?)
}

/// Nothing ran, with this exit code and stable reason.
fn refused(host: &Host, out: &Output, code: i32, reason: &str) -> Result<()> {
    let stderr = out.stderr_text();
    assert_eq!(out.code(), Some(code), "want {reason}: {stderr}");
    assert!(stderr.starts_with(&format!("muster-shim: refused [{reason}]: ")), "want {reason}: {stderr}");
    assert_eq!(stderr.lines().count(), 1, "one line: {stderr}");
    host.node.sh("[ ! -e /root/ran ]").with_context(|| format!("{reason}: something ran"))?;
    Ok(())
}

#[test]
fn sign_ssh_sudo_shim_root_on_envelope_2() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("envelope-2")?;
    let host = host(&bed, POLICY)?;
    let endpoint = crate::host::b64(b"https://10.0.0.5:6443");
    let lines = format!("value: MUSTER_ENDPOINT {endpoint}\nparam: MUSTER_X? [a-z]+\n");
    let text = intent("join", SCRIPT, 7, &lines)?;
    let out = send(&host, "join", &text, "MUSTER_X=abc\n")?;
    assert_eq!(out.code(), Some(0), "{}", out.stderr_text());
    assert_eq!(out.stdout_text(), "example join [abc] [https://10.0.0.5:6443]\n");

    let log = String::from_utf8(host.node.get("/var/lib/muster/shim/runs.log")?)?;
    let records: Vec<Value> = log.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    assert_eq!(records.iter().map(|r| r["event"].as_str()).collect::<Vec<_>>(), [Some("start"), Some("end")]);
    let end = &records[1];
    assert_eq!(end["verdict"], "ok", "{end}");
    assert_eq!(end["run"], records[0]["run"]);
    assert_eq!(end["epoch"], 7);
    assert_eq!((&end["floor_after"], &end["target"]), (&7.into(), &"pool=edge".into()), "{end}");
    assert_eq!(end["params"], serde_json::json!(["MUSTER_X"]), "names, never values");
    assert_eq!(end["signers"], serde_json::json!([host.signer.fingerprint()?]));
    assert_eq!(
        end["peer_claimed_keys"],
        serde_json::json!([host.controller.fingerprint()?]),
        "S4: from ExposeAuthInfo"
    );
    assert_eq!(end["peer_claimed_address"], bed.gate().to_string());
    assert!(!log.contains("abc"), "{log}");
    // The record is root's alone.
    assert_eq!(
        host.node.sh("stat -c '%a %u' /var/lib/muster/shim/runs.log /var/lib/muster/shim/floors")?,
        "600 0\n600 0\n"
    );
    Ok(())
}

/// What one controller-key holder can try with an honestly signed intent.
#[test]
fn an_intent_binds_phase_target_time_epoch_script_and_parameters() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("intent-binds")?;
    let host = host(&bed, POLICY)?;
    let plain = intent("join", SCRIPT, 3, "")?;
    refused(&host, &send(&host, "leave", &plain, "")?, 6, "phase-mismatch")?;
    for target in ["target: host=edge-2\n", "target: pool=core\n"] {
        let other = plain.replace("target: pool=edge\n", target);
        refused(&host, &send(&host, "join", &other, "")?, 6, "target")?;
    }
    let other = plain.replace("profile: example\n", "profile: retired\n");
    refused(&host, &send(&host, "join", &other, "")?, 6, "profile")?;
    let expired = intent_between("join", SCRIPT, 3, "", &utc("-2 days")?, &utc("-1 minute")?)?;
    refused(&host, &send(&host, "join", &expired, "")?, 6, "expired")?;
    let early = intent_between("join", SCRIPT, 3, "", &utc("+1 hour")?, &utc("+1 day")?)?;
    refused(&host, &send(&host, "join", &early, "")?, 6, "not-yet-valid")?;
    let other = host.envelope_two("join", &plain, &format!("{SCRIPT}id\n"), "")?;
    refused(&host, &host.send(&other)?, 2, "script-digest")?;

    let endpoint =
        format!("value: MUSTER_ENDPOINT {}\nparam: MUSTER_X [a-z]+\n", crate::host::b64(b"https://ours"));
    let bound = intent("join", SCRIPT, 3, &endpoint)?;
    refused(&host, &send(&host, "join", &bound, "")?, 6, "param-missing")?;
    refused(&host, &send(&host, "join", &bound, "MUSTER_X=a1\n")?, 6, "param-pattern")?;
    refused(&host, &send(&host, "join", &bound, "MUSTER_X=a\nMUSTER_Y=b\n")?, 6, "param-undeclared")?;
    refused(&host, &send(&host, "join", &bound, "BASH_ENV=/tmp/x\nMUSTER_X=a\n")?, 3, "param-name")?;
    // M1: the endpoint is the signer's to say.
    let stolen = send(&host, "join", &bound, "MUSTER_ENDPOINT=https://thief\nMUSTER_X=a\n")?;
    refused(&host, &stolen, 6, "param-is-value")?;
    // M5: none of these has moved the floor.
    assert!(!host.node.exec(&["grep", "-q", "^floor: ", "/var/lib/muster/shim/floors"])?.ok());
    assert_eq!(send(&host, "join", &plain, "")?.code(), Some(0));
    Ok(())
}

#[test]
fn m3_m4_m5_epochs_rise_step_by_step_and_never_fall() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("epochs")?;
    let host = host(&bed, POLICY)?;
    let at = |phase: &str, epoch: u32| -> Result<Output> {
        host.node.sh("rm -f /root/ran")?;
        send(&host, phase, &intent(phase, SCRIPT, epoch, "")?, "")
    };
    assert_eq!(at("join", 10)?.code(), Some(0), "the first contact takes it");
    refused(&host, &at("join", 9)?, 6, "epoch-floor")?;
    refused(&host, &at("leave", 1011)?, 6, "epoch-step")?;
    assert_eq!(at("leave", 10)?.code(), Some(0), "an equal epoch is the same edition");
    assert_eq!(at("join", 1010)?.code(), Some(0));
    refused(&host, &at("leave", 10)?, 6, "epoch-floor")?;
    // S14: the floor phase raises it with no script.
    host.node.sh("rm -f /root/ran")?;
    let floor = intent("floor", "", 1500, "")?;
    assert_eq!(send(&host, "floor", &floor, "")?.code(), Some(0));
    refused(&host, &at("join", 1499)?, 6, "epoch-floor")?;
    // S8: a floors file that is gone or broken is not an empty one.
    host.node.sh("rm -f /root/ran; mv /var/lib/muster/shim/floors /root/floors")?;
    refused(&host, &at("join", 1600)?, 1, "floors-missing")?;
    host.node.sh(
        "sed 's/ 1500/ x/' /root/floors > /var/lib/muster/shim/floors; chmod 600 /var/lib/muster/shim/floors",
    )?;
    refused(&host, &at("join", 1600)?, 1, "floors-malformed")?;
    Ok(())
}

#[test]
fn s9_s10_trust_files_that_others_could_write_or_that_are_gone_refuse() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("trust-files")?;
    let host = host(&bed, POLICY)?;
    let text = intent("join", SCRIPT, 1, "")?;
    for (damage, repair, code, reason) in [
        (
            "chmod 666 /etc/muster/allowed_signers",
            "chmod 644 /etc/muster/allowed_signers",
            2,
            "trust-file-unsafe",
        ),
        ("chmod 777 /etc/muster", "chmod 755 /etc/muster", 1, "policy-unsafe"),
        (
            "chown muster /etc/muster/allowed_signers",
            "chown root /etc/muster/allowed_signers",
            2,
            "trust-file-unsafe",
        ),
        (
            "mv /etc/muster/allowed_signers /etc/x",
            "mv /etc/x /etc/muster/allowed_signers",
            2,
            "trust-file-missing",
        ),
        (
            "mv /etc/muster/revoked_signers /etc/x",
            "mv /etc/x /etc/muster/revoked_signers",
            2,
            "revocation-list-unreadable",
        ),
        ("chmod 662 /etc/muster/shim.toml", "chmod 644 /etc/muster/shim.toml", 1, "policy-unsafe"),
        ("mv /etc/muster/shim.toml /etc/x", "mv /etc/x /etc/muster/shim.toml", 1, "no-policy"),
        (
            "echo x >> /etc/muster/allowed_signers",
            "sed -i '$d' /etc/muster/allowed_signers",
            2,
            "trust-file-malformed",
        ),
        ("cp /root/signer.pub /etc/muster/revoked_signers", ": > /etc/muster/revoked_signers", 2, "revoked"),
    ] {
        host.node.put_file(&host.signer.public, "/root/signer.pub", 0o600)?;
        host.node.sh(damage)?;
        // Not over a login: sshd itself would refuse some of these folders.
        let out = host.as_pool("/usr/bin/muster-shim", &host.envelope_two("join", &text, SCRIPT, "")?)?;
        refused(&host, &out, code, reason).with_context(|| damage)?;
        host.node.sh(repair)?;
    }
    assert_eq!(send(&host, "join", &text, "")?.code(), Some(0), "all repaired");
    Ok(())
}

/// T11, M8: whoever can run a process as the pool account gains nothing over what the login can do.
#[test]
fn m8_the_pool_account_itself_cannot_pass_arguments_or_environment() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("pool-account")?;
    let host = host(&bed, POLICY)?;
    for script in [
        "sudo -n /usr/bin/muster-shim --floor 1",
        "sudo -n /usr/bin/muster-shim ''",
        "sudo -n -u root bash",
        "sudo -n /bin/sh -c id",
        "sudo -n -E /usr/bin/muster-shim",
        "ln -sf /usr/bin/muster-shim /tmp/evil && sudo -n /tmp/evil x",
        "sudo -n BASH_ENV=/tmp/x /usr/bin/muster-shim",
    ] {
        let out = host.as_pool(script, b"")?;
        assert!(!out.ok(), "{script}");
        assert!(
            !out.stderr_text().contains("muster-shim: "),
            "{script}: refused by sudo, not by us: {}",
            out.stderr_text()
        );
    }
    // The shim refuses an argument by itself where a sudoers line forgot to.
    let out = host.node.exec(&["/usr/bin/muster-shim", "--help"])?;
    refused(&host, &out, 1, "argument")?;
    // The knobs of the old shim, and what steers a shell, reach nothing.
    let envelope = host.envelope_two(
        "join",
        &intent("join", "#!/bin/bash\nenv | sort\n", 1, "")?,
        "#!/bin/bash\nenv | sort\n",
        "",
    )?;
    let out = host.as_pool(
        "export BASH_ENV=/tmp/x ENV=/tmp/x TZ=Asia/Tokyo LANG=tr_TR.UTF-8 KPSSH_ALLOWED_SIGNERS=/tmp/x MUSTER_HOST=x; /usr/bin/muster-shim",
        &envelope,
    )?;
    assert_eq!(out.code(), Some(0), "{}", out.stderr_text());
    let names: Vec<String> =
        out.stdout_text().lines().filter_map(|l| Some(l.split_once('=')?.0.to_owned())).collect();
    let known =
        ["HOME", "LANG", "MUSTER_PHASE", "MUSTER_PROFILE", "MUSTER_RUN_ID", "PATH", "PWD", "SHLVL", "_"];
    assert!(names.iter().all(|n| known.contains(&n.as_str())), "{names:?}");
    assert!(out.stdout_text().contains("LANG=C.UTF-8\n"));
    Ok(())
}

/// A canary in a parameter, looked for in every place that other people, or later people, can read, in every phase.
#[test]
fn no_secret_value_shows_anywhere_during_any_phase() -> Result<()> {
    require_root_or_skip!();
    const CANARY: &str = "canary-c9f0f895";
    let bed = Testbed::prepare("canary")?;
    let host = host(&bed, POLICY)?;
    let watch = r#"#!/bin/bash
        while :; do cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -a -o 'canary-[0-9a-f][0-9a-f]*' >> /root/seen; done"#;
    host.node.put("/root/watch", watch.as_bytes(), 0o700)?;
    host.node.sh("touch /root/seen; systemd-run --quiet --collect --unit=watch /root/watch")?;
    // The watcher sees what it should see.
    host.node.sh(
        "(exec -a canary-00c0ffee sleep 60) & for i in $(seq 600); do grep -q canary-00c0ffee /root/seen && break; sleep 0.1; done
         kill $!; grep -q canary-00c0ffee /root/seen",
    )?;
    let script =
        "#!/bin/bash\nset -eu\n[ \"$MUSTER_TOKEN\" = canary-c9f0f895 ]\nsleep 0.5\nexit \"$MUSTER_CODE\"\n";
    for phase in ["install", "join", "leave", "uninstall"] {
        for code in ["0", "3"] {
            let lines = "param: MUSTER_CODE [0-9]\nparam: MUSTER_TOKEN [a-z0-9-]+\n";
            let params = format!("MUSTER_CODE={code}\nMUSTER_TOKEN={CANARY}\n");
            let envelope = host.envelope_two(phase, &intent(phase, script, 1, lines)?, script, &params)?;
            let out = host.send(&envelope)?;
            assert_eq!(out.code(), Some(if code == "0" { 0 } else { 10 }), "{}", out.stderr_text());
            assert!(!out.stderr_text().contains("canary") && !out.stdout_text().contains("canary"));
        }
    }
    // A refused value is not quoted either.
    let lines = "param: MUSTER_TOKEN [0-9]+\n";
    let out = send(&host, "join", &intent("join", SCRIPT, 1, lines)?, &format!("MUSTER_TOKEN={CANARY}\n"))?;
    assert_eq!(out.code(), Some(6));
    assert!(!out.stderr_text().contains("canary"), "{}", out.stderr_text());
    let out = host.send(b"muster-envelope: 2\nphase: probe\n")?;
    assert!(!out.stdout_text().contains("canary"));

    host.node.sh("systemctl stop watch")?;
    assert_eq!(host.node.sh("grep -v canary-00c0ffee /root/seen || true")?, "", "on a command line");
    assert!(!host.node.journal()?.contains("canary"), "in the journal");
    let files = "find / -xdev -type f -newer /root/watch -not -path '/proc/*' -not -path '/root/watch' -print0 \
                 | xargs -0 grep -l -a -e canary-c9f0f895 || true";
    assert_eq!(host.node.sh(files)?, "", "in a file");
    assert_eq!(
        host.node.sh("grep -r -l -a canary-c9f0f895 /run /tmp 2>/dev/null || true")?,
        "",
        "in a volatile file"
    );
    Ok(())
}

fn provision_other(bed: &Testbed, node: &Node, user: &str) -> Result<KeyPair> {
    let key = bed.keygen(user)?;
    node.add_admin(user, &key, Sudo::None)?;
    Ok(key)
}

/// The drop-in binds the pool account and nobody else.
#[test]
fn other_accounts_keep_their_shell() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("others")?;
    let host = Host::provision(
        &bed,
        "a",
        &Options::new(Name::Muster, &binaries()?.shim).policy(POLICY).layout(Layout::Unified),
    )?;
    let key = provision_other(&bed, &host.node, "person")?;
    let out =
        bed.ssh(&host.node, "person", &key).run("echo shell; sudo -n /usr/bin/muster-shim; echo $?", b"")?;
    assert_eq!(out.stdout_text(), "shell\n1\n", "{}", out.stderr_text());
    Ok(())
}
