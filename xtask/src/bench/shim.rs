//! What the shim adds to running a script, against a bash + `ssh-keygen` shim of ours.
//!
//! Both run as root on one real node, from standard input, with the same signed envelope. The
//! loop is bash's own, so that nothing but the programs differs.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};
use muster_core::{Phase, UtcTime};
use muster_signing::envelope::{v1, v2};
use muster_signing::intent::{Draft, OnDisconnect, Target};
use muster_signing::sign::{KeySigner, sign};
use muster_testbed::{Node, Testbed, binaries};
use sha2::{Digest, Sha256};

use super::fleet::met;
use super::report::Section;
use super::{median, spread};
use crate::run::root;

/// Batches a contender, and runs a batch.
const BATCHES: usize = 25;
const RUNS: usize = 20;

const SCRIPT: &[u8] = b"#!/usr/bin/env bash\nset -euo pipefail\n:\n";

/// In the node: one batch after the other, contenders in turn; prints `NAME WALL_US CPU_US` a batch, for one
/// run of it. CPU is user and system time of everything that was waited for, from `times` of bash, which
/// counts in thousandths of a second. Above what else the machine does, where that is allowed.
const LOOP: &str = r#"
set -u
cd /bench
if [ -z "${MUSTER_BENCH_FIRST:-}" ] && chrt -f 20 true 2>/dev/null; then
  MUSTER_BENCH_FIRST=1 exec chrt -f 20 bash "$0"
