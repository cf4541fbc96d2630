//! One phase on fifty hosts over real SSH, against a pool of the stock `ssh` client and against ansible-core.
//!
//! All of them talk to the same fifty sshd on one node of the test bed, in turns. `ssh` pipes the very envelope that
//! `muster` sends to the very same shim. Ansible cannot speak to a login that is pinned to a shim: it logs in as root and
//! runs the script unverified. After each turn every host must have run the script exactly once more, or the benchmark fails.

mod hosts;
mod measure;
mod rivals;

use std::fmt::Write as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use muster_core::Phase;

use self::hosts::{HOSTS, Hosts};
use self::measure::{Memory, Took};
use self::rivals::Rival;
use super::report::Section;
use super::{median, spread, stopped, version};
use crate::run::{cargo, root, run as spawn};

/// Contenders at one width, in turns.
struct Race {
    width: usize,
    rounds: usize,
    /// No further round begins after this; on a busy machine there are fewer, and the table says how many there were.
    within: Duration,
    /// One round more before, not counted.
    warm_up: bool,
    rivals: &'static [Rival],
}

const RACES: &[Race] = &[
    Race {
        width: 16,
        rounds: 7,
        within: Duration::from_secs(60),
        warm_up: true,
        rivals: &[Rival::Muster, Rival::Ssh, Rival::SshSame, Rival::AnsibleRaw],
    },
    Race {
        width: 50,
        rounds: 5,
        within: Duration::from_secs(30),
        warm_up: true,
        rivals: &[Rival::Muster, Rival::Ssh, Rival::SshSame],
    },
    // Long, and the hosts are warm by now.
    Race {
        width: 1,
        rounds: 2,
        within: Duration::from_secs(20),
        warm_up: false,
        rivals: &[Rival::Muster, Rival::Ssh, Rival::SshSame],
    },
    Race {
        width: 16,
        rounds: 2,
        within: Duration::from_secs(15),
        warm_up: false,
        rivals: &[Rival::AnsibleScript],
    },
];
/// KiB a live connection may take.
const BAR_MEMORY: f64 = 1024.0;

/// All turns of one contender at one width.
struct Row {
    rival: Rival,
    width: usize,
    took: Vec<Took>,
}

/// Memory while all hosts hold.
struct Held {
    one: Memory,
    all: Memory,
    /// Of one `ssh` of fifty.
    ssh: Memory,
}

/// Runs it and writes the table.
pub(crate) fn run() -> Result<Section> {
    spawn(cargo()?.args(["build", "--locked", "--release", "--package", "muster"]))?;
    let fleet = Hosts::set(&root()?.join("target/release/muster"))?;
    let mut proven = vec![0; HOSTS];
    let mut rows = Vec::new();
    for one in RACES {
        rows.extend(race(&fleet, one, &mut proven)?);
    }
    let held = hold(&fleet, &mut proven)?;
    fleet.prove_separate(&proven)?;
    Ok(Section { title: "Fleet", body: table(&rows, &held)? })
}

/// Each round every contender has its turn; after each turn every host has run the script once more, or this fails.
fn race(fleet: &Hosts, race: &Race, proven: &mut [usize]) -> Result<Vec<Row>> {
    let width = race.width;
    let mut rows: Vec<Row> =
        race.rivals.iter().map(|&rival| Row { rival, width, took: Vec::new() }).collect();
    let begun = Instant::now();
    for round in usize::from(!race.warm_up)..=race.rounds {
        if round > 1 && begun.elapsed() > race.within {
            break;
        }
        for row in &mut rows {
            stopped()?;
            let command = row.rival.command(fleet, Phase::Join, HOSTS, width)?;
            let before = fleet.lines("ran");
            let took = measure::timed(&command, &fleet.folder)?;
            let after = fleet.lines("ran");
            ensure!(
                after.iter().zip(&before).all(|(a, b)| *a == b + 1),
                "{:?} did not run the script exactly once on every host: {before:?} {after:?}",
                row.rival
            );
            if row.rival.through_shim() {
                proven.iter_mut().for_each(|n| *n += 1);
            }
            println!("  {:?} {width} wide: {:.2} s, {:.2} s of processor", row.rival, took.wall, took.cpu);
            if round > 0 {
                row.took.push(took);
            }
        }
    }
    Ok(rows)
}

