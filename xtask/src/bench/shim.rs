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

use super::report::Section;
use super::{median, spread};
use crate::run::root;

/// Batches a contender, and runs a batch.
const BATCHES: usize = 25;
const RUNS: usize = 20;

const SCRIPT: &[u8] = b"#!/usr/bin/env bash\nset -euo pipefail\n:\n";

/// In the node: one batch after the other, contenders in turn; prints `NAME WALL_US` a batch.
const LOOP: &str = r#"
set -u
export LC_ALL=C
cd /bench
rise=0
batch() { # name, envelope (@ stands for the number of this rise), command...
  local name=$1 env=$2 i t0 t1 f; shift 2
  t0=${EPOCHREALTIME/./}
  for ((i = 0; i < RUNS; i++)); do
    f=$env
    case $f in *@*) f=${f/@/$rise}; rise=$((rise + 1)) ;; esac
    "$@" <"$f" >/dev/null 2>err || { echo "failed: $name $?" >&2; cat err >&2; exit 1; }
  done
  t1=${EPOCHREALTIME/./}
  echo "$name $(((t1 - t0) / RUNS))"
}
for ((b = 0; b < BATCHES; b++)); do
  batch bare /dev/null bash /bench/script
  batch ours1 /bench/env1 /opt/kpssh/kpssh-shim
  batch base1 /bench/env1 /bench/baseline
  batch ours2 /bench/env2 /usr/bin/muster-shim
  batch rise2 /bench/rise/@ /usr/bin/muster-shim
done
"#;

/// A script that says how much memory the shim, its parent, took at most.
const HWM: &[u8] = b"#!/usr/bin/env bash\nset -euo pipefail\ngrep VmHWM /proc/$PPID/status\n";

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
    let rss = peak_memory(&node)?;
    let size = fs::metadata(&binaries()?.shim)?.len();
    Ok(Section { title: "Shim", body: table(&out, size, rss)? })
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
    node.put("/bench/env-hwm", &envelope_one(&signer, HWM)?, 0o644)?;
    // Its own profile, so that the rising floor of the other does not refuse it.
    node.put("/bench/env2", &envelope_two(&signer, "still", 1)?, 0o644)?;
    for run in 0..BATCHES * RUNS {
        let epoch = u32::try_from(run + 2)?;
        node.put(&format!("/bench/rise/{run}"), &envelope_two(&signer, "bench", epoch)?, 0o644)?;
    }
    Ok(())
}

fn envelope_two(signer: &KeySigner, profile: &str, epoch: u32) -> Result<Vec<u8>> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_secs();
    let draft = Draft {
        profile: profile.parse()?,
        phase: Phase::Join,
        script_sha256: Some(Sha256::digest(SCRIPT).into()),
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
        script: Some(SCRIPT),
    };
    Ok(v2::build(&parts)?)
}

/// Peak resident set of one verified run, in KiB.
fn peak_memory(node: &Node) -> Result<u64> {
    let out = node.sh("/opt/kpssh/kpssh-shim < /bench/env-hwm")?;
    let number = out.split_whitespace().nth(1).context("no VmHWM line")?;
    Ok(number.parse()?)
}

fn envelope_one(signer: &KeySigner, script: &[u8]) -> Result<Vec<u8>> {
    let armored = sign(script, "kpssh", signer)?;
    let parts = v1::Parts { phase: Phase::Join, params: &[], signature: armored.as_bytes(), script };
    Ok(v1::build(&parts)?)
}

fn table(out: &str, size: u64, rss: u64) -> Result<String> {
    let rows = |name: &str, column: usize| -> Vec<f64> {
        out.lines()
            .filter(|l| l.starts_with(name))
            .filter_map(|l| l.split(' ').nth(column)?.parse().ok())
            .collect()
    };
    let bare = median(&rows("bare", 1));
    let added = |name: &str| median(&rows(name, 1)) - bare;
    let base = added("base1");
    let mut text = format!(
        "One run = start the program, read an envelope of {} bytes of script from a file, verify (Ed25519), run it with bash,\n\
         record it. {BATCHES} batches of {RUNS} runs each, in turn, as root on a node of the test bed. \"Added\" is the median less that\n\
         of bare `bash script` ({bare:.0} us).\n\n\
         | program | added, us a run | slowest batch / fastest batch | baseline is slower by |\n|---|---|---|---|\n",
        SCRIPT.len()
    );
    for (name, what) in [
        ("base1", "baseline: sh + `ssh-keygen -Y verify`, envelope 1"),
        ("ours1", "muster-shim, envelope 1"),
        ("ours2", "muster-shim, envelope 2, floor stays"),
        ("rise2", "muster-shim, envelope 2, floor rises (durable) at each run"),
    ] {
        let (lo, hi) = spread(&rows(name, 1));
        let factor = base / added(name);
        writeln!(text, "| {what} | {:.0} | {:.2} | {factor:.1} x |", added(name), hi / lo)?;
    }
    writeln!(text, "\nBinary as it ships (static): {size} bytes. Peak resident set of a run: {rss} KiB.")
        .context("formatting")?;
    Ok(text)
}
