//! What goes wrong under a run on a real host, one test per fault.

use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use muster_testbed::{Layout, Testbed, binaries, require_root_or_skip};
use serde_json::Value;

use crate::host::{Host, Name, Options, POLICY, intent, intent_between, utc};

/// A script that leaves every kind of escapee behind and then waits. Its processes are found by their arguments.
const ESCAPING: &str = r#"#!/bin/bash
set -euo pipefail
trap '' TERM HUP INT
sleep 7001 &
setsid sleep 7002 </dev/null >/dev/null 2>&1 &
(setsid nohup sleep 7003 </dev/null >/dev/null 2>&1 &)
bash -c 'trap "" TERM HUP; (exec -a hidden sleep 7004) & disown; exec sleep 7005' &
touch /run/escaped
sleep 7006
"#;
const ALL_OF_IT: &str = "sleep 700[1-6]|hidden 7004";

/// Prints all the time, so that sshd never times the session out by itself.
const PRINTING: &str =
    "#!/bin/bash\nset -euo pipefail\ntouch /run/escaped\nwhile :; do echo x; sleep 0.2; done\n";

fn muster(bed: &Testbed, layout: Layout) -> Result<Host> {
    let options = Options::new(Name::Muster, &binaries()?.shim).policy(POLICY).layout(layout);
    Host::provision(bed, &format!("{layout:?}").to_lowercase(), &options)
}

fn layouts() -> Vec<Layout> {
    [Layout::Unified, Layout::Hybrid].into_iter().filter(|l| l.available()).collect()
}

