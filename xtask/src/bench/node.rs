//! The node's daemon under its real units on a node of the test bed: what it takes while nobody asks, and how fast it answers.
//!
//! The other sides run on the same node: prometheus-node-exporter as Debian ships it, `openssl s_server` with the same kind of key,
//! the same group and the same client certificate, and `journalctl`. What is counted for handshakes is the processor time of the
//! server's processes (for us: both of them), so that the client's share does not count.

mod client;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use muster_testbed::{Node, RootfsSpec, Testbed};

use self::client::{Caller, Group};
use super::report::Section;
use super::{median, spread, stopped};
use crate::run::{cargo, root, run as spawn};

const EXPORTER: &str = "prometheus-node-exporter";
/// MiB of both processes.
const BAR_PSS: f64 = 15.0;
const IDLE: Duration = Duration::from_secs(30);
const TURNS: usize = 5;
const HANDSHAKE_TURNS: usize = 9;
/// Of a turn: the kernel counts in ticks of 10 ms, so a turn must take many.
const HANDSHAKES: usize = 1000;
const RATE: u32 = 200;
const RATE_FOR: Duration = Duration::from_secs(20);
const LINES: usize = 10_000;
const S_SERVER: u16 = 9443;

/// Runs it and writes the table.
pub(crate) fn run() -> Result<Section> {
    spawn(cargo()?.args(["build", "--locked", "--release", "--package", "muster", "--package", "musterd"]))?;
    let release = root()?.join("target/release");
    let spec = RootfsSpec { extra_packages: vec![EXPORTER.to_owned(), "openssl".to_owned()], suite: None };
    let bed = Testbed::prepare_on("bench-node", &spec)?;
    let node = bed.node("n")?.boot()?;
    node.install_musterd_from(&release.join("musterd"))?;
    let operator = Operator::make(bed.dir().join("operator"), &release.join("muster"))?;
    node.put("/etc/muster/config.yaml", operator.document()?.as_bytes(), 0o600)?;
    node.sh("systemctl restart musterd-core.service")?;
    let caller = Arc::new(operator.caller(&node)?);
    wait(|| caller.get(7443, Group::Classic, "/v1/health").is_ok())?;

    let mut body = String::new();
    idle(&node, &mut body)?;
    handshakes(&node, &operator, &caller, &mut body)?;
    latency(&caller, &mut body)?;
    journal(&node, &caller, &mut body)?;
    Ok(Section { title: "Node API", body })
}

