//! A cable that is pulled says nothing: who only reads from a node must notice by itself.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use muster_testbed::binaries;

use super::operator::Operator;
use super::*;

/// 30 s of silence, and time for a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// What reads, once its first line has come.
fn reading(alice: &Operator, args: &[&str]) -> Result<Child> {
    let mut command = alice.command(&binaries()?.muster, args);
    command.env("MUSTER_CLIENT", "pki/clients/alice.pem").stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut out = BufReader::new(child.stdout.take().context("its output")?);
    let mut line = String::new();
    out.read_line(&mut line)?;
    ensure!(!line.is_empty(), "{args:?} shows nothing: {}", rest(&mut child)?);
    // Read on, so that it never waits for its reader.
    std::thread::spawn(move || out.read_to_end(&mut Vec::new()));
    Ok(child)
}

fn rest(child: &mut Child) -> Result<String> {
    let mut text = String::new();
    child.stderr.take().context("its errors")?.read_to_string(&mut text)?;
    Ok(text)
}

#[test]
fn a_stream_from_a_node_whose_cable_was_pulled_ends_by_itself() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("cut")?;
    let node = installed(&bed, "a")?;
    node.put("/etc/muster/config.yaml", b"muster:\n  api:\n    enabled: true\n", 0o600)?;
    node.sh("systemctl start --no-block musterd-core.service")?;
    let alice = Operator::new(&bed, "alice")?;
    alice.claim(&node, &[])?.check()?;
    operator::until("its owner is let in", || {
        Ok(alice.muster(&["node", "status", "a"])?.ok().then_some(()))
    })?;
    let streams: [&[&str]; 2] = [&["node", "logs", "a", "--follow"], &["audit", "tail", "a", "--follow"]];
    let mut children = Vec::new();
    for args in streams {
        children.push((args, reading(&alice, args)?));
    }
    node.cut_link()?;
    let cut = Instant::now();
    for (args, mut child) in children {
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if cut.elapsed() > SOON {
                child.kill()?;
                bail!("{args:?} still waits {} s after the cable was pulled", cut.elapsed().as_secs());
            }
            std::thread::sleep(Duration::from_millis(100));
        };
        let text = rest(&mut child)?;
        ensure!(status.code() == Some(5), "{args:?}: {status}: {text}");
        ensure!(
            text.starts_with("error[node-unreachable]: a: the connection to ")
                && text.contains(" was lost: "),
            "{args:?}: {text}"
        );
    }
    // Mended, it is as before.
    node.restore_link()?;
    alice.muster(&["node", "status", "a"])?.check()?;
    Ok(())
}
