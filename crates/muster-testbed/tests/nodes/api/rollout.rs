//! Images that are rolled out to their end, on nodes that really reboot between one and the other; and back.
//!
//! No machine here boots from an image, so `bootc` is a stand-in: the arguments of bootc-switch(8), bootc-upgrade(8), bootc-rollback(8) and
//! bootc-status(8), and the status of the schema `org.containers.bootc/v1`. What a boot loader does with it is done by a unit at the
//! beginning of each boot: what is staged is booted and what was booted is the one to roll back to; a queued rollback swaps the two.
//! Everything around it is real: units, sandbox, systemd, reboots, the client and its network.

use std::time::Duration;

use serde_json::Value;

use super::faults::records;
use super::operator::{Operator, holds, nothing_failed, status, until};
use super::*;
use muster_testbed::{Output, binaries};

const POLICY: &str = r#"{"default":[{"type":"reject"}],"transports":{"docker":{"registry.example.com":[{"type":"sigstoreSigned","keyPath":"/k"}]}}}"#;

const BOOTC: &str = r#"#!/bin/bash
set -eu
cd /var/lib/bootc
echo "$*" >> called
entry() {
  printf '{"image":{"image":{"image":"%s","transport":"registry"},"version":null,"timestamp":null,"imageDigest":"%s","architecture":"amd64"},' "$1" "$2"
  printf '"cachedUpdate":null,"incompatible":false,"pinned":false,"downloadOnly":false,"store":"ostreeContainer"}\n'
}
follows() { # what is staged, or else what is booted, was pulled by this name
  from=staged; [ "$(cat staged)" != null ] || from=booted
  sed 's/.*"image":"\([^"]*\)".*/\1/' $from
}
pull() {
  case "$1" in *@sha256:*) new=${1##*@} ;; *) echo "error: manifest unknown" >&2; exit 1 ;; esac
  echo "layers already present: 65; layers needed: 11 (214.0 MB)"
  if grep -q "\"$new\"" booted; then echo "No changes in: docker://$1"; echo null > staged; exit; fi
  entry "$1" "$new" > staged; rm -f queued
  echo "Queued for next boot: docker://$1"
}
case "$*" in
  "status --format=json")
    order=default queued=false; [ ! -e queued ] || { order=rollback; queued=true; }
    printf '{"apiVersion":"org.containers.bootc/v1","kind":"BootcHost","metadata":{"name":"host"},"spec":{"bootOrder":"%s","image":' $order
    printf '{"image":"%s","transport":"registry"}},"status":{"staged":%s,"booted":%s,"rollback":%s,' \
      "$(follows)" "$(cat staged)" "$(cat booted)" "$(cat rollback)"
    printf '"rollbackQueued":%s,"type":"bootcHost"}}\n' $queued ;;
  switch\ *) [ $# = 2 ]; if [ "$2" = "$(follows)" ]; then echo "Image specification is unchanged."; else pull "$2"; fi ;;
  upgrade) pull "$(follows)" ;;
  rollback)
    [ "$(cat rollback)" != null ] || { echo "error: No rollback available" >&2; exit 1; }
    echo null > staged
    if [ -e queued ]; then rm queued; echo "Next boot: current deployment"; else touch queued; echo "Next boot: rollback deployment"; fi ;;
  *) exit 2 ;;
esac
"#;
/// With `refuses` the image that was staged does not start, and the loader falls back to the one before.
const LOADER: &str = r#"#!/bin/bash
set -eu
cd /var/lib/bootc
if [ "$(cat staged)" != null ]; then
  if [ -e refuses ]; then mv staged rollback; else mv booted rollback; mv staged booted; fi
  echo null > staged
elif [ -e queued ]; then
  rm queued; mv booted other; mv rollback booted; mv other rollback
fi
"#;
const LOADER_UNIT: &str = "[Unit]\nDefaultDependencies=no\nAfter=local-fs.target\nBefore=sysinit.target\n[Service]\nType=oneshot\n\
                           RemainAfterExit=yes\nExecStart=/usr/local/lib/boot-loader\n[Install]\nWantedBy=sysinit.target\n";
