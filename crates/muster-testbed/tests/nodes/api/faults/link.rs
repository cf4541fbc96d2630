//! The cable is pulled while streams run: neither side is told.

use std::process::{Child, Command, Stdio};

use super::stage::{IMAGE, rig, stages};
use super::*;

/// What the node may take until it has noticed: two minutes, as its page says, and what a busy machine adds.
const NODE: Duration = Duration::from_secs(150);
/// And the command line: one.
const CLIENT: Duration = Duration::from_secs(90);
/// What only reads: 30 s of silence, and time for a busy machine.
const READER: Duration = Duration::from_secs(60);

fn follows(rig: &Rig, unit: &str) -> Result<Running> {
    // Not the last line or two: what a service says and what systemd says of it come to journald by two roads, in either order.
    rig.alice.start(&["node", "logs", "a", "--unit", unit, "-n", "20", "--follow"])
}

/// Begins to send a list of 64 KiB, and goes no further than its first bytes.
fn uploads(rig: &Rig) -> Result<Follower> {
    let script = format!(
        "(printf 'PUT /v1/ca/crl HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 65536\\r\\n\\r\\nMII'; exec sleep 300) | \
         openssl s_client -quiet -connect {}:7443 -cert pki/clients/alice.pem -key pki/clients/alice.key",
        rig.node.addr()
    );
    let mut command = rig.alice.command("/usr/bin/setsid".as_ref(), &["bash", "-c", &script]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(Follower { child, out: std::path::PathBuf::new() })
}

/// Connections of clients that the edge has.
fn seats(node: &Node) -> Result<usize> {
    Ok(node.sh("ss -Htn state established '( sport = :7443 )'")?.lines().count())
}

#[test]
fn fault_link_cut_mid_stream_frees_the_seats_and_tells_the_clients() -> Result<()> {
    require_root_or_skip!();
    let rig = rig("fault-link")?;
    let node = &rig.node;
    node.put(
        "/run/systemd/system/kubelet.service",
        b"[Service]\nExecStart=/bin/bash -c 'while :; do echo noise; sleep 0.4; done'\n",
        0o644,
    )?;
    node.sh("systemctl daemon-reload; systemctl start kubelet")?;
    rig.fresh()?;
    let mut noisy = follows(&rig, "kubelet")?;
    let mut quiet = follows(&rig, "muster-bootstrap")?;
    let mut pull = stages(&rig, IMAGE)?;
    let upload = uploads(&rig)?;
    noisy.until("noise")?;
    quiet.until("built as")?;
    pull.until("Fetched 2")?;
    // Who only reads must notice by itself, since nothing of what it asked for tells it.
    let readers: [&[&str]; 2] = [&["node", "logs", "a", "--follow"], &["audit", "tail", "a", "--follow"]];
    let mut readers = readers.iter().map(|args| rig.alice.start(args)).collect::<Result<Vec<_>>>()?;
    for reader in &readers {
        let line = until("its first line", || Ok(reader.stdout().contains('\n').then_some(())));
        line.with_context(|| reader.stderr())?;
    }
    until("all of them are there", || Ok((seats(node)? == 6).then_some(())))?;

    node.cut_link()?;
    let cut = Instant::now();
    for reader in &mut readers {
        reader.ends_within(READER.saturating_sub(cut.elapsed()), 5)?;
        let text = reader.stderr();
        anyhow::ensure!(
            text.starts_with("error[node-unreachable]: a: the connection to ")
                && text.contains(" was lost: "),
            "{text}"
        );
    }
    for (client, code) in [(&mut noisy, 5), (&mut quiet, 5), (&mut pull, 8)] {
        client.ends_within(CLIENT, code)?;
        anyhow::ensure!(client.said().contains("error["), "{}", client.said());
    }
    println!("the clients know after {:.0} s", cut.elapsed().as_secs_f64());
    let left = NODE.saturating_sub(cut.elapsed());
    muster_testbed::until("the seats are free", left, || Ok((seats(node)? == 0).then_some(())))
        .with_context(|| node.sh("ss -tnoie '( sport = :7443 )'").unwrap_or_default())?;
    println!("the node knows after {:.0} s", cut.elapsed().as_secs_f64());
    holds(node, "! pgrep -x journalctl")?;
    drop(upload);

    // The pull went on, and a call for the same image attaches to it.
    assert_eq!(rig.unit("SubState")?, "running");
    node.restore_link()?;
    rig.alice.muster(&["node", "status", "a"])?.check()?;
    let mut again = stages(&rig, IMAGE)?;
    again.until("layers needed: 11")?;
    node.sh("touch /run/go")?;
    again.ends(0)?;
    rig.pulled(1, true)
}

/// As many followers as the page allows for, and clients that read nothing; memory of both processes at the end of it.
#[test]
fn fault_two_hundred_followers_of_one_journal_and_clients_that_never_read() -> Result<()> {
    require_root_or_skip!();
    let rig = Rig::claimed("fault-crowd", |_, _| Ok(()))?;
    let node = &rig.node;
    node.put(
        "/run/systemd/system/kubelet.service",
        b"[Service]\nExecStart=/bin/bash -c 'n=0; while :; do n=$((n+1)); echo \"tick $n\"; sleep 0.4; done'\nLogRateLimitIntervalSec=0\n",
        0o644,
    )?;
    node.sh("systemctl daemon-reload; systemctl start kubelet")?;
    let before = memory(node)?;
    // By the real client's library in one process each would be dear here: s_client, as any other client.
    // A client's share is 32 streams, so there are eight of them.
    for n in 0..8 {
        rig.alice.issue(&format!("follower-{n}"), "readonly")?;
    }
    let mut crowd = Vec::new();
    for n in 0..200 {
        crowd.push(follower(&rig, &format!("follower-{}", n % 8), false)?);
    }
    let mut deaf = Vec::new();
    for n in 0..4 {
        deaf.push(follower(&rig, &format!("follower-{n}"), true)?);
    }
    // So many at one moment are more calls than the node has in hand at once: who is told 503 and `Retry-After: 1` asks again.
    until("nobody is told to come again", || {
        let mut again = 0;
        for (n, one) in crowd.iter_mut().enumerate().filter(|(_, c)| c.heard().starts_with("HTTP/1.1 503")) {
            assert!(one.heard().contains("\r\nretry-after: 1\r\n"), "{}", one.heard());
            *one = follower(&rig, &format!("follower-{}", n % 8), false)?;
            again += 1;
        }
        let hear = crowd.iter().all(|c| !c.heard().is_empty());
        Ok((again == 0 && hear).then_some(()))
    })?;
    until("all of them are let in", || Ok((seats(node)? >= 204).then_some(())))?;
    let deaf_to = |c: &&Follower| !c.heard().contains("tick ");
    until("everybody hears", || Ok((crowd.iter().filter(deaf_to).count() == 0).then_some(())))?;
    // One journalctl for all of them, once those are done that read what was before.
    holds(node, "[ \"$(pgrep -xc journalctl)\" = 1 ]")?;
    // Who reads loses nothing for the others, and who asks something else is answered.
    until("everybody hears more", || Ok(crowd.iter().all(|c| ticks(c).len() > 10).then_some(())))?;
    rig.alice.muster(&["node", "status", "a"])?.check()?;
    let after = memory(node)?;
    println!("memory of core and edge: {before:?} KiB, with 204 streams {after:?} KiB");
    assert!(after.0 < 64 * 1024 && after.1 < 96 * 1024, "core and edge: {after:?} KiB");
    for follower in &crowd {
        let ticks = ticks(follower);
        assert!(ticks.len() > 10 && ticks.windows(2).all(|w| w[1] == w[0] + 1), "none is missed: {ticks:?}");
    }
    drop(crowd);
    drop(deaf);
    until("the seats are free", || Ok((seats(node)? == 0).then_some(())))?;
    holds(node, "! pgrep -x journalctl")?;
    nothing_failed(node)
}

/// The numbers that it heard.
fn ticks(follower: &Follower) -> Vec<u32> {
    follower.heard().split("tick ").skip(1).filter_map(|t| t.split('"').next()?.parse().ok()).collect()
}

/// Resident memory of core and edge, KiB.
fn memory(node: &Node) -> Result<(u64, u64)> {
    let of = |argv| -> Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", node.outer_pid(argv)?))?;
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).context("VmRSS")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    };
    Ok((of(CORE)?, of(EDGE)?))
}

/// A client that is openssl's; it ends with its value.
struct Follower {
    child: Child,
    out: std::path::PathBuf,
}

impl Follower {
    fn heard(&self) -> String {
        std::fs::read_to_string(&self.out).unwrap_or_default()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
        let _ = self.child.wait();
    }
}

fn follower(rig: &Rig, client: &str, deaf: bool) -> Result<Follower> {
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let out = rig.alice.file(&format!("heard-{}", NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
    // Who is deaf reads nothing behind its pipe. That fills only after minutes here; sockets that are full are tried with the edge alone.
    let sink = if deaf { "| sleep 300" } else { "" };
    let script = format!(
        "(printf 'GET /v1/logs?unit=kubelet&lines=100&follow=true HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'; exec sleep 300) | \
         openssl s_client -quiet -connect {}:7443 -cert pki/clients/{client}.pem -key pki/clients/{client}.key {sink}",
        rig.node.addr()
    );
    let mut command = rig.alice.command("/usr/bin/setsid".as_ref(), &["bash", "-c", &script]);
    let child =
        command.stdin(Stdio::null()).stdout(std::fs::File::create(&out)?).stderr(Stdio::null()).spawn()?;
    Ok(Follower { child, out })
}
