//! What a document names by a URL: fetched by a process of its own, on real nodes.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context as _;

use super::operator::{Operator, active, holds, nothing_failed, status, until};
use super::*;

#[allow(dead_code, reason = "the daemon's own tests use the rest")]
#[path = "../../../../musterd/tests/fetch/server.rs"]
mod server;

use server::{Answer, Server, Signer, ok};

const PORT: u16 = 8443;

/// Mode B by URL: the server is there only after the node has booted, and once the node has its owner it keeps him without it.
#[test]
fn an_authority_by_url_is_waited_for_pinned_and_kept() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("fetch-b")?;
    let node = installed(&bed, "a")?;
    let (alice, signer) = (Operator::new(&bed, "alice")?, Signer::new("pki of the lab"));
    let gate = bed.gate().to_string();
    let document = format!(
        "muster:\n  role: init\n  api:\n    operatorCAFrom:\n      url: https://{gate}:{PORT}/operator-ca.pem\n      waitFor: 10m\n"
    );
    node.describe(&document)?;
    node.put("/etc/muster/fetch-ca.pem", signer.pem().as_bytes(), 0o644)?;
    node.reboot()?;
    // It looks parked, not failed, and says what it waits for; no port is open and nothing is built.
    active(&node, &["muster-parked.target", "musterd-core.service"])?;
    holds(
        &node,
        "journalctl -b -u musterd-core -o cat | grep -q 'waits for an owner: api.operatorCAFrom: https://.*connection refused'",
    )?;
    assert_eq!(node.sh("ss -Hltn 'sport = :7443'; ls /var/lib/muster/bootstrapped 2>/dev/null || true")?, "");
    nothing_failed(&node)?;
    let told = node.exec(&["musterd", "status"])?;
    assert!(!told.ok() && told.stderr_text().contains("waits for an owner"), "{}", told.stderr_text());

    let authority = alice.authority()?;
    let server = Server::start(
        SocketAddr::new(bed.gate().into(), PORT),
        signer.shown(&[&gate], (2020, 2040)),
        move |_| ok(&authority),
    );
    holds(&node, "test -e /var/lib/muster/bootstrapped")?;
    alice.pin(&node)?;
    let status = status(&alice, &node)?;
    assert_eq!(status["management"]["claimedBy"].as_str(), Some("configuration"), "{status}");
    assert_eq!(server.heads().len(), 1, "{:?}", server.heads());
    nothing_failed(&node)?;

    // The owner is pinned: who is asked now, and what it would say, is all the same.
    drop(server);
    let mallory = Operator::new(&bed, "mallory")?;
    let other = mallory.authority()?;
    let server = Server::start(
        SocketAddr::new(bed.gate().into(), PORT),
        signer.shown(&[&gate], (2020, 2040)),
        move |_| ok(&other),
    );
    node.reboot()?;
    alice.is_let_in(&node)?;
    assert_eq!(server.connected(), 0, "nobody is asked again");
    Ok(())
}

/// After the time that the document gives, the fault is told; the node stays as it is, and takes a source that comes later still.
#[test]
fn a_source_that_comes_after_the_fault_is_taken() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("fetch-late")?;
    let node = installed(&bed, "a")?;
    let (alice, signer) = (Operator::new(&bed, "alice")?, Signer::new("pki of the lab"));
    let gate = bed.gate().to_string();
    let document = format!(
        "muster:\n  role: init\n  api:\n    operatorCAFrom:\n      url: https://{gate}:{PORT}/ca.pem\n      waitFor: 7s\n"
    );
    node.describe(&document)?;
    node.put("/etc/muster/fetch-ca.pem", signer.pem().as_bytes(), 0o644)?;
    node.reboot()?;
    holds(
        &node,
        "journalctl -b -u musterd-core -o cat | grep -q 'connection refused), after \\([789]\\|1[0-9]\\) s'",
    )?;
    active(&node, &["muster-parked.target"])?;
    let nobodys = "ls /var/lib/muster/bootstrapped /var/lib/muster/api/operator-ca.pem 2>/dev/null || true; ss -Hltn 'sport = :7443'";
    assert_eq!(
        node.sh(&format!("{nobodys}; systemctl is-active muster-claimed.target || true"))?,
        "inactive\n"
    );
    let authority = alice.authority()?;
    let _server = Server::start(
        SocketAddr::new(bed.gate().into(), PORT),
        signer.shown(&[&gate], (2020, 2040)),
        move |_| ok(&authority),
    );
    holds(&node, "test -e /var/lib/muster/bootstrapped")?;
    alice.pin(&node)?;
    alice.is_let_in(&node)?;
    nothing_failed(&node)
}

