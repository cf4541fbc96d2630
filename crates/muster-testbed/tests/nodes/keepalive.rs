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
        anyhow::ensure!(started.elapsed() < Duration::from_secs(20), "no login");
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

#[test]
#[ignore = "a measurement, several minutes: `cargo test -p muster-testbed --test nodes -- --ignored --nocapture keepalive`"]
fn measure() -> Result<()> {
    require_root_or_skip!();
    let suite = std::env::var("MUSTER_SUITE").ok();
    let bed = Testbed::prepare_on("keepalive", &RootfsSpec { suite, ..RootfsSpec::default() })?;
    let node = bed.node("a")?.boot()?;
    println!("{}", node.exec(&["ssh", "-V"])?.stderr_text());
    for (interval, count) in [(5, 3), (5, 2), (2, 3)] {
        for noisy in [false, true] {
            let t = cut(&bed, &node, interval, count, noisy, Duration::from_secs(70)).context("cut")?;
            println!("interval {interval} count {count} noisy {noisy}: {t:?}");
        }
    }
    Ok(())
}
