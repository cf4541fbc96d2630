//! The sandboxes of the units, tried from inside: each line alone, and each unit whole.
//!
//! The lines and their proofs are `muster_testbed::surface`. What tries is `sandbox-probe`, in units that the node's own systemd
//! makes with the lines of ours.

use std::collections::BTreeMap;

use muster_testbed::surface::{
    Attempt, EXPOSURE, Needs, OFF, SETTINGS, Service, UNCONFINED, is_ordinary, services, setting,
};

use super::*;

const PROBE: &str = "/usr/local/bin/sandbox-probe";
/// The systemd that [`EXPOSURE`] is of: its list of what could be set differs from version to version.
const SYSTEMD: &str = "252";

/// What came of each attempt.
type Outcomes = BTreeMap<String, String>;

/// A node with our package, the probe, and what the probe looks for.
fn probed(bed: &Testbed) -> Result<Node> {
    let node = installed(bed, "a")?;
    node.describe(WAITS)?;
    node.put_file(env!("CARGO_BIN_EXE_sandbox-probe").as_ref(), PROBE, 0o755)?;
    node.sh(&format!(
        "install -m 4755 {PROBE} {PROBE}-setuid
         mkdir -p /home/probe /usr/lib/modules /etc/muster /var/lib/muster /boot /mnt /media /srv
         for d in /usr/lib/modules /etc/muster /var/lib/muster /run/muster /root /boot /mnt /media /srv; do touch $d/sandbox-probe-mark; done
         echo x > /home/probe/file
         touch /tmp/sandbox-probe-outside
         install -m 600 -o nobody /dev/null /opt/sandbox-probe-foreign
         mknod /dev/sandbox-probe c 1 3
         systemctl start musterd-core"
    ))?;
    // In a unit of its own: what a test runs in a node by itself has more rights than the node's own root.
    node.sh(&format!("systemd-run --quiet --wait {PROBE} make-shared-memory"))?;
    Ok(node)
}

/// Makes attempts in a unit with these lines.
fn attempts<'a>(
    node: &Node,
    lines: &[&'a str],
    names: impl IntoIterator<Item = &'a str>,
) -> Result<(Outcomes, String)> {
    let mut argv = vec!["systemd-run", "--quiet", "--wait", "--pipe", "--collect"];
    for line in lines {
        argv.extend(["-p", line]);
    }
    argv.extend(["--", PROBE]);
    argv.extend(names);
    let out = node.exec(&argv)?;
    let told = out.stdout_text();
    let outcomes = told.lines().filter_map(|l| l.split_once(' '));
    Ok((outcomes.map(|(n, o)| (n.to_owned(), o.to_owned())).collect(), out.stderr_text()))
}

fn outcome<'o>(of: &'o Outcomes, name: &str) -> &'o str {
    of.get(name).map_or("did-not-run", String::as_str)
}

fn has_capability(node: &Node, bit: u32) -> Result<bool> {
    let status = node.sh("grep CapEff: /proc/1/status")?;
    let mask = status.split_whitespace().nth(1).unwrap_or_default();
    Ok(u64::from_str_radix(mask, 16)? >> bit & 1 == 1)
}

/// Whether this node's manager can do what a line asks.
fn can(node: &Node, needs: Needs) -> Result<bool> {
    match needs {
        Needs::Controller(name) => {
            let all = node.sh("cat /sys/fs/cgroup/cgroup.subtree_control")?;
            Ok(all.split_whitespace().any(|c| c == name))
        }
        // CAP_BPF and CAP_SYS_RESOURCE, capabilities(7).
        Needs::Bpf => has_capability(node, 39),
        Needs::Resource => has_capability(node, 24),
    }
}