/// The document itself by a URL on the kernel's command line, its host by a name that only a name server knows; and who asks can do
/// nothing but ask.
#[test]
fn a_document_by_url_is_asked_for_by_a_process_that_may_nothing() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("fetch-doc")?;
    let node = installed(&bed, "a")?;
    let (alice, signer) = (Operator::new(&bed, "alice")?, Signer::new("pki of the lab"));
    let gate = bed.gate();
    let names = Names::start(gate)?;
    let pem = alice.authority()?.replace('\n', "\\n");
    let document = format!("role: init\napi: {{operatorCA: \"{pem}\"}}\n");
    let server = Server::start(
        SocketAddr::new(gate.into(), PORT),
        signer.shown(&["pki.lab.example"], (2020, 2040)),
        move |nth| match nth {
            // Long enough to look at who asks.
            0 | 1 => Answer::Nothing(Duration::from_secs(25)),
            _ => ok(&document),
        },
    );
    // Where the distribution keeps what it trusts.
    node.put("/etc/ssl/certs/ca-certificates.crt", signer.pem().as_bytes(), 0o644)?;
    node.put("/etc/nsswitch.conf", b"hosts: files dns\n", 0o644)?;
    node.put("/etc/resolv.conf", format!("nameserver {gate}\n").as_bytes(), 0o644)?;
    kernel_names(&node, &format!("https://pki.lab.example:{PORT}/nodes/a.yaml"))?;
    node.reboot()?;
    let asking = until("the server is asked", || Ok((server.heads().len() == 1).then_some(())));
    asking.with_context(|| fetchers_journal(&node))?;
    assert!(names.asked() > 0, "the name came from somewhere else");
    let pid = node.sh("pgrep -u muster-fetch -f 'musterd fetch'")?;
    let pid = pid.trim();
    let status = node.sh(&format!(
        "grep -E '^(Uid|Gid|Groups|CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp|Threads):' /proc/{pid}/status | tr -s '\\t ' ' '"
    ))?;
    let uid = node.sh("id -u muster-fetch")?;
    let (uid, gid) = (uid.trim().to_owned(), node.sh("id -g muster-fetch")?.trim().to_owned());
    let none = "0000000000000000";
    assert_eq!(
        status,
        format!(
            "Uid: {uid} {uid} {uid} {uid}\nGid: {gid} {gid} {gid} {gid}\nGroups: {gid} \nThreads: 1\nCapInh: {none}\nCapPrm: {none}\nCapEff: {none}\nCapBnd: {none}\nCapAmb: {none}\nNoNewPrivs: 1\nSeccomp: 2\n"
        )
    );
    // It has two sockets, what an event loop is made of, and the journal; no file.
    let open =
        node.sh(&format!("for f in /proc/{pid}/fd/*; do readlink $f; done | sed 's/:.*//' | sort | uniq"))?;
    assert_eq!(open, "/dev/null\nanon_inode\nsocket\n", "{open}");
    // Nothing of the question is where others look.
    for file in ["cmdline", "environ"] {
        let text = node.sh(&format!("tr '\\0' ' ' </proc/{pid}/{file}"))?;
        assert!(!text.contains("pki.lab"), "{file}: {text}");
    }
    // Who asks, and then who wants to know, is killed in the middle: it is asked again.
    node.sh("pkill -KILL -u muster-fetch")?;
    until("it is asked again", || Ok((server.heads().len() == 2).then_some(())))
        .with_context(|| fetchers_journal(&node))?;
    node.sh("pkill -KILL -f 'musterd core'")?;
    until("it is asked once more", || Ok((server.heads().len() == 3).then_some(())))
        .with_context(|| fetchers_journal(&node))?;
    holds(&node, "test -e /var/lib/muster/bootstrapped")?;
    alice.pin(&node)?;
    alice.is_let_in(&node)?;
    let heads = server.heads().len();
    node.sh("systemctl restart musterd-core")?;
    active(&node, &["musterd-edge.service"])?;
    assert_eq!(server.heads().len(), heads, "it is asked for once a boot");
    // At the next boot the server is gone; the owner is not.
    drop(server);
    node.reboot()?;
    alice.is_let_in(&node)?;
    let said = node.journal_of(&["-b", "-u", "musterd-core"])?;
    assert!(said.contains("connection refused") && said.contains("demands proofs"), "{said}");
    // A /run on a disk would hand what was fetched to the next boot.
    let on_disk = b"[Service]\nBindPaths=/opt/run:/run/muster\n";
    node.put("/etc/systemd/system/musterd-core.service.d/disk.conf", on_disk, 0o644)?;
    node.sh("mkdir -p /opt/run; systemctl daemon-reload; systemctl restart musterd-core")?;
    holds(&node, "journalctl -b -u musterd-core -o cat | grep -q 'not in memory here; mount a tmpfs there'")
}