/// Starts a run and waits until its script says that it is under way.
fn under_way(host: &Host, script: &str, more: &str) -> Result<Child> {
    host.node.sh("rm -f /run/escaped")?;
    let intent = intent("join", script, 1, more)?;
    let mut client = host.start(&host.envelope_two("join", &intent, script, "")?)?;
    let at = Instant::now();
    while !host.node.exec(&["test", "-e", "/run/escaped"])?.ok() {
        if client.try_wait()?.is_some() {
            let mut text = String::new();
            std::io::Read::read_to_string(&mut client.stderr.take().context("stderr")?, &mut text)?;
            anyhow::bail!("the run ended before it began: {text}");
        }
        anyhow::ensure!(at.elapsed() < Duration::from_secs(60), "the script never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(client)
}

/// Waits until at least so many processes of the script are what they are to be, and no copies of bash any more.
fn all_there(host: &Host, pattern: &str, least: usize) -> Result<()> {
    let at = Instant::now();
    while host.node.pids(pattern)?.len() < least {
        anyhow::ensure!(at.elapsed() < Duration::from_secs(60), "{pattern}: not {least} of them");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Seconds until no process of the script is left.
fn gone(host: &Host, pattern: &str, limit: Duration) -> Result<f64> {
    let at = Instant::now();
    loop {
        let left = host.node.pids(pattern)?;
        if left.is_empty() {
            return Ok(at.elapsed().as_secs_f64());
        }
        anyhow::ensure!(at.elapsed() < limit, "after {limit:?} still there: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The records of the durable log, oldest first; the journal must tell of each run too.
fn records(host: &Host) -> Result<Vec<Value>> {
    let log = String::from_utf8(host.node.get("/var/lib/muster/shim/runs.log")?)?;
    let records: Vec<Value> = log.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let journal = host.node.journal_of(&["--identifier=muster-shim"])?;
    for record in &records {
        let run = record["run"].as_str().context("a record names its run")?;
        assert!(journal.contains(run), "run {run} is in the log and not in the journal");
    }
    Ok(records)
}

/// The last record, which must be the end of a run.
fn last_end(host: &Host) -> Result<Value> {
    // The record is written after the tree has ended, which is what a caller has seen.
    wait_for(host, "[ ! -e /run/muster/shim/run ]")?;
    let last = records(host)?.pop().context("no record")?;
    assert_eq!(last["event"], "end", "{last}");
    Ok(last)
}

#[test]
fn client_killed_mid_script_ends_the_whole_tree_within_two_seconds() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("client-killed")?;
    for layout in layouts() {
        let host = muster(&bed, layout)?;
        // How long it takes is the shortest of three: the rest is what a busy machine adds.
        let mut shortest = f64::MAX;
        for _ in 0..3 {
            let mut client = under_way(&host, ESCAPING, "")?;
            all_there(&host, ALL_OF_IT, 6)?;
            client.kill()?;
            client.wait()?;
            shortest = shortest.min(gone(&host, ALL_OF_IT, Duration::from_secs(20))?);
            let end = last_end(&host)?;
            assert_eq!(
                (&end["verdict"], &end["phase"]),
                (&"peer-gone".into(), &"join".into()),
                "{layout:?}: {end}"
            );
        }
        // TERM, one second, KILL; the half second is for the client's own end and for looking.
        assert!(shortest < 2.5, "{layout:?}: {shortest} s");
        host.node.power_off()?;
    }
    Ok(())
}

/// Quiet: sshd's keepalive and the kernel's table both see it. Printing: only the kernel's table does (decision 0002).
#[test]
fn m11_silent_link_cut_ends_the_run_whether_it_prints_or_not() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("link-cut")?;
    let host = muster(&bed, Layout::Unified)?;
    for (script, pattern, least) in [(ESCAPING, ALL_OF_IT, 6), (PRINTING, "sleep 0.2|/proc/self/fd", 1)] {
        let mut client = under_way(&host, script, "")?;
        all_there(&host, pattern, least)?;
        host.node.cut_link()?;
        let took = gone(&host, pattern, Duration::from_secs(45))?;
        host.node.restore_link()?;
        client.kill()?;
        client.wait()?;
        // The shim counts 15 s without an answer from the first packet that gets none; sshd alone would take up to 24 s.
        assert!((12.0..24.0).contains(&took), "{pattern}: {took} s");
        assert_eq!(last_end(&host)?["verdict"], "peer-gone", "{pattern}");
    }
    Ok(())
}

#[test]
fn a_cut_that_is_mended_in_time_costs_nothing() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("link-mended")?;
    let host = muster(&bed, Layout::Unified)?;
    let script = "#!/bin/bash\nset -eu\ntouch /run/escaped\nfor i in $(seq 40); do echo $i; sleep 0.25; done\ntouch /run/finished\n";
    let mut client = under_way(&host, script, "")?;
    host.node.cut_link()?;
    std::thread::sleep(Duration::from_secs(5));
    host.node.restore_link()?;
    assert!(client.wait()?.success());
    host.node.sh("[ -e /run/finished ]")?;
    Ok(())
}

#[test]
fn m12_a_finish_run_outlives_its_client_and_keeps_its_lock_and_deadline() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("finish")?;
    let host = muster(&bed, Layout::Unified)?;
    let script =
        "#!/bin/bash\nset -eu\ntouch /run/escaped\nsleep 7777 || true\necho on\ntouch /run/finished\n";
    let text = intent("leave", script, 1, "")?;
    let finish = |deadline: u32| {
        text.replace("deadline: 120\n", &format!("deadline: {deadline}\non-disconnect: finish\n"))
    };

    let mut client = host.start(&host.envelope_two("leave", &finish(120), script, "")?)?;
    wait_for(&host, "[ -e /run/escaped ]")?;
    client.kill()?;
    client.wait()?;
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(host.node.pids("^sleep 7777")?.len(), 1, "it goes on");
    assert_eq!(
        host.send(&host.envelope_two("leave", &finish(120), script, "")?)?.code(),
        Some(7),
        "and holds the lock"
    );
    // bash reports the killed sleep and the script prints: nobody reads it, and the script must not die of that.
    host.node.sh("pkill -f '^sleep 7777'")?;
    wait_for(&host, "[ -e /run/finished ] && [ ! -e /run/muster/shim/run ]")?;

    // The deadline holds for a run that nobody watches, too.
    host.node.sh("rm -f /run/escaped /run/finished")?;
    let mut client = host.start(&host.envelope_two("leave", &finish(3), script, "")?)?;
    wait_for(&host, "[ -e /run/escaped ]")?;
    client.kill()?;
    client.wait()?;
    gone(&host, "^sleep 7777", Duration::from_secs(20))?;
    host.node.sh("[ ! -e /run/finished ]")?;
    assert_eq!(last_end(&host)?["verdict"], "deadline");
    Ok(())
}

#[test]
fn s5_the_signed_deadline_ends_a_run() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("deadline")?;
    let host = muster(&bed, Layout::Unified)?;
    let text = intent("join", ESCAPING, 1, "")?.replace("deadline: 120", "deadline: 2");
    let out = host.send(&host.envelope_two("join", &text, ESCAPING, "")?)?;
    assert_eq!(out.code(), Some(11), "{}", out.stderr_text());
    assert!(out.took < Duration::from_secs(30), "{:?}", out.took);
    assert_eq!(host.node.pids(ALL_OF_IT)?, [0_u32; 0]);
    Ok(())
}

#[test]
fn s7_stragglers_of_a_successful_run_are_ended_and_counted() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("stragglers")?;
    let host = muster(&bed, Layout::Unified)?;
    let script = ESCAPING.replace("sleep 7006\n", "exit 0\n");
    let text = intent("join", &script, 1, "")?;
    let out = host.send(&host.envelope_two("join", &text, &script, "")?)?;
    assert_eq!(out.code(), Some(0), "{}", out.stderr_text());
    assert_eq!(host.node.pids(ALL_OF_IT)?, [0_u32; 0]);
    let end = last_end(&host)?;
    assert_eq!(end["verdict"], "ok", "{end}");
    assert!(end["stragglers"].as_u64().is_some_and(|n| n >= 4), "{end}");
    Ok(())
}

/// sudo's own log would otherwise hold the envelope, and its pipes would hide that the client went away.
#[test]
fn m10_sudo_with_io_logging_neither_keeps_secrets_nor_hides_a_disconnect() -> Result<()> {
    require_root_or_skip!();
    const CANARY: &str = "canary-8f14e45f";
    let bed = Testbed::prepare("sudo-iolog")?;
    let options = Options::new(Name::Muster, &binaries()?.shim)
        .policy(POLICY)
        .sudoers("Defaults log_input, log_output, use_pty, iolog_dir=/var/log/sudo-io\n");
    let host = Host::provision(&bed, "a", &options)?;
    // The logging is really on: for another program it writes what that program reads.
    host.node.sh(&format!("echo {CANARY}-control | sudo -u nobody cat; grep -rqz {CANARY}-control /var/log/sudo-io || zgrep -q {CANARY}-control $(find /var/log/sudo-io -type f)"))?;

    let script = "#!/bin/bash\nset -eu\n[ \"${#MUSTER_TOKEN}\" -gt 5 ]\ntouch /run/escaped\nsleep 7009\n";
    let text = intent("join", script, 1, "param: MUSTER_TOKEN [a-z0-9-]+\n")?;
    host.node.sh("rm -f /run/escaped")?;
    let envelope = host.envelope_two("join", &text, script, &format!("MUSTER_TOKEN={CANARY}\n"))?;
    let mut client = host.start(&envelope)?;
    wait_for(&host, "[ -e /run/escaped ]")?;
    for line in host.node.command_lines()? {
        assert!(!line.contains(CANARY), "on a command line: {line}");
    }
    client.kill()?;
    client.wait()?;
    // Hidden, it would last as long as the script, or the session.
    gone(&host, "^sleep 7009", Duration::from_secs(9))?;
    let encoded = crate::host::b64(format!("MUSTER_TOKEN={CANARY}\n").as_bytes());
    let search = format!(
        "! find /var/log /run/log /var/lib/muster /run/muster /tmp -type f -print0 | xargs -0 zgrep -l -a -e '{CANARY}$' -e '{}'",
        &encoded[..20]
    );
    host.node.sh(&search)?;
    Ok(())
}

#[test]
fn a_frozen_node_ends_the_run_when_it_thaws_and_the_client_is_gone() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("frozen")?;
    let host = muster(&bed, Layout::Unified)?;
    let mut client = under_way(&host, ESCAPING, "")?;
    host.node.freeze()?;
    std::thread::sleep(Duration::from_secs(3));
    client.kill()?;
    client.wait()?;
    host.node.thaw()?;
    gone(&host, ALL_OF_IT, Duration::from_secs(20))?;
    assert_eq!(last_end(&host)?["verdict"], "peer-gone");
    Ok(())
}