/// What the health gate looks at; with a file in its way it does not start, and nothing has failed.
const KUBELET: &str = "[Unit]\nConditionPathExists=!/etc/kubelet-is-broken\n[Service]\nExecStart=/bin/sleep infinity\n[Install]\nWantedBy=multi-user.target\n";

fn digest(n: u8) -> String {
    format!("sha256:{}", n.to_string().repeat(64))
}

fn image(n: u8) -> String {
    format!("registry.example.com/os/node@{}", digest(n))
}

/// A node that boots from images, the first of which runs, owned by alice and built.
fn imaged(bed: &Testbed, name: &str, alice: &Operator) -> Result<Node> {
    let node = installed(bed, name)?;
    let pem: String = alice.authority()?.lines().map(|l| format!("      {l}\n")).collect();
    let document =
        format!("muster:\n  role: init\n  cluster:\n    name: lab\n  api:\n    operatorCA: |\n{pem}");
    node.describe(&document)?;
    node.put("/usr/bin/bootc", BOOTC.as_bytes(), 0o755)?;
    node.put("/usr/local/lib/boot-loader", LOADER.as_bytes(), 0o755)?;
    node.put("/etc/systemd/system/boot-loader.service", LOADER_UNIT.as_bytes(), 0o644)?;
    node.put("/etc/systemd/system/kubelet.service", KUBELET.as_bytes(), 0o644)?;
    node.put("/etc/containers/policy.json", POLICY.as_bytes(), 0o644)?;
    let booted = serde_json::json!({
        "image": {"image": {"image": image(1), "transport": "registry"}, "version": "1", "timestamp": "2026-11-01T10:00:00Z",
                  "imageDigest": digest(1), "architecture": "amd64"},
        "cachedUpdate": null, "incompatible": false, "pinned": false, "store": "ostreeContainer",
    });
    node.put("/var/lib/bootc/booted", format!("{booted}\n").as_bytes(), 0o644)?;
    node.sh("cd /var/lib/bootc; echo null > staged; echo null > rollback; touch called
        systemctl daemon-reload; systemctl enable --quiet boot-loader kubelet; systemctl start kubelet musterd-core")?;
    holds(&node, "test -e /var/lib/muster/bootstrapped")?;
    alice.pin(&node)?;
    until("it answers", || Ok(alice.muster(&["node", "status", name])?.ok().then_some(())))?;
    Ok(node)
}

/// `muster …` with the time that reboots take.
fn patiently(alice: &Operator, words: &str) -> Result<Output> {
    let args: Vec<&str> = words.split_whitespace().collect();
    let mut command = alice.command(&binaries()?.muster, &args);
    command.env("MUSTER_CLIENT", "pki/clients/alice.pem");
    Output::of(&mut command, b"", Duration::from_secs(400))
}

/// It ended with this code, and said this; what it printed is JSON.
fn ended(ran: &Output, code: i32, said: &[&str]) -> Result<Value> {
    let (out, err) = (ran.stdout_text(), ran.stderr_text());
    anyhow::ensure!(ran.code() == Some(code), "{:?}, not {code}: {out}{err}", ran.code());
    for words in said {
        anyhow::ensure!(err.contains(words), "{words}: {err}");
    }
    Ok(serde_json::from_str(&out).unwrap_or_default())
}

/// Of each node, what became of it: its status, or the word of its fault.
fn states(rows: &Value) -> Vec<(&str, &str)> {
    let rows = rows.as_array().into_iter().flatten();
    rows.map(|r| {
        (r["node"].as_str().unwrap_or(""), r["status"].as_str().or(r["reason"].as_str()).unwrap_or(""))
    })
    .collect()
}

/// How often it was started, and how often something was pulled.
fn deeds(node: &Node) -> Result<(usize, usize)> {
    let pulls = node.sh("grep -c '^switch\\|^upgrade' /var/lib/bootc/called || true")?;
    Ok((node.exits().len(), pulls.trim().parse()?))
}

/// What is booted, staged and rolled back to, as its owner is told.
fn images(alice: &Operator, node: &Node) -> Result<[Option<String>; 3]> {
    let state = status(alice, node)?;
    Ok(["booted", "staged", "rollback"].map(|which| state["os"][which]["digest"].as_str().map(str::to_owned)))
}

/// What the record has of these operations, oldest first.
fn told(node: &Node, operation: &str) -> Result<Vec<String>> {
    let all = records(node)?;
    let ours = all.iter().filter(|r| r["op"].as_str() == Some(operation));
    Ok(ours
        .map(|r| ["event", "decision", "reason"].map(|word| r[word].as_str().unwrap_or("")).join(" "))
        .collect())
}

/// The whole way: a gate before, staged, booted, come back with it, a gate after; one that is passed over; one that comes back with
/// another image and one that comes back ill, after each of which the next node is not touched.
#[test]
fn a_roll_out_goes_to_its_end_over_real_reboots_and_stops_at_the_first_that_is_not_as_it_should_be()
-> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("rollout")?;
    let alice = Operator::new(&bed, "alice")?;
    let (a, b) = (imaged(&bed, "a", &alice)?, imaged(&bed, "b", &alice)?);
    let upgrade = |nodes: &str, n: u8, settle: &str| {
        patiently(
            &alice,
            &format!("node upgrade {nodes} --image {} --yes --settle {settle} -o json", image(n)),
        )
    };

    // The gate before: nothing is asked of either.
    b.sh("touch /etc/kubelet-is-broken; systemctl stop kubelet")?;
    // What systemd says is as old as two seconds.
    until("it is told", || Ok((status(&alice, &b)?["kubernetes"]["active"] == false).then_some(())))?;
    ended(
        &upgrade("a b", 2, "180s")?,
        4,
        &["error[health-gate]: b is not well: kubelet.service is not active"],
    )?;
    assert_eq!((deeds(&a)?, deeds(&b)?), ((0, 0), (0, 0)));
    b.sh("rm /etc/kubelet-is-broken; systemctl start kubelet")?;
    until("it is told", || Ok((status(&alice, &b)?["kubernetes"]["active"] == true).then_some(())))?;

    // To its end.
    let rows = ended(&upgrade("a", 2, "180s")?, 0, &["Queued for next boot"])?;
    assert_eq!(states(&rows), [("a", "upgraded")], "{rows}");
    assert_eq!(rows[0]["digest"].as_str(), Some(digest(2).as_str()), "{rows}");
    assert_eq!(deeds(&a)?, (1, 1));
    assert_eq!(images(&alice, &a)?, [Some(digest(2)), None, Some(digest(1))]);
    assert_eq!(
        told(&a, "upgrade-apply")?.len(),
        2,
        "an intent and an outcome: {:?}",
        told(&a, "upgrade-apply")?
    );
    let rows = ended(&upgrade("a", 2, "180s")?, 0, &[])?;
    assert_eq!(states(&rows), [("a", "already runs it")], "{rows}");
    assert_eq!(deeds(&a)?, (1, 1), "passed over");

    // It comes back with another one.
    a.sh("touch /var/lib/bootc/refuses")?;
    let words = format!("error[rollout-stopped]: a: it came back and runs {}, not {}", digest(2), digest(3));
    let next = "error[not-asked]: b: not asked, since a failed";
    let rows = ended(&upgrade("a b", 3, "180s")?, 1, &[&words, next, "stopped at a: 0 of 2 done, 2 left"])?;
    assert_eq!(states(&rows), [("a", "rollout-stopped"), ("b", "not-asked")], "{rows}");
    assert_eq!((deeds(&a)?, deeds(&b)?), ((2, 2), (0, 0)), "the second is not touched");

    // It comes back with the right one, and ill: the service runs until then, and is not started at the boot.
    a.sh("rm /var/lib/bootc/refuses; touch /etc/kubelet-is-broken")?;
    let words = "error[rollout-stopped]: a is not well: kubelet.service is not active";
    let rows = ended(&upgrade("a b", 3, "60s")?, 1, &[words, next])?;
    assert_eq!(states(&rows), [("a", "rollout-stopped"), ("b", "not-asked")], "{rows}");
    assert_eq!((deeds(&a)?, deeds(&b)?), ((3, 3), (0, 0)), "nor is it now");
    assert_eq!(images(&alice, &a)?, [Some(digest(3)), None, Some(digest(2))]);

    // Mended, the same command goes on from there.
    a.sh("rm /etc/kubelet-is-broken; systemctl start kubelet")?;
    until("it is told", || Ok((status(&alice, &a)?["kubernetes"]["active"] == true).then_some(())))?;
    let rows = ended(&upgrade("a b", 3, "180s")?, 0, &["a (1 of 2)", "b (2 of 2)"])?;
    assert_eq!(states(&rows), [("a", "already runs it"), ("b", "upgraded")], "{rows}");
    assert_eq!((deeds(&a)?, deeds(&b)?), ((3, 3), (1, 1)));
    assert_eq!(images(&alice, &b)?, [Some(digest(3)), None, Some(digest(1))]);
    nothing_failed(&a)?;
    nothing_failed(&b)
}