/// Somebody in the place of the fetcher, with its user and its unit, tries what it should not; and the token of the question is seen by
/// nobody else.
#[test]
fn a_fetcher_that_fell_can_only_lie() -> Result<()> {
    require_root_or_skip!();
    let bed = Testbed::prepare("fetch-fell")?;
    let node = installed(&bed, "a")?;
    let gate = bed.gate();
    let source = format!("url: https://{gate}:{PORT}/ca.pem\n      authFile: /etc/muster/pki.token");
    let document = format!("muster:\n  role: init\n  api:\n    operatorCAFrom:\n      {source}\n");
    node.describe(&document)?;
    node.put("/etc/muster/pki.token", b"TOKEN-CANARY\n", 0o600)?;
    node.put("/usr/bin/fell", FELL.as_bytes(), 0o755)?;
    // First without a shell to run: the unit starts one program and nothing else.
    let drop_in = "/etc/systemd/system/muster-fetch@.service.d/fell.conf";
    let runs = "[Service]\nExecStart=\nExecStart=/usr/bin/fell\n";
    node.put(drop_in, runs.as_bytes(), 0o644)?;
    node.reboot()?;
    holds(&node, "journalctl -b -u musterd-core -o cat | grep -q 'the fetcher ended without an answer'")?;
    // Whose line it is depends on how far the manager's child had come when journald looked.
    holds(&node, "journalctl -b -o cat | grep -q '/usr/bin/fell: Permission denied'")?;
    assert_eq!(node.sh("journalctl -b -o cat | grep -c TRIES || true")?, "0\n");
    // Then with all programs: what the user and the rest of the unit still forbid.
    node.put(drop_in, format!("{runs}NoExecPaths=\nExecPaths=\nTasksMax=100\n").as_bytes(), 0o644)?;
    node.reboot()?;
    holds(&node, "journalctl -b -u 'muster-fetch@*' -o cat | grep -q 'TRIES over'")?;
    let could = |said: &str| -> Vec<String> {
        let can = said.lines().filter_map(|l| l.strip_prefix("TRIES ")?.strip_suffix(" can"));
        can.map(str::to_owned).collect()
    };
    let said = node.sh("journalctl -b -u 'muster-fetch@*' -o cat | grep TRIES | sort -u")?;
    // Its own /tmp ends with it. That it cannot listen is BPF's to see to (SocketBindDeny=), which a container has not; the fetcher itself
    // gives up all sockets before it reads what a server sends.
    let all = could(&said).into_iter().filter(|c| c != "listen").collect::<Vec<_>>();
    assert_eq!(all, ["write /tmp"], "{said}");
    // What it answered is a fault in our words, and the node is nobody's.
    let core = node.journal_of(&["-b", "-u", "musterd-core"])?;
    assert!(core.contains("what it answers is not HTTP/1.1"), "{core}");
    assert!(!node.exec(&["test", "-e", "/var/lib/muster/api/operator-ca.pem"])?.ok());
    active(&node, &["muster-parked.target"])?;
    let all = node.sh("journalctl -b -o export | tr -d '\\0'; systemctl show 'muster-fetch@*'")?;
    assert!(!all.contains("CANARY"), "the token is in the journal or in a unit");
    // The attempts themselves are sound: root can all of it, once there is something at each place.
    let as_root = node.sh("mkdir -p /var/lib/muster/api; touch /var/lib/muster/api/server.key; systemctl start musterd-edge.socket musterd-control.socket muster-fetch.socket; bash /usr/bin/fell 0<>/dev/null 2>&1")?;
    let cannot: Vec<&str> = as_root.lines().filter(|l| l.ends_with(" cannot")).collect();
    assert!(cannot.is_empty(), "{cannot:?}");
    assert_eq!(could(&as_root).len(), said.lines().count() - 1, "{as_root}\n{said}");
    Ok(())
}

