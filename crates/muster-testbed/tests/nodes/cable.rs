//! A cable that is pulled is silent, and a cable that is mended is as good as new: neither end may keep a neighbour that it
//! was still looking for, since the connections of others fail with it.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use muster_testbed::{Cable, Node, Testbed, require_root_or_skip};

/// Nothing listens there: the answer of the other end is its refusal.
const PORT: u16 = 9;
/// Many times what a first packet that was lost costs.
const LONG: Duration = Duration::from_secs(40);

/// That the other end answered a connection from this machine.
fn reach(to: IpAddr) -> Result<()> {
    match TcpStream::connect_timeout(&SocketAddr::new(to, PORT), LONG) {
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(e) => Err(e).with_context(|| format!("from this machine to {to}")),
        Ok(_) => bail!("something listens on port {PORT} of {to}"),
    }
}

/// The same from a node.
fn reach_from(node: &Node, to: IpAddr) -> Result<()> {
    let out = node.exec(&["timeout", "40", "bash", "-c", &format!("exec 3<>/dev/tcp/{to}/{PORT}")])?;
    ensure!(out.stderr_text().contains("Connection refused"), "from {} to {to}: {out:?}", node.name());
    Ok(())
}

fn forget(args: &[&str]) -> Result<()> {
    ensure!(Command::new("ip").args(args).status()?.success(), "ip {args:?}");
    Ok(())
}

#[test]
fn a_mended_cable_is_as_good_as_new_whenever_it_is_mended() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("mended")?;
    let (a, b) = (bed.node("a")?.boot()?, bed.node("b")?.boot()?);
    let gate = [IpAddr::V4(bed.gate()), IpAddr::V6(bed.gate_v6())];
    let ends = |node: &Node| [node.addr(), IpAddr::V6(node.addr_v6())];
    let all = || -> Result<()> {
        for version in [0, 1] {
            reach(ends(&a)[version])?;
            reach_from(&a, gate[version])?;
            reach_from(&a, ends(&b)[version])?;
            reach_from(&b, ends(&a)[version])?;
        }
        Ok(())
    };
    all()?;
    // The kernel gives a neighbour up 3 s after the first question that nobody answered.
    for (round, mended) in [1500, 2100, 2500, 2900].into_iter().enumerate() {
        // An idle neighbour may be forgotten at any time.
        let bridge = format!("mtb{}", bed.slot());
        forget(&["neigh", "flush", "dev", &bridge])?;
        for node in [&a, &b] {
            forget(&["-n", &node.network_names().0, "neigh", "flush", "dev", "eth0"])?;
        }
        let cable = match round % 2 {
            0 => Some(a.bad_cable(Cable { delay: Duration::ZERO, loss_percent: 100 })?),
            _ => a.cut_link().map(|()| None)?,
        };
        std::thread::scope(|scope| -> Result<()> {
            let mut during = Vec::new();
            for version in [0, 1] {
                let (a, b) = (&a, &b);
                during.push(scope.spawn(move || reach(ends(a)[version])));
                during.push(scope.spawn(move || reach_from(a, gate[version])));
                during.push(scope.spawn(move || reach_from(a, ends(b)[version])));
                during.push(scope.spawn(move || reach_from(b, ends(a)[version])));
            }
            std::thread::sleep(Duration::from_millis(mended));
            match cable {
                Some(cable) => drop(cable),
                None => a.restore_link()?,
            }
            all().with_context(|| format!("mended after {mended} ms"))?;
            for one in during {
                let ended = one.join().map_err(|_| anyhow::anyhow!("a connection panicked"))?;
                ended.with_context(|| format!("begun in a cut of {mended} ms"))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn nothing_arrives_through_a_cut_cable_even_from_the_only_node() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("cut")?;
    let node = bed.node("only")?.boot()?;
    let socket = UdpSocket::bind((bed.gate(), 0))?;
    let to = socket.local_addr()?;
    let say = |word: &str| node.sh(&format!("echo {word} > /dev/udp/{}/{}", to.ip(), to.port()));
    let hear = |limit: Duration| -> Result<Option<String>> {
        socket.set_read_timeout(Some(limit))?;
        let mut bytes = [0; 16];
        // A read that has a limit is not begun again by itself when something interrupts it: signal(7).
        loop {
            match socket.recv(&mut bytes) {
                Ok(n) => return Ok(Some(String::from_utf8_lossy(&bytes[..n]).trim().to_owned())),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
    };
    say("before")?;
    assert_eq!(hear(LONG)?.as_deref(), Some("before"));
    node.cut_link()?;
    say("during")?;
    assert_eq!(hear(Duration::from_secs(1))?, None);
    node.restore_link()?;
    say("after")?;
    assert_eq!(hear(LONG)?.as_deref(), Some("after"));
    Ok(())
}