/// Under its real unit: nothing to go back to; refused over an image that somebody staged; the next boot takes the one before, and
/// a second time the one after.
#[test]
fn a_rollback_is_refused_over_what_is_staged_and_the_next_boot_takes_the_image_before() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("rollback")?;
    let alice = Operator::new(&bed, "alice")?;
    let node = imaged(&bed, "a", &alice)?;
    let roll_back = |more: &str| patiently(&alice, &format!("node upgrade a --rollback --yes{more}"));
    let reboots = || -> Result<()> {
        let boots = node.exits().len();
        alice.muster(&["node", "reboot", "a", "--yes"])?.check()?;
        until("it reboots", || Ok((node.exits().len() > boots).then_some(())))?;
        node.wait_boot()?;
        until("it answers", || Ok(alice.muster(&["node", "status", "a"])?.ok().then_some(())))
    };
    ended(&roll_back("")?, 6, &["error[node-refused]: a: ", "no image before this one"])?;

    // As after an upgrade, and with another image that somebody has staged since.
    let stage = format!("node upgrade a --stage-only --yes --image {}", image(2));
    ended(&patiently(&alice, &stage)?, 0, &[])?;
    reboots()?;
    assert_eq!(images(&alice, &node)?, [Some(digest(2)), None, Some(digest(1))]);
    let stage = format!("node upgrade a --stage-only --yes --image {}", image(3));
    ended(&patiently(&alice, &stage)?, 0, &[])?;
    let words = format!("{} is staged, and would be dropped for a rollback to {}", digest(3), digest(1));
    ended(&roll_back("")?, 6, &["error[node-refused]: a: ", &words, "--drop-staged"])?;
    assert_eq!(
        images(&alice, &node)?,
        [Some(digest(2)), Some(digest(3)), Some(digest(1))],
        "it is still there"
    );
    assert_eq!(node.sh("grep -c '^rollback' /var/lib/bootc/called || true")?, "0\n", "and nothing was run");

    ended(&roll_back(" --drop-staged")?, 0, &[])?;
    assert_eq!(
        images(&alice, &node)?,
        [Some(digest(2)), None, Some(digest(1))],
        "dropped, and not booted yet"
    );
    assert_eq!(node.exits().len(), 1, "nothing reboots for it");
    let refused = |why| ["intent allowed ".to_owned(), format!("outcome failed {why}")];
    let mut wanted = [refused("nothing-to-roll-back-to"), refused("staged")].concat();
    wanted.extend(["intent allowed ", "outcome allowed "].map(str::to_owned));
    assert_eq!(told(&node, "upgrade-rollback")?, wanted);
    reboots()?;
    assert_eq!(images(&alice, &node)?, [Some(digest(1)), None, Some(digest(2))]);
    ended(&roll_back("")?, 0, &[])?;
    reboots()?;
    assert_eq!(images(&alice, &node)?, [Some(digest(2)), None, Some(digest(1))], "and forward again");
    nothing_failed(&node)
}