/// Memory of the client with one and with all connections open, each held by a script that waits.
fn hold(fleet: &Hosts, proven: &mut [usize]) -> Result<Held> {
    let mut look = |rival: Rival, hosts: usize, see: &dyn Fn(u32) -> Result<Memory>| -> Result<Memory> {
        stopped()?;
        fleet.let_go(false)?;
        let before = fleet.lines("held");
        let command: Command = rival.command(fleet, Phase::Install, hosts, hosts)?;
        let seen = measure::watched(command, |pid| {
            fleet.wait_held(&before, hosts)?;
            let seen = see(pid);
            fleet.let_go(true)?;
            seen
        })?;
        proven.iter_mut().take(hosts).for_each(|n| *n += 1);
        Ok(seen)
    };
    let one = look(Rival::Muster, 1, &measure::memory)?;
    let all = look(Rival::Muster, HOSTS, &measure::memory)?;
    let ssh = look(Rival::Ssh, HOSTS, &|_| {
        let known = format!("UserKnownHostsFile={}", fleet.known_hosts.display());
        let pids = measure::processes(&["ssh", &known])?;
        ensure!(pids.len() == HOSTS, "{} of {HOSTS} ssh processes are there", pids.len());
        let each = pids.iter().map(|p| measure::memory(*p)).collect::<Result<Vec<_>>>()?;
        let of = |f: fn(&Memory) -> f64| median(&each.iter().map(f).collect::<Vec<_>>());
        Ok(Memory { rss: of(|m| m.rss), pss: of(|m| m.pss) })
    })?;
    Ok(Held { one, all, ssh })
}

fn walls(row: &Row) -> Vec<f64> {
    row.took.iter().map(|t| t.wall).collect()
}

/// The median wall time of a contender at a width.
fn wall(rows: &[Row], rival: Rival, width: usize) -> f64 {
    rows.iter().find(|r| r.rival == rival && r.width == width).map_or(f64::NAN, |r| median(&walls(r)))
}

pub(super) fn met(yes: bool) -> &'static str {
    if yes { "met" } else { "NOT met" }
}

fn table(rows: &[Row], held: &Held) -> Result<String> {
    let mut text = format!(
        "{HOSTS} sshd with their own host keys, ports, policies, floors, locks and records, on one node of the test bed; client and\n\
         servers share the processors. One run = one signed phase (a script of {} bytes, envelope 2) on every host, connecting anew;\n\
         the script is seen to have run exactly once more on every host after each run. Contenders take turns.\n\
         The other side: {}; {}.\n\n\
         | contender | W | runs | wall, s | least - most | client's processor, s |\n|---|---|---|---|---|---|\n",
        hosts::JOIN.len(),
        version("ssh", "-V")?,
        version("ansible", "--version")?,
    );
    for row in rows {
        let (lo, hi) = spread(&walls(row));
        let cpu = median(&row.took.iter().map(|t| t.cpu).collect::<Vec<_>>());
        writeln!(
            text,
            "| {} | {} | {} | {:.2} | {lo:.2} - {hi:.2} | {cpu:.2} |",
            row.rival.what(),
            row.width,
            row.took.len(),
            wall(rows, row.rival, row.width)
        )?;
    }
    text.push_str(
        "\n`ssh` pipes the envelope that `muster` sends to the shim that `muster` speaks to; host keys are pinned for both. It does not\n\
         check the signatures before it connects, gives no summary, and does not ask a host what became of a run when the connection\n\
         is lost. ansible-core cannot use a login that is pinned to a shim: here it logs in as root and runs the same script, so nothing\n\
         is verified, locked or recorded on the host, which is that much less work for the host.\n\n\
         Left to itself `ssh` agrees with this sshd on sntrup761x25519, a post-quantum exchange that `muster` does not have (it has\n\
         ML-KEM-768, which OpenSSH has since 9.9) and that costs a client some 50 ms; the row with the same algorithms is the like for like.\n\
         What is left of the difference there: one process instead of one a host, and TCP_NODELAY from the start (a session of `ssh` without\n\
         a terminal is seen to wait 40 ms for a delayed acknowledgement between login and command).\n\n",
    );
    let each = (held.all.rss - held.one.rss) / (HOSTS as f64 - 1.0);
    writeln!(
        text,
        "Memory with all {HOSTS} connections open at once, each held by a script that waits: `muster` {:.1} MiB resident in all, {:.1} MiB\n\
         with one connection, so {:.2} MiB a further connection. One `ssh` of {HOSTS}: {:.1} MiB resident, {:.1} MiB its share (PSS).\n",
        held.all.rss / 1024.0,
        held.one.rss / 1024.0,
        each / 1024.0,
        held.ssh.rss / 1024.0,
        held.ssh.pss / 1024.0,
    )?;
    for width in [16, 50, 1] {
        let (ours, theirs) = (wall(rows, Rival::Muster, width), wall(rows, Rival::Ssh, width));
        let same = wall(rows, Rival::SshSame, width);
        writeln!(
            text,
            "- Bar: at least as fast as `ssh` in a pool of {width}: {} ({:.2} x as fast; {:.2} x where `ssh` is told to use the same algorithms).",
            met(ours <= theirs),
            theirs / ours,
            same / ours
        )?;
    }
    writeln!(text, "- Bar: at most 1 MiB a live connection: {}.", met(each <= BAR_MEMORY))?;
    Ok(text)
}
