//! The cable is pulled while streams run: neither side is told.

use std::process::{Child, Command, Stdio};

use super::stage::{Client, IMAGE, rig};
use super::*;

/// What the node may take until it has noticed: two minutes, as its page says, and what a busy machine adds.
const NODE: Duration = Duration::from_secs(150);
/// And the command line: one.
const CLIENT: Duration = Duration::from_secs(90);

fn follows(rig: &Rig, unit: &str) -> Result<Client> {
    Client::run(rig, &["node", "logs", "a", "--unit", unit, "-n", "2", "--follow"])
}

/// Begins to send a list of 64 KiB, and goes no further than its first bytes.
fn uploads(rig: &Rig) -> Result<Upload> {
    let script = format!(
        "(printf 'PUT /v1/ca/crl HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 65536\\r\\n\\r\\nMII'; exec sleep 300) | \
         openssl s_client -quiet -connect {}:7443 -cert pki/clients/alice.pem -key pki/clients/alice.key",
        rig.node.addr()
    );
    let mut command = rig.alice.command("/usr/bin/setsid".as_ref(), &["bash", "-c", &script]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    Ok(Upload { child })
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
    let mut pull = Client::start(&rig, IMAGE)?;
    let upload = uploads(&rig)?;
    noisy.until("noise")?;
    quiet.until("built as")?;
    pull.until("Fetched 2")?;
    until("all of them are there", || Ok((seats(node)? == 4).then_some(())))?;

    node.cut_link()?;
    let cut = Instant::now();
    for (client, code) in [(&mut noisy, 5), (&mut quiet, 5), (&mut pull, 8)] {
        client.ends_within(CLIENT, code)?;
        anyhow::ensure!(client.said().contains("error["), "{}", client.said());
    }
    println!("the clients know after {:.0} s", cut.elapsed().as_secs_f64());
    while seats(node)? > 0 {
        anyhow::ensure!(cut.elapsed() < NODE, "{} seats are still taken", seats(node)?);
        std::thread::sleep(Duration::from_millis(500));
    }
    println!("the node knows after {:.0} s", cut.elapsed().as_secs_f64());
    holds(node, "! pgrep -x journalctl")?;
    drop(upload);

    // The pull went on, and a call for the same image attaches to it.
    assert_eq!(rig.unit("SubState")?, "running");
    node.restore_link()?;
    rig.answers()?;
    let mut again = Client::start(&rig, IMAGE)?;
    again.until("layers needed: 11")?;
    node.sh("touch /run/go")?;
    again.ends(0)?;
    rig.pulled(1, true)
}

/// A client that is openssl's; it ends with its value.
struct Upload {
    child: Child,
}

impl Drop for Upload {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]).status();
        let _ = self.child.wait();
    }
}