/// Tries, and says how it went.
const FELL: &str = r#"#!/bin/bash
try() { local what=$1; shift; if "$@" >/dev/null 2>&1; then echo "TRIES $what can" >&2; else echo "TRIES $what cannot" >&2; fi; }
for folder in / /etc /etc/muster /usr/bin /var /var/lib /var/lib/muster /run /run/muster /run/systemd /dev /root /home /tmp; do
  try "write $folder" bash -c "echo x >$folder/fell.txt"
done
for file in /etc/muster/config.yaml /etc/muster/pki.token /etc/shadow /var/lib/muster/api/server.key /proc/1/environ; do
  try "read $file" head -c 1 $file
done
for socket in edge/core.sock control.sock fetch.sock; do
  try "connect $socket" perl -MSocket -e "socket(S, AF_UNIX, SOCK_STREAM, 0) && connect(S, sockaddr_un('/run/muster/$socket')) or exit 1"
done
try "see others" test -e /proc/1
try "signal" perl -e 'exit !kill 0, 1'
try "mount" bash -c 'mount -t tmpfs x /mnt && umount /mnt'
try "listen" perl -MSocket -e "socket(S, AF_INET, SOCK_STREAM, 0) && bind(S, sockaddr_in(4444, INADDR_ANY)) && listen(S, 1) or exit 1"
try "raw" perl -MSocket -e "socket(S, AF_INET, SOCK_RAW, 1) or exit 1"
printf '\x01\x00\x00\x00\x0e{"is":"begun"}' >&0
printf '\x01\x00\x00\x00\x2a{"is":"failed","why":{"why":"not-http"}}  ' >&0
echo "TRIES over" >&2
"#;

fn fetchers_journal(node: &Node) -> String {
    node.sh("journalctl --no-pager -o cat -b -u 'muster*' | tail -n 40").unwrap_or_default()
}

/// A kernel's command line that names a document, for our own units: a container has its host's.
fn kernel_names(node: &Node, url: &str) -> Result<()> {
    node.put("/etc/muster/cmdline", format!("quiet muster.config={url}\n").as_bytes(), 0o644)?;
    for unit in ["musterd-core", "muster-bootstrap"] {
        let path = format!("/etc/systemd/system/{unit}.service.d/cmdline.conf");
        node.put(&path, b"[Service]\nBindReadOnlyPaths=/etc/muster/cmdline:/proc/cmdline\n", 0o644)?;
    }
    Ok(())
}

/// A name server that knows one address for every name.
struct Names(Arc<AtomicUsize>);

impl Names {
    fn start(address: Ipv4Addr) -> Result<Self> {
        let socket = UdpSocket::bind((address, 53))?;
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        std::thread::spawn(move || {
            let mut packet = [0; 512];
            while let Ok((len, from)) = socket.recv_from(&mut packet) {
                count.fetch_add(1, Ordering::SeqCst);
                let _ = answer(&packet[..len], address).map(|a| socket.send_to(&a, from));
            }
        });
        Ok(Self(asked))
    }

    fn asked(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// RFC 1035, 4.1: the question again, and an address where one of IPv4 was asked for.
fn answer(asked: &[u8], address: Ipv4Addr) -> Option<Vec<u8>> {
    let name = asked.get(12..)?.iter().position(|b| *b == 0)? + 13;
    let question = asked.get(12..name + 4)?;
    let is_v4 = asked.get(name..name + 2)? == [0, 1];
    let mut out = asked.get(..2)?.to_vec();
    out.extend([0x81, 0x80, 0, 1, 0, u8::from(is_v4), 0, 0, 0, 0]);
    out.extend(question);
    if is_v4 {
        out.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
        out.extend(address.octets());
    }
    Some(out)
}