/// The deadline counts the time that the node stood still.
#[test]
fn a_frozen_node_spends_its_deadline() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("frozen-deadline")?;
    let host = muster(&bed, Layout::Unified)?;
    host.node.sh("rm -f /run/escaped")?;
    let text = intent("join", ESCAPING, 1, "")?.replace("deadline: 120", "deadline: 20");
    let mut client = host.start(&host.envelope_two("join", &text, ESCAPING, "")?)?;
    wait_for(&host, "[ -e /run/escaped ]")?;
    host.node.freeze()?;
    std::thread::sleep(Duration::from_secs(21));
    host.node.thaw()?;
    // Not counted, the time would leave it nearly all of its 20 s.
    gone(&host, ALL_OF_IT, Duration::from_secs(12))?;
    assert_eq!(client.wait()?.code(), Some(11));
    Ok(())
}

#[test]
fn s8_a_full_disk_refuses_a_rising_floor_but_lets_the_current_epoch_leave() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("disk-full")?;
    let host = muster(&bed, Layout::Unified)?;
    host.node.small_disk("/var/lib/muster", "256k")?;
    let script = "#!/bin/bash\nset -eu\necho \"$MUSTER_PHASE\" >> /root/ran\n";
    // One edition is signed at one time, so that only a new epoch moves the floors.
    let (from, to) = (utc("-1 hour")?, utc("+1 day")?);
    let run = |phase: &str, epoch: u32| -> Result<muster_testbed::Output> {
        let text = intent_between(phase, script, epoch, "", &from, &to)?;
        host.send(&host.envelope_two(phase, &text, script, "")?)
    };
    assert_eq!(run("join", 5)?.code(), Some(0));
    let floors = host.node.get("/var/lib/muster/shim/floors")?;
    host.node.fill_disk("/var/lib/muster")?;
    let out = run("join", 6)?;
    assert_eq!(out.code(), Some(1), "{}", out.stderr_text());
    assert_eq!(host.node.get("/var/lib/muster/shim/floors")?, floors, "the old floor stands, whole");
    assert_eq!(host.node.get("/root/ran")?, b"join\n", "nothing ran");
    let out = run("leave", 5)?;
    assert_eq!(out.code(), Some(0), "{}", out.stderr_text());
    assert_eq!(host.node.get("/root/ran")?, b"join\nleave\n");
    host.node.free_disk("/var/lib/muster")?;
    assert_eq!(run("join", 6)?.code(), Some(0));
    assert_eq!(
        host.node.sh("ls -A /var/lib/muster/shim | grep -v -x -e floors -e 'runs.log.*' || true")?,
        "",
        "no half-written file"
    );
    Ok(())
}

