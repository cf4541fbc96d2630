//! How long sshd takes to notice that a client is gone when nothing tells it. Written up in
//! `docs/decisions/0002-keepalive-after-a-silent-cut.md`.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use muster_testbed::{Node, RootfsSpec, Testbed, require_root_or_skip};

/// Seconds from the cut to the end of sshd's process for the connection; `None` when it outlives `limit`.
fn cut(
    bed: &Testbed,
    node: &Node,
    interval: u32,
    count: u32,
    noisy: bool,
    limit: Duration,
) -> Result<Option<f64>> {
    let config = format!("ClientAliveInterval {interval}\nClientAliveCountMax {count}\n");
    node.put("/etc/ssh/sshd_config.d/00-alive.conf", config.as_bytes(), 0o644)?;
    node.sh("systemctl restart ssh")?;
    node.wait_ssh()?;
    let key = bed.keygen(&format!("key-{interval}-{count}-{noisy}"))?;
    node.add_ssh_key("root", &key)?;
    let script = if noisy { "while :; do echo x; sleep 0.3; done" } else { "sleep 3000" };
    let mut client = bed
        .ssh(node, "root", &key)
        .command(Some(script))?
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let started = Instant::now();
    let sshd = loop {
        if let Some(pid) = node.pids("^sshd(-session)?: root@notty")?.first() {
            break *pid;
        }
        anyhow::ensure!(started.elapsed() < Duration::from_secs(60), "no login");
    };
    std::thread::sleep(Duration::from_millis(2500));
    node.cut_link()?;
    let at = Instant::now();
    let mut gone = None;
    while at.elapsed() < limit {
        if !node.exec(&["kill", "-0", &sshd.to_string()])?.ok() {
            gone = Some(at.elapsed().as_secs_f64());
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    client.kill()?;
    client.wait()?;
    node.restore_link()?;
    let left = node.pids("^sshd(-session)?: root@notty")?;
    for pid in left {
        let _ = node.signal(pid, "KILL");
    }
    Ok(gone)
}

/// The whole table, several minutes: `MUSTER_MEASURE=1 cargo test -p muster-testbed --test nodes -- --nocapture quiet_session`.
fn measure() -> Result<()> {
    let suite = std::env::var("MUSTER_SUITE").ok();
    let bed = Testbed::prepare_on("keepalive", &RootfsSpec { suite, ..RootfsSpec::default() })?;
    let node = bed.node("a")?.boot()?;
    println!("{}", node.exec(&["ssh", "-V"])?.stderr_text());
    for (interval, count) in [(5, 3), (3, 3), (2, 3)] {
        for noisy in [false, true] {
            let t = cut(&bed, &node, interval, count, noisy, Duration::from_secs(70)).context("cut")?;
            println!("interval {interval} count {count} noisy {noisy}: {t:?}");
        }
    }
    Ok(())
}

/// Twice `Interval x (CountMax + 1)` is what the slowest known sshd takes.
#[test]
fn client_alive_ends_a_quiet_session_after_a_silent_cut() -> Result<()> {
    require_root_or_skip!();
    if std::env::var_os("MUSTER_MEASURE").is_some() {
        measure()?;
    }
    let bed = Testbed::prepare("keepalive-quiet")?;
    let node = bed.node("a")?.boot()?;
    let took = cut(&bed, &node, 1, 2, false, Duration::from_secs(20))?.context("sshd never noticed")?;
    assert!((0.5..12.0).contains(&took), "{took}");
    // Not --unit=ssh: with PAM the process for a login has moved to the scope of its session.
    assert!(node.journal_of(&["--identifier=sshd"])?.contains("Timeout, client not responding"));
    Ok(())
}

/// What the shim's own watch stands on: sshd keeps a printing session for ever, but the kernel's table shows the retransmissions.
#[test]
fn a_silent_cut_of_a_printing_session_shows_in_the_tcp_table_only() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("keepalive-noisy")?;
    let node = bed.node("a")?.boot()?;
    node.put(
        "/etc/ssh/sshd_config.d/00-alive.conf",
        b"ClientAliveInterval 1\nClientAliveCountMax 2\n",
        0o644,
    )?;
    node.sh("systemctl restart ssh")?;
    node.wait_ssh()?;
    let key = bed.keygen("key")?;
    node.add_ssh_key("root", &key)?;
    let script = "echo \"$SSH_CONNECTION\" > /run/connection; while :; do echo x; sleep 0.2; done";
    let mut client = bed.ssh(&node, "root", &key).command(Some(script))?.stdout(Stdio::null()).spawn()?;
    node.sh("for i in $(seq 100); do [ -s /run/connection ] && exit; sleep 0.1; done; exit 1")?;
    std::thread::sleep(Duration::from_secs(1));
    // proc_net_tcp: local, remote, state, queues, timer, retrnsmt; state 01 is ESTABLISHED, port 22 is 0016.
    let retransmits = || -> Result<u64> {
        let row = node.sh("awk '$2 ~ /:0016$/ && $4 == \"01\" { print $7 }' /proc/net/tcp")?;
        u64::from_str_radix(row.trim(), 16).with_context(|| format!("one connection: {row:?}"))
    };
    assert_eq!(retransmits()?, 0, "a healthy connection");
    node.cut_link()?;
    let at = Instant::now();
    let mut without_break = true;
    while at.elapsed() < Duration::from_secs(14) {
        std::thread::sleep(Duration::from_millis(500));
        without_break &= at.elapsed() < Duration::from_secs(3) || retransmits()? > 0;
    }
    assert!(without_break, "the counter stands above 0 from the third second on");
    assert_eq!(node.pids("^sshd(-session)?: root@notty")?.len(), 1, "sshd has not noticed in 14 s");
    node.restore_link()?;
    node.sh("for i in $(seq 200); do awk '$2 ~ /:0016$/ && $4 == \"01\" && $7 != \"00000000\" { bad=1 } END { exit bad }' \
             /proc/net/tcp && exit; sleep 0.1; done; exit 1")?;
    assert!(client.try_wait()?.is_none(), "a cut that is mended costs nothing");
    client.kill()?;
    client.wait()?;
    Ok(())
}
