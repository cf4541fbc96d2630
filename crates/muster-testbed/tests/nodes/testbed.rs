//! The testbed's own promises: faults do what they say, beds do not collide, nothing stays behind.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use muster_testbed::{Cable, Testbed, list, require_root_or_skip};

#[test]
fn a_small_disk_fills_up_and_empties() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("disk")?;
    let node = bed.node("a")?.boot()?;
    node.put("/var/lib/muster/shim/floors", b"kept\n", 0o600)?;
    assert!(node.fill_disk("/var/lib/muster").is_err(), "never the disk of this machine");
    node.small_disk("/var/lib/muster", "256k")?;
    node.fill_disk("/var/lib/muster")?;
    assert_eq!(node.get("/var/lib/muster/shim/floors")?, b"kept\n");
    assert!(node.put("/var/lib/muster/shim/more", b"x", 0o600).is_err());
    node.free_disk("/var/lib/muster")?;
    node.put("/var/lib/muster/shim/more", b"x", 0o600)
}

#[test]
fn a_frozen_node_stands_still_and_goes_on() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("freeze")?;
    let node = bed.node("a")?.boot()?;
    node.sh("(setsid bash -c 'while :; do date +%s%N > /run/beat.new; mv /run/beat.new /run/beat; sleep 0.05; done' &)")?;
    let beat = || std::fs::read_to_string(format!("/proc/{}/root/run/beat", node.leader()?)).context("beat");
    until("a beat", || Ok(beat().is_ok()))?;
    node.freeze()?;
    let (one, two) = (beat()?, (std::thread::sleep(Duration::from_millis(400)), beat()?).1);
    assert_eq!(one, two, "nothing runs in a frozen node");
    node.thaw()?;
    until("it to go on", || Ok(beat()? != two))
}

fn until(what: &str, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
    let at = Instant::now();
    while !ready()? {
        anyhow::ensure!(at.elapsed() < Duration::from_secs(30), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[test]
fn a_power_cut_keeps_the_disk_and_ends_the_processes() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("power")?;
    let node = bed.node("a")?.boot()?;
    node.put("/etc/kept", b"on disk", 0o644)?;
    node.sh("touch /run/lost")?;
    node.power_off()?;
    assert!(node.leader().is_err());
    node.power_on()?;
    assert_eq!(node.get("/etc/kept")?, b"on disk");
    assert!(!node.exec(&["test", "-e", "/run/lost"])?.ok());
    Ok(())
}

#[test]
fn one_program_sees_another_time() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("clock")?;
    let node = bed.node("a")?.boot()?;
    node.sh("cp /bin/date /usr/local/bin/date2")?;
    let year = |program: &str| -> Result<i64> { Ok(node.sh(&format!("{program} +%s"))?.trim().parse()?) };
    for (offset, days) in [("+365d", 365), ("-365d", -365)] {
        node.skew_clock("/usr/local/bin/date2", offset)?;
        let off = (year("/usr/local/bin/date2")? - year("date")?) - days * 86_400;
        assert!(off.abs() < 60, "{offset}: {off}");
        node.true_clock("/usr/local/bin/date2")?;
    }
    assert!((year("/usr/local/bin/date2")? - year("date")?).abs() < 60);
    Ok(())
}

#[test]
fn a_bad_cable_delays_and_loses_and_is_put_back() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("cable")?;
    let (a, b) = (bed.node("a")?.boot()?, bed.node("b")?.boot()?);
    let key = bed.keygen("admin")?;
    a.add_ssh_key("root", &key)?;
    // What the transport carries must arrive whole, also large and through offloading.
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let echo = || -> Result<Duration> {
        let out = bed.ssh(&a, "root", &key).run("cat", &bytes)?.check()?;
        assert!(out.stdout == bytes, "3 MB came back changed");
        Ok(out.took)
    };
    // One exchange of a line: at least one way there and back.
    let trip = || -> Result<Duration> {
        let at = Instant::now();
        b.sh("exec 3<>/dev/tcp/a/22; read -r banner <&3")?;
        Ok(at.elapsed())
    };
    let plain = trip()?;
    let cable = a.bad_cable(Cable { delay: Duration::from_millis(100), loss_percent: 0 })?;
    let slow = trip()?;
    assert!(slow > Duration::from_millis(400), "SYN and banner, there and back: {slow:?}, before {plain:?}");
    echo()?;
    drop(cable);
    let cable = a.bad_cable(Cable { delay: Duration::ZERO, loss_percent: 3 })?;
    echo()?;
    drop(cable);
    let cable = a.bad_cable(Cable { delay: Duration::ZERO, loss_percent: 100 })?;
    let out = bed.ssh(&a, "root", &key).option(&["-o", "ConnectTimeout=2"]).run("true", b"")?;
    assert_eq!(out.code(), Some(255), "nothing passes");
    drop(cable);
    echo()?;
    Ok(())
}