#[test]
fn two_runs_at_once_are_one_run_and_one_busy() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("two-runs")?;
    let host = muster(&bed, Layout::Unified)?;
    let mut client = under_way(&host, ESCAPING, "")?;
    let script = "#!/bin/bash\ntouch /root/second\n";
    let out = host.send(&host.envelope_two("leave", &intent("leave", script, 1, "")?, script, "")?)?;
    assert_eq!(out.code(), Some(7), "{}", out.stderr_text());
    assert!(out.stderr_text().contains("[busy]"), "{}", out.stderr_text());
    // Both names share one lock, and a probe takes none.
    let probe = host.send(b"muster-envelope: 2\nphase: probe\n")?;
    assert_eq!(probe.code(), Some(0), "{}", probe.stderr_text());
    assert!(
        probe.stdout_text().contains("join"),
        "the probe names the phase that runs: {}",
        probe.stdout_text()
    );
    // M8, T16: the lock is root's alone, so that the pool account cannot hold it.
    host.node.sh(
        "[ \"$(stat -c '%a %u' /run/muster/shim/lock /run/muster/shim | sort -u)\" = $'600 0\\n700 0' ]",
    )?;
    client.kill()?;
    client.wait()?;
    gone(&host, ALL_OF_IT, Duration::from_secs(20))?;
    let out = host.send(&host.envelope_two("leave", &intent("leave", script, 1, "")?, script, "")?)?;
    assert_eq!(out.code(), Some(0), "{}", out.stderr_text());
    host.node.sh("[ -e /root/second ]")?;
    Ok(())
}