#[test]
fn s17_each_line_of_the_units_takes_away_what_it_says() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("sandbox-lines")?;
    let node = probed(&bed)?;
    let mut wrong = Vec::new();
    for row in SETTINGS {
        let names = || row.attempts.iter().map(|(name, ..)| *name);
        let after = || row.after.iter().map(|(name, ..)| *name);
        let with: Vec<&str> = row.beside.iter().copied().chain([row.line]).collect();
        if let Some(needs) = row.needs
            && !can(&node, needs)?
        {
            // The manager must know the line, or a word misspelt would be found on no machine.
            let taken = attempts(&node, &with, ["socket-unix"])?;
            assert_eq!(outcome(&taken.0, "socket-unix"), "ok", "{}: {}", row.line, taken.1);
            muster_needs::skip_part(&format!("{}: this node has no {needs:?}", row.line));
            continue;
        }
        for (with_it, lines) in [(false, row.beside), (true, &with[..])] {
            let (mut seen, stderr) = attempts(&node, lines, names())?;
            if !row.after.is_empty() {
                seen.extend(attempts(&node, &[], after())?.0);
                node.sh(&format!("systemd-run --quiet --wait {PROBE} remove-left-memory"))?;
            }
            for (name, without, with) in row.attempts.iter().chain(row.after) {
                let (want, have) = (if with_it { *with } else { *without }, outcome(&seen, name));
                if have != want {
                    wrong.push(format!("{lines:?}: {name} is {have}, not {want} {stderr}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// What a unit as a whole lets, of all that its lines forbid or give.
#[test]
fn s17_each_unit_whole_lets_nothing_of_it() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("sandbox-units")?;
    let node = probed(&bed)?;
    let mut wrong = Vec::new();
    for service in confined()? {
        let mut lines: Vec<&str> =
            service.lines.iter().map(String::as_str).filter(|l| !is_ordinary(l)).collect();
        let mut wanted: BTreeMap<&str, bool> = BTreeMap::new();
        for line in &lines {
            let row = setting(line).expect("a row for each line, which another test says");
            if row.needs.is_some_and(|n| !can(&node, n).unwrap_or(true)) {
                continue;
            }
            for (name, _, with) in row.attempts {
                // What one line gives, another may take: forbidden is what any of them forbids.
                let allowed = wanted.entry(name).or_insert(true);
                *allowed &= *with == "ok";
            }
        }
        if service.values("NoExecPaths").next().is_some() {
            lines.push("ExecPaths=/usr/local/bin/sandbox-probe");
        }
        let (seen, stderr) = attempts(&node, &lines, wanted.keys().copied())?;
        for (name, allowed) in wanted {
            let have = outcome(&seen, name);
            if (have == "ok") != allowed || have == "unknown" || have == "did-not-run" {
                wrong.push(format!("{}: {name} is {have} {stderr}", service.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn of_the_version(told: &str) -> Result<(), String> {
    let is = told.split_whitespace().nth(1) == Some(SYSTEMD);
    let why = || format!("what is written down is of systemd {SYSTEMD}, and this node has: {told}");
    if is { Ok(()) } else { Err(why()) }
}

fn confined() -> Result<Vec<Service>> {
    let mut all = services()?;
    all.retain(|s| !UNCONFINED.iter().any(|(name, _)| *name == s.name));
    Ok(all)
}

/// Whatever systemd would have us set beside: each has its reason, and no reason is of something that is set.
#[test]
fn what_is_not_set_has_its_reason_and_the_exposure_is_what_is_written_down() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("sandbox-off")?;
    let node = installed(&bed, "a")?;
    muster_needs::require!(of_the_version(&node.sh("systemctl --version")?));
    for service in confined()? {
        // Of a template, one that there could be.
        let name = service.name.replace("@.", "@x.");
        let told = node.sh(&format!("systemd-analyze security --json=short {name}"))?;
        let told: Vec<serde_json::Value> = serde_json::from_str(&told)?;
        let mut missing: Vec<&str> =
            told.iter().filter(|t| t["set"] == false).filter_map(|t| t["name"].as_str()).collect();
        let mut explained: Vec<&str> =
            OFF.iter().filter(|o| o.unit == service.name).map(|o| o.name).collect();
        missing.sort_unstable();
        explained.sort_unstable();
        assert_eq!(missing, explained, "{}", service.name);
        let all = node.sh(&format!("systemd-analyze security --no-pager {name}"))?;
        let score = EXPOSURE.iter().find(|(n, _)| *n == service.name).map(|(_, s)| *s);
        let want = format!("Overall exposure level for {name}: {} ", score.unwrap_or_default());
        assert!(all.contains(&want), "{}", all.lines().last().unwrap_or_default());
    }
    Ok(())
}

/// The sockets let in whom their units say, and nobody else.
#[test]
fn s17_the_sockets_are_for_whom_their_units_say() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("sandbox-sockets")?;
    let node = probed(&bed)?;
    let tries: [(&[&str], [Attempt; 2]); 4] = [
        (&[], [("reach-core", "", "ok"), ("reach-control", "", "ok")]),
        (&["User=muster-edge"], [("reach-core", "", "ok"), ("reach-control", "", "EACCES")]),
        (&["User=muster-fetch"], [("reach-core", "", "EACCES"), ("reach-control", "", "EACCES")]),
        (&["User=nobody"], [("reach-core", "", "EACCES"), ("reach-control", "", "EACCES")]),
    ];
    for (lines, wanted) in tries {
        let seen = attempts(&node, lines, wanted.iter().map(|(name, ..)| *name))?;
        for (name, _, want) in wanted {
            assert_eq!(outcome(&seen.0, name), want, "{lines:?} {name} {}", seen.1);
        }
    }
    Ok(())
}

/// A process of the edge's user that is not the edge: it may open the socket, and is not heard there; the same program in the edge's
/// place is.
#[test]
fn s17_the_edges_user_in_another_unit_is_turned_away_and_written_down() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("sandbox-peer")?;
    let node = probed(&bed)?;
    let heard = |unit: &str, user: &str| -> Result<String> {
        let user = format!("User={user}");
        let argv = [
            "systemd-run",
            "--quiet",
            "--wait",
            "--pipe",
            "--collect",
            "--unit",
            unit,
            "-p",
            &user,
            "--",
            PROBE,
        ];
        let out = node.exec(&[&argv[..], &["heard-by-core"]].concat())?;
        Ok(out.stdout_text().trim().to_owned())
    };
    assert_eq!(heard("some-other", "muster-edge")?, "heard-by-core ECONNRESET");
    assert_eq!(heard("some-root", "root")?, "heard-by-core ECONNRESET");
    let refused = |words: &str| {
        super::operator::until(words, || {
            let all = super::faults::records(&node)?;
            let ours = all.iter().filter(|r| r["event"] == "socket" && r["reason"] == "peer");
            let found = ours.filter(|r| r["decision"] == "denied" && r.to_string().contains(words)).count();
            Ok((found == 1).then_some(()))
        })
    };
    refused("of the edge's user is in some-other.service, not in musterd-edge.service")?;
    refused("user 0 is not the edge's")?;

    node.put(
        "/run/systemd/system/musterd-edge.service.d/probe.conf",
        format!("[Service]\nExecStart=\nExecStart={PROBE} heard-by-core\nExecPaths={PROBE}\nRestart=no\n")
            .as_bytes(),
        0o644,
    )?;
    node.sh("systemctl daemon-reload; systemctl restart musterd-edge")?;
    super::operator::holds(&node, "journalctl -b -u musterd-edge -o cat | grep -qx 'heard-by-core ok'")
}