/// The variable says that this process is the victim of [`nothing_stays_behind_of_a_killed_process`].
const VICTIM: &str = "MUSTER_TESTBED_VICTIM";

#[test]
fn nothing_stays_behind_of_a_killed_process() -> Result<()> {
    require_root_or_skip!();
    if std::env::var_os(VICTIM).is_some() {
        let bed = Testbed::prepare("victim")?;
        let node = bed.node("doomed")?.boot()?;
        println!("leader={} slot={}", node.leader()?, bed.slot());
        std::thread::sleep(Duration::from_secs(60));
        return Ok(());
    }
    let this = std::env::current_exe()?;
    let mut victim = Command::new(this)
        .args(["--exact", "testbed::nothing_stays_behind_of_a_killed_process", "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(victim.stdout.take().context("pipe")?));
    let line =
        lines.find_map(|l| l.ok().filter(|l| l.contains("leader="))).context("the victim booted nothing")?;
    let number = |key: &str| -> Result<u32> {
        let rest = line.split(key).nth(1).context("number")?;
        Ok(rest.split_whitespace().next().context("number")?.parse()?)
    };
    let (leader, slot) = (number("leader=")?, number("slot=")?);
    victim.kill()?;
    victim.wait()?;

    // The node dies with its owner, at once; the rest goes when the next bed is made.
    until("the node to end with its process", || Ok(!alive(leader)))?;
    let bed = Testbed::prepare("next")?;
    assert!(list()?.iter().all(|b| b.name != "victim"));
    assert!(!std::path::Path::new(&format!("/run/netns/mtb{slot}-doomed")).exists());
    drop(bed);
    Ok(())
}

#[test]
fn a_bed_takes_everything_with_it_and_two_do_not_collide() -> Result<()> {
    require_root_or_skip!();
    let (one, two) = (Testbed::prepare("one")?, Testbed::prepare("two")?);
    assert_ne!(one.slot(), two.slot());
    let (a, b) = (one.node("same")?.boot()?, two.node("same")?.boot()?);
    assert_ne!(a.addr(), b.addr());
    assert!(one.node("same").is_err(), "one name, one node");
    assert!(one.node("No_such-name").is_err());
    // Nodes of different beds do not see each other.
    let reach = format!("timeout 2 bash -c 'exec 3<>/dev/tcp/{}/22'", b.addr());
    assert!(!a.exec(&["bash", "-c", &reach])?.ok());
    let (slot, dir, (namespace, cable), leader) = (one.slot(), one.dir(), a.network_names(), a.leader()?);
    // Once it is given back, a test beside may have the slot: what is looked for is this bed's own.
    let links = [cable, format!("mtb{slot}")].map(|name| format!("/sys/class/net/{name}/ifindex"));
    let indices = || links.iter().map(|l| std::fs::read_to_string(l).ok()).collect::<Vec<_>>();
    let before = indices();
    drop(one);
    for path in [dir.join("same").display().to_string(), format!("/run/netns/{namespace}")] {
        assert!(!std::path::Path::new(&path).exists(), "{path} is still there");
    }
    for (before, now) in before.iter().zip(indices()) {
        assert!(before.is_some() && *before != now, "a link is still there");
    }
    assert!(!alive(leader), "its init is still there");
    assert!(b.exec(&["true"])?.ok(), "the other bed goes on");
    assert!(!std::fs::read_to_string("/proc/self/mountinfo")?.contains(&format!("/bed-{slot}/same/")));
    Ok(())
}

/// A zombie that PID 1 of this machine has not reaped yet is not alive.
fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|s| !s.contains("\nState:\tZ"))
}