#[test]
fn m14_a_clock_that_is_wrong_by_a_year_refuses_both_ways() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("clock-year")?;
    // Preloading needs the dynamic build; sudo drops LD_PRELOAD, so the wrapper stands at the shim's own place.
    let options = Options::new(Name::Muster, &binaries()?.shim_dynamic).policy(POLICY);
    let host = Host::provision(&bed, "a", &options)?;
    let script = "#!/bin/bash\ntouch /root/ran\n";
    let send = || host.send(&host.envelope_two("join", &intent("join", script, 1, "")?, script, "")?);
    for (offset, reasons) in [("+366d", ["expired", "expired"]), ("-366d", ["clock-behind", "not-yet-valid"])]
    {
        host.node.skew_clock(Name::Muster.shim(), offset)?;
        let out = send()?;
        assert_eq!(out.code(), Some(6), "{offset}: {}", out.stderr_text());
        assert!(reasons.iter().any(|r| out.stderr_text().contains(r)), "{offset}: {}", out.stderr_text());
        host.node.true_clock(Name::Muster.shim())?;
    }
    host.node.sh("[ ! -e /root/ran ]")?;
    assert_eq!(send()?.code(), Some(0), "and the right clock takes it");
    // M14: after an accepted intent, a clock before its not-before is known to be wrong, without any observed wall time.
    host.node.skew_clock(Name::Muster.shim(), "-3h")?;
    let text = intent_between("join", script, 1, "", &utc("-10 hours")?, &utc("+1 day")?)?;
    let out = host.send(&host.envelope_two("join", &text, script, "")?)?;
    assert_eq!(out.code(), Some(6), "{}", out.stderr_text());
    assert!(out.stderr_text().contains("clock-behind"), "{}", out.stderr_text());
    Ok(())
}

#[test]
fn a_restart_of_sshd_does_not_disturb_a_run() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("sshd-restart")?;
    let host = muster(&bed, Layout::Unified)?;
    let script = "#!/bin/bash\nset -eu\ntouch /run/escaped\nuntil [ -e /run/go ]; do sleep 0.1; done\ntouch /run/finished\n";
    let mut client = under_way(&host, script, "")?;
    host.node.sh("systemctl restart ssh; sleep 1; touch /run/go")?;
    assert!(client.wait()?.success());
    host.node.sh("[ -e /run/finished ]")?;
    Ok(())
}

/// Waits up to 40 s for a shell condition.
fn wait_for(host: &Host, condition: &str) -> Result<()> {
    let script = format!("for i in $(seq 800); do if {condition}; then exit 0; fi; sleep 0.05; done; exit 1");
    host.node.exec(&["bash", "-c", &script])?.check().with_context(|| condition.to_owned())?;
    Ok(())
}

/// Killed at whatever step it is: no second run beside the first, and the next run starts clean.
///
/// The script proves it by a lock of its own, which the kernel holds for as long as any process of the first run lives.
#[test]
fn m9_a_shim_killed_at_any_moment_never_leaves_two_runs() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("shim-killed")?;
    let script = "#!/bin/bash\nset -eu\nexec 9>/run/one-run\nflock -n 9 || { echo beside >> /root/beside; exit 1; }\n\
                  echo begun >> /root/begun\ntrap '' TERM HUP\n(setsid sleep 7100 &)\nsleep 7101 &\nsleep 4\n";
    for layout in layouts() {
        let host = muster(&bed, layout)?;
        let envelope = host.envelope_two("join", &intent("join", script, 1, "")?, script, "")?;
        let mut killed = 0;
        for delay in (0..40).map(|n| Duration::from_millis(n * 12)) {
            let mut client = host.start(&envelope)?;
            let at = Instant::now();
            // From the moment that a shim is there, kill every one of them after `delay`.
            while host.node.pids("^(sudo -n -- )?/usr/bin/muster-shim")?.is_empty() {
                if client.try_wait()?.is_some() || at.elapsed() > Duration::from_secs(20) {
                    break;
                }
            }
            std::thread::sleep(delay);
            killed += u32::from(host.node.exec(&["pkill", "-KILL", "-x", "muster-shim"])?.ok());
            // What is left of the run holds the channel open, so the client would wait with it.
            client.kill()?;
            client.wait()?;
        }
        assert!(killed >= 30, "{layout:?}: only {killed} shims were there to kill");
        let out = host.send(&envelope)?;
        assert_eq!(out.code(), Some(0), "{layout:?}: {}", out.stderr_text());
        host.node.sh("[ ! -e /root/beside ] && [ -s /root/begun ]").with_context(|| format!("{layout:?}"))?;
        assert_eq!(
            host.node.pids("^sleep 710")?,
            [0_u32; 0],
            "{layout:?}: all of the killed runs' processes are gone"
        );
        let ends = records(&host)?;
        let interrupted = ends.iter().filter(|r| r["verdict"] == "interrupted").count();
        assert!(interrupted >= 5, "{layout:?}: {interrupted} of {killed} killed shims had begun a run");
        let starts = ends.iter().filter(|r| r["event"] == "start").count();
        assert_eq!(starts * 2, ends.len(), "{layout:?}: each start has one end");
        host.node.power_off()?;
    }
    Ok(())
}
