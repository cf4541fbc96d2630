//! Facts that the shim's process model stands on: where a process below sshd and sudo lives, and whether root can give a run
//! a cgroup of its own there. Written up in `docs/decisions/0001-cgroup-of-a-run.md`.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use muster_testbed::{Layout, Node, Ssh, Sudo, Testbed, require_root_or_skip};

/// What the root stage of the shim does, in shell: a group below its own, a run with escapees in it.
const STAGE: &str = r#"#!/bin/bash
set -eu
for mount in /sys/fs/cgroup/unified /sys/fs/cgroup; do [ ! -e "$mount/cgroup.controllers" ] || break; done
own=$(sed -n 's/^0:://p' /proc/self/cgroup)
echo "own $own"
group=$mount$own/muster-run-1
mkdir "$group"
( echo "$BASHPID" > "$group/cgroup.procs"
  exec setsid bash -c '
    exec </dev/null >/dev/null 2>&1
    trap "" TERM HUP INT
    sleep 4001 &
    setsid sleep 4002 &
    (setsid nohup sleep 4003 & )
    sleep 4004' ) &
for i in $(seq 100); do [ "$(pgrep -cf "^sleep 400[1-4]")" = 4 ] && break; sleep 0.05; done
echo "running $(wc -l < "$group/cgroup.procs")"
case $1 in
kill)
  echo 1 > "$group/cgroup.kill"
  for i in $(seq 100); do grep -q "populated 0" "$group/cgroup.events" && break; sleep 0.01; done
  wait || true
  echo "left $(pgrep -cf "^sleep 400[1-4]" || true)"
  rmdir "$group"
  echo removed ;;
stay) sleep 4000 ;;
esac
"#;

fn prepare(bed: &Testbed, name: &str, layout: Layout, pam: bool) -> Result<(Node, Ssh)> {
    let node = bed.node(name)?.cgroups(layout).boot()?;
    let key = bed.keygen(name)?;
    node.add_admin("pool", &key, Sudo::NoPassword)?;
    node.put("/usr/local/sbin/stage", STAGE.as_bytes(), 0o755)?;
    if !pam {
        node.put("/etc/ssh/sshd_config.d/00-no-pam.conf", b"UsePAM no\n", 0o644)?;
        // Without PAM a locked password locks the account, for keys too.
        node.sh("usermod -p '*' pool; systemctl restart ssh")?;
        node.wait_ssh()?;
    }
    let ssh = bed.ssh(&node, "pool", &key);
    Ok((node, ssh))
}

fn layouts() -> Vec<Layout> {
    [Layout::Unified, Layout::Hybrid].into_iter().filter(|l| l.available()).collect()
}

fn line<'a>(text: &'a str, word: &str) -> Result<&'a str> {
    text.lines()
        .find_map(|l| l.strip_prefix(word)?.strip_prefix(' '))
        .with_context(|| format!("no {word:?} in {text:?}"))
}

#[test]
fn root_below_sshd_can_make_a_cgroup_and_kill_it_whole() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("run-cgroup")?;
    for layout in layouts() {
        for pam in [true, false] {
            let case = format!("{layout:?}-pam-{pam}").to_lowercase();
            let (node, ssh) = prepare(&bed, &case, layout, pam)?;
            let out = ssh.run("sudo -n /usr/local/sbin/stage kill", b"")?.check()?.stdout_text();
            let own = line(&out, "own")?;
            if pam {
                assert!(own.starts_with("/user.slice/user-1000.slice/session-"), "{case}: {own}");
                assert!(own.ends_with(".scope"), "{case}: {own}");
            } else {
                assert_eq!(own, "/system.slice/ssh.service", "{case}");
            }
            assert!(line(&out, "running")?.parse::<u32>()? >= 4, "{case}: {out}");
            assert_eq!(line(&out, "left")?, "0", "{case}");
            assert!(out.contains("removed"), "{case}: {out}");
            node.power_off()?;
        }
    }
    Ok(())
}

/// Whoever manages units meanwhile leaves the group alone: reload, restart of sshd, end of other sessions of the account.
#[test]
fn the_cgroup_of_a_run_survives_systemd_going_about_its_work() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("run-cgroup-stays")?;
    for layout in layouts() {
        for pam in [true, false] {
            let case = format!("{layout:?}-pam-{pam}").to_lowercase();
            let (node, ssh) = prepare(&bed, &case, layout, pam)?;
            let mut client =
                ssh.command(Some("sudo -n /usr/local/sbin/stage stay"))?.stdout(Stdio::null()).spawn()?;
            until(&node, "pgrep -cf '^sleep 400[0-4]' | grep -qx 5")?;
            let place = "cat /proc/$(pgrep -f '^sleep 4003')/cgroup";
            let before = node.sh(place)?;
            assert!(before.contains("/muster-run-1\n"), "{case}: {before}");
            assert!(ssh.run("true", b"")?.ok(), "another session of the account comes and goes");
            node.sh("systemctl daemon-reload; systemctl restart ssh; systemctl daemon-reexec; sleep 1")?;
            assert_eq!(node.sh(place)?, before, "{case}");
            assert!(client.try_wait()?.is_none(), "{case}: the connection lives through a restart of sshd");

            // The client goes away and nobody ends the run: it stays, also after logind's UserStopDelaySec (10 s).
            client.kill()?;
            client.wait()?;
            std::thread::sleep(Duration::from_secs(14));
            assert_eq!(node.sh(place)?, before, "{case}: still there 14 s after the client died");
            node.power_off()?;
        }
    }
    Ok(())
}

/// A host whose logind kills what a session leaves also ends a run that was meant to finish, and no cgroup below the
/// session's own can help; the doctor has to say so.
#[test]
fn kill_user_processes_ends_a_run_with_its_session() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("kill-user-processes")?;
    for layout in layouts() {
        let case = format!("{layout:?}").to_lowercase();
        let (node, ssh) = prepare(&bed, &case, layout, true)?;
        node.put("/etc/systemd/logind.conf.d/kill.conf", b"[Login]\nKillUserProcesses=yes\n", 0o644)?;
        // A stop is TERM, a wait, KILL; the wait is 90 s unless shortened, and the stage ignores TERM.
        node.put("/etc/systemd/system.conf.d/stop.conf", b"[Manager]\nDefaultTimeoutStopSec=2s\n", 0o644)?;
        node.sh("systemctl daemon-reload; systemctl restart systemd-logind")?;
        let mut client =
            ssh.command(Some("sudo -n /usr/local/sbin/stage stay"))?.stdout(Stdio::null()).spawn()?;
        until(&node, "pgrep -cf '^sleep 400[0-4]' | grep -qx 5")?;
        client.kill()?;
        client.wait()?;
        until(&node, "! pgrep -f '^sleep 400[0-4]'").with_context(|| case)?;
        node.power_off()?;
    }
    Ok(())
}

/// Waits up to 100 s for a shell condition in the node.
fn until(node: &Node, condition: &str) -> Result<()> {
    let script = format!(
        "for i in $(seq 1000); do if {condition}; then exit 0; fi; sleep 0.1; done; ps axf >&2; exit 1"
    );
    node.exec_with(&["bash", "-c", &script], b"", Duration::from_secs(120))?.check()?;
    Ok(())
}