fn wait(mut done: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !done() {
        stopped()?;
        if begun.elapsed() > Duration::from_secs(60) {
            bail!("the node's API does not answer");
        }
        thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// An authority and an administrator's halves, made by the command line.
struct Operator {
    folder: PathBuf,
}

impl Operator {
    fn make(folder: PathBuf, muster: &std::path::Path) -> Result<Self> {
        fs::create_dir_all(&folder)?;
        for args in [&["pki", "init"][..], &["pki", "issue", "alice", "--role", "admin"]] {
            let out = Command::new(muster)
                .args(args)
                .arg("--danger-no-passphrase")
                .current_dir(&folder)
                .env("HOME", &folder)
                .output()?;
            ensure!(out.status.success(), "muster {args:?}: {}", String::from_utf8_lossy(&out.stderr));
        }
        Ok(Self { folder })
    }

    fn document(&self) -> Result<String> {
        let pem = fs::read_to_string(self.folder.join("pki/operator-ca.pem"))?;
        let pem: String = pem.lines().map(|l| format!("      {l}\n")).collect();
        Ok(format!("muster:\n  role: init\n  api:\n    operatorCA: |\n{pem}"))
    }

    fn caller(&self, node: &Node) -> Result<Caller> {
        let clients = self.folder.join("pki/clients");
        Caller::new(node.addr(), &clients.join("alice.pem"), &clients.join("alice.key"))
    }
}

/// What the node's own `/proc` has of the processes with this name.
fn processes(node: &Node, name: &str) -> Result<Vec<PathBuf>> {
    let pids = node.pids(name)?;
    ensure!(!pids.is_empty(), "{name} does not run");
    let proc = format!("/proc/{}/root/proc", node.leader()?);
    Ok(pids.iter().map(|pid| PathBuf::from(format!("{proc}/{pid}"))).collect())
}

/// KiB that count as theirs (proc(5), smaps_rollup).
fn pss(processes: &[PathBuf]) -> Result<f64> {
    let mut kib = 0.0;
    for process in processes {
        let text = fs::read_to_string(process.join("smaps_rollup"))?;
        let line = text.lines().find_map(|l| l.strip_prefix("Pss:")).context("no Pss")?;
        kib += line.trim().trim_end_matches("kB").trim().parse::<f64>()?;
    }
    Ok(kib)
}

/// Seconds of processor time so far, children that ended included.
fn cpu(processes: &[PathBuf]) -> Result<f64> {
    let mut ticks = 0.0;
    for process in processes {
        let text = fs::read_to_string(process.join("stat"))?;
        let rest = text.rsplit_once(')').context("no name in stat")?.1;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        for field in fields.get(11..15).context("a short stat")? {
            ticks += field.parse::<f64>()?;
        }
    }
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

fn idle(node: &Node, body: &mut String) -> Result<()> {
    let ours = processes(node, "musterd")?;
    let theirs = processes(node, EXPORTER)?;
    thread::sleep(Duration::from_secs(5));
    let before = (cpu(&ours)?, cpu(&theirs)?);
    thread::sleep(IDLE);
    let after = (cpu(&ours)?, cpu(&theirs)?);
    let version = node.sh(&format!("dpkg-query -W -f '${{Version}}' {EXPORTER}"))?;
    writeln!(
        body,
        "While nobody asks, after {} s (bar: {BAR_PSS} MiB PSS together, about no processor time):\n\n\
         | | PSS, MiB | processor, ms a minute |\n|---|---|---|",
        IDLE.as_secs()
    )?;
    let minute = |from: f64, to: f64| (to - from) * 1e3 * 60.0 / IDLE.as_secs_f64();
    writeln!(
        body,
        "| musterd, edge and core | {:.1} | {:.0} |",
        pss(&ours)? / 1024.0,
        minute(before.0, after.0)
    )?;
    writeln!(
        body,
        "| {EXPORTER} {version}, never scraped | {:.1} | {:.0} |\n",
        pss(&theirs)? / 1024.0,
        minute(before.1, after.1)
    )?;
    Ok(())
}

/// Milliseconds of processor time of the server for one handshake with one small answer.
fn per_handshake(server: &[PathBuf], caller: &Caller, port: u16, group: Group, path: &str) -> Result<f64> {
    let before = cpu(server)?;
    for _ in 0..HANDSHAKES {
        stopped()?;
        caller.get(port, group, path)?;
    }
    Ok((cpu(server)? - before) * 1e3 / HANDSHAKES as f64)
}

fn handshakes(node: &Node, operator: &Operator, caller: &Caller, body: &mut String) -> Result<()> {
    node.put_file(&operator.folder.join("pki/operator-ca.pem"), "/root/ca.pem", 0o644)?;
    node.sh(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout /root/key.pem -out /root/cert.pem \
         -subj /CN=n -days 9 2>/dev/null; mkdir -p /root/www; echo ok > /root/www/health",
    )?;
    node.sh(&format!(
        "systemd-run --quiet --unit s_server --working-directory=/root/www openssl s_server -accept {S_SERVER} -cert \
         /root/cert.pem -key /root/key.pem -Verify 1 -verify_return_error -CAfile /root/ca.pem -tls1_3 -groups X25519 -num_tickets 0 -quiet -WWW"
    ))?;
    wait(|| caller.get(S_SERVER, Group::Classic, "/health").is_ok())?;
    let alike = caller.get(7443, Group::Classic, "/v1/health")?;
    let other = caller.get(S_SERVER, Group::Classic, "/health")?;
    ensure!(alike == other, "not the same handshake: {alike:?} and {other:?}");
    let ours = processes(node, "musterd")?;
    let core = processes(node, "musterd core")?;
    let theirs = processes(node, "openssl s_server")?;
    let (mut a, mut b, mut pq, mut of_core) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..HANDSHAKE_TURNS {
        let before = cpu(&core)?;
        a.push(per_handshake(&ours, caller, 7443, Group::Classic, "/v1/health")?);
        of_core.push((cpu(&core)? - before) * 1e3 / HANDSHAKES as f64);
        b.push(per_handshake(&theirs, caller, S_SERVER, Group::Classic, "/health")?);
        pq.push(per_handshake(&ours, caller, 7443, Group::PostQuantum, "/v1/health")?);
    }
    let version = node.sh("openssl version")?;
    writeln!(
        body,
        "A connection with a client certificate and one small GET, {}, no resumption and no tickets, P-256 keys on both sides,\n\
         {HANDSHAKE_TURNS} turns of {HANDSHAKES} one after another; medians of the server's processor time (bar: at least as many as `openssl s_server`).\n\
         Both verify the client's certificate and what it signed. For the answer `s_server -WWW` reads a file of three bytes; ours is judged by role and\n\
         state and written down.\n\n\
         | | group | ms a connection | connections a second of one core |\n|---|---|---|---|",
        alike.suite
    )?;
    let mut row =
        |who: &str, group: &str, ms: f64| writeln!(body, "| {who} | {group} | {ms:.2} | {:.0} |", 1e3 / ms);
    row("musterd, edge and core", "X25519", median(&a))?;
    row(&format!("`openssl s_server` ({})", version.trim()), "X25519", median(&b))?;
    row("musterd, edge and core", "X25519MLKEM768", median(&pq))?;
    let times = median(&a) / median(&b);
    let turns: Vec<f64> = a.iter().zip(&b).map(|(ours, theirs)| ours / theirs).collect();
    let (least, most) = spread(&turns);
    writeln!(
        body,
        "\nOurs takes {times:.2} x the time of `s_server` (turn by turn {least:.2} to {most:.2}), {:.2} ms of it in the core, which verifies the client again.\n\
         The bar is {}.\n",
        median(&of_core),
        if times <= 1.0 { "met" } else { "not met" }
    )?;
    node.sh("systemctl stop s_server.service")?;
    Ok(())
}

/// At a rate that does not wait for answers: how long after its moment each answer was there.
fn latency(caller: &Arc<Caller>, body: &mut String) -> Result<()> {
    const CONNECTIONS: u32 = 8;
    let begun = Instant::now();
    let workers: Vec<_> = (0..CONNECTIONS)
        .map(|n| {
            let caller = Arc::clone(caller);
            thread::spawn(move || -> Result<Vec<f64>> {
                let mut open = caller.open(7443, Group::Classic)?;
                let mut took = Vec::new();
                for i in (n..).step_by(CONNECTIONS as usize) {
                    let due = Duration::from_secs_f64(f64::from(i) / f64::from(RATE));
                    if due > RATE_FOR {
                        break;
                    }
                    thread::sleep(due.saturating_sub(begun.elapsed()));
                    let (status, _) = open.ask("/v1/node")?;
                    ensure!(status == 200, "GET /v1/node: {status}");
                    took.push((begun.elapsed() - due).as_secs_f64() * 1e3);
                }
                Ok(took)
            })
        })
        .collect();
    let mut took = Vec::new();
    for worker in workers {
        took.extend(worker.join().map_err(|_| anyhow::anyhow!("a caller panicked"))??);
    }
    took.sort_by(f64::total_cmp);
    let at = |part: f64| took.get(((took.len() - 1) as f64 * part) as usize).copied().unwrap_or(f64::NAN);
    writeln!(
        body,
        "`GET /v1/node` at {RATE} a second for {} s over {CONNECTIONS} connections, {} answers: p50 {:.1} ms, p99 {:.1} ms, worst {:.1} ms.\n",
        RATE_FOR.as_secs(),
        took.len(),
        at(0.5),
        at(0.99),
        at(1.0)
    )?;
    Ok(())
}

/// Lines of a journal a second, next to `journalctl` itself.
fn journal(node: &Node, caller: &Caller, body: &mut String) -> Result<()> {
    node.sh(&format!(
        "systemd-run --quiet --wait --unit kubelet.service -p LogRateLimitIntervalSec=0 bash -c 'for i in $(seq {LINES}); do echo \"line $i of a service that has something to say\"; done'; \
         journalctl --sync"
    ))?;
    let mut open = caller.open(7443, Group::Classic)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        stopped()?;
        let begun = Instant::now();
        let (status, text) = open.ask(&format!("/v1/logs?unit=kubelet&lines={LINES}"))?;
        let lines = text.iter().filter(|b| **b == b'\n').count();
        ensure!(status == 200 && lines >= LINES / 2, "{status}: {lines} lines");
        ours.push(lines as f64 / begun.elapsed().as_secs_f64());
        let begun = Instant::now();
        let lines: usize = node
            .sh(&format!("journalctl --no-pager -o json -u kubelet.service -n {LINES} | wc -l"))?
            .trim()
            .parse()?;
        theirs.push(lines as f64 / begun.elapsed().as_secs_f64());
    }
    writeln!(
        body,
        "A journal of {LINES} lines, {TURNS} turns, medians: {:.0} lines a second over the API; `journalctl -o json` alone on the same node, into a\n\
         pipe and its start included: {:.0}.",
        median(&ours),
        median(&theirs)
    )?;
    Ok(())
}