fi
rise=0
cpu() { # sets C to the thousandths of a second that the children took so far
  local a b m
  times >times
  { read -r a; read -r a b; } <times
  C=0
  for a in $a $b; do
    m=${a%%m*} a=${a#*m} a=${a%s} a=${a/./}
    C=$((C + m * 60000 + 10#$a))
  done
}
batch() { # name, envelope (@ stands for the number of this rise), command...
  local name=$1 env=$2 i t0 t1 c0 f; shift 2
  cpu; c0=$C
  t0=${EPOCHREALTIME/./}
  for ((i = 0; i < RUNS; i++)); do
    f=$env
    case $f in *@*) f=${f/@/$rise}; rise=$((rise + 1)) ;; esac
    "$@" <"$f" >/dev/null 2>err || { echo "failed: $name $?" >&2; cat err >&2; exit 1; }
  done
  t1=${EPOCHREALTIME/./}
  cpu
  echo "$name $(((t1 - t0) / RUNS)) $(((C - c0) * 1000 / RUNS))"
}
for ((b = 0; b < BATCHES; b++)); do
  export LANG=C.UTF-8
  batch bare /dev/null bash /bench/script
  batch ours1 /bench/env1 /opt/kpssh/kpssh-shim
  batch base1 /bench/env1 /bench/baseline
  batch ours2 /bench/env2 /usr/bin/muster-shim
  batch rise2 /bench/rise/@ /usr/bin/muster-shim
  export LANG=C
  batch c-bare /dev/null bash /bench/script
  batch c-ours1 /bench/env1 /opt/kpssh/kpssh-shim
  batch c-base1 /bench/env1 /bench/baseline
done
"#;

/// A script that says how much memory the shim, its parent, took at most.
const HWM: &[u8] = b"#!/usr/bin/env bash\nset -euo pipefail\ngrep VmHWM /proc/$PPID/status\nexit 0\n";

/// Runs it and writes the table.
pub(crate) fn run() -> Result<Section> {
    let bed = Testbed::prepare("bench-shim")?;
    let node = bed.node("bench")?.boot()?;
    lay(&bed, &node)?;
    let script = LOOP.replace("RUNS", &RUNS.to_string()).replace("BATCHES", &BATCHES.to_string());
    node.put("/bench/loop.sh", script.as_bytes(), 0o755)?;
    let out = node
        .exec_with(&["bash", "/bench/loop.sh"], b"", std::time::Duration::from_secs(900))?
        .check()?
        .stdout_text();
    let memory = ["hwm1", "hwm2", "big1", "big2"].map(|name| peak_memory(&node, name));
    let [small1, small2, big1, big2] = memory;
    let memory = [small1?, small2?, big1?, big2?];
    let size = fs::metadata(&binaries()?.shim)?.len();
    Ok(Section { title: "Shim", body: table(&out, size, memory)? })
}

fn lay(bed: &Testbed, node: &Node) -> Result<()> {
    let bins = binaries()?;
    let key = bed.keygen("signer")?;
    let public = key.public_line()?;
    let public = public.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    let signer = KeySigner::from_openssh(&fs::read(&key.private)?)?;
    node.put_file(&bins.shim, "/usr/bin/muster-shim", 0o755)?;
    node.put_file(&bins.shim, "/opt/kpssh/kpssh-shim", 0o755)?;
    node.put_file(&root()?.join("bench/baseline/kpssh-shim"), "/bench/baseline", 0o755)?;
    node.put(
        "/etc/kpssh/allowed_signers",
        format!("kpssh namespaces=\"kpssh\" {public}\n").as_bytes(),
        0o644,
    )?;
    let line = format!("muster namespaces=\"muster-intent\" {public}\n");
    node.put("/etc/muster/allowed_signers", line.as_bytes(), 0o644)?;
    node.put("/etc/muster/revoked_signers", b"", 0o644)?;
    let policy = "host = \"bench\"\nenvelope-1 = true\n[profiles.bench]\nmin-epoch = 1\n[profiles.still]\nmin-epoch = 1\n";
    node.put("/etc/muster/shim.toml", policy.as_bytes(), 0o644)?;
    node.put("/bench/script", SCRIPT, 0o644)?;
    node.sh("install -d -m 0755 /var/lib/muster /bench/rise; install -d -m 0700 /var/lib/muster/shim
        printf 'muster-floors: 1\\ntime-floor: 2026-01-01T00:00:00Z\\nfloor: bench 1\\n' > /var/lib/muster/shim/floors
        chmod 0600 /var/lib/muster/shim/floors; chmod -R go-w /etc/muster /etc/kpssh /opt/kpssh")?;
    node.put("/bench/env1", &envelope_one(&signer, SCRIPT)?, 0o644)?;
    // Its own profile, so that the rising floor of the other does not refuse it.
    node.put("/bench/env2", &envelope_two(&signer, "still", 1, SCRIPT)?, 0o644)?;
    for (name, script) in [("hwm", HWM.to_vec()), ("big", padded(HWM, 1 << 20))] {
        node.put(&format!("/bench/{name}1"), &envelope_one(&signer, &script)?, 0o644)?;
        node.put(&format!("/bench/{name}2"), &envelope_two(&signer, "still", 1, &script)?, 0o644)?;
    }
    for run in 0..BATCHES * RUNS {
        let epoch = u32::try_from(run + 2)?;
        node.put(&format!("/bench/rise/{run}"), &envelope_two(&signer, "bench", epoch, SCRIPT)?, 0o644)?;
    }
    Ok(())
}

/// The script with lines of comment after it, so that it has this many bytes.
fn padded(script: &[u8], len: usize) -> Vec<u8> {
    let mut out = script.to_vec();
    while out.len() < len {
        out.push(if out.len() % 80 == 79 || out.len() + 1 == len { b'\n' } else { b'#' });
    }
    out
}

fn envelope_two(signer: &KeySigner, profile: &str, epoch: u32, script: &[u8]) -> Result<Vec<u8>> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let draft = Draft {
        profile: profile.parse()?,
        phase: Phase::Join,
        script_sha256: Some(Sha256::digest(script).into()),
        targets: vec![Target::Any],
        values: Vec::new(),
        params: Vec::new(),
        epoch,
        not_before: UtcTime::from_unix(now - 60),
        not_after: UtcTime::from_unix(now + 86_400),
        deadline: 60,
        on_disconnect: OnDisconnect::End,
    };
    let text = draft.render()?;
    let armored = sign(text.as_bytes(), "muster-intent", signer)?;
    let parts = v2::Parts {
        phase: Phase::Join,
        intent: text.as_bytes(),
        signatures: &[armored],
        params: &[],
        script: Some(script),
    };
    Ok(v2::build(&parts)?)
}

/// Microseconds of the clock that a run may add.
const BAR_ADDED: f64 = 2000.0;
/// How many times less than the baseline it must add.
const BAR_RATIO: f64 = 10.0;
/// Bytes of the static binary, with musl and with glibc.
const BAR_MUSL: u64 = 1_200_000;
const BAR_GLIBC: u64 = 2_000_000;
/// KiB resident.
const BAR_MEMORY: u64 = 4096;

/// Peak resident set of one verified run, in KiB; the input comes through a pipe, as from sshd.
fn peak_memory(node: &Node, name: &str) -> Result<u64> {
    let shim = if name.ends_with('1') { "/opt/kpssh/kpssh-shim" } else { "/usr/bin/muster-shim" };
    let out = node.sh(&format!("cat /bench/{name} | {shim}"))?;
    let number = out.split_whitespace().nth(1).context("no VmHWM line")?;
    Ok(number.parse()?)
}

fn envelope_one(signer: &KeySigner, script: &[u8]) -> Result<Vec<u8>> {
    let armored = sign(script, "kpssh", signer)?;
    let parts = v1::Parts { phase: Phase::Join, params: &[], signature: armored.as_bytes(), script };
    Ok(v1::build(&parts)?)
}

/// A column of a contender's batches.
fn column(out: &str, name: &str, column: usize) -> Vec<f64> {
    let rows = out.lines().map(|l| l.split(' ').collect::<Vec<_>>());
    rows.filter(|w| w.first() == Some(&name)).filter_map(|w| w.get(column)?.parse().ok()).collect()
}

/// What a contender adds to its bare bash, in microseconds: of the clock (median of the batches), and of the
/// processor (mean, because one batch counts in steps that are too coarse).
fn added(out: &str, name: &str, bare: &str) -> (f64, f64) {
    let mean = |v: Vec<f64>| v.iter().sum::<f64>() / v.len() as f64;
    let wall = |n: &str| median(&column(out, n, 1));
    let cpu = |n: &str| mean(column(out, n, 2));
    (wall(name) - wall(bare), cpu(name) - cpu(bare))
}

fn table(out: &str, size: u64, memory: [u64; 4]) -> Result<String> {
    let mut text = format!(
        "One run = start the program, read an envelope of {} bytes of script from a file, verify (Ed25519), run it with bash,\n\
         record it. {BATCHES} batches of {RUNS} runs each, in turn, as root on a node of the test bed, at a real-time priority where\n\
         that is allowed. \"Added\" is less what bare `bash script` takes in the same locale ({:.0} us with `C.UTF-8`, which the shim\n\
         gives its script and cloud images give their logins; {:.0} us with `C`). The clock: median of the batches. CPU: user and\n\
         system time of all processes, mean.\n\n\
         | program | added, us of clock a run | baseline / this | added, us of CPU a run | baseline / this | slowest batch / fastest |\n\
         |---|---|---|---|---|---|\n",
        SCRIPT.len(),
        median(&column(out, "bare", 1)),
        median(&column(out, "c-bare", 1)),
    );
    for (name, bare, base, what) in [
        ("base1", "bare", "base1", "baseline: sh + `ssh-keygen -Y verify`, envelope 1"),
        ("ours1", "bare", "base1", "muster-shim, envelope 1"),
        ("ours2", "bare", "base1", "muster-shim, envelope 2, floor stays"),
        ("rise2", "bare", "base1", "muster-shim, envelope 2, floor rises (durable) at each run"),
        ("c-base1", "c-bare", "c-base1", "baseline, locale `C`"),
        ("c-ours1", "c-bare", "c-base1", "muster-shim, envelope 1, caller's locale `C`"),
    ] {
        let (lo, hi) = spread(&column(out, name, 1));
        let ((wall, cpu), (base_wall, base_cpu)) = (added(out, name, bare), added(out, base, bare));
        writeln!(
            text,
            "| {what} | {wall:.0} | {:.1} x | {cpu:.0} | {:.1} x | {:.2} |",
            base_wall / wall,
            base_cpu / cpu,
            hi / lo
        )?;
    }
    let (triple, _) = muster_testbed::shim_target()?;
    let [small1, small2, big1, big2] = memory;
    writeln!(
        text,
        "\nBinary as it ships (static, {triple}): {size} bytes. Peak resident set of a run: {small1} KiB on envelope 1, {small2} KiB on\n\
         envelope 2; with a script of 1 MiB {big1} KiB and {big2} KiB.\n"
    )?;
    let ((wall, _), (base, _)) = (added(out, "ours1", "bare"), added(out, "base1", "bare"));
    let most = if triple.ends_with("musl") { BAR_MUSL } else { BAR_GLIBC };
    for (bar, good, seen) in [
        ("at most 2 ms added on envelope 1", wall <= BAR_ADDED, format!("{:.2} ms", wall / 1000.0)),
        (
            "at least 10 x faster than the baseline on envelope 1",
            base >= BAR_RATIO * wall,
            format!("{:.1} x", base / wall),
        ),
        (&format!("a static binary of at most {most} bytes"), size <= most, size.to_string()),
        (
            "at most 4 MiB resident",
            memory.iter().all(|kib| *kib <= BAR_MEMORY),
            format!("{} KiB", memory.iter().max().unwrap_or(&0)),
        ),
    ] {
        writeln!(text, "- Bar: {bar}: {} ({seen}).", met(good))?;
    }
    Ok(text)
}
